"""What a benchmark yields: figures, and notes on what could not be measured."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BARE = "bare loop"
"""What most figures are beside: a bare epoll loop that does the same system calls."""


@dataclass(frozen=True)
class Row:
    """One figure: `value` in `unit` and, where it stands beside another of the same run, its `share` of that one's speed.

    A share is a ratio of speeds, whether the value is a speed or a time: 0.5 is half as fast, 300 three hundred times.
    """

    subject: str
    figure: str
    value: float
    unit: str
    share: float | None = None
    beside: str = ""
    at_least: float | None = None
    """The share that is wanted."""
    at_most: float | None = None
    """The value that is wanted."""

    @property
    def met(self) -> bool:
        """Whether the figure is what was wanted, if anything was."""
        fast = self.at_least is None or (self.share or 0.0) >= self.at_least
        return fast and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """What was wanted, for people."""
        share = f"share >= {self.at_least:g}" if self.at_least is not None else ""
        value = f"<= {show_number(self.at_most)}" if self.at_most is not None else ""
        return share or value


@dataclass(frozen=True)
class Note:
    """Why something was not measured, in one line, and what to do about it."""

    text: str


@dataclass(frozen=True)
class Options:
    """How much to measure."""

    turns: int = 5
    """Times that contenders and the floor take turns."""
    quick: bool = False
    """Only small networks and few turns: whether it works, not how fast it is."""


@dataclass(frozen=True)
class Section:
    """A part of the benchmark that works alone."""

    about: str
    """What it measures, in one line."""
    run: Callable[[Options], Iterator[Row | Note]]
    seconds: int
    """About how long it takes on two cores; the quick ones come first."""
    optional: bool = False
    """Left out unless it is named."""


def show_number(value: float) -> str:
    """A figure for people: three digits or more, thousands separated."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
