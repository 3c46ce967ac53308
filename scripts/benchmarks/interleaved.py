"""Interleaved measurements: candidates and a baseline take turns, and the median of their ratios counts.

Machines are shared and noisy, so no figure is a time alone: each candidate runs between two runs of the baseline, and is
compared with their mean.
"""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from benchmarks.record import BARE, Row

Measure = Callable[[], float]


class Score(NamedTuple):
    """The result of one candidate."""

    value: float
    """Median of its values."""
    share: float
    """Median of its speed divided by the speed of the baseline."""


class Comparison(NamedTuple):
    """The results of all candidates."""

    baseline: float
    """Median of the values of the baseline."""
    scores: Mapping[str, Score]

    def rows(
        self, subject: str, unit: str, ours: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> Iterator[Row]:
        """Yield one row for the baseline and one per candidate; `ours` is the candidate with a target."""
        yield Row(subject, BARE, self.baseline, unit)
        for name, (value, share) in self.scores.items():
            bounds = {} if name != ours else {"at_least": at_least, "at_most": at_most}
            yield Row(subject, name, value, unit, share, BARE, **bounds)


def interleave(baseline: Measure, candidates: Mapping[str, Measure], turns: int, *, times: bool = False) -> Comparison:
    """Measure every candidate in turn; with `times` the values are times, so that less is faster."""
    baselines: list[float] = [baseline()]
    values: dict[str, list[float]] = {name: [] for name in candidates}
    shares: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(turns):
        for name, measure in candidates.items():
            value = measure()
            baselines.append(baseline())
            beside = (baselines[-2] + baselines[-1]) / 2
            values[name].append(value)
            shares[name].append(beside / value if times else value / beside)
    scores = {name: Score(median(values[name]), median(shares[name])) for name in candidates}
    return Comparison(median(baselines), scores)
