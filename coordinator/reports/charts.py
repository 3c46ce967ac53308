"""Every kind of chart, as SVG text drawn from sequences of numbers.

A chart takes no other input than numbers and names, and escapes the names itself. Long runs are cut into at most
`MOST_BARS` bars; each bar is the largest value of its steps, so that peaks stay visible.

Wide charts have a narrow form for small screens, whose letters are as large as the text around them. A page holds both
(`theme.responsive`) and shows one.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from coordinator.reports.numbers import abbreviate, show

MOST_BARS = 160
NARROW_BARS = 60
NARROW = 360
"""Width of charts for small screens: about the width of a phone in pixels, so that a unit is about a pixel."""
LETTER = 6.8
"""Width of a letter."""
MOST_LETTERS = 40
NARROW_LETTERS = 17
"""Letters of the name of a row; the page tells longer names apart by their ends."""
TITLED_BARS = 64
"""Bars have tooltips up to this number of bars; beyond it they are one path."""
RATIOS = (0, 0.25, 0.5, 0.75, 1)
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
        """The largest value of each bar."""
        return [max(values[at : at + self.width], default=0) for at in range(0, self.steps, self.width)]

    def span(self, bar: int) -> str:
        """The steps of a bar in words."""
        first, last = bar * self.width + 1, min(self.steps, (bar + 1) * self.width)
        return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


@dataclass(frozen=True)
class Frame:
    """The plotting area in pixels, and the largest value on its vertical axis."""

    left: float
    top: float
    right: float
    bottom: float
    most: float

    def y(self, value: float) -> float:
        """Pixel of a value."""
        return self.bottom - (self.bottom - self.top) * value / (self.most or 1)


# --- charts over steps, and bars -------------------------------------------------------------------------------------


def step_bars(title: str, values: Sequence[float], colour: str, faults: Sequence[int] = ()) -> str:
    """One value per step as bars, with dashed lines at faults."""
    bins = Bins(len(values))
    bars = bins.of(values)
    frame = Frame(8, 33, 312, 108, max(bars, default=0))
    step = (frame.right - frame.left) / max(1, bins.count)
    wide = step * (0.8 if step > 4 else 1.0)
    body = [_baseline(frame), chart_title(title, 14)]
    body.append(f'<text class="end" x="312" y="27">at most {show(frame.most, 4)}</text>')  # below a title of any length
    if bins.count <= TITLED_BARS:
        for bar, value in enumerate(bars):
            x, y = frame.left + bar * step + (step - wide) / 2, frame.y(value)
            body.append(_bar(x, y, wide, frame.bottom, colour, f"{bins.span(bar)}: {show(value, 4)}"))
    else:
        bars_path = "".join(
            f"M{frame.left + bar * step:.1f} {frame.bottom:.0f}V{frame.y(value):.1f}h{wide:.1f}V{frame.bottom:.0f}z"
            for bar, value in enumerate(bars)
            if value
        )
        body.append(f'<path d="{bars_path}" fill="var(--{colour})"/>')
    body += [_fault_lines(faults, len(values), frame), step_axis(len(values), frame)]
    return chart_svg(320, 126, title, [*body, chart_cursor(len(values), frame)])


def step_lines(
    title: str,
    lines: Mapping[str, tuple[str, Sequence[float]]],
    faults: Sequence[int] = (),
    most: float = 1.0,
    *,
    narrow: bool = False,
) -> str:
    """Shares of `most` after every step as named staircases: name -> (colour, values)."""
    steps = max((len(values) for _, values in lines.values()), default=0)
    top = 24 + 16 * len(lines)
    frame = Frame(40, top, NARROW - 8, top + 150, most) if narrow else Frame(42, 14, 880, 190, most)
    body = [*_ratio_grid(frame), _fault_lines(faults, steps, frame)]
    width = (frame.right - frame.left) / max(1, steps)
    ends = [frame.y(values[-1]) + 4 if values else frame.bottom for _, values in lines.values()]
    heights = [16.0 + 16 * order for order in range(len(lines))] if narrow else _spread(ends, 14)
    for order, ((name, (colour, values)), y) in enumerate(zip(lines.items(), heights, strict=True)):
        d = f"M{frame.left} {frame.bottom:.1f}" + "".join(_stairs(values, width, frame))
        body.append(_line(d, colour, DASHES[min(order, 1)]))
        last = values[-1] / most if values else 0.0
        percent = f"{last:.1%}" if last < 1 else "100%"
        x = frame.left if narrow else frame.right + 8
        body.append(f'<text x="{x}" y="{y:.1f}" style="fill:var(--{colour})">{escape(name)} {percent}</text>')
    body.append(step_axis(steps, frame))
    return chart_svg(NARROW if narrow else 1040, frame.bottom + 22, title, [*body, chart_cursor(steps, frame)])


def _stairs(values: Sequence[float], width: float, frame: Frame) -> list[str]:
    """The corners of a staircase, at most a few hundred."""
    parts, last, every = [], None, max(1, len(values) // 600)
    for step, value in enumerate(values):
        if value != last and (step % every == 0 or step == len(values) - 1):
            parts.append(f"H{frame.left + step * width:.1f}V{frame.y(value):.1f}")
            last = value
    return [*parts, f"H{frame.right}"]


def histogram(title: str, bars: Sequence[tuple[str, int]], colour: str, xlabel: str) -> str:
    """Named bars with their counts above them, on a linear axis."""
    frame = Frame(8, 40, 392, 150, max((count for _, count in bars), default=0))
    step = (frame.right - frame.left) / max(1, len(bars))
    wide = min(64.0, step * 0.72)
    longest = max((len(name) for name, _ in bars), default=1)
    # A letter is about 6 units wide; names that do not fit are skipped evenly.
    every = max(1, -(-len(bars) * (6 * longest + 10) // 384))
    body = [_baseline(frame), chart_title(title, 14)]
    for at, (name, count) in enumerate(bars):
        x, y = frame.left + at * step + (step - wide) / 2, frame.y(count)
        if count:
            y = min(y, frame.bottom - 1.5)  # a count of one stays visible beside thousands
        body.append(_bar(x, y, wide, frame.bottom, colour, f"{name}: {count:,}"))
        middle = x + wide / 2
        if count and step > 26:
            body.append(_middle(middle, round(y - 4, 1), f"{count:,}"))
        if at % every == 0:
            body.append(_middle(middle, frame.bottom + 14, name))
    body.append(_middle(200, frame.bottom + 30, xlabel))
    return chart_svg(400, 186, title, body)


def grouped_bars(title: str, groups: Mapping[str, Sequence[float | None]], names: Sequence[str]) -> str:
    """Per group, one bar per name, scaled to the largest value of the group, with the value beside it."""
    row, gap, top = 15, 14, 30 + 16 * len(names)
    height = top + sum(row * len(names) + gap for _ in groups) + 6
    longest = max((len(name) for name in groups), default=8)
    left = 20 + 6.3 * longest
    body = [chart_title(title, 16)]
    for at, name in enumerate(names):
        colour = BAR_COLOURS[at % len(BAR_COLOURS)]
        body.append(f'<rect x="8" y="{24 + 16 * at}" width="10" height="10" fill="var(--{colour})"/>')
        body.append(f'<text x="24" y="{33 + 16 * at}">{escape(name)}</text>')
    y = float(top)
    for group, values in groups.items():
        most = max((value for value in values if value is not None), default=0) or 1
        body.append(
            f'<text class="end" x="{left - 8:.0f}" y="{y + row * len(names) / 2 + 4:.1f}">{escape(group)}</text>'
        )
        for at, value in enumerate(values):
            length = (640 - left) * (value or 0) / most
            text = "-" if value is None else show(value, 4)
            body.append(
                f'<rect x="{left:.0f}" y="{y:.1f}" width="{max(0.8, length):.1f}" height="{row - 3}" '
                f'fill="var(--{BAR_COLOURS[at % len(BAR_COLOURS)]})"/>'
                f'<text x="{left + length + 6:.1f}" y="{y + row - 5:.1f}">{text}</text>'
            )
            y += row
        y += gap
    return chart_svg(760, height, title, body)


# --- curves ----------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 760, 380
LEFT, TOP, BOTTOM = 64, 40, 328


class Held(NamedTuple):
    """A prediction, drawn as a line, and the measurements it is held against, drawn as marks."""

    predicted: Points
    measured: Points


@dataclass(frozen=True)
class Estimates:
    """Measured ratios with their intervals, and what theory expects."""

    points: Sequence[tuple[float, float, float, float]]
    """(x, y, low, high), ascending in x."""
    theory: Points = ()


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic mapping from values to pixels."""

    title: str
    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""
    log: bool = False
    only: Sequence[float] = field(default=())
    """Tick values; by default round values."""
    few: bool = False
    """About three ticks on a linear axis, not five."""

    def at(self, value: float) -> float:
        """Pixel of a value; a logarithmic axis shows values that are not positive at its start."""
        if self.log:
            if value <= 0:
                return self.start
            share = (log10(value) - log10(self.low)) / ((log10(self.high) - log10(self.low)) or 1)
        else:
            share = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """About five tick values, or three."""
        if self.only:
            return list(self.only)
        if self.log:
            powers = range(floor(log10(self.low)), floor(log10(self.high)) + 1)
            every = max(1, len(powers) // 6)
            marks = (1, 2, 5) if len(powers) <= 3 else (1,)
            found = [10.0**power * mark for power in powers[::every] for mark in marks]
            within = [value for value in found if self.low <= value <= self.high]
            if len(within) > 1:
                return within
        step = _round_step((self.high - self.low) / (3 if self.few else 5))
        return [step * k for k in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


def milliseconds(last: float, start: float, end: float, *, narrow: bool) -> Axis:
    """The axis of times from 0 to `last` seconds."""
    return Axis("milliseconds", 0.0, 1000 * last, start, end, few=narrow)


def time_axis(axis: Axis, bottom: float) -> Iterable[str]:
    """The ticks of an axis of times below a chart, and its unit."""
    for tick in axis.ticks():
        yield _middle(axis.at(tick), bottom + 14, show(round(tick, 10), 4))
    yield f'<text class="end" x="{axis.end:.0f}" y="{bottom + 28}">{axis.title}</text>'


def curves(
    title: str,
    lines: Mapping[str, Points | Held],
    xlabel: str,
    ylabel: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    only_x: Sequence[float] = (),
    dots: Sequence[str] = (),
) -> str:
    """Named series as lines with marked points; those named in `dots` have marks only.

    Series differ in marks and dashes as well as in colour. A logarithmic axis leaves out values that are not positive.
    `only_x` lists the values to print along the x axis.
    """
    held = {name: line if isinstance(line, Held) else Held(line, line) for name, line in lines.items()}
    drawn = {name: _drawable(line.predicted, log_x=log_x, log_y=log_y) for name, line in held.items()}
    points = {name: _drawable(line.measured, log_x=log_x, log_y=log_y) for name, line in held.items()}
    every = [point for series in (drawn, points) for line in series.values() for point in line]
    right = WIDTH - 46 - max((6.1 * len(name) for name in lines), default=0)
    x = _axis(xlabel, [a for a, _ in every], LEFT, right, log=log_x, zero=False, only=only_x)
    y = _axis(ylabel, [b for _, b in every], BOTTOM, TOP, log=log_y, zero=True)
    body = [chart_title(title, 16), *_grid(x, y, right)]
    for at, (name, line) in enumerate(drawn.items()):
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        legend_y = TOP + 18 * at
        if name not in dots and line:
            dash = DASHES[at % len(DASHES)]
            path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in line)
            body += [_line(d, colour, dash) for d in (f"M{path}", f"M{right + 8:.0f} {legend_y}h22")]
        marks = [(x.at(a), y.at(b), f"{name}: {show(a, 4)}, {show(b, 4)}") for a, b in points[name]]
        if marks:
            marks.append((right + 19, legend_y, name))
        body += [_mark(at, px, py, colour, tip) for px, py, tip in marks]
        body.append(f'<text x="{right + 36:.0f}" y="{legend_y + 4}">{escape(name)}</text>')
    return chart_svg(WIDTH, HEIGHT, title, body, css="chart roomy")


def ratio_curves(title: str, xlabel: str, lines: Mapping[str, Estimates], *, narrow: bool = False) -> str:
    """Ratios from 0 to 1 as named lines, with bars for intervals and crosses for theory.

    The names stand at the ends of the lines, or below the chart in the narrow form.
    """
    drawn = {name: line for name, line in lines.items() if line.points}
    words = textwrap.wrap(title, 48 if narrow else 105) or [""]
    top = 18 + 16 * len(words)
    frame = Frame(46, top, NARROW - 8, top + 200, 1.0) if narrow else Frame(46, top, 560, top + 234, 1.0)
    ticks = sorted({x for line in drawn.values() for x, *_ in line.points}) or [0.0, 1.0]
    x = Axis(xlabel, ticks[0], ticks[-1], frame.left + 10, frame.right - 10)
    body = [chart_title(line, 16 * (at + 1)) for at, line in enumerate(words)]
    body += _ratio_grid(frame)
    every = -(-len(ticks) // (8 if narrow else 14))
    body += [_middle(x.at(tick), frame.bottom + 16, show(tick, 4)) for tick in (ticks[::every] if drawn else ())]
    axis = textwrap.wrap(xlabel, 54 if narrow else 84) or [""]
    body += [_middle((frame.left + frame.right) / 2, frame.bottom + 34 + 14 * at, line) for at, line in enumerate(axis)]
    below = frame.bottom + 34 + 14 * len(axis)
    heights = [below + 8 + 16.0 * at for at in range(len(drawn))]
    if not narrow:
        heights = _spread([frame.y(line.points[-1][1]) + 4 for line in drawn.values()], 14)
    for at, ((name, line), height) in enumerate(zip(drawn.items(), heights, strict=True)):
        body += _estimates(name, line, at, x, frame)
        colour, left = SERIES_COLOURS[at % len(SERIES_COLOURS)], frame.left if narrow else frame.right + 14
        body.append(_mark(at, left, height - 4, colour, name))
        body.append(f'<text x="{left + 10}" y="{height:.1f}" style="fill:var(--{colour})">{escape(name)}</text>')
    height = max([below, *(height + 8 for height in heights)])
    return chart_svg(NARROW if narrow else 760, height, title, body)


def _estimates(name: str, line: Estimates, at: int, x: Axis, frame: Frame) -> Iterable[str]:
    """One series of ratios: its line, interval bars and marks, then the crosses of its theory."""
    colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
    yield _line("M" + "L".join(f"{x.at(a):.1f} {frame.y(b):.1f}" for a, b, _, _ in line.points), colour)
    for a, b, low, high in line.points:
        bar = f"M{x.at(a):.1f} {frame.y(high):.1f}V{frame.y(low):.1f}"
        yield f'<path stroke="var(--{colour})" fill="none" d="{bar}"/>'
        tip = f"{name}, {show(a, 4)}: {b:.2%}, {low:.2%} to {high:.2%}"
        yield _mark(at, x.at(a), frame.y(b), colour, tip)
    for a, b in line.theory:
        yield (
            f'<path stroke="var(--ink)" d="M{x.at(a) - 4:.1f} {frame.y(b) - 4:.1f}l8 8m0 -8l-8 8"><title>theory, '
            f"{escape(name)}, {show(a, 4)}: {b:.2%}</title></path>"
        )


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


def _grid(x: Axis, y: Axis, right: float) -> list[str]:
    body = []
    for value in y.ticks():
        at = y.at(value)
        body.append(f'<path class="axis" d="M{LEFT} {at:.1f}H{right:.0f}"/>')
        body.append(f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{abbreviate(value)}</text>')
    for value in x.ticks():
        at = x.at(value)
        body.append(f'<path class="axis" d="M{at:.1f} {BOTTOM}v5"/>')
        body.append(_middle(at, BOTTOM + 18, abbreviate(value)))
    body.append(f'<path class="axis" d="M{LEFT} {BOTTOM}H{right:.0f}"/>')
    body.append(_middle((LEFT + right) / 2, BOTTOM + 38, x.title))
    body.append(f'<text x="8" y="{TOP - 8}">{escape(y.title)}</text>')
    return body


def _mark(at: int, x: float, y: float, colour: str, tip: str) -> str:
    """The mark of series number `at`: a circle, a square, a triangle or a diamond."""
    style = f'fill="var(--{colour})"><title>{escape(tip)}</title>'
    match at % 4:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" {style}</circle>'
        case 1:
            return f'<rect x="{x - 3.3:.1f}" y="{y - 3.3:.1f}" width="6.6" height="6.6" {style}</rect>'
        case 2:
            return f'<path d="M{x:.1f} {y - 4.4:.1f}l4.4 7.6h-8.8z" {style}</path>'
    return f'<path d="M{x:.1f} {y - 4.8:.1f}l4.8 4.8l-4.8 4.8l-4.8 -4.8z" {style}</path>'


def _round_step(size: float) -> float:
    """The smallest of 1, 2, 5 and 10 times a power of ten that is at least `size`."""
    power = 10.0 ** floor(log10(size)) if size > 0 else 1.0
    return next(power * mark for mark in (1, 2, 5, 10) if power * mark >= size * (1 - 1e-9))


# --- parts of charts -------------------------------------------------------------------------------------------------


def _spread(heights: Sequence[float], apart: float) -> list[float]:
    """The heights in the given order, moved down where they would be closer than `apart`."""
    found = list(heights)
    last = float("-inf")
    for at in sorted(range(len(found)), key=lambda at: found[at]):
        last = found[at] = max(found[at], last + apart)
    return found


def chart_svg(width: float, height: float, title: str, body: Iterable[str], css: str = "chart") -> str:
    return (
        f'<svg class="{css}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(body)}</svg>"
    )


def shortened(name: str, *, narrow: bool) -> str:
    """The name of a row, its middle left out if it would take the place of the chart."""
    most = NARROW_LETTERS if narrow else MOST_LETTERS
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1) :]}"


