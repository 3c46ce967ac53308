"""A small picture of a run, for lists of runs: each node in the colour of the step when it was done.

A dot is a line of length 0 with round ends: about 8 bytes a node. Positions are rounded to half a unit, and of several dots
at one place one is kept, so that the picture of any network has less than 400 KB.
"""

from math import sqrt
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.data import RunData
from coordinator.reports.layout import WIDTH, layout_of
from coordinator.reports.scene.scene import Scene
from coordinator.reports.theme import LIGHT, viridis
from emunode.topologies.base import Topology

SIDE: Final = 96
MARGIN: Final = 5
SHADES: Final = 8
IDLE, MISSING, FAULTY = range(SHADES, SHADES + 3)
"""Nodes with nothing due, with something missing, and not alive; at one place, the last kind is seen."""
COLOURS: Final = (
    *(viridis((shade + 1) / (SHADES + 2)) for shade in range(SHADES)),
    LIGHT["grey"],
    LIGHT["orange"],
    LIGHT["red"],
)
NODES_WITH_LINKS: Final = 130
LARGEST: Final = 60_000
"""Nodes of the largest network that is drawn."""
STYLE: Final = "path{fill:none;stroke-linecap:round}"


def thumbnail(data: RunData) -> str | None:
    """Draw the picture as an SVG document; None if the network or the state of its nodes is unknown, or if there are
    too many nodes.
    """
    topology = data.topology
    if topology is None or data.nodes is None or topology.order > LARGEST:
        return None
    layout = layout_of(topology)
    scale = (SIDE - 2 * MARGIN) / max(WIDTH, layout.height)
    places = np.round(2 * (scale * np.stack([layout.x, layout.y], axis=1) + MARGIN)) / 2
    kinds = _kinds(Scene(data, topology), data.nodes)
    seen: dict[tuple[float, float], int] = {}
    for rank in np.argsort(kinds, kind="stable").tolist():
        seen[tuple(places[rank].tolist())] = int(kinds[rank])
    width = 2 * min(4.0, max(0.5, scale * layout.radius, 12 / sqrt(topology.order)))
    body = [_links(topology, places)] if topology.order <= NODES_WITH_LINKS else []
    for kind, colour in enumerate(COLOURS):
        dots = "".join(f"M{x:g} {y:g}h0" for (x, y), other in seen.items() if other == kind)
        if dots:
            body.append(f'<path stroke="{colour}" stroke-width="{width:.1f}" d="{dots}"/>')
    height = round(scale * layout.height) + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {height}"><style>{STYLE}</style>'
        f"{''.join(body)}</svg>\n"
    )


def _kinds(scene: Scene, nodes: pl.DataFrame) -> NDArray[np.int64]:
    """Return for each rank the kind of dot: a shade by the last step of the node, or one of the kinds above."""
    steps = nodes["last_step"].fill_null(0).to_numpy().astype(np.int64)
    kinds: NDArray[np.int64] = np.maximum(0, SHADES * (steps - 1) // max(1, int(steps.max(initial=0))))
    kinds[nodes["expected"].to_numpy() == 0] = IDLE
    kinds[scene.lacking] = MISSING
    kinds[nodes["state"].to_numpy() != "alive"] = FAULTY
    return kinds


def _links(topology: Topology, places: NDArray[np.float64]) -> str:
    lines = (
        f"M{places[rank][0]:g} {places[rank][1]:g}L{places[other][0]:g} {places[other][1]:g}"
        for rank, _, other, _ in topology.links()
    )
    return f'<path stroke="{LIGHT["grey"]}" stroke-width=".5" stroke-opacity=".5" d="{"".join(lines)}"/>'
