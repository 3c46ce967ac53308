"""Counts of trials: all that the figures of a campaign are computed from, whatever engine ran the trials."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from coordinator.campaigns.trial_runner import TrialResult
from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.records import Items, Natural
from coordinator.theory.batch.draws import BLOCK
from coordinator.theory.batch.engine import BatchOutcome
from coordinator.theory.dependence.bit_rows import Indices

KEPT = 3
"""Worst trials, and violating ones, that a block names."""


@dataclass
class LatencyCounts:
    """Packets, and latencies as `coordinator.results.latency` defines them, over decided trials."""

    packets: int = 0
    sums: dict[int, list[int]] = field(default_factory=dict)
    """Latencies by number of served nodes, from 1 on.

    An entry has the number of trials, the sum of all latencies in them, and the sum of the squares of each trial's sum.
    """
    longest: int = 0
    """The sum of the longest latencies of all trials with a served node."""
    squares: int = 0
    """The sum of their squares."""
    by_step: Counter[int] = field(default_factory=Counter)
    """By step: the nodes whose latency it is."""

    @property
    def trials(self) -> int:
        """Trials with a served node."""
        return sum(trials for trials, _, _ in self.sums.values())

    @property
    def mean(self) -> Fraction:
        """The sum of the mean latencies of these trials."""
        return sum((Fraction(steps, served) for served, (_, steps, _) in self.sums.items()), Fraction(0))

    @property
    def mean_squares(self) -> Fraction:
        """The sum of the squares of the mean latencies of these trials."""
        return sum((Fraction(squares, served**2) for served, (_, _, squares) in self.sums.items()), Fraction(0))

    def add(self, other: Self) -> None:
        """Add the latencies of other trials."""
        self.packets += other.packets
        self.longest += other.longest
        self.squares += other.squares
        self.by_step += other.by_step
        for served, counts in other.sums.items():
            self._add_sums(served, *counts)

    def _add_sums(self, served: int, *counts: int) -> None:
        entry = self.sums.setdefault(served, [0, 0, 0])
        for at, more in enumerate(counts):
            entry[at] += more

    @classmethod
    def of_result(cls, result: TrialResult) -> Self:
        """Return packets and latencies of one trial with messages."""
        served, steps, longest = result.latency_sums
        by_step = +Counter(dict(enumerate(result.latencies)))
        sums = {served: [1, steps, steps**2]} if served else {}
        return cls(result.packets, sums, longest, longest**2, by_step)

    @classmethod
    def of_outcome(cls, outcome: BatchOutcome) -> Self:
        """Return packets and latencies of trials of a batch engine with latencies."""
        times = outcome.latencies
        assert times is not None
        counts = cls(
            int(outcome.packets[outcome.decided].sum()),
            longest=int(times.longest.sum()),
            squares=int((times.longest**2).sum()),
            by_step=times.by_step,
        )
        for served in np.unique(times.served[times.served > 0]).tolist():
            sums = times.sums[times.served == served]
            counts._add_sums(served, len(sums), int(sums.sum()), int((sums**2).sum()))
        return counts

    def record(self) -> dict[str, object]:
        """Return the latencies as a JSON value."""
        sums = [[served, *each] for served, each in sorted(self.sums.items())]
        by_step = sorted(map(list, self.by_step.items()))
        longest = {"longest": self.longest, "squares": self.squares}
        return {"packets": self.packets, "sums": sums, **longest, "by_step": by_step}

    @classmethod
    def of_record(cls, record: "LatencyRecord") -> Self:
        """Build latencies from a record: the inverse of `record`."""
        sums = {served: each for served, *each in record.sums}
        return cls(record.packets, sums, record.longest, record.squares, Counter(dict(record.by_step)))


def _early_groups() -> list[int]:
    starts = [0]
    while starts[-1] < BLOCK:
        starts.append(starts[-1] + max(LEAST_GROUP, starts[-1] // 4))
    return starts


LEAST_GROUP = 16
EARLY_GROUPS = _early_groups()
"""The first positions of the groups of the first block, each a quarter of all draws before it; later groups are blocks."""
Ratios = Counter[tuple[int, int]]
"""(messages due, messages that arrived intact) -> trials."""


def group_of(position: int) -> int:
    """Return the first position of the group of draws that contains a position."""
    if position >= BLOCK:
        return position // BLOCK * BLOCK
    return EARLY_GROUPS[bisect_right(EARLY_GROUPS, position) - 1]


@dataclass
class Counts:
    """Counts of some trials; all but the first three are over decided trials."""

    trials: int = 0
    undecided: int = 0
    violated: int = 0
    """Trials that break a claim."""
    steps: int = 0
    segments: int = 0
    due: dict[int, list[int]] = field(default_factory=dict)
    """By number of messages due: trials, messages that arrived intact, and trials where all of them did."""
    lost: Counter[int] = field(default_factory=Counter)
    """By number of healthy nodes that miss a message: trials."""
    predicted: Fraction | None = Fraction(0)
    """Sum of the shares of messages that claims predict; None if a trial has no such claim."""
    times: LatencyCounts = field(default_factory=LatencyCounts)
    groups: dict[int, Ratios] = field(default_factory=dict)
    """By first position of a group of consecutive draws: its trials."""

    @property
    def decided(self) -> int:
        """Trials that enter the figures."""
        return self.trials - self.undecided

    @property
    def served(self) -> int:
        """Trials where every healthy node received everything."""
        return sum(served for _, _, served in self.due.values())

    @property
    def ratios(self) -> Fraction:
        """The sum of the delivery ratios of all trials."""
        return sum((Fraction(intact, expected) for expected, (_, intact, _) in self.due.items()), Fraction(0))

    @property
    def messages_due(self) -> int:
        """Messages due, over all trials."""
        return sum(expected * trials for expected, (trials, _, _) in self.due.items())

    @property
    def nodes_lost(self) -> int:
        """Healthy nodes that miss a message, over all trials."""
        return sum(nodes * trials for nodes, trials in self.lost.items())

    def count(self, result: TrialResult) -> None:
        """Add a trial of the message engine."""
        group = group_of(self.trials)
        self.trials += 1
        self.violated += bool(result.violated)
        if result.undecided is not None:
            self.undecided += 1
            return
        self._count_due(result.expected, 1, result.intact, int(result.served))
        self._add_groups({group: Counter({(result.expected, result.intact): 1})})
        self.lost[len(result.unserved)] += 1
        self.steps += result.steps
        self.segments += result.segments
        self.times.add(LatencyCounts.of_result(result))
        if result.predicted is None:
            self.predicted = None
        elif self.predicted is not None:
            self.predicted += Fraction(result.predicted, result.expected)

    def add(self, other: Self) -> None:
        """Add the counts of other trials."""
        for name in ("trials", "undecided", "violated", "steps", "segments"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for expected, counts in other.due.items():
            self._count_due(expected, *counts)
        self.lost += other.lost
        self._add_groups(other.groups)
        known = self.predicted is not None and other.predicted is not None
        self.predicted = self.predicted + other.predicted if known else None  # type: ignore[operator]
        self.times.add(other.times)

    def _add_groups(self, other: Mapping[int, Ratios]) -> None:
        for group, ratios in other.items():
            self.groups.setdefault(group, Counter()).update(ratios)

    def _count_due(self, expected: int, trials: int, intact: int, served: int) -> None:
        entry = self.due.setdefault(expected, [0, 0, 0])
        for at, more in enumerate((trials, intact, served)):
            entry[at] += more

    @classmethod
    def of_outcome(cls, outcome: BatchOutcome, broken: NDArray[np.bool_], start: int = 0) -> Self:
        """Count the trials of the batch engine from position `start` on; `broken`: trials that break a promise."""
        kept = np.flatnonzero(outcome.decided)
        counts = cls(
            len(outcome.decided), len(outcome.decided) - len(kept), int(broken.sum()),
            int(outcome.steps[kept].sum()), int(outcome.segments[kept].sum()), predicted=None,
            times=LatencyCounts.of_outcome(outcome),
        )  # fmt: skip
        expected, served = outcome.expected[kept], outcome.served[kept]
        for due in np.unique(expected).tolist():
            same = expected == due
            counts.due[due] = [int(same.sum()), int(outcome.intact[kept][same].sum()), int(served[same].sum())]
        values, trials = np.unique(outcome.unserved[kept], return_counts=True)
        counts.lost.update(dict(zip(values.tolist(), trials.tolist(), strict=True)))
        counts.groups = dict(_groups_of(outcome, start))
        return counts


def _groups_of(outcome: BatchOutcome, start: int) -> Iterator[tuple[int, Ratios]]:
    trials = len(outcome.decided)
    groups = [group_of(start + at) for at in range(trials)]
    starts = [at for at in range(trials) if at == 0 or groups[at] != groups[at - 1]]
    for first, last in pairwise([*starts, trials]):
        decided = np.flatnonzero(outcome.decided[first:last]) + first
        pairs = np.stack([outcome.expected[decided], outcome.intact[decided]])
        values, counts = np.unique(pairs, axis=1, return_counts=True)
        ratios = {(due, intact): count for due, intact, count in np.vstack([values, counts]).T.tolist()}
        yield groups[first], Counter(ratios)


@dataclass(frozen=True)
class LatencyRecord:
    """The packets and latencies in the record of a block."""

    packets: Natural
    sums: Items[tuple[Natural, Natural, Natural, Natural]]
    longest: Natural
    squares: Natural
    by_step: Items[tuple[Natural, Natural]]


@dataclass(frozen=True)
class BlockRecord:
    """A block of draws as a line of the campaign's record."""

    block: Natural
    point: Natural
    variant: Natural
    trials: Natural
    undecided: Natural
    violated: Natural
    steps: Natural
    segments: Natural
    due: Items[tuple[Natural, Natural, Natural, Natural]]
    lost: Items[tuple[Natural, Natural]]
    worst: Items[tuple[Natural, Natural]]
    violations: Items[Natural]
    whole: bool
    times: LatencyRecord
    groups: Items[tuple[Natural, Items[tuple[Natural, Natural, Natural]]]]

    def __post_init__(self) -> None:
        if not self.trials:
            raise RefusedError("it has no trials")
        decided = self.trials - self.undecided
        for name, rows in (("due", self.due), ("lost", self.lost)):
            if (counted := sum(row[1] for row in rows)) != decided:
                raise RefusedError(f"{name} has {counted} trials, and {decided} are decided")
        ratios = [(due, intact) for _, group in self.groups for due, intact, _ in group]
        ratios += [(due * trials, intact) for due, trials, intact, _ in self.due]
        if any(due == 0 or intact > due for due, intact in ratios) or any(row[3] > row[1] for row in self.due):
            raise RefusedError("more messages arrived than were due")


