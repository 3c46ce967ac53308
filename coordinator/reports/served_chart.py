"""Nodes served against time, as SVG: a staircase for each kind of time."""

from collections.abc import Mapping, Sequence

from coordinator.reports.charts import chart_svg, chart_title
from coordinator.reports.numbers import show

WIDTH, NARROW_WIDTH = 720, 360
LEFT, RIGHT, TOP, HEIGHT = 44, 16, 48, 150
COLOURS = ("blue", "orange")
DASHES = ("", ' stroke-dasharray="5 3"')


def served_chart(lines: Mapping[str, Sequence[float]], total: int, *, narrow: bool) -> str:
    """`lines` has by name the times in seconds, ascending, at which one more of `total` nodes was served."""
    width = NARROW_WIDTH if narrow else WIDTH
    last = max(times[-1] for times in lines.values()) or 1.0
    bottom = TOP + HEIGHT

    def x(seconds: float) -> float:
        return LEFT + (width - LEFT - RIGHT) * seconds / last

    def y(count: int) -> float:
        return bottom - HEIGHT * count / total

    body = [chart_title("nodes served against time", 14)]
    for quarter in range(5):
        at = bottom - HEIGHT * quarter / 4
        body.append(f'<path class="axis" d="M{LEFT} {at:.1f}H{width - RIGHT}"/>')
        body.append(f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{25 * quarter}%</text>')
    for tick in range(3 if narrow else 5):
        at = last * tick / (2 if narrow else 4)
        body.append(f'<text class="middle" x="{x(at):.1f}" y="{bottom + 14}">{show(1000 * at, 4)}</text>')
    body.append(f'<text class="end" x="{width - RIGHT}" y="{bottom + 28}">milliseconds</text>')
    for number, (name, times) in enumerate(lines.items()):
        stairs = "".join(f"H{x(time):.1f}V{y(count):.1f}" for time, count in _last_of_each(times))
        path = f"M{LEFT} {bottom}{stairs}H{width - RIGHT}"
        style = f'class="line" stroke="var(--{COLOURS[number]})"{DASHES[number]}'
        body.append(f'<path {style} d="{path}"/>')
        at = LEFT + 110 * number
        body.append(f'<path {style} d="M{at} {TOP - 18}h22"/>')
        body.append(f'<text x="{at + 28}" y="{TOP - 14}">{name}</text>')
    return chart_svg(width, bottom + 34, "nodes served against time", body)


def _last_of_each(times: Sequence[float]) -> list[tuple[float, int]]:
    """Every time, with the number of nodes served by then."""
    return list({time: count for count, time in enumerate(times, 1)}.items())
