"""A network as a drawing: every node with its label, every link, positions as in the reports."""

from html import escape
from typing import Final

import numpy as np

from coordinator.reports.layout import layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from emunode.topologies.registry import parse_topology

STYLE: Final = (
    "path{fill:none;stroke:#6b7280;stroke-width:2}circle{fill:#dbeafe;stroke:#1d4ed8;stroke-width:2}"
    "text{font:15px sans-serif;text-anchor:middle;dominant-baseline:central;fill:#111827}"
)
MARGIN: Final = 40
RADIUS: Final = 24


def draw_network(name: str) -> str:
    """Return an SVG drawing of a small network."""
    topology = parse_topology(name)
    layout = layout_of(topology)
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()], dtype=np.int64)
    senders, ports, receivers = links[:, 0], links[:, 1], links[:, 2]
    lines, _ = link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)
    nodes = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>'
        f'<text x="{x:.1f}" y="{y:.1f}">{escape(topology.label(rank))}</text>'
        for rank, (x, y) in enumerate(zip(layout.x.tolist(), layout.y.tolist(), strict=True))
    ]
    size = f"{-MARGIN} {-MARGIN} {1000 + 2 * MARGIN} {layout.height + 2 * MARGIN:.0f}"
    title = escape(topology.title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" width="640" role="img"><title>{title}</title>'
        f'<style>{STYLE}</style><rect x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%" fill="#fff"/>\n'
        + "".join(f'<path d="{line}"/>\n' for line in lines)
        + "\n".join(nodes)
        + "\n</svg>\n"
    )
