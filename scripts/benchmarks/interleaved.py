"""Contenders take turns with a floor, and what counts is the median of the ratios.

Machines are shared and noisy, so a figure is never a time alone: each contender runs between two runs of the floor, and is
held against their mean.
"""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from benchmarks.record import BARE, Row

Measure = Callable[[], float]


class Standing(NamedTuple):
    """Where a contender came in."""

    value: float
    """The median of its own values."""
    share: float
    """The median of its speed as a share of the floor's."""


class Race(NamedTuple):
    """How a race went."""

    floor: float
    """The median of the floor's values."""
    standings: Mapping[str, Standing]

    def rows(
        self, subject: str, unit: str, ours: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> Iterator[Row]:
        """A row for the floor and one for each contender, with what is wanted of ours."""
        yield Row(subject, BARE, self.floor, unit)
        for name, (value, share) in self.standings.items():
            bounds = {} if name != ours else {"at_least": at_least, "at_most": at_most}
            yield Row(subject, name, value, unit, share, BARE, **bounds)


def race(floor: Measure, contenders: Mapping[str, Measure], turns: int, *, times: bool = False) -> Race:
    """Median value and share of every contender; `times`: the values are times, so that less is faster."""
    floors: list[float] = [floor()]
    values: dict[str, list[float]] = {name: [] for name in contenders}
    shares: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, measure in contenders.items():
            value = measure()
            floors.append(floor())
            beside = (floors[-2] + floors[-1]) / 2
            values[name].append(value)
            shares[name].append(beside / value if times else value / beside)
    standings = {name: Standing(median(values[name]), median(shares[name])) for name in contenders}
    return Race(median(floors), standings)
