"""Figures as SVG text: a few kinds of charts, drawn by hand from sequences of numbers.

Colours are CSS variables (the page gives them a light, a dark and a printed value) from the palette of Okabe and Ito and
from viridis, both readable with any colour vision; what matters is told by shape or text as well. Text is escaped here.
Long runs are cut into at most `MOST_BARS` bars, each the largest value of its steps, so that peaks stay visible.

Wide charts have a narrow form for small screens, whose letters stay as large as those of the text around them; a page
holds both (`responsive`) and shows one.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

MOST_BARS = 160
NARROW_BARS = 60
NARROW = 360
"""Width of charts for small screens: that of a phone's text, so that a unit is about a pixel."""
TITLED_BARS = 64
"""Up to so many bars each tells its value when pointed at."""

VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "ink": "#1d2733", "muted": "#5c6875", "grid": "#dfe4ea", "panel": "#f6f8fa",
    "blue": "#0072b2", "sky": "#56b4e9", "orange": "#c98500", "green": "#009e73", "red": "#d55e00", "grey": "#8a949e",
    "purple": "#b5679b",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "paper": "#12171d", "ink": "#e3e8ee", "muted": "#98a4b0", "grid": "#2b343e", "panel": "#1a2128",
    "blue": "#4da3dc", "sky": "#7cc6f0", "orange": "#e69f00", "green": "#2fbf95", "red": "#f07f33", "grey": "#77828d",
    "purple": "#cc79a7",
}  # fmt: skip

CSS = """
.chart text, .map text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
.chart text { font-size: 11px; fill: var(--muted); }
.chart .axis { stroke: var(--grid); fill: none; }
.chart .title { font-size: 12.5px; fill: var(--ink); font-weight: 600; }
.chart .fault { stroke: var(--red); stroke-dasharray: 3 2; fill: none; }
.chart .flag { fill: var(--red); stroke: none; }
.chart .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.chart .cursor { fill: var(--ink); opacity: .1; }
.chart .end { text-anchor: end; }
.chart .middle { text-anchor: middle; }
"""
RESPONSIVE_CSS = """
.chart.narrow { display: none; }
@media screen and (max-width: 640px) {
  .chart.full { display: none; }
  .chart.narrow { display: block; }
}
"""
"""For pages that hold wide charts in both forms."""


@dataclass(frozen=True)
class Bins:
    """Steps 1..`steps` in bars of `width` steps."""

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
        """The largest value in every bar."""
        return [max(values[at : at + self.width], default=0) for at in range(0, self.steps, self.width)]

    def span(self, bar: int) -> str:
        """The steps of a bar, for people."""
        first, last = bar * self.width + 1, min(self.steps, (bar + 1) * self.width)
        return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


@dataclass(frozen=True)
class Frame:
    """The inside of a chart: its edges and the largest value on its vertical axis."""

    left: float
    top: float
    right: float
    bottom: float
    most: float

    def y(self, value: float) -> float:
        """Height of a value."""
        return self.bottom - (self.bottom - self.top) * value / (self.most or 1)


def colour_variables() -> str:
    """CSS that gives every colour variable its value, on light and on dark pages; print is light."""

    def block(colours: Mapping[str, str]) -> str:
        return "".join(f"--{name}:{value};" for name, value in colours.items())

    light, dark = block(LIGHT), block(DARK)
    return (
        f":root{{color-scheme:light dark;{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )


def viridis(share: float) -> str:
    """Colour of 0 (dark) .. 1 (bright); the darkest part is left out, for dark pages."""
    at = (0.15 + 0.83 * min(1.0, max(0.0, share))) * (len(VIRIDIS) - 1)
    low = min(int(at), len(VIRIDIS) - 2)
    one, other = (tuple(int(VIRIDIS[i][k : k + 2], 16) for k in (1, 3, 5)) for i in (low, low + 1))
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(one, other, strict=True))


