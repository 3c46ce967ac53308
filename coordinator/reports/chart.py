"""A chart as SVG text: a plotting area, the axes around it, and the marks in it.

Every chart of `charts` and `heat_chart`, and the diagram of space and time, is one `Chart`. Texts from files are
escaped here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import Final

from coordinator.reports.numbers import show
from coordinator.reports.plot import Mode, Plot, Series

NARROW: Final = 360
"""Width of charts for small screens: about the width of a phone in pixels, so that a unit is about a pixel."""
LETTER: Final = 6.8
"""Width of a letter."""
MOST_LETTERS: Final = 40
NARROW_LETTERS: Final = 17
"""Letters of the name of a row; the page tells longer names apart by their ends."""
RATIOS: Final = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True)
class Frame:
    """The plotting area in pixels, and the largest value on its vertical axis."""

    left: float
    top: float
    right: float
    bottom: float
    most: float = 1

    def y(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.bottom - (self.bottom - self.top) * value / (self.most or 1)


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
        """Return the pixel of a value; a logarithmic axis shows values that are not positive at its start."""
        if self.log:
            if value <= 0:
                return self.start
            share = (log10(value) - log10(self.low)) / ((log10(self.high) - log10(self.low)) or 1)
        else:
            share = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Return about five tick values, or three."""
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


def _round_step(size: float) -> float:
    """Return the smallest of 1, 2, 5 and 10 times a power of ten that is at least `size`."""
    power = 10.0 ** floor(log10(size)) if size > 0 else 1.0
    return next(power * mark for mark in (1, 2, 5, 10) if power * mark >= size * (1 - 1e-9))


def milliseconds(last: float, start: float, end: float, *, narrow: bool) -> Axis:
    """Return the axis of times from 0 to `last` seconds."""
    return Axis("milliseconds", 0.0, 1000 * last, start, end, few=narrow)


def shortened(name: str, *, narrow: bool) -> str:
    """Return the name of a row, its middle left out if it would take the place of the chart."""
    most = NARROW_LETTERS if narrow else MOST_LETTERS
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1) :]}"


DrawChart = Callable[[bool], "Chart"]
"""Draws a chart; the argument says whether in its narrow form."""


def responsive(draw: DrawChart) -> str:
    """Draw a chart in its wide and its narrow form, of which the page shows one."""
    return draw(False).svg.replace('class="chart"', 'class="chart full"', 1) + draw(True).svg.replace(
        'class="chart"', 'class="chart narrow"', 1
    )


def fault_strokes(faults: Iterable[int], steps: int, most: float) -> list[Series]:
    """Return a dashed line at the beginning of each step in which a fault begins, up to `most`."""
    places = [min(step, steps + 1) - 0.5 for step in sorted(set(faults))] if steps else []
    strokes = [(x, 0.0, x, most) for x in places]
    return [Series("fault", Mode.STROKES, strokes, "red", "3 2")] if strokes else []


