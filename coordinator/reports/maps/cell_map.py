"""The map of a large network: nodes are squares, and nodes in the same state share one path.

Above `NODES_ONE_BY_ONE` a square stands for a cell of nodes that are close together, so that a browser never holds more than
a few thousand elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.reports.computed_layout import Floats, Ranks
from coordinator.reports.layout import Layout, cells_of
from coordinator.reports.maps.base import NetworkMap, map_legend, map_script, texts_of_tables
from coordinator.reports.maps.link_map import NODES_WITH_LINKS
from coordinator.reports.maps.marks import STATE_COLOURS, LegendEntry, cross, diamond, node_keys
from coordinator.reports.scene.packets import marks_of
from coordinator.reports.scene.scene import MOST_FRAMES, Positions, Scene
from coordinator.reports.scene.votes import State
from coordinator.reports.theme import viridis
from emunode.terminal import plural

NODES_ONE_BY_ONE = 20_000
CELLS = 5_000
MARKED_NODES = 400
"""Faulty nodes that are marked, at most."""
LEVELS = 10
"""Shades of progress in all-to-all collectives; the brightest is for nodes that have everything."""
LEVEL_ENTRIES = 400_000
"""Squares summed over frames: frames get longer until the page holds at most this many."""


def draw(scene: Scene, layout: Layout) -> NetworkMap:
    """Draw the map; in all-to-all collectives without altered payloads it shows progress."""
    progress = scene.all_to_all and scene.votes is None and scene.packets is not None and scene.steps > 0
    return _progress_map(scene, layout) if progress else _finish_map(scene, layout)


@dataclass(frozen=True)
class Squares:
    """The squares of a map, each of one or several nodes."""

    x: Floats
    y: Floats
    side: float
    cell: Ranks
    """By rank, the square of the node."""
    size: int
    """Nodes of the largest cell."""

    @property
    def sizes(self) -> Ranks:
        """Nodes of each square."""
        return np.bincount(self.cell)

    def path(self, chosen: NDArray[np.bool_] | Ranks) -> str:
        """Draw the chosen squares, given by a mask or by their indices, as one path."""
        a = f"{self.side:.1f}"
        left, top = ((at[chosen] - self.side / 2).tolist() for at in (self.x, self.y))
        return "".join([f"M{x:.1f} {y:.1f}h{a}v{a}h-{a}z" for x, y in zip(left, top, strict=True)])


def _squares(scene: Scene, layout: Layout) -> Squares:
    if scene.order <= NODES_ONE_BY_ONE:
        return Squares(layout.x, layout.y, 0.9 * layout.spacing, np.arange(scene.order), 1)
    cell = np.unique(cells_of(scene.topology, layout, CELLS), return_inverse=True)[1]
    sizes = np.bincount(cell)
    x, y = (np.bincount(cell, weights=at) / sizes for at in (layout.x, layout.y))
    side = 0.8 * float(np.sqrt(1000.0 * layout.height / (3.0 * len(sizes))))
    return Squares(x, y, side, cell, int(sizes.max()))


# --- when nodes were done --------------------------------------------------------------------------------------------


def _finish_map(scene: Scene, layout: Layout) -> NetworkMap:
    """Draw squares in the colour of the step when their nodes were done, or of the value that they elected."""
    finish, state = scene.finish, np.zeros(scene.order, dtype=np.int64)
    if scene.votes is not None:
        state = scene.votes.state
        finish = np.where(state > State.WAITING, scene.votes.settled, 0)
    width = max(1, -(-scene.steps // MOST_FRAMES))
    positions = Positions(scene.steps or int(finish.max(initial=0)), width)
    squares = _squares(scene, layout)
    done, worst = _of_squares(squares, finish, state)
    groups = np.where(done > 0, (done - 1) // width, -1)
    side = squares.side
    never = f'<path class="node never" stroke-width="{0.08 * side:.2f}" fill="none" d="{squares.path(groups == -1)}"/>'
    kinds = dict(STATE_COLOURS) if scene.votes is not None else {State.WAITING: ""}
    paths = [
        (frame, colour or of_step, path)
        for frame, of_step in enumerate(positions.colours)
        for kind, colour in kinds.items()
        if (path := squares.path((groups == frame) & (worst == kind)))
    ]

    def body(at: int | None) -> list[str]:
        cells = [
            f'<path class="cells{" later" if at is not None and frame > at else ""}" data-frame="{frame}" '
            f'fill="{colour}" d="{path}"/>'
            for frame, colour, path in paths
        ]
        return [never, *cells, *_source(scene, layout, side), *_marks(scene, layout, side, positions, at)]

    script: dict[str, object] = {
        "kind": "cells",
        "whole": plural(scene.steps, "step") + (f"; {scene.votes.sentence()}" if scene.votes else ""),
        **map_script(positions, texts_of_tables(scene, positions)),
    }
    keys = _keys(scene)
    legend = _legend(scene, keys, width, squares.size)
    return NetworkMap(scene, layout, body, script, keys, legend, ramp=scene.votes is None)


def _of_squares(squares: Squares, finish: Ranks, state: Ranks) -> tuple[Ranks, Ranks]:
    """Return for each square the mean step (rounded) when its nodes were done, 0 for never, and their worst state."""
    served = np.bincount(squares.cell, weights=finish > 0)
    mean = np.bincount(squares.cell, weights=finish) / np.maximum(served, 1)
    worst = np.zeros(len(served), dtype=np.int64)
    np.maximum.at(worst, squares.cell, state)
    return np.where(served > 0, np.maximum(1, np.round(mean)), 0).astype(np.int64), worst


# --- progress of all-to-all collectives ------------------------------------------------------------------------------


def _progress_map(scene: Scene, layout: Layout) -> NetworkMap:
    """Draw squares in a shade for the share of their due segments that their nodes have."""
    squares = _squares(scene, layout)
    most = min(MOST_FRAMES, max(1, LEVEL_ENTRIES // len(squares.x)))
    positions = Positions(scene.steps, max(1, -(-scene.steps // most)))
    have = _received(scene, positions)
    full = scene.full
    shares = np.minimum(1.0, have / np.maximum(1, np.asarray(full)))
    mean = np.stack([np.bincount(squares.cell, weights=row) / squares.sizes for row in shares])
    # The small term keeps a share such as 3/9, computed as 0.33.., from falling to the level below.
    levels = np.floor(mean * (LEVELS - 1) + 1e-9).astype(np.int64)
    paths = [squares.path(np.array([at])) for at in range(len(squares.x))]

    def body(at: int | None) -> list[str]:
        shown = levels[-1 if at is None else at]
        squares_by_level = [
            f'<path class="level{" node" if level == 0 else ""}" '
            f'fill="{viridis(level / (LEVELS - 1)) if level else "none"}" '
            f'd="{"".join(paths[square] for square in np.flatnonzero(shown == level))}"/>'
            for level in range(LEVELS)
        ]
        return [*squares_by_level, *_marks(scene, layout, squares.side, positions, at)]

    due = scene.due(full)
    done = (shares[:, due] >= 1).sum(axis=1).tolist()
    texts = [scene.done(count, int(due.sum()), last) for count, last in zip(done, positions.last, strict=True)]
    script: dict[str, object] = {
        "kind": "levels",
        "whole": f"{plural(scene.steps, 'step')}; {texts[-1]}",
        **map_script(positions, texts),
        "squares": paths,
        "levels": ["".join(map(str, row)) for row in levels.tolist()],
    }
    keys = _keys(scene, pies=True)
    legend = _legend(scene, keys, positions.width, squares.size, pies=True)
    return NetworkMap(scene, layout, body, script, keys, legend, ramp=True, scale=("nothing", "everything"))


def _received(scene: Scene, positions: Positions) -> Ranks:
    """Count for each frame and rank the segments received until the end of the frame."""
    assert scene.packets is not None
    gains = marks_of(scene.packets, positions.width, giving=False).gains
    received = np.zeros((positions.count, scene.order), dtype=np.int64)
    received[gains["frame"].to_numpy(), gains["rank"].to_numpy()] = gains["segments"].to_numpy()
    return received.cumsum(axis=0)


# --- marks and legend ------------------------------------------------------------------------------------------------


def _source(scene: Scene, layout: Layout, side: float) -> list[str]:
    source = scene.source
    if source is None:
        return []
    ring = f'cx="{layout.x[source]:.1f}" cy="{layout.y[source]:.1f}" r="{max(5.0, 1.2 * side):.1f}"'
    title = f"<title>{'target' if scene.giving else 'source'}</title>"
    return [f'<circle class="ring" {ring} stroke-width="1.6" style="fill:var(--ink)">{title}</circle>']


def _marks(scene: Scene, layout: Layout, side: float, positions: Positions, frame: int | None) -> list[str]:
    """Draw diamonds for byzantine nodes, crosses for other faulty ones."""
    marks = []
    for rank, mark in list(scene.broken.items())[:MARKED_NODES]:
        at = float(layout.x[rank]), float(layout.y[rank]), max(4.0, side)
        if mark.shape == "diamond":
            marks.append(diamond(*at))
        elif frame is None or mark.step <= positions.last[frame]:
            marks.append(cross(*at, mark.step))
    return marks


def _keys(scene: Scene, *, pies: bool = False) -> list[LegendEntry]:
    keys = node_keys(scene, pies=pies)
    if pies:
        keys[0] = LegendEntry(
            "", "The colour of a node shows its share of what it is due; the brightest means everything."
        )
    return keys


def _legend(scene: Scene, keys: Sequence[LegendEntry], width: int, cell: int, *, pies: bool = False) -> str:
    omitted = [f"Links and labels are omitted: the network has more than {NODES_WITH_LINKS:,} nodes."]
    cells = []
    if cell > 1:
        what = "the worst of their votes" if scene.votes else "their mean" if pies else "their mean step"
        cells.append(f"A square stands for up to {cell} nodes that are close together and shows {what}.")
    return map_legend(scene, keys, omitted, width, *cells)