def chart_cursor(steps: int, frame: Frame) -> str:
    """The bar that the script of the page moves to the chosen step."""
    if not steps:
        return ""
    return (
        f'<rect class="cursor" data-left="{frame.left}" data-right="{frame.right}" data-steps="{steps}" x="0" '
        f'y="{frame.top}" width="0" height="{frame.bottom - frame.top:.1f}"/>'
    )


def _bar(x: float, y: float, width: float, bottom: float, colour: str, tip: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{bottom - y:.1f}"'
    return f'<rect {place} fill="var(--{colour})"><title>{escape(tip)}</title></rect>'


def chart_title(text: str, y: float) -> str:
    return f'<text class="title" x="8" y="{y}">{escape(text)}</text>'


def _middle(x: float, y: float, text: str) -> str:
    return f'<text class="middle" x="{x:.1f}" y="{y}">{escape(text)}</text>'


def _line(path: str, colour: str, dash: str = "") -> str:
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="line" stroke="var(--{colour})"{style} d="{path}"/>'


def _ratio_grid(frame: Frame) -> Iterable[str]:
    """A horizontal line with its percentage at every quarter."""
    for ratio in RATIOS:
        y = frame.y(ratio * frame.most)
        yield f'<path class="axis" d="M{frame.left} {y:.1f}H{frame.right}"/>'
        yield f'<text class="end" x="{frame.left - 6}" y="{y + 4:.1f}">{ratio:.0%}</text>'


def _baseline(frame: Frame) -> str:
    return f'<path class="axis" d="M{frame.left} {frame.bottom}H{frame.right}"/>'


def step_axis(steps: int, frame: Frame) -> str:
    """Step numbers below their bars: all of them, or the first, the middle and the last where space is short."""
    if not steps:
        return f'<text x="{frame.left}" y="{frame.bottom + 14}">no steps</text>'
    width = (frame.right - frame.left) / steps
    wanted = range(1, steps + 1) if width >= 24 else sorted({1, (steps + 1) // 2, steps})
    return "".join(
        f'<text class="{"middle" if step > 1 or width > 12 else ""}" '
        f'x="{min(frame.left + (step - 0.5) * width, frame.right - 4 * len(str(step))):.1f}" '
        f'y="{frame.bottom + 14:.1f}">{step:,}</text>'
        for step in wanted
    )


def _fault_lines(faults: Sequence[int], steps: int, frame: Frame) -> str:
    """A flagged, dashed line at the beginning of each step in which a fault begins."""
    if not steps:
        return ""
    width = (frame.right - frame.left) / steps
    parts = []
    for step in sorted(set(faults)):
        x = frame.left + (min(step, steps + 1) - 1) * width
        parts.append(
            f"<g><title>fault at the beginning of step {step:,}</title>"
            f'<path class="fault" d="M{x:.1f} {frame.top}V{frame.bottom:.1f}"/>'
            f'<path class="flag" d="M{x - 4:.1f} {frame.top - 7}h8l-4 7z"/></g>'
        )
    return "".join(parts[:200])
