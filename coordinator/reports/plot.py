"""The numbers of a chart: axes and series in units of the data, for programs that draw them in their own way.

A `Chart` (`chart.py`) is drawn in pixels for pages; its `Plot` says the same to LaTeX (`pgfplots.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

DIAMOND = 3
HOLLOW, CROSSES = -2, -1
"""Numbers of marks; marks 0 to 3 are a circle, a square, a triangle and a diamond."""


class Mode(StrEnum):
    """How the points of a series are drawn, and what their numbers mean."""

    LINE = "line"
    """(x, y), or (x, y, low, high) with the ends of an interval."""
    MARKS = "marks"
    """(x, y), without a line."""
    STAIRS = "stairs"
    """(x, y): from each x on, the value is y."""
    PLATEAUS = "plateaus"
    """(x, y): around each x, halfway to its neighbours, the value is y."""
    BARS = "bars"
    """(x, y): upright bars."""
    ROWS = "rows"
    """(x, y): bars from the left."""
    STROKES = "strokes"
    """(x, y, other x, other y): single lines."""
    CELLS = "cells"
    """(x, y, value): squares of side 1 in the colour of a value."""


@dataclass(frozen=True)
class PlotAxis:
    """One axis of a plot."""

    title: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    names: Mapping[float, str] = field(default_factory=dict)
    """The ticks, by value; by default the program that draws chooses round values."""
    downwards: bool = False
    shares: bool = False
    """Whether the values are shares of 1, written as percentages."""


@dataclass(frozen=True)
class Series:
    """The points of one series."""

    name: str
    """Its entry in the legend; empty for none."""
    mode: Mode
    points: Sequence[Sequence[float]]
    colour: str = "blue"
    """A name of `theme.LIGHT`."""
    dashes: str = ""
    """Lengths of dashes and gaps, as in SVG."""
    mark: int | None = None
    """The number of its mark; None for a line without marks."""
    width: float = 0.8
    """Of bars, in units of their axis; of strokes, in points."""
    labels: Sequence[str] = ()
    """Texts beside bars."""


@dataclass(frozen=True)
class Plot:
    """A chart as numbers."""

    x: PlotAxis
    y: PlotAxis
    series: Sequence[Series]