@dataclass
class DrawBlock:
    """The counts of consecutive draws of one variant at one point, and the numbers of a few of them."""

    point: int
    variant: int
    start: int
    """Position of the first draw in the order of runs."""
    counts: Counts
    worst: Sequence[tuple[int, int]]
    """[nodes that miss a message, number of the draw] of the trials that lose most, worst first."""
    violations: Sequence[int]
    """Numbers of the first draws that break a claim."""
    whole: bool
    """Whether the draws are all sets of the point in order, instead of a random sample."""

    @property
    def stop(self) -> int:
        """The position after the last draw."""
        return self.start + self.counts.trials

    @classmethod
    def of_outcome(
        cls,
        place: tuple[int, int, int],
        drawn: Indices,
        outcome: BatchOutcome,
        broken: NDArray[np.bool_],
        *,
        whole: bool,
    ) -> Self:
        """Return the block of draws with these numbers; `place` is (point, variant, start)."""
        lost = np.where(outcome.decided, outcome.unserved, 0)
        # The first of equally bad draws, so that a resumed campaign names the same ones.
        order = np.argsort(-lost, kind="stable")[:KEPT]
        worst = [(int(lost[at]), int(drawn[at])) for at in order.tolist() if lost[at]]
        violations = [int(drawn[at]) for at in np.flatnonzero(broken)[:KEPT].tolist()]
        return cls(*place, Counts.of_outcome(outcome, broken, place[2]), worst, violations, whole)

    def record(self) -> dict[str, object]:
        """Return the block as a line of the campaign's record."""
        counts = self.counts
        return {
            "block": self.start, "point": self.point, "variant": self.variant, "trials": counts.trials,
            "undecided": counts.undecided, "violated": counts.violated, "steps": counts.steps,
            "segments": counts.segments, "due": [[due, *each] for due, each in sorted(counts.due.items())],
            "lost": sorted(map(list, counts.lost.items())), "worst": self.worst, "violations": self.violations,
            "whole": self.whole, "times": counts.times.record(),
            "groups": [
                [group, [[*key, trials] for key, trials in sorted(ratios.items())]]
                for group, ratios in sorted(counts.groups.items())
            ],
        }  # fmt: skip

    @classmethod
    def of_record(cls, record: BlockRecord) -> Self:
        """Build a block from a line of the record: the inverse of `record`."""
        counts = Counts(
            record.trials, record.undecided, record.violated, record.steps, record.segments,
            due={due: each for due, *each in record.due}, lost=Counter(dict(record.lost)), predicted=None,
            times=LatencyCounts.of_record(record.times),
            groups={
                group: Counter({(due, intact): trials for due, intact, trials in ratios})
                for group, ratios in record.groups
            },
        )  # fmt: skip
        place = record.point, record.variant, record.block
        return cls(*place, counts, list(record.worst), list(record.violations), record.whole)


def total(blocks: Iterable[DrawBlock]) -> Counts:
    """Return the sum of the counts of several blocks."""
    counts = Counts()
    for block in blocks:
        counts.add(block.counts)
    return counts
