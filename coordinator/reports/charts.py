"""Curves over a number: one line a series, points marked, on linear or logarithmic axes; SVG like that of `plots`.

What a paper printed and what was measured are told apart by marks and dashes, not by colour alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from coordinator.reports.plots import number

COLOURS = ("blue", "orange", "green", "purple", "red", "sky", "grey")
DASHES = ("", "6 3", "2 3", "9 3 2 3")
WIDTH, HEIGHT = 760, 380
LEFT, TOP, BOTTOM = 64, 40, 328

Points = Sequence[tuple[float, float]]


class Held(NamedTuple):
    """A prediction, and the measurement it is held against."""

    predicted: Points
    measured: Points


@dataclass(frozen=True)
class Axis:
    """Values mapped to pixels."""

    title: str
    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""
    log: bool = False
    only: Sequence[float] = field(default=())
    """Values to name, in place of round ones."""

    def at(self, value: float) -> float:
        """Pixel of a value; of what cannot be on a logarithmic axis, the start."""
        if self.log:
            if value <= 0:
                return self.start
            share = (log10(value) - log10(self.low)) / ((log10(self.high) - log10(self.low)) or 1)
        else:
            share = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Round values to name, a handful."""
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
        step = _round_step((self.high - self.low) / 5)
        return [step * k for k in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


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
    """Named series of (x, y) as lines with their points; those named in `dots` as points alone (measurements).

    Of a prediction held against a measurement, the line is the one and the points are the other. A logarithmic axis shows
    positive values only. `only_x` names the values that the x axis tells.
    """
    held = {name: line if isinstance(line, Held) else Held(line, line) for name, line in lines.items()}
    drawn = {name: _drawable(line.predicted, log_x=log_x, log_y=log_y) for name, line in held.items()}
    points = {name: _drawable(line.measured, log_x=log_x, log_y=log_y) for name, line in held.items()}
    every = [point for series in (drawn, points) for line in series.values() for point in line]
    right = WIDTH - 46 - max((6.1 * len(name) for name in lines), default=0)
    x = _axis(xlabel, [a for a, _ in every], LEFT, right, log=log_x, zero=False, only=only_x)
    y = _axis(ylabel, [b for _, b in every], BOTTOM, TOP, log=log_y, zero=True)
    body = [f'<text class="title" x="8" y="16">{escape(title)}</text>', *_grid(x, y, right)]
    for at, (name, line) in enumerate(drawn.items()):
        colour = COLOURS[at % len(COLOURS)]
        legend_y = TOP + 18 * at
        if name not in dots and line:
            path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in line)
            dash = DASHES[at % len(DASHES)]
            style = f' stroke-dasharray="{dash}"' if dash else ""
            body.append(f'<path class="line" stroke="var(--{colour})"{style} d="M{path}"/>')
            body.append(f'<path class="line" stroke="var(--{colour})"{style} d="M{right + 8:.0f} {legend_y}h22"/>')
        marks = [(x.at(a), y.at(b), f"{name}: {number(a)}, {number(b)}") for a, b in points[name]]
        if marks:
            marks.append((right + 19, legend_y, name))
        body += [_mark(at, px, py, colour, tip) for px, py, tip in marks]
        body.append(f'<text x="{right + 36:.0f}" y="{legend_y + 4}">{escape(name)}</text>')
    head = f'<svg class="chart roomy" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(body)}</svg>"


def _drawable(line: Points, *, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    """The points that an axis can show."""
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
        body.append(f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{_short(value)}</text>')
    for value in x.ticks():
        at = x.at(value)
        body.append(f'<path class="axis" d="M{at:.1f} {BOTTOM}v5"/>')
        body.append(f'<text class="middle" x="{at:.1f}" y="{BOTTOM + 18}">{_short(value)}</text>')
    body.append(f'<path class="axis" d="M{LEFT} {BOTTOM}H{right:.0f}"/>')
    body.append(f'<text class="middle" x="{(LEFT + right) / 2:.0f}" y="{BOTTOM + 38}">{escape(x.title)}</text>')
    body.append(f'<text x="8" y="{TOP - 8}">{escape(y.title)}</text>')
    return body


def _short(value: float) -> str:
    """A number for people, millions as M and thousands of millions as G."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{number(round(value / size, 3))}{unit}"
    return number(round(value, 10))


def _mark(at: int, x: float, y: float, colour: str, tip: str) -> str:
    """A circle, a square, a triangle, a diamond: by the number of the series."""
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
    """1, 2 or 5 times a power of ten, the smallest that is not below `size`."""
    power = 10.0 ** floor(log10(size)) if size > 0 else 1.0
    return next(power * mark for mark in (1, 2, 5, 10) if power * mark >= size * (1 - 1e-9))
