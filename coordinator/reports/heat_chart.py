"""A table of numbers over steps, as colours: ports or links down, steps across."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from coordinator.reports.chart import LETTER, NARROW, Chart, Frame, shortened
from coordinator.reports.charts import Bins
from coordinator.reports.numbers import show
from coordinator.reports.plot import Mode, Plot, PlotAxis, Series
from coordinator.reports.theme import viridis

WIDTH: Final = 1040
MOST_COLUMNS: Final = 120
NARROW_COLUMNS: Final = 48
TIPPED_CELLS: Final = 500
"""Cells have tooltips up to this number; beyond it, the cells of one shade are one path, without gaps."""
SHADES: Final = 16


def heat_map(
    title: str, rows: Sequence[str], counts: Sequence[Sequence[float]], steps: int, *, narrow: bool = False
) -> Chart:
    """Draw one row per name and one column per step (or a few steps), brighter where more is carried."""
    bins = Bins(steps, NARROW_COLUMNS if narrow else MOST_COLUMNS)
    table = [bins.of(row) for row in counts]
    height = max(6.0, min(22.0, 260 / max(1, len(rows)))) if len(rows) <= 12 else 15.0
    names = [shortened(name, narrow=narrow) for name in rows]
    left = round(max(48, 8 + LETTER * max(map(len, names), default=0)))
    frame = Frame(left, 26, (NARROW if narrow else WIDTH) - 4, 26 + height * len(rows), 1)
    width = (frame.right - frame.left) / max(1, bins.count)
    most = max((value for row in table for value in row), default=0)
    chart = Chart(title, frame, frame.right + 4)
    chart.heading(14)
    # On a phone, the maximum does not fit beside the title.
    if not narrow or LETTER * (len(title) + 16) <= NARROW:
        chart.end(frame.right, 14, f"at most {show(most, 4)}")
    chart.row_names(names, height, every=1 if height >= 12 else 2)
    cells = [
        (frame.left + bar * width, frame.top + at * height, value, f"{rows[at]}, {bins.span(bar)}: {show(value, 4)}")
        for at, row in enumerate(table)
        for bar, value in enumerate(row)
        if value
    ]
    if len(cells) <= TIPPED_CELLS:
        for x, y, value, tip in cells:
            chart.box(x, y, max(0.6, width - (width > 4)), height - 1, viridis(value / most), tip)
    else:
        chart.add(*_shades(table, frame, width, height, most))
    chart.step_axis(steps)
    chart.cursor(steps)
    drawn = [(bar, at, value) for at, row in enumerate(table) for bar, value in enumerate(row) if value]
    spans = {float(bar): f"{bar * bins.width + 1}" for bar in range(0, bins.count, max(1, bins.count // 8))}
    down = PlotAxis("", -0.5, len(rows) - 0.5, names=dict(enumerate(rows)), downwards=True)
    plot = Plot(
        PlotAxis("step", -0.5, max(1, bins.count) - 0.5, names=spans), down, [Series("", Mode.CELLS, drawn, "viridis")]
    )
    return chart.finish(frame.bottom + 20, plot)


def _shades(table: Sequence[Sequence[float]], frame: Frame, width: float, height: float, most: float) -> list[str]:
    """Draw the cells of each shade as one path."""
    shades: dict[int, list[str]] = {}
    for at, row in enumerate(table):
        x, y = frame.left, frame.top + at * height
        for shade, run in groupby(round(SHADES * value / most) if value else -1 for value in row):
            across = width * len(list(run))
            if shade >= 0:
                shades.setdefault(shade, []).append(f"M{x:.1f} {y:.1f}h{across:.1f}v{height - 1:.1f}h-{across:.1f}z")
            x += across
    return [f'<path fill="{viridis(at / SHADES)}" d="{"".join(paths)}"/>' for at, paths in sorted(shades.items())]
