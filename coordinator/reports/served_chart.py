"""Nodes served against time, as SVG: a staircase for each kind of time."""

from collections.abc import Mapping, Sequence

from coordinator.reports.charts import NARROW, chart_svg, chart_title, milliseconds, time_axis

WIDTH = 1040
LEFT, RIGHT, TOP, HEIGHT = 44, 16, 48, 150
COLOURS = ("blue", "orange")
DASHES = ("", ' stroke-dasharray="5 3"')


def served_chart(lines: Mapping[str, Sequence[float]], total: int, *, narrow: bool) -> str:
    """`lines` has by name the times in seconds, ascending, at which one more of `total` nodes was served."""
    width = NARROW if narrow else WIDTH
    last = max(times[-1] for times in lines.values()) or 1.0
    bottom = TOP + HEIGHT
    axis = milliseconds(last, LEFT, width - RIGHT, narrow=narrow)

    def y(count: int) -> float:
        return bottom - HEIGHT * count / total

    body = [chart_title("Nodes served against time", 14)]
    for quarter in range(5):
        at = bottom - HEIGHT * quarter / 4
        body.append(f'<path class="axis" d="M{LEFT} {at:.1f}H{width - RIGHT}"/>')
        body.append(f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{25 * quarter}%</text>')
    body += time_axis(axis, bottom)
    for number, (name, times) in enumerate(lines.items()):
        stairs = "".join(f"H{axis.at(1000 * time):.1f}V{y(count):.1f}" for time, count in _last_of_each(times))
        path = f"M{LEFT} {bottom}{stairs}H{width - RIGHT}"
        style = f'class="line" stroke="var(--{COLOURS[number]})"{DASHES[number]}'
        body.append(f'<path {style} d="{path}"/>')
        at = LEFT + 110 * number
        body.append(f'<path {style} d="M{at} {TOP - 18}h22"/>')
        body.append(f'<text x="{at + 28}" y="{TOP - 14}">{name}</text>')
    return chart_svg(width, bottom + 34, "Nodes served against time", body)


def _last_of_each(times: Sequence[float]) -> list[tuple[float, int]]:
    """Every time, with the number of nodes served by then."""
    return list({time: count for count, time in enumerate(times, 1)}.items())
