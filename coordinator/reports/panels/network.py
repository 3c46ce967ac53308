"""The network and its slider."""

from markupsafe import Markup

from coordinator.reports.maps.link_map import NODES_WITH_LINKS
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.theme import viridis


def network_panel(report: Report) -> Markup | None:
    """Render the drawing, the controls that choose a step, and the legend."""
    picture = report.picture
    if picture is None:
        return None
    nodes = report.nodes
    steps = report.data.get("steps")
    last = f"step {steps:,}" if isinstance(steps, int) else "last step"
    return fragment(
        "network",
        svg=markup(picture.svg),
        legend=markup(picture.legend),
        frames=picture.frames,
        ramp=picture.ramp,
        scale=", ".join(viridis(share / 8) for share in range(9)),
        scale_names=picture.scale or ("step 1", last),
        nodes=nodes is not None,
        example=report.data.topology.label(report.data.order - 1) if report.data.topology else "",
        trees=nodes.trees.count if nodes and nodes.trees else 0,
        roots=len(nodes.trees.roots) if nodes and nodes.trees else 0,
        links_on_demand=bool(nodes and nodes.packets) and report.data.order > NODES_WITH_LINKS,
    )