def number(value: float) -> str:
    """A number for people."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def step_bars(title: str, values: Sequence[float], colour: str, faults: Sequence[int] = ()) -> str:
    """One value a step, as bars; faults as dashed lines."""
    bins = Bins(len(values))
    bars = bins.of(values)
    frame = Frame(8, 33, 312, 108, max(bars, default=0))
    step = (frame.right - frame.left) / max(1, bins.count)
    wide = step * (0.8 if step > 4 else 1.0)
    body = [_baseline(frame), f'<text class="title" x="8" y="14">{escape(title)}</text>']
    body.append(f'<text class="end" x="312" y="27">at most {number(frame.most)}</text>')  # below a title of any length
    if bins.count <= TITLED_BARS:
        for bar, value in enumerate(bars):
            x, y = frame.left + bar * step + (step - wide) / 2, frame.y(value)
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{frame.bottom - y:.1f}" fill="var(--{colour})">'
                f"<title>{bins.span(bar)}: {number(value)}</title></rect>"
            )
    else:
        bars_path = "".join(
            f"M{frame.left + bar * step:.1f} {frame.bottom:.0f}V{frame.y(value):.1f}h{wide:.1f}V{frame.bottom:.0f}z"
            for bar, value in enumerate(bars)
            if value
        )
        body.append(f'<path d="{bars_path}" fill="var(--{colour})"/>')
    body += [_fault_lines(faults, len(values), frame), _step_axis(len(values), frame)]
    return _chart(320, 126, title, body, len(values), frame)


def responsive(draw: Callable[[bool], str]) -> str:
    """A chart in its wide and its narrow form; `draw` is told whether it is to be narrow."""
    return draw(False).replace('class="chart"', 'class="chart full"', 1) + draw(True).replace(
        'class="chart"', 'class="chart narrow"', 1
    )


def step_lines(
    title: str,
    lines: Mapping[str, tuple[str, Sequence[float]]],
    faults: Sequence[int] = (),
    most: float = 1.0,
    *,
    narrow: bool = False,
) -> str:
    """Shares (of `most`) after every step, as staircases with their names: name -> (colour, values)."""
    steps = max((len(values) for _, values in lines.values()), default=0)
    top = 24 + 16 * len(lines)
    frame = Frame(40, top, NARROW - 8, top + 150, most) if narrow else Frame(42, 14, 880, 190, most)
    body = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = frame.y(share * most)
        body.append(f'<path class="axis" d="M{frame.left} {y:.1f}H{frame.right}"/>')
        body.append(f'<text class="end" x="{frame.left - 6}" y="{y + 4:.1f}">{share:.0%}</text>')
    body.append(_fault_lines(faults, steps, frame))
    width = (frame.right - frame.left) / max(1, steps)
    ends = [frame.y(values[-1]) + 4 if values else frame.bottom for _, values in lines.values()]
    heights = [16.0 + 16 * order for order in range(len(lines))] if narrow else _spread(ends, 14)
    for order, ((name, (colour, values)), y) in enumerate(zip(lines.items(), heights, strict=True)):
        d = f"M{frame.left} {frame.bottom:.1f}" + "".join(_stairs(values, width, frame))
        dash = ' stroke-dasharray="6 3"' if order else ""
        body.append(f'<path class="line" stroke="var(--{colour})"{dash} d="{d}"/>')
        last = values[-1] / most if values else 0.0
        percent = f"{last:.1%}" if last < 1 else "100%"
        x = frame.left if narrow else frame.right + 8
        body.append(f'<text x="{x}" y="{y:.1f}" style="fill:var(--{colour})">{escape(name)} {percent}</text>')
    body.append(_step_axis(steps, frame))
    return _chart(NARROW if narrow else 1040, frame.bottom + 22, title, body, steps, frame)


def _stairs(values: Sequence[float], width: float, frame: Frame) -> list[str]:
    """A staircase; only the corners, and at most a few hundred of them."""
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
    every = max(1, -(-len(bars) * (6 * longest + 10) // 384))
    body = [_baseline(frame), f'<text class="title" x="8" y="14">{escape(title)}</text>']
    for at, (name, count) in enumerate(bars):
        x, y = frame.left + at * step + (step - wide) / 2, frame.y(count)
        if count:
            y = min(y, frame.bottom - 1.5)
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{frame.bottom - y:.1f}" fill="var(--{colour})">'
            f"<title>{escape(name)}: {count:,}</title></rect>"
        )
        middle = x + wide / 2
        if count and step > 26:
            body.append(f'<text class="middle" x="{middle:.1f}" y="{y - 4:.1f}">{count:,}</text>')
        if at % every == 0:
            body.append(f'<text class="middle" x="{middle:.1f}" y="{frame.bottom + 14}">{escape(name)}</text>')
    body.append(f'<text class="middle" x="200" y="{frame.bottom + 30}">{escape(xlabel)}</text>')
    return _chart(400, 186, title, body, 0, frame)


def heat_map(
    title: str, rows: Sequence[str], counts: Sequence[Sequence[float]], steps: int, *, narrow: bool = False
) -> str:
    """A row for each port and a column for each step (or a few of them), darker or brighter by how much it carries."""
    bins = Bins(steps, NARROW_BARS if narrow else MOST_BARS)
    total = NARROW if narrow else 1040
    table = [bins.of(row) for row in counts]
    height = max(6.0, min(22.0, 260 / max(1, len(rows))))
    frame = Frame(48, 26, total - 4, 26 + height * len(rows), 1)
    width = (frame.right - frame.left) / max(1, bins.count)
    most = max((value for row in table for value in row), default=0)
    body = [
        f'<text class="title" x="8" y="14">{escape(title)}</text>',
        f'<text class="end" x="{frame.right}" y="14">at most {number(most)}</text>',
    ]
    for at, (name, row) in enumerate(zip(rows, table, strict=True)):
        y = frame.top + at * height
        if height >= 12 or at % 2 == 0:
            body.append(f'<text class="end" x="42" y="{y + height / 2 + 4:.1f}">{escape(name)}</text>')
        for bar, value in enumerate(row):
            if value:
                body.append(
                    f'<rect x="{frame.left + bar * width:.1f}" y="{y:.1f}" width="{max(0.6, width - (width > 4)):.1f}" '
                    f'height="{height - 1:.1f}" fill="{viridis(value / most)}">'
                    f"<title>{escape(name)}, {bins.span(bar)}: {number(value)}</title></rect>"
                )
    body.append(_step_axis(steps, frame))
    return _chart(total, frame.bottom + 20, title, body, steps, frame)


def grouped_bars(title: str, groups: Mapping[str, Sequence[float | None]], names: Sequence[str]) -> str:
    """For each group a bar a name, as long as its share of the group's largest value; values beside the bars."""
    colours = ("blue", "orange", "green", "sky", "red", "grey")
    row, gap, top = 15, 14, 30 + 16 * len(names)
    height = top + sum(row * len(names) + gap for _ in groups) + 6
    longest = max((len(name) for name in groups), default=8)
    left = 20 + 6.3 * longest
    body = [f'<text class="title" x="8" y="16">{escape(title)}</text>']
    for at, name in enumerate(names):
        colour = colours[at % len(colours)]
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
            text = "-" if value is None else number(value)
            body.append(
                f'<rect x="{left:.0f}" y="{y:.1f}" width="{max(0.8, length):.1f}" height="{row - 3}" '
                f'fill="var(--{colours[at % len(colours)]})"/>'
                f'<text x="{left + length + 6:.1f}" y="{y + row - 5:.1f}">{text}</text>'
            )
            y += row
        y += gap
    return _chart(760, height, title, body, 0, Frame(0, 0, 0, 0, 1))