class Chart:
    """A chart under construction; later elements lie above earlier ones."""

    def __init__(self, title: str, frame: Frame, width: float, css: str = "chart") -> None:
        self.title, self.frame, self.width, self.css = title, frame, width, css
        self.body: list[str] = []
        self.height = 0.0
        self.attributes = ""
        """Attributes of the element for the script of a page."""
        self.plot: Plot | None = None
        """The numbers of the chart."""

    def finish(self, height: float, plot: Plot) -> "Chart":
        """Set the height and the numbers of the chart, and return it."""
        self.height, self.plot = height, plot
        return self

    @property
    def svg(self) -> str:
        """The chart as an element."""
        return (
            f'<svg {self.attributes}class="{self.css}" viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" '
            f'aria-label="{escape(self.title)}">{"".join(self.body)}</svg>'
        )

    def add(self, *parts: str) -> None:
        """Add elements."""
        self.body += parts

    # --- text ------------------------------------------------------------------------------------------------------

    def heading(self, y: float, text: str | None = None) -> None:
        """Write the title, or a line of it."""
        self.add(f'<text class="title" x="8" y="{y}">{escape(self.title if text is None else text)}</text>')

    def middle(self, x: float, y: float, text: str) -> None:
        """Write a text around a point."""
        self.add(f'<text class="middle" x="{x:.1f}" y="{y}">{escape(text)}</text>')

    def end(self, x: float | str, y: float | str, text: str) -> None:
        """Write a text that ends at a point."""
        self.add(f'<text class="end" x="{x}" y="{y}">{escape(text)}</text>')

    def text(self, x: float | str, y: float | str, text: str, colour: str | None = None) -> None:
        """Write a text from a point on."""
        style = f' style="fill:var(--{colour})"' if colour else ""
        self.add(f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>')

    def row_names(self, names: Sequence[str], height: float, every: int = 1) -> None:
        """Write the names of rows of this height to the left of the plotting area."""
        for at, name in enumerate(names):
            if at % every == 0:
                self.end(self.frame.left - 6, f"{self.frame.top + (at + 0.5) * height + 4:.1f}", name)

    # --- marks -----------------------------------------------------------------------------------------------------

    def line(self, path: str, colour: str, dash: str = "") -> None:
        """Draw a line along a path."""
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<path class="line" stroke="var(--{colour})"{style} d="{path}"/>')

    def bar(self, x: float, y: float, width: float, bottom: float, colour: str, tip: str) -> None:
        """Draw a bar that stands at `bottom`."""
        self.box(x, y, width, bottom - y, f"var(--{colour})", tip)

    def box(self, x: float, y: float, width: float, height: float, fill: str, tip: str) -> None:
        """Draw a rectangle with a tooltip."""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.add(f'<rect {place} fill="{fill}"><title>{escape(tip)}</title></rect>')

    def mark(self, at: int, x: float, y: float, colour: str, tip: str) -> None:
        """Draw the mark of series number `at`: a circle, a square, a triangle or a diamond."""
        style = f'fill="var(--{colour})"><title>{escape(tip)}</title>'
        match at % 4:
            case 0:
                self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" {style}</circle>')
            case 1:
                self.add(f'<rect x="{x - 3.3:.1f}" y="{y - 3.3:.1f}" width="6.6" height="6.6" {style}</rect>')
            case 2:
                self.add(f'<path d="M{x:.1f} {y - 4.4:.1f}l4.4 7.6h-8.8z" {style}</path>')
            case _:
                self.add(f'<path d="M{x:.1f} {y - 4.8:.1f}l4.8 4.8l-4.8 4.8l-4.8 -4.8z" {style}</path>')

    # --- axes ------------------------------------------------------------------------------------------------------

    def rule(self, path: str) -> None:
        """Draw a line of an axis or a grid."""
        self.add(f'<path class="axis" d="{path}"/>')

    def baseline(self) -> None:
        """Draw the bottom of the plotting area."""
        self.rule(f"M{self.frame.left} {self.frame.bottom}H{self.frame.right}")

    def ratio_grid(self) -> None:
        """Draw a horizontal line with its percentage at every quarter."""
        frame = self.frame
        for ratio in RATIOS:
            y = frame.y(ratio * frame.most)
            self.rule(f"M{frame.left} {y:.1f}H{frame.right}")
            self.end(frame.left - 6, f"{y + 4:.1f}", f"{ratio:.0%}")

    def value_grid(self) -> None:
        """Draw a horizontal line at every round value up to the largest."""
        frame = self.frame
        for value in Axis("", 0.0, frame.most, frame.bottom, frame.top).ticks():
            y = frame.y(value)
            self.rule(f"M{frame.left} {y:.1f}H{frame.right}")
            self.end(frame.left - 6, f"{y + 4:.1f}", show(round(value, 10), 4))

    def time_axis(self, axis: Axis) -> None:
        """Write the ticks of an axis of times below the plotting area, and its unit."""
        bottom = self.frame.bottom
        for tick in axis.ticks():
            self.middle(axis.at(tick), bottom + 14, show(round(tick, 10), 4))
        self.end(f"{axis.end:.0f}", bottom + 28, axis.title)

    def step_axis(self, steps: int) -> None:
        """Write step numbers below their bars: all of them, or the first, the middle and the last where space is short."""
        frame = self.frame
        if not steps:
            self.text(frame.left, frame.bottom + 14, "no steps")
            return
        width = (frame.right - frame.left) / steps
        wanted = range(1, steps + 1) if width >= 24 else sorted({1, (steps + 1) // 2, steps})
        self.add(*(
            f'<text class="{"middle" if step > 1 or width > 12 else ""}" '
            f'x="{min(frame.left + (step - 0.5) * width, frame.right - 4 * len(str(step))):.1f}" '
            f'y="{frame.bottom + 14:.1f}">{step:,}</text>'
            for step in wanted
        ))  # fmt: skip

    def cursor(self, steps: int) -> None:
        """Add the bar that the script of the page moves to the chosen step."""
        frame = self.frame
        if steps:
            self.add(
                f'<rect class="cursor" data-left="{frame.left}" data-right="{frame.right}" data-steps="{steps}" x="0" '
                f'y="{frame.top}" width="0" height="{frame.bottom - frame.top:.1f}"/>'
            )

    def fault_lines(self, faults: Iterable[int], steps: int) -> None:
        """Draw a flagged, dashed line at the beginning of each step when a fault begins."""
        frame = self.frame
        width = (frame.right - frame.left) / max(1, steps)
        for step in sorted(set(faults))[:200] if steps else ():
            x = frame.left + (min(step, steps + 1) - 1) * width
            self.add(
                f"<g><title>fault at the beginning of step {step:,}</title>"
                f'<path class="fault" d="M{x:.1f} {frame.top}V{frame.bottom:.1f}"/>'
                f'<path class="flag" d="M{x - 4:.1f} {frame.top - 7}h8l-4 7z"/></g>'
            )
