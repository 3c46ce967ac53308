"""Networks and trees as papers draw them: arcs on the layout of a network, and rooted trees from the top down.

A drawing is an SVG element of one or more panels. It uses the CSS of `network_svg` and the colours of `theme`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from coordinator.reports.computed_layout import Ranks
from coordinator.reports.layout import Layout, layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.theme import viridis
from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees

Arc = tuple[Rank, Port]
"""A directed link: sender and port."""
LabelOf = Callable[[Rank], str]

CSS = """
.drawing { max-height: none; }
.drawing .panel { font-size: 14px; font-weight: 600; fill: var(--ink); text-anchor: middle; }
.drawing .dotted { stroke: var(--grey); fill: none; stroke-dasharray: 2 3; stroke-opacity: .7; }
.drawing .branch { stroke: var(--muted); fill: none; stroke-width: 1.1; }
.drawing .link { font-size: 10px; fill: var(--muted); text-anchor: middle; }
.drawing .beside {
  font-size: 12px; fill: var(--ink); text-anchor: middle; dominant-baseline: middle;
  stroke: var(--paper); stroke-width: 4px; paint-order: stroke;
}
.drawing .cell { stroke: var(--grid); }
"""
COLOURS = ("blue", "orange", "green", "purple", "red", "sky")
"""Colours of trees that are drawn together."""
PANEL = 480.0
"""Width of a network in a drawing."""
BRANCH, DROP = 42.0, 58.0
"""Distance between leaves of a tree, and between levels."""
PILL = 15.0
HEAD = 30.0
GAP = 24.0
CELL = 30
"""Side of a block of data."""


@dataclass(frozen=True)
class DrawingPart:
    """One part of a drawing, with a title of its own."""

    title: str
    width: float
    height: float
    body: Sequence[str]


@dataclass(frozen=True)
class Branch:
    """A node of a tree: its label, the label of the link to its parent, its tooltip and its children."""

    label: str
    link: str = ""
    tip: str = ""
    shade: float | None = None
    """A share from 0 (dark) to 1 (bright) colours the node; None leaves it white."""
    below: "tuple[Branch, ...]" = ()


def drawing(title: str, panels: Sequence[DrawingPart], columns: int = 2) -> str:
    """Draw panels in rows of `columns`, each under its own title."""
    rows = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    width = max(sum(panel.width + GAP for panel in row) - GAP for row in rows)
    y, body = 0.0, []
    for row in rows:
        x = 0.0
        for panel in row:
            name = f'<text class="panel" x="{panel.width / 2:.0f}" y="18">{escape(panel.title)}</text>'
            body.append(f'<g transform="translate({x:.1f} {y:.1f})">{name}{"".join(panel.body)}</g>')
            x += panel.width + GAP
        y += max(panel.height for panel in row) + GAP
    return (
        f'<svg class="map drawing" viewBox="0 0 {width:.0f} {y - GAP:.0f}" style="max-width:{1.15 * width:.0f}px" '
        f'role="img" aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


# --- arcs on a network -----------------------------------------------------------------------------------------------


def network_panel(
    title: str,
    topology: Topology,
    arcs: Mapping[str, Iterable[Arc]],
    *,
    ringed: Sequence[Rank] = (),
    label: LabelOf | None = None,
    shades: Mapping[Rank, float] | None = None,
    names: Mapping[Arc, str] | None = None,
    width: float = PANEL,
) -> DrawingPart:
    """Draw the network with dotted links, and `arcs` by colour over them.

    `ringed` nodes, such as roots, have a ring. `shades` colours nodes by a share from 0 to 1. `names` are written beside
    arcs, closer to the receiver.
    """
    layout = _resized(layout_of(topology), width)
    every = [(rank, port) for rank, port, _, _ in topology.links()]
    lines, _ = _paths(topology, layout, every)
    body = [f'<path class="dotted" d="{"".join(lines)}"/>']
    for colour, chosen in arcs.items():
        lines, points = _paths(topology, layout, sorted(chosen))
        wide = max(1.2, 0.1 * layout.radius)
        body.append(
            f'<path class="flow" style="stroke:var(--{colour})" stroke-width="{wide:.1f}" d="{"".join(lines)}"/>'
        )
        body.append(f'<path class="head" style="fill:var(--{colour})" d="{"".join(points)}"/>')
    x, y = layout.x.tolist(), layout.y.tolist()
    for rank in topology.ranks():
        shade = None if shades is None else shades.get(rank)
        name = (label or topology.label)(rank)
        body.append(_disc(x[rank], y[rank], layout.radius, name, shade, name))
    body += [
        f'<circle class="ring" cx="{x[rank]:.1f}" cy="{y[rank]:.1f}" r="{1.25 * layout.radius:.1f}" stroke-width="2"/>'
        for rank in ringed
    ]
    body += _names(topology, layout, names or {})
    return DrawingPart(
        title, width, layout.height + HEAD, [f'<g transform="translate(0 {HEAD:.0f})">{"".join(body)}</g>']
    )


def tree_arcs(trees: Trees, tree: int, root: Rank = 0, *, upward: bool = False) -> list[Arc]:
    """Draw the arcs of a tree translated to `root`: towards the children, or `upward` towards the root."""
    topology = trees.topology
    if upward:
        return [(topology.absolute(rank, root), trees.parent(rank, tree)) for rank in range(1, topology.order)]
    return [(topology.absolute(rank, root), port) for rank in topology.ranks() for port in trees.children(rank, tree)]


def _resized(layout: Layout, width: float) -> Layout:
    share = width / 1000
    return replace(
        layout,
        x=layout.x * share,
        y=layout.y * share,
        height=layout.height * share,
        spacing=0.85 * layout.spacing * share,  # smaller nodes, room for the links
        scale=layout.scale * share,
    )


def _ends(topology: Topology, arcs: Iterable[Arc]) -> Sequence[Ranks]:
    """Return senders, ports and receivers of these arcs."""
    ends = [(rank, port, topology.neighbour(rank, port)) for rank, port in arcs]
    return [np.array(column, dtype=np.int64) for column in zip(*ends, strict=True)]


def _paths(topology: Topology, layout: Layout, arcs: Sequence[Arc]) -> tuple[list[str], list[str]]:
    if not arcs:
        return [], []
    senders, ports, receivers = _ends(topology, arcs)
    return link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)


def _names(topology: Topology, layout: Layout, names: Mapping[Arc, str]) -> list[str]:
    """Return the names of arcs, past the middle of a line or at the top of a bow."""
    if not names:
        return []
    senders, ports, receivers = _ends(topology, names)
    bow = shapes_of(topology, senders, ports, receivers).bow
    along = np.where(bow == 0, 0.58, 0.5)
    dx, dy = layout.x[receivers] - layout.x[senders], layout.y[receivers] - layout.y[senders]
    places = zip(layout.x[senders] + along * dx - bow * dy, layout.y[senders] + along * dy + bow * dx, strict=True)
    return [
        f'<text class="beside" x="{at_x:.1f}" y="{at_y:.1f}">{escape(name)}</text>'
        for (at_x, at_y), name in zip(places, names.values(), strict=True)
    ]


def _disc(x: float, y: float, radius: float, text: str, shade: float | None, tip: str) -> str:
    fill, ink = _fill(shade)
    font = min(13.0, 1.8 * radius / (0.6 * max(1, len(text))))
    name = (
        f'<text class="name" x="{x:.1f}" y="{y:.1f}" font-size="{font:.1f}" fill="{ink}">{escape(text)}</text>'
        if font >= 6
        else ""
    )
    return (
        f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}">'
        f"<title>{escape(tip)}</title></circle>{name}"
    )


def _fill(shade: float | None) -> tuple[str, str]:
    """Return the colours of a node and of its label."""
    if shade is None:
        return "var(--paper)", "var(--ink)"
    return viridis(shade), "#fff" if shade < 0.55 else "#111"


# --- blocks of data --------------------------------------------------------------------------------------------------


def block_panel(
    title: str, size: int, shaded: Iterable[tuple[int, int]], label: Callable[[int, int], str]
) -> DrawingPart:
    """Draw a square of blocks of data; the blocks at the `shaded` (column, row) are coloured; (0, 0) is at the top
    left.
    """
    dark, parts = set(shaded), []
    for column in range(size):
        for row in range(size):
            fill = "var(--sky)" if (column, row) in dark else "var(--paper)"
            x, y = column * CELL, HEAD + row * CELL
            parts.append(f'<rect class="cell" x="{x:.0f}" y="{y:.0f}" width="{CELL}" height="{CELL}" fill="{fill}"/>')
            text = f'x="{x + CELL / 2:.0f}" y="{y + CELL / 2:.0f}" font-size="9"'
            parts.append(f'<text class="name" {text} fill="var(--ink)">{escape(label(column, row))}</text>')
    return DrawingPart(title, size * CELL, HEAD + size * CELL, parts)


# --- trees from the top down -----------------------------------------------------------------------------------------


def tree_panel(title: str, root: Branch, *, branch: float = BRANCH, drop: float = DROP) -> DrawingPart:
    """Draw a rooted tree with its leaves side by side and every inner node above the middle of its children."""
    edges: list[str] = []
    nodes: list[str] = []
    leaves = deepest = 0

    def draw(node: Branch, depth: int) -> float:
        """Draw a node and its descendants; return the x coordinate of the node."""
        nonlocal leaves, deepest
        deepest = max(deepest, depth)
        own = [draw(child, depth + 1) for child in node.below]
        leaves += not own
        x, y = (own[0] + own[-1]) / 2 if own else (leaves - 0.5) * branch, HEAD + PILL + depth * drop
        edges.extend(
            _edge(x, y + PILL / 2, at, y + drop - PILL / 2, child.link)
            for at, child in zip(own, node.below, strict=True)
        )
        nodes.append(_pill(x, y, branch - 6, node))
        return x

    draw(root, 0)
    height = HEAD + 2 * PILL + drop * deepest
    return DrawingPart(title, max(leaves * branch, 120.0), height, [*edges, *nodes])


def _edge(x1: float, y1: float, x2: float, y2: float, text: str) -> str:
    x, y = x1 + 0.62 * (x2 - x1) + (6 if x2 >= x1 else -6), y1 + 0.62 * (y2 - y1)
    name = f'<text class="link" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
    return f'<path class="branch" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>{name if text else ""}'


def _pill(x: float, y: float, width: float, node: Branch) -> str:
    fill, ink = _fill(node.shade)
    font = min(11.5, 1.6 * width / max(1, len(node.label)))
    return (
        f'<rect class="node" x="{x - width / 2:.1f}" y="{y - PILL / 2 - 1:.1f}" width="{width:.1f}" '
        f'height="{PILL + 2:.0f}" rx="8" fill="{fill}"><title>{escape(node.tip or node.label)}</title></rect>'
        f'<text class="name" x="{x:.1f}" y="{y:.1f}" font-size="{font:.1f}" fill="{ink}">{escape(node.label)}</text>'
    )


def branch_of(
    topology: Topology,
    children: Callable[[Rank], Iterable[Port]],
    *,
    label: LabelOf | None = None,
    link: Callable[[Port], str] = str,
    steps: Mapping[Rank, int] | None = None,
    root: Rank = 0,
) -> Branch:
    """Return the tree below `root`; `children` gives the ports to the children of a rank, in drawing order.

    If `steps` has a rank, the node is shaded by its step, from dark (first) to bright (last).
    """
    times = steps or {}
    last = max(times.values(), default=1)

    def grow(rank: Rank, name: str) -> Branch:
        below = tuple(grow(topology.neighbour(rank, port), link(port)) for port in children(rank))
        shown, step = (label or topology.label)(rank), times.get(rank)
        if not step:
            return Branch(shown, name, below=below)
        return Branch(shown, name, f"{shown}, step {step}", (step - 1) / max(1, last - 1), below)

    return grow(root, "")