def stacked(figures: Sequence[str]) -> str:
    """Figures one above the other, as one."""
    boxes = [re.search(r'viewBox="0 0 (\d+) (\d+)"', figure) for figure in figures]
    sizes = [(int(box[1]), int(box[2])) for box in boxes if box]
    body, y = [], 0
    for figure, (width, height) in zip(figures, sizes, strict=True):
        body.append(figure.replace("<svg", f'<svg y="{y}" width="{width}" height="{height}"', 1))
        y += height + 12
    width = max(width for width, _ in sizes)
    return _chart(width, y, "figures", body, 0, Frame(0, 0, 0, 0, 1))


@dataclass(frozen=True)
class Curve:
    """A line over a number: what was measured with its interval, and beside it what theory says."""

    points: Sequence[tuple[float, float, float, float]]
    """(x, y, low, high), ascending."""
    theory: Sequence[tuple[float, float]] = ()


CURVE_COLOURS = ("blue", "orange", "green", "red", "purple", "sky", "grey")
MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3 -3h6v6h-6z",
    "M0 -4l4 7h-8z",
    "M0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
)


def curves(title: str, xlabel: str, lines: Mapping[str, Curve], *, narrow: bool = False) -> str:
    """Shares from 0 to 1 over a number, as named lines; intervals as bars, theory as crosses.

    Names stand on the right, or below in the narrow form.
    """
    drawn = {name: curve for name, curve in lines.items() if curve.points}
    words = textwrap.wrap(title, 48 if narrow else 105) or [""]
    top = 18 + 16 * len(words)
    frame = Frame(46, top, NARROW - 8, top + 200, 1.0) if narrow else Frame(46, top, 560, top + 234, 1.0)
    ticks = sorted({x for curve in drawn.values() for x, *_ in curve.points})
    first, last = (ticks[0], ticks[-1]) if ticks else (0.0, 1.0)

    def across(x: float) -> float:
        return frame.left + 10 + (frame.right - frame.left - 20) * (x - first) / ((last - first) or 1)

    body = [f'<text class="title" x="8" y="{16 * (at + 1)}">{escape(line)}</text>' for at, line in enumerate(words)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = frame.y(share)
        body.append(f'<path class="axis" d="M{frame.left} {y:.1f}H{frame.right}"/>')
        body.append(f'<text class="end" x="{frame.left - 6}" y="{y + 4:.1f}">{share:.0%}</text>')
    body += [
        f'<text class="middle" x="{across(x):.1f}" y="{frame.bottom + 16}">{number(x)}</text>'
        for x in ticks[:: max(1, -(-len(ticks) // (8 if narrow else 14)))]
    ]
    axis = textwrap.wrap(xlabel, 54 if narrow else 84) or [""]
    body += [
        f'<text class="middle" x="{(frame.left + frame.right) / 2}" y="{frame.bottom + 34 + 14 * at}">{escape(line)}</text>'
        for at, line in enumerate(axis)
    ]
    below = frame.bottom + 34 + 14 * len(axis)
    heights = [below + 8 + 16.0 * at for at in range(len(drawn))]
    if not narrow:
        heights = _spread([frame.y(curve.points[-1][1]) + 4 for curve in drawn.values()], 14)
    for at, ((name, curve), height) in enumerate(zip(drawn.items(), heights, strict=True)):
        places = [(across(x), x, y, low, high) for x, y, low, high in curve.points]
        body += _curve(name, places, at, frame)
        body += [
            f'<path stroke="var(--ink)" d="M{across(x) - 4:.1f} {frame.y(y) - 4:.1f}l8 8m0 -8l-8 8"><title>theory, '
            f"{escape(name)}, {number(x)}: {y:.2%}</title></path>"
            for x, y in curve.theory
        ]
        colour, left = f"var(--{CURVE_COLOURS[at % len(CURVE_COLOURS)]})", frame.left if narrow else frame.right + 14
        body.append(
            f'<g transform="translate({left} {height - 4:.1f})"><path fill="{colour}" d="{MARKERS[at % len(MARKERS)]}"/></g>'
            f'<text x="{left + 10}" y="{height:.1f}" style="fill:{colour}">{escape(name)}</text>'
        )
    height = max([below, *(height + 8 for height in heights)])
    return _chart(NARROW if narrow else 760, height, title, body, 0, frame)


def _curve(name: str, places: Sequence[tuple[float, float, float, float, float]], at: int, frame: Frame) -> list[str]:
    """A line with its markers and intervals; places are (pixel, x, y, low, high)."""
    colour, marker = f"var(--{CURVE_COLOURS[at % len(CURVE_COLOURS)]})", MARKERS[at % len(MARKERS)]
    path = "L".join(f"{pixel:.1f} {frame.y(y):.1f}" for pixel, _, y, _, _ in places)
    return [
        f'<path class="line" stroke="{colour}" d="M{path}"/>',
        *(
            f'<g transform="translate({pixel:.1f} {frame.y(y):.1f})"><title>{escape(name)}, {number(x)}: {y:.2%}, '
            f'{low:.2%} to {high:.2%}</title><path stroke="{colour}" fill="none" '
            f'd="M0 {frame.y(high) - frame.y(y):.1f}V{frame.y(low) - frame.y(y):.1f}"/>'
            f'<path fill="{colour}" d="{marker}"/></g>'
            for pixel, x, y, low, high in places
        ),
    ]


def _spread(heights: Sequence[float], apart: float) -> list[float]:
    """The same heights, moved down where they would stand closer than `apart`; in the order given."""
    found = list(heights)
    last = float("-inf")
    for at in sorted(range(len(found)), key=lambda at: found[at]):
        last = found[at] = max(found[at], last + apart)
    return found


def standalone(figure: str) -> str:
    """A figure as an SVG file of its own, in the light colours and on a white ground."""
    css = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], CSS)
    figure = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], figure)
    head, _, rest = figure.partition(">")
    _, _, width, height = re.search(r'viewBox="([^"]*)"', head)[1].split()  # type: ignore[index]
    return (
        f'{head} xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><style>{css}</style>'
        f'<rect width="{width}" height="{height}" fill="{LIGHT["paper"]}"/>{rest}\n'
    )


def _chart(width: float, height: float, title: str, body: Sequence[str], steps: int, frame: Frame) -> str:
    cursor = ""
    if steps:
        cursor = (
            f'<rect class="cursor" data-left="{frame.left}" data-right="{frame.right}" data-steps="{steps}" x="0" '
            f'y="{frame.top}" width="0" height="{frame.bottom - frame.top:.1f}"/>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(body)}{cursor}</svg>"
    )


def _baseline(frame: Frame) -> str:
    return f'<path class="axis" d="M{frame.left} {frame.bottom}H{frame.right}"/>'


def _step_axis(steps: int, frame: Frame) -> str:
    """Numbers of the first, the middle and the last step below the middle of their bars."""
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
    """A dashed line at the beginning of each step in which something breaks, with a flag on top."""
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
