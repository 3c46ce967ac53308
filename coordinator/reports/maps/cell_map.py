"""The map of a large network: nodes are squares, and nodes in the same state share one path.

Above `NODES_ONE_BY_ONE` a square stands for a cell of nodes that are close together, so that a browser never holds more than
a few thousand elements.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.layout import Floats, Ranks, cells_of
from coordinator.reports.maps.base import MapRun, NetworkMap
from coordinator.reports.maps.frames import MOST_FRAMES, empty_frames, texts_of_tables
from coordinator.reports.maps.link_map import NODES_WITH_LINKS
from coordinator.reports.maps.marks import STATE_COLOURS, cross, diamond, node_keys
from coordinator.reports.numbers import plural
from coordinator.reports.theme import viridis
from coordinator.reports.votes import State

NODES_ONE_BY_ONE = 20_000
CELLS = 5_000
MARKED_NODES = 400
"""Faulty nodes that are marked, at most."""
LEVELS = 10
"""Shades of progress in all-to-all collectives; the brightest is for nodes that have everything."""
LEVEL_ENTRIES = 400_000
"""Squares summed over frames: frames get longer until the page holds at most this many."""


def draw(run: MapRun) -> NetworkMap:
    """The map; in all-to-all collectives without altered payloads it shows progress."""
    progress = run.all_to_all and run.votes is None and run.hops is not None and run.steps > 0
    return _progress_map(run) if progress else _finish_map(run)


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
        """The chosen squares, by a mask or by their indices, as one path."""
        a = f"{self.side:.1f}"
        left, top = ((at[chosen] - self.side / 2).tolist() for at in (self.x, self.y))
        return "".join([f"M{x:.1f} {y:.1f}h{a}v{a}h-{a}z" for x, y in zip(left, top, strict=True)])


def _squares(run: MapRun) -> Squares:
    layout = run.layout
    if run.order <= NODES_ONE_BY_ONE:
        return Squares(layout.x, layout.y, 0.9 * layout.spacing, np.arange(run.order), 1)
    cell = np.unique(cells_of(run.topology, layout, CELLS), return_inverse=True)[1]
    sizes = np.bincount(cell)
    x, y = (np.bincount(cell, weights=at) / sizes for at in (layout.x, layout.y))
    side = 0.8 * float(np.sqrt(1000.0 * layout.height / (3.0 * len(sizes))))
    return Squares(x, y, side, cell, int(sizes.max()))


# --- when nodes were done --------------------------------------------------------------------------------------------


def _finish_map(run: MapRun) -> NetworkMap:
    """Squares in the colour of the step in which their nodes were done, or of the value that they elected."""
    finish, state = run.finish, np.zeros(run.order, dtype=np.int64)
    if run.votes is not None:
        state = run.votes.state
        finish = np.where(state > State.WAITING, run.votes.settled, 0)
    width = max(1, -(-run.steps // MOST_FRAMES))
    frames = empty_frames(run.steps or int(finish.max(initial=0)), width)
    squares = _squares(run)
    done, worst = _of_squares(squares, finish, state)
    groups = np.where(done > 0, (done - 1) // width, -1)
    side = squares.side
    body = [f'<path class="node never" stroke-width="{0.08 * side:.2f}" fill="none" d="{squares.path(groups == -1)}"/>']
    colours = dict(STATE_COLOURS) if run.votes is not None else {State.WAITING: ""}
    for at, of_step in enumerate(frames.colours):
        for kind, colour in colours.items():
            path = squares.path((groups == at) & (worst == kind))
            if path:
                body.append(f'<path class="cells" data-frame="{at}" fill="{colour or of_step}" d="{path}"/>')
    body += [*_source(run, side), *_marks(run, side)]
    frames.texts += texts_of_tables(run, frames)
    script: dict[str, object] = {
        "kind": "cells",
        "whole": plural(run.steps, "step") + (f"; {run.votes.sentence()}" if run.votes else ""),
        **frames.script(),
    }
    return NetworkMap(run.svg(body), script, _legend(run, width, squares.size), run.layout, ramp=run.votes is None)


def _of_squares(squares: Squares, finish: Ranks, state: Ranks) -> tuple[Ranks, Ranks]:
    """By square, the mean step (rounded) in which its nodes were done, 0 for never, and their worst state."""
    served = np.bincount(squares.cell, weights=finish > 0)
    mean = np.bincount(squares.cell, weights=finish) / np.maximum(served, 1)
    worst = np.zeros(len(served), dtype=np.int64)
    np.maximum.at(worst, squares.cell, state)
    return np.where(served > 0, np.maximum(1, np.round(mean)), 0).astype(np.int64), worst


# --- progress of all-to-all collectives ------------------------------------------------------------------------------


def _progress_map(run: MapRun) -> NetworkMap:
    """Squares in the shade of the share that their nodes have of what they are due."""
    squares = _squares(run)
    width = max(1, -(-run.steps // min(MOST_FRAMES, max(1, LEVEL_ENTRIES // len(squares.x)))))
    frames = empty_frames(run.steps, width)
    have = _received(run, len(frames.first), width)
    full = run.full(have[-1].tolist())
    shares = np.minimum(1.0, have / np.maximum(1, np.asarray(full)))
    mean = np.stack([np.bincount(squares.cell, weights=row) / squares.sizes for row in shares])
    # The small term keeps a share such as 3/9, computed as 0.33.., from falling to the level below.
    levels = np.floor(mean * (LEVELS - 1) + 1e-9).astype(np.int64)
    paths = [squares.path(np.array([at])) for at in range(len(squares.x))]
    body = [
        f'<path class="level{" node" if level == 0 else ""}" fill="{viridis(level / (LEVELS - 1)) if level else "none"}" '
        f'd="{"".join(paths[at] for at in np.flatnonzero(levels[-1] == level))}"/>'
        for level in range(LEVELS)
    ]
    due = run.due(full)
    done = (shares[:, due] >= 1).sum(axis=1).tolist()
    frames.texts += [run.done(count, int(due.sum()), last) for count, last in zip(done, frames.last, strict=True)]
    script: dict[str, object] = {
        "kind": "levels",
        "whole": f"{plural(run.steps, 'step')}; {frames.texts[-1]}",
        **frames.script(),
        "squares": paths,
        "levels": ["".join(map(str, row)) for row in levels.tolist()],
    }
    legend = _legend(run, width, squares.size, pies=True)
    svg = run.svg([*body, *_marks(run, squares.side)])
    return NetworkMap(svg, script, legend, run.layout, ramp=True, scale=("nothing", "everything"))


def _received(run: MapRun, frames: int, width: int) -> Ranks:
    """By frame and rank, the segments received until the end of the frame."""
    assert run.hops is not None
    first = run.hops.filter(pl.col("first") > 0)
    at = (first["step"].to_numpy().astype(np.int64) - 1) // width
    received = np.zeros((frames, run.order), dtype=np.int64)
    np.add.at(received, (at, first["receiver"].to_numpy()), first["first"].to_numpy())
    return received.cumsum(axis=0)


# --- marks and legend ------------------------------------------------------------------------------------------------


def _source(run: MapRun, side: float) -> list[str]:
    source = run.source
    if source is None:
        return []
    ring = f'cx="{run.layout.x[source]:.1f}" cy="{run.layout.y[source]:.1f}" r="{max(5.0, 1.2 * side):.1f}"'
    title = f"<title>{'target' if run.giving else 'source'}</title>"
    return [f'<circle class="ring" {ring} stroke-width="1.6" style="fill:var(--ink)">{title}</circle>']


def _marks(run: MapRun, side: float) -> list[str]:
    """Diamonds for byzantine nodes, crosses for other faulty ones."""
    marks = []
    for rank, mark in list(run.broken.items())[:MARKED_NODES]:
        at = float(run.layout.x[rank]), float(run.layout.y[rank]), max(4.0, side)
        marks.append(diamond(*at) if mark.shape == "diamond" else cross(*at, mark.step))
    return marks


def _legend(run: MapRun, width: int, cell: int, *, pies: bool = False) -> str:
    keys = node_keys(run.data, run.broken, run.votes, pies=pies, root=run.source is not None)
    if pies:
        keys[0] = "The colour of a node shows its share of what it is due; the brightest means everything."
    omitted = [f"Links and labels are omitted: the network has more than {NODES_WITH_LINKS:,} nodes."]
    cells = []
    if cell > 1:
        what = "the worst of their votes" if run.votes else "their mean" if pies else "their mean step"
        cells.append(f"A square stands for up to {cell} nodes that are close together and shows {what}.")
    return run.legend(keys, omitted, width, *cells)
