"""The output of a benchmark: figures, and notes on measurements that were impossible."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

BARE = "bare loop"
"""The baseline of most figures: a bare epoll loop with the same system calls."""


@dataclass(frozen=True)
class Row:
    """One figure: `value` in `unit`, and its `share` of the speed of another figure of the same run.

    A share is a ratio of speeds, whether the value is a speed or a time: 0.5 is half as fast, 300 three hundred times.
    """

    subject: str
    figure: str
    value: float
    unit: str
    share: float | None = None
    beside: str = ""
    at_least: float | None = None
    """Target for the share."""
    at_most: float | None = None
    """Target for the value."""

    @property
    def met(self) -> bool:
        """Whether the figure meets its target; true without a target."""
        fast = self.at_least is None or (self.share or 0.0) >= self.at_least
        return fast and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """The target as text; empty without a target."""
        share = f"share >= {self.at_least:g}" if self.at_least is not None else ""
        value = f"<= {show_number(self.at_most)}" if self.at_most is not None else ""
        return share or value


@dataclass(frozen=True)
class Note:
    """One line: the reason why something was not measured, and the remedy."""

    text: str


@dataclass(frozen=True)
class Options:
    """Extent of the measurements."""

    turns: int = 5
    """Rounds of candidates and baseline."""
    quick: bool = False
    """Small networks and few rounds: a functional check, not a measurement."""
    against: Path | None = None
    """Another checkout of the project, for section `versions`."""


@dataclass(frozen=True)
class Section:
    """A part of the benchmark that can run alone."""

    about: str
    """Its subject, in one line."""
    run: Callable[[Options], Iterator[Row | Note]]
    seconds: int
    """Approximate duration on two cores; shorter sections run first."""
    optional: bool = False
    """Run only if named on the command line."""


def show_number(value: float) -> str:
    """Return a number as text: three significant digits, or more with thousands separators."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
