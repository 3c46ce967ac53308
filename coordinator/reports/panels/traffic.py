"""The traffic of a foreign history: who sent how much to whom, beside the traffic that the rule states."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from coordinator.reports.chart import LETTER, NARROW, Chart, DrawChart, Frame, responsive
from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
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


MOST_DRAWN = 256
"""Most ranks of a drawn matrix."""


def traffic_panel(report: Report) -> Markup | None:
    """Render the matrix of bytes of each pair of ranks, measured and by the rule, and the origin of the numbers."""
    data, links = report.data, report.data.links
    if not data.origin or links is None:
        return None
    absent = ", ".join(data.origin.not_measured)
    return fragment(
        "traffic",
        matrices=[markup(responsive(each)) for each in traffic_charts(report)],
        origin=data.origin.origin,
        absent=absent,
        pairs=plural(len(links), "pair"),
    )


def traffic_charts(report: Report) -> list[DrawChart]:
    """Return the matrices of a foreign history of at most `MOST_DRAWN` ranks: measured, and by the rule if it states one."""
    data, ranks = report.data, report.data.summary.get("order")
    if not data.origin or data.links is None or not isinstance(ranks, int) or not 0 < ranks <= MOST_DRAWN:
        return []
    rule = data.origin.rule
    drawn = [_matrix("Measured", data.links.select("sender", "receiver", "packets", "bytes").rows(), ranks)]
    return drawn if rule is None else [*drawn, _matrix("By the rule", rule, ranks)]


def _matrix(title: str, rows: Iterable[Sequence[int]], ranks: int) -> DrawChart:
    """Draw bytes, or messages if all are empty, of each pair."""
    known = [row for row in rows if max(row[:2]) < ranks]
    by_bytes = any(row[3] for row in known)
    cells = {(row[0], row[1]): (row[3] if by_bytes else row[2], row[2], row[3]) for row in known}
    unit = "bytes" if by_bytes else "messages"
    return lambda narrow: matrix_chart(f"{title}: {unit}", ranks, cells, narrow=narrow)
