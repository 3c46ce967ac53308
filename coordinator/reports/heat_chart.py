"""A table of numbers over steps, as colours: ports or links down, steps across."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Final

from coordinator.reports.charts import (
    LETTER,
    NARROW,
    Bins,
    Frame,
    chart_cursor,
    chart_svg,
    chart_title,
    shortened,
    step_axis,
)
from coordinator.reports.numbers import show
from coordinator.reports.theme import viridis

WIDTH: Final = 1040
MOST_COLUMNS: Final = 120
NARROW_COLUMNS: Final = 48
TIPPED_CELLS: Final = 500
"""Cells have tooltips up to this number; beyond it, those of one shade are one path, without gaps."""
SHADES: Final = 16


def heat_map(
    title: str, rows: Sequence[str], counts: Sequence[Sequence[float]], steps: int, *, narrow: bool = False
) -> str:
    """One row per name and one column per step (or a few of them), brighter where more is carried."""
    bins = Bins(steps, NARROW_COLUMNS if narrow else MOST_COLUMNS)
    table = [bins.of(row) for row in counts]
    height = max(6.0, min(22.0, 260 / max(1, len(rows)))) if len(rows) <= 12 else 15.0
    names = [shortened(name, narrow=narrow) for name in rows]
    left = round(max(48, 8 + LETTER * max(map(len, names), default=0)))
    frame = Frame(left, 26, (NARROW if narrow else WIDTH) - 4, 26 + height * len(rows), 1)
    width = (frame.right - frame.left) / max(1, bins.count)
    most = max((value for row in table for value in row), default=0)
    body = [
        chart_title(title, 14),
        f'<text class="end" x="{frame.right}" y="14">at most {show(most, 4)}</text>',
    ]
    # On a phone, the maximum does not fit beside the title.
    if narrow and LETTER * (len(title) + 16) > NARROW:
        body.pop()
    for at, name in enumerate(names):
        if height >= 12 or at % 2 == 0:
            y = frame.top + (at + 0.5) * height + 4
            body.append(f'<text class="end" x="{frame.left - 6}" y="{y:.1f}">{escape(name)}</text>')
    cells = [
        (frame.left + bar * width, frame.top + at * height, value, f"{rows[at]}, {bins.span(bar)}: {show(value, 4)}")
        for at, row in enumerate(table)
        for bar, value in enumerate(row)
        if value
    ]
    if len(cells) <= TIPPED_CELLS:
        across = max(0.6, width - (width > 4))
        body += [
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{across:.1f}" height="{height - 1:.1f}" fill="{viridis(value / most)}">'
            f"<title>{escape(tip)}</title></rect>"
            for x, y, value, tip in cells
        ]
    else:
        shades: dict[int, list[str]] = {}
        for at, row in enumerate(table):
            x, y = frame.left, frame.top + at * height
            for shade, run in groupby(round(SHADES * value / most) if value else -1 for value in row):
                across = width * len(list(run))
                if shade >= 0:
                    shades.setdefault(shade, []).append(
                        f"M{x:.1f} {y:.1f}h{across:.1f}v{height - 1:.1f}h-{across:.1f}z"
                    )
                x += across
        body += [f'<path fill="{viridis(at / SHADES)}" d="{"".join(paths)}"/>' for at, paths in sorted(shades.items())]
    body += [step_axis(steps, frame), chart_cursor(steps, frame)]
    return chart_svg(frame.right + 4, frame.bottom + 20, title, body)
