"""The network and its slider."""

from markupsafe import Markup

from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.theme import viridis


def network_panel(report: Report) -> Markup | None:
    """The drawing, the controls that choose a step, and the legend."""
    picture = report.picture
    if picture is None:
        return None
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
    )
