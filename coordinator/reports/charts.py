"""Every kind of chart, drawn from sequences of numbers.

A chart takes no other input than numbers and names, and escapes the names itself. Long runs are cut into at most
`MOST_BARS` bars; each bar is the largest value of its steps, so that peaks stay visible.

Wide charts have a narrow form for small screens, whose letters are as large as the text around them. A page holds both
(`chart.responsive`) and shows one.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from coordinator.reports.chart import NARROW, Axis, Chart, Frame, fault_strokes, milliseconds
from coordinator.reports.numbers import abbreviate, show
from coordinator.reports.plot import CROSSES, Mode, Plot, PlotAxis, Series

MOST_BARS = 160
SHARE = "share"
"""The unit of ratios."""
MOST_TICKS = 12
"""Numbers of steps along a plot."""
TITLED_BARS = 64
"""Bars have tooltips up to this number of bars; beyond it they are one path."""
SERIES_COLOURS = ("blue", "orange", "green", "purple", "red", "sky", "grey")
BAR_COLOURS = ("blue", "orange", "green", "sky", "red", "grey")
DASHES = ("", "6 3", "2 3", "9 3 2 3")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bins:
    """Steps 1 to `steps`, grouped into bars of `width` steps."""

    steps: int
    most: int = MOST_BARS

    @property
    def width(self) -> int:
        """Steps in one bar."""
        return max(1, -(-self.steps // self.most))

    @property
    def count(self) -> int:
        """Number of bars."""
        return -(-self.steps // self.width)

    def of(self, values: Sequence[float]) -> list[float]:
        """Return the largest value of each bar."""
        return [max(values[at : at + self.width], default=0) for at in range(0, self.steps, self.width)]

    def span(self, bar: int) -> str:
        """Return the steps of a bar in words."""
        first, last = bar * self.width + 1, min(self.steps, (bar + 1) * self.width)
        return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


# --- charts over steps, and bars -------------------------------------------------------------------------------------


def step_bars(title: str, values: Sequence[float], colour: str, faults: Sequence[int] = ()) -> Chart:
    """Draw one value per step as bars, with dashed lines at faults."""
    bins = Bins(len(values))
    bars = bins.of(values)
    frame = Frame(8, 33, 312, 108, max(bars, default=0))
    step = (frame.right - frame.left) / max(1, bins.count)
    wide = step * (0.8 if step > 4 else 1.0)
    chart = Chart(title, frame, 320)
    chart.baseline()
    chart.heading(14)
    chart.end(312, 27, f"at most {show(frame.most, 4)}")  # below a title of any length
    if bins.count <= TITLED_BARS:
        for bar, value in enumerate(bars):
            x, y = frame.left + bar * step + (step - wide) / 2, frame.y(value)
            chart.bar(x, y, wide, frame.bottom, colour, f"{bins.span(bar)}: {show(value, 4)}")
    else:
        bars_path = "".join(
            f"M{frame.left + bar * step:.1f} {frame.bottom:.0f}V{frame.y(value):.1f}h{wide:.1f}V{frame.bottom:.0f}z"
            for bar, value in enumerate(bars)
            if value
        )
        chart.add(f'<path d="{bars_path}" fill="var(--{colour})"/>')
    chart.fault_lines(faults, len(values))
    chart.step_axis(len(values))
    chart.cursor(len(values))
    points = [(1 + bar * bins.width + (bins.width - 1) / 2, value) for bar, value in enumerate(bars)]
    wide_steps = bins.width * (0.8 if bins.width == 1 else 1.0)
    plot = Plot(
        _steps(len(values)),
        PlotAxis("", 0),
        [Series("", Mode.BARS, points, colour, width=wide_steps), *fault_strokes(faults, len(values), frame.most)],
    )
    return chart.finish(126, plot)


def _steps(steps: int) -> PlotAxis:
    every = max(1, -(-steps // MOST_TICKS))
    return PlotAxis("step", 0.5, max(1, steps) + 0.5, names={step: str(step) for step in range(1, steps + 1, every)})


def step_lines(
    title: str,
    lines: Mapping[str, tuple[str, Sequence[float]]],
    faults: Sequence[int] = (),
    most: float = 1.0,
    *,
    narrow: bool = False,
) -> Chart:
    """Draw the shares of `most` after every step as named staircases: name -> (colour, values)."""
    steps = max((len(values) for _, values in lines.values()), default=0)
    top = 24 + 16 * len(lines)
    frame = Frame(40, top, NARROW - 8, top + 150, most) if narrow else Frame(42, 14, 880, 190, most)
    chart = Chart(title, frame, NARROW if narrow else 1040)
    chart.ratio_grid()
    chart.fault_lines(faults, steps)
    width = (frame.right - frame.left) / max(1, steps)
    ends = [frame.y(values[-1]) + 4 if values else frame.bottom for _, values in lines.values()]
    heights = [16.0 + 16 * order for order in range(len(lines))] if narrow else _spread(ends, 14)
    for order, ((name, (colour, values)), y) in enumerate(zip(lines.items(), heights, strict=True)):
        d = f"M{frame.left} {frame.bottom:.1f}" + "".join(_stairs(values, width, frame))
        chart.line(d, colour, DASHES[min(order, 1)])
        last = values[-1] / most if values else 0.0
        percent = f"{last:.1%}" if last < 1 else "100%"
        chart.text(frame.left if narrow else frame.right + 8, f"{y:.1f}", f"{name} {percent}", colour)
    chart.step_axis(steps)
    chart.cursor(steps)
    series = [
        Series(
            name,
            Mode.PLATEAUS,
            [(step, value / most) for step, value in enumerate(values, 1)],
            colour,
            DASHES[min(order, 1)],
        )
        for order, (name, (colour, values)) in enumerate(lines.items())
    ]
    shares = PlotAxis("share", 0, 1, shares=True)
    return chart.finish(frame.bottom + 22, Plot(_steps(steps), shares, [*series, *fault_strokes(faults, steps, 1)]))


def _stairs(values: Sequence[float], width: float, frame: Frame) -> list[str]:
    """Return the corners of a staircase, at most a few hundred."""
    parts, last, every = [], None, max(1, len(values) // 600)
    for step, value in enumerate(values):
        if value != last and (step % every == 0 or step == len(values) - 1):
            parts.append(f"H{frame.left + step * width:.1f}V{frame.y(value):.1f}")
            last = value
    return [*parts, f"H{frame.right}"]


def histogram(title: str, bars: Sequence[tuple[str, int]], colour: str, xlabel: str) -> Chart:
    """Draw named bars with their counts above them, on a linear axis."""
    frame = Frame(8, 40, 392, 150, max((count for _, count in bars), default=0))
    step = (frame.right - frame.left) / max(1, len(bars))
    wide = min(64.0, step * 0.72)
    longest = max((len(name) for name, _ in bars), default=1)
    # A letter is about 6 units wide; names that do not fit are skipped evenly.
    every = max(1, -(-len(bars) * (6 * longest + 10) // 384))
    chart = Chart(title, frame, 400)
    chart.baseline()
    chart.heading(14)
    for at, (name, count) in enumerate(bars):
        x, y = frame.left + at * step + (step - wide) / 2, frame.y(count)
        if count:
            y = min(y, frame.bottom - 1.5)  # a count of one stays visible beside thousands
        chart.bar(x, y, wide, frame.bottom, colour, f"{name}: {count:,}")
        middle = x + wide / 2
        if count and step > 26:
            chart.middle(middle, round(y - 4, 1), f"{count:,}")
        if at % every == 0:
            chart.middle(middle, frame.bottom + 14, name)
    chart.middle(200, frame.bottom + 30, xlabel)
    plot = Plot(
        PlotAxis(xlabel, -0.5, max(1, len(bars)) - 0.5, names={float(at): name for at, (name, _) in enumerate(bars)}),
        PlotAxis("", 0),
        [Series("", Mode.BARS, [(at, count) for at, (_, count) in enumerate(bars)], colour, width=0.72)],
    )
    return chart.finish(186, plot)


def grouped_bars(title: str, groups: Mapping[str, Sequence[float | None]], names: Sequence[str]) -> Chart:
    """Draw for each group one bar per name, scaled to the largest value of the group, with the value beside it."""
    row, gap, top = 15, 14, 30 + 16 * len(names)
    height = top + sum(row * len(names) + gap for _ in groups) + 6
    longest = max((len(name) for name in groups), default=8)
    left = 20 + 6.3 * longest
    chart = Chart(title, Frame(left, top, 640, height), 760)
    chart.heading(16)
    for at, name in enumerate(names):
        colour = BAR_COLOURS[at % len(BAR_COLOURS)]
        chart.add(f'<rect x="8" y="{24 + 16 * at}" width="10" height="10" fill="var(--{colour})"/>')
        chart.text(24, 33 + 16 * at, name)
    y = float(top)
    for group, values in groups.items():
        most = max((value for value in values if value is not None), default=0) or 1
        chart.end(f"{left - 8:.0f}", f"{y + row * len(names) / 2 + 4:.1f}", group)
        for at, value in enumerate(values):
            length = (640 - left) * (value or 0) / most
            chart.add(
                f'<rect x="{left:.0f}" y="{y:.1f}" width="{max(0.8, length):.1f}" height="{row - 3}" '
                f'fill="var(--{BAR_COLOURS[at % len(BAR_COLOURS)]})"/>'
            )
            chart.text(f"{left + length + 6:.1f}", f"{y + row - 5:.1f}", "-" if value is None else show(value, 4))
            y += row
        y += gap
    return chart.finish(height, _grouped_plot(groups, names))


def _grouped_plot(groups: Mapping[str, Sequence[float | None]], names: Sequence[str]) -> Plot:
    """Return the bars as shares of the largest value of their group, with the values beside them."""
    most = [max((value for value in values if value is not None), default=0) or 1 for values in groups.values()]
    width = 0.8 / max(1, len(names))
    rows = []
    for number, name in enumerate(names):
        values = [list(group)[number] for group in groups.values()]
        shift = (number - (len(names) - 1) / 2) * width
        points = [
            ((value or 0) / largest, at + shift) for at, (value, largest) in enumerate(zip(values, most, strict=True))
        ]
        labels = ["-" if value is None else show(value, 4) for value in values]
        colour = BAR_COLOURS[number % len(BAR_COLOURS)]
        rows.append(Series(name, Mode.ROWS, points, colour, width=0.8 * width, labels=labels))
    across = PlotAxis("share of the largest value", 0, 1.25)
    down = PlotAxis("", -0.5, len(groups) - 0.5, names=dict(enumerate(groups)), downwards=True)
    return Plot(across, down, rows)


def delivery_times_chart(lines: Mapping[str, Sequence[float]], total: int, *, narrow: bool) -> Chart:
    """Draw the nodes served against time; `lines` has by name the ascending times, in seconds, when one more of `total`
    was served.
    """
    width = NARROW if narrow else 1040
    frame = Frame(44, 48, width - 16, 198, total)
    last = max(times[-1] for times in lines.values()) or 1.0
    axis = milliseconds(last, frame.left, frame.right, narrow=narrow)
    chart = Chart("Nodes served against time", frame, width)
    chart.heading(14)
    chart.ratio_grid()
    chart.time_axis(axis)
    for number, (name, times) in enumerate(lines.items()):
        # Every time, with the number of nodes served by then.
        served = {time: count for count, time in enumerate(times, 1)}
        stairs = "".join(f"H{axis.at(1000 * time):.1f}V{frame.y(count):.1f}" for time, count in served.items())
        style, x = (SERIES_COLOURS[number], ("", "5 3")[number]), frame.left + 110 * number
        chart.line(f"M{frame.left} {frame.bottom}{stairs}H{frame.right}", *style)
        chart.line(f"M{x} {frame.top - 18}h22", *style)
        chart.text(x + 28, frame.top - 14, name)
    series = [
        Series(
            name,
            Mode.STAIRS,
            [
                (0, 0),
                *((1000 * time, count / (total or 1)) for count, time in enumerate(times, 1)),
                _last(times, last, total),
            ],
            SERIES_COLOURS[number],
            ("", "5 3")[number],
        )
        for number, (name, times) in enumerate(lines.items())
    ]
    plot = Plot(PlotAxis(axis.title, 0, 1000 * last), PlotAxis("nodes served", 0, 1, shares=True), series)
    return chart.finish(frame.bottom + 34, plot)


def _last(times: Sequence[float], last: float, total: int) -> tuple[float, float]:
    """Return the end of a staircase at the right edge."""
    return 1000 * last, len(times) / (total or 1)


# --- curves ----------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 760, 380
LEFT, TOP, BOTTOM = 64, 40, 328


class HeldPrediction(NamedTuple):
    """A prediction, drawn as a line, and the measurements it is held against, drawn as marks."""

    predicted: Points
    measured: Points


@dataclass(frozen=True)
class Estimates:
    """Measured ratios with their intervals, and the expectations of theory."""

    points: Sequence[tuple[float, float, float, float]]
    """(x, y, low, high), ascending in x."""
    theory: Points = ()


def curves(
    title: str,
    lines: Mapping[str, Points | HeldPrediction],
    xlabel: str,
    ylabel: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    only_x: Sequence[float] = (),
    dots: Sequence[str] = (),
) -> Chart:
    """Draw named series as lines with marked points; the series named in `dots` have marks only.

    Series differ in marks and dashes as well as in colour. A logarithmic axis leaves out values that are not positive.
    `only_x` lists the values to print along the x axis.
    """
    held = {
        name: line if isinstance(line, HeldPrediction) else HeldPrediction(line, line) for name, line in lines.items()
    }
    drawn = {name: _drawable(line.predicted, log_x=log_x, log_y=log_y) for name, line in held.items()}
    points = {name: _drawable(line.measured, log_x=log_x, log_y=log_y) for name, line in held.items()}
    every = [point for series in (drawn, points) for line in series.values() for point in line]
    right = WIDTH - 46 - max((6.1 * len(name) for name in lines), default=0)
    x = _axis(xlabel, [a for a, _ in every], LEFT, right, log=log_x, zero=False, only=only_x)
    y = _axis(ylabel, [b for _, b in every], BOTTOM, TOP, log=log_y, zero=True)
    chart = Chart(title, Frame(LEFT, TOP, right, BOTTOM), WIDTH, "chart roomy")
    chart.heading(16)
    _grid(chart, x, y)
    for at, (name, line) in enumerate(drawn.items()):
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        legend_y = TOP + 18 * at
        if name not in dots and line:
            dash = DASHES[at % len(DASHES)]
            path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in line)
            chart.line(f"M{path}", colour, dash)
            chart.line(f"M{right + 8:.0f} {legend_y}h22", colour, dash)
        marks = [(x.at(a), y.at(b), f"{name}: {show(a, 4)}, {show(b, 4)}") for a, b in points[name]]
        if marks:
            marks.append((right + 19, legend_y, name))
        for px, py, tip in marks:
            chart.mark(at, px, py, colour, tip)
        chart.text(f"{right + 36:.0f}", legend_y + 4, name)
    series = [
        each
        for at, name in enumerate(held)
        for each in _curve_series(name, at, drawn[name] if name not in dots else (), points[name])
    ]
    return chart.finish(HEIGHT, Plot(_plot_axis(x), _plot_axis(y), series))


def _curve_series(name: str, at: int, line: Points, marks: Points) -> list[Series]:
    """Return a curve as one series, or as two where its marks are not the points of its line."""
    colour, dashes = SERIES_COLOURS[at % len(SERIES_COLOURS)], DASHES[at % len(DASHES)]
    if line == marks or not marks:
        return [Series(name, Mode.LINE, line, colour, dashes, at if marks else None)] if line else []
    lines = [Series("", Mode.LINE, line, colour, dashes)] if line else []
    return [*lines, Series(name, Mode.MARKS, marks, colour, mark=at)]


def _plot_axis(axis: Axis) -> PlotAxis:
    names = {value: show(value, 4) for value in axis.only}
    return PlotAxis(axis.title, axis.low, axis.high, axis.log, names)


def ratio_curves(
    title: str, xlabel: str, lines: Mapping[str, Estimates], unit: str = SHARE, *, narrow: bool = False
) -> Chart:
    """Draw ratios from 0 to 1, or values from 0 on in another unit, as named lines, with bars for intervals and crosses for
    theory.

    The names stand at the ends of the lines, or below the chart in the narrow form.
    """
    drawn = {name: line for name, line in lines.items() if line.points}
    words = textwrap.wrap(title, 48 if narrow else 105) or [""]
    top = 18 + 16 * len(words)
    most = (
        1.0 if unit == SHARE else 1.05 * max((high for line in drawn.values() for *_, high in line.points), default=1)
    )
    frame = Frame(46, top, NARROW - 8, top + 200, most) if narrow else Frame(46, top, 560, top + 234, most)
    ticks = sorted({x for line in drawn.values() for x, *_ in line.points}) or [0.0, 1.0]
    x = Axis(xlabel, ticks[0], ticks[-1], frame.left + 10, frame.right - 10)
    chart = Chart(title, frame, NARROW if narrow else 760)
    for at, line in enumerate(words):
        chart.heading(16 * (at + 1), line)
    if unit == SHARE:
        chart.ratio_grid()
    else:
        chart.value_grid()
    every = -(-len(ticks) // (8 if narrow else 14))
    for tick in ticks[::every] if drawn else ():
        chart.middle(x.at(tick), frame.bottom + 16, show(tick, 4))
    axis = textwrap.wrap(xlabel, 54 if narrow else 84) or [""]
    for at, line in enumerate(axis):
        chart.middle((frame.left + frame.right) / 2, frame.bottom + 34 + 14 * at, line)
    below = frame.bottom + 34 + 14 * len(axis)
    heights = [below + 8 + 16.0 * at for at in range(len(drawn))]
    if not narrow:
        heights = _spread([frame.y(line.points[-1][1]) + 4 for line in drawn.values()], 14)
    for at, ((name, estimates), height) in enumerate(zip(drawn.items(), heights, strict=True)):
        _draw_estimates(chart, name, estimates, at, x, unit)
        colour, left = SERIES_COLOURS[at % len(SERIES_COLOURS)], frame.left if narrow else frame.right + 14
        chart.mark(at, left, height - 4, colour, name)
        chart.text(left + 10, f"{height:.1f}", name, colour)
    return chart.finish(max([below, *(height + 8 for height in heights)]), ratio_plot(xlabel, drawn, unit))


def ratio_plot(xlabel: str, lines: Mapping[str, Estimates], unit: str = SHARE) -> Plot:
    """Return measured ratios with their intervals, and the crosses of theory, as numbers."""
    series = []
    for at, (name, line) in enumerate(lines.items()):
        series.append(Series(name, Mode.LINE, line.points, SERIES_COLOURS[at % len(SERIES_COLOURS)], mark=at))
        if line.theory:
            series.append(Series("", Mode.MARKS, line.theory, "ink", mark=CROSSES))
    down = PlotAxis(unit, 0, 1, shares=True) if unit == SHARE else PlotAxis(unit, 0)
    return Plot(PlotAxis(xlabel), down, series)


def _draw_estimates(chart: Chart, name: str, line: Estimates, at: int, x: Axis, unit: str) -> None:
    """Draw one series of ratios: its line, interval bars and marks, then the crosses of its theory."""
    colour, frame = SERIES_COLOURS[at % len(SERIES_COLOURS)], chart.frame
    chart.line("M" + "L".join(f"{x.at(a):.1f} {frame.y(b):.1f}" for a, b, _, _ in line.points), colour)
    for a, b, low, high in line.points:
        bar = f"M{x.at(a):.1f} {frame.y(high):.1f}V{frame.y(low):.1f}"
        chart.add(f'<path stroke="var(--{colour})" fill="none" d="{bar}"/>')
        chart.mark(at, x.at(a), frame.y(b), colour, f"{name}, {show(a, 4)}: {_range(b, low, high, unit)}")
    for a, b in line.theory:
        chart.add(
            f'<path stroke="var(--ink)" d="M{x.at(a) - 4:.1f} {frame.y(b) - 4:.1f}l8 8m0 -8l-8 8"><title>theory, '
            f"{escape(name)}, {show(a, 4)}: {b:.2%}</title></path>"
        )


def _range(value: float, low: float, high: float, unit: str) -> str:
    if unit == SHARE:
        return f"{value:.2%}, {low:.2%} to {high:.2%}"
    return f"{show(value, 4)}, {show(low, 4)} to {show(high, 4)}"


def _drawable(line: Points, *, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    return [(a, b) for a, b in line if (not log_x or a > 0) and (not log_y or b > 0)]


def _axis(
    title: str, values: Sequence[float], start: float, end: float, *, log: bool, zero: bool, only: Sequence[float] = ()
) -> Axis:
    low, high = min(values, default=1), max(values, default=1)
    if log:
        return Axis(title, low / 1.15, high * 1.15, start, end, log=True, only=only)
    if zero:
        return Axis(title, min(0, low), high * 1.04 or 1, start, end, only=only)
    room = (high - low) * 0.04 or 0.5
    return Axis(title, low - room, high + room, start, end, only=only)


def _grid(chart: Chart, x: Axis, y: Axis) -> None:
    right = chart.frame.right
    for value in y.ticks():
        at = y.at(value)
        chart.rule(f"M{LEFT} {at:.1f}H{right:.0f}")
        chart.end(LEFT - 6, f"{at + 4:.1f}", abbreviate(value))
    for value in x.ticks():
        at = x.at(value)
        chart.rule(f"M{at:.1f} {BOTTOM}v5")
        chart.middle(at, BOTTOM + 18, abbreviate(value))
    chart.rule(f"M{LEFT} {BOTTOM}H{right:.0f}")
    chart.middle((LEFT + right) / 2, BOTTOM + 38, x.title)
    chart.text(8, TOP - 8, y.title)


def _spread(heights: Sequence[float], apart: float) -> list[float]:
    """Return the heights in the given order, moved down where two of them would be closer than `apart`."""
    found = list(heights)
    last = float("-inf")
    for at in sorted(range(len(found)), key=lambda at: found[at]):
        last = found[at] = max(found[at], last + apart)
    return found
