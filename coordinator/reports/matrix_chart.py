"""A matrix of traffic as colours: sources down, targets across."""

from collections.abc import Mapping
from typing import Final

from coordinator.reports.chart import LETTER, NARROW, Chart, Frame
from coordinator.reports.numbers import show
from coordinator.reports.plot import Mode, Plot, PlotAxis, Series
from coordinator.reports.theme import viridis
from emunode.terminal import plural

SIDE: Final = 420.0
"""Largest width of the matrix in pixels."""
LARGEST_CELL: Final = 34.0
TIPPED_RANKS: Final = 40
"""Cells have tooltips up to this number of ranks."""


def matrix_chart(
    title: str, ranks: int, cells: Mapping[tuple[int, int], tuple[int, int, int]], *, narrow: bool = False
) -> Chart:
    """Draw a square for each pair (source, target) with traffic: the value that is drawn, messages and bytes."""
    left = 12 + LETTER * len(str(ranks - 1)) + 10
    side = min(SIDE, (NARROW if narrow else SIDE + left) - left - 8, LARGEST_CELL * ranks)
    cell = side / ranks
    frame = Frame(left, 44, left + side, 44 + side)
    # Of the same width for all numbers of ranks: pages scale a chart to the width of its place.
    chart = Chart(title, frame, NARROW if narrow else SIDE + left + 8)
    chart.heading(14)
    most = max((value for value, _, _ in cells.values()), default=0)
    # Numbers of ranks overlap where cells are small.
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * cell >= 14 or step == 100)
    for rank in range(0, ranks, every):
        chart.end(left - 5, f"{frame.top + (rank + 0.5) * cell + 4:.1f}", str(rank))
        chart.middle(left + (rank + 0.5) * cell, frame.top - 5, str(rank))
    chart.rule(f"M{left} {frame.top}h{side:.1f}v{side:.1f}h-{side:.1f}z")
    for (source, target), (value, messages, size) in sorted(cells.items()):
        tip = (
            f"{source} to {target}: {plural(messages, 'message')}, {plural(size, 'byte')}"
            if ranks <= TIPPED_RANKS
            else ""
        )
        x, y = left + target * cell, frame.top + source * cell
        gap = 1 if cell > 4 else 0
        chart.box(x, y, cell - gap, cell - gap, viridis(value / most if most else 0), tip)
    chart.text(left, frame.bottom + 16, f"source down, target across; at most {show(most, 6)}")
    drawn = [(target, source, value) for (source, target), (value, _, _) in sorted(cells.items())]
    across, down = (
        PlotAxis(
            name, -0.5, ranks - 0.5, names={float(rank): str(rank) for rank in range(0, ranks, every)}, downwards=at
        )
        for name, at in (("target", False), ("source", True))
    )
    return chart.finish(frame.bottom + 24, Plot(across, down, [Series("", Mode.CELLS, drawn, "viridis")]))
