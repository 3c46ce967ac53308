"""A network alone, without a run, as an SVG document: `coordinator graph NET --picture FILE`."""

from collections.abc import Iterator
from html import escape
from typing import Final

import numpy as np

from coordinator.reports.computed_layout import LARGEST_WITH_FORCES
from coordinator.reports.layout import WIDTH, Layout, layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.theme import LIGHT
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

LARGEST_PICTURE: Final = 60_000
"""The largest network, in nodes, that is drawn; S_8 and EJ_3+4^3 are."""
SMALLEST_FONT: Final = 5.0
STYLE: Final = (
    f"path{{fill:none;stroke:{LIGHT['grey']}}}"
    f".node{{fill:{LIGHT['paper']};stroke:{LIGHT['blue']}}}.switch{{fill:{LIGHT['panel']};stroke:{LIGHT['orange']}}}"
    f".dot{{fill:{LIGHT['blue']}}}"
    f"text{{font-family:system-ui,sans-serif;text-anchor:middle;dominant-baseline:central;fill:{LIGHT['ink']}}}"
)


def draw_network(topology: Topology) -> str:
    """Draw the network on its layout. Links and labels are drawn where there is room for them; every node has a
    tooltip.
    """
    if topology.order > LARGEST_PICTURE:
        raise ScenarioError(
            "picture", topology.name, f"{topology.order:,} nodes are too many to draw; at most {LARGEST_PICTURE:,}"
        )
    layout = layout_of(topology)
    with_links = topology.order <= LARGEST_WITH_FORCES
    body = [_links(topology, layout), *_nodes(topology, layout)] if with_links else list(_dots(topology, layout))
    title = escape(topology.title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {layout.height:.0f}" role="img">'
        f"<title>{title}</title><style>{STYLE}</style>"
        f'<rect width="{WIDTH:.0f}" height="{layout.height:.0f}" fill="{LIGHT["paper"]}"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _links(topology: Topology, layout: Layout) -> str:
    table = np.array([(rank, port, other) for rank, port, other, _ in topology.links()], dtype=np.int64)
    senders, ports, receivers = table.T
    lines, _ = link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)
    width = max(0.4, min(2.0, 0.1 * layout.radius))
    return f'<path stroke-width="{width:.2f}" d="{"".join(lines)}"/>'


def _nodes(topology: Topology, layout: Layout) -> Iterator[str]:
    radius = layout.radius
    for rank, (x, y) in enumerate(zip(layout.x.tolist(), layout.y.tolist(), strict=True)):
        label = escape(topology.label(rank))
        kind = "switch" if topology.is_switch(rank) else "node"
        shape = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" stroke-width="{0.08 * radius:.2f}"'
        yield f'<circle class="{kind}" {shape}><title>{label}</title></circle>'
        font = min(13.0, 1.8 * radius / (0.6 * len(label)))
        if font >= SMALLEST_FONT:
            yield f'<text x="{x:.1f}" y="{y:.1f}" font-size="{font:.1f}">{label}</text>'


def _dots(topology: Topology, layout: Layout) -> Iterator[str]:
    radius = max(0.5, layout.radius)
    for rank, (x, y) in enumerate(zip(layout.x.tolist(), layout.y.tolist(), strict=True)):
        label = escape(topology.label(rank))
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.2f}"><title>{label}</title></circle>'
