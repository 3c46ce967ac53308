"""Latencies of many fault sets at once: the steps when served ranks had everything that was due to them.

As `coordinator.results.latency` defines it for a journal, a rank has a segment from its first right copy
on, and its latency is the step when its last segment becomes complete. Only ranks that miss nothing have a latency.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from coordinator.theory.dependence.bit_rows import Bits, Groups, Indices, counted, grouped, numbers, total
from coordinator.theory.dependence.schedule import DueMessages, Schedule
from emunode.model import Step


@dataclass(frozen=True)
class Latencies:
    """The latencies of the served ranks of some trials."""

    served: Indices
    """By trial, the served ranks; none where a source is faulty."""
    sums: Indices
    """By trial, the sum of their latencies."""
    longest: Indices
    """By trial, the longest of them; 0 where no rank is served."""
    by_step: Counter[Step]
    """The ranks whose latency is this step, over all trials."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the latencies of consecutive trials."""
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("served", "sums", "longest")
        }
        by_step: Counter[Step] = Counter()
        for part in parts:
            by_step += part.by_step
        return cls(**arrays, by_step=by_step)


class Receipts(NamedTuple):
    """The segments with a copy that comes in one step."""

    step: Step
    copies: Groups
    """By segment, the hops that bring a copy of it in this step."""
    segments: Indices
    """In the order of the results of `copies`."""
    receivers: Groups
    """By receiver, the places in `segments`."""
    ranks: Indices
    """The receivers, as indices into the rows of `DueMessages.by_receiver`, in the order of `receivers`."""


class LatencyCounter:
    """Counts latencies over one schedule. `message` has the message of each segment, as in `BatchEngine`."""

    def __init__(self, schedule: Schedule, due: DueMessages, message: Indices) -> None:
        self._count = len(due.copies)
        self._message = message
        # The inverses of the groups: the receiver of each message, and the segment that each hop brings.
        rank = np.empty(len(due.segments), np.int64)
        for column in due.by_receiver.columns:
            rank[column] = np.arange(len(column))
        segment = np.full(len(schedule), -1)
        for column in due.copies.columns:
            segment[column] = np.arange(len(column))
        self._receipts = [
            _receipts(step, hops, segment, rank[message])
            for step, part in schedule.rounds
            if len(hops := part.start + np.flatnonzero(segment[part] >= 0))
        ]

    def count(self, right: Bits, owed: Bits, served: Bits, trials: int) -> Latencies:
        """Count the latencies of a batch.

        `right` has the trials where each hop brings a right copy, `owed` the trials where each message is due, and
        `served` the trials where each receiver misses none of the messages due to it, and at least one is due.
        """
        # Segments that are not due never count, so only due segments start as missing.
        missing = owed[self._message]
        first: list[Bits] = []
        for each in self._receipts:
            # Segments are complete from their first right copy on; later copies do not count.
            new = each.copies.any(right) & missing[each.segments]
            missing[each.segments] &= ~new
            first.append(new)
        sums, longest = np.zeros(trials, np.int64), np.zeros(trials, np.int64)
        by_step: Counter[Step] = Counter()
        # Ranks that are not served have no latency, so they do not wait for anything.
        waiting = served.copy()
        # From the last step back: the first new segment that shows up is the last that a rank received.
        for each, new in zip(reversed(self._receipts), reversed(first), strict=True):
            ended = each.receivers.any(new) & waiting[each.ranks]
            ranks = total(ended)
            if ranks:
                waiting[each.ranks] &= ~ended
                ended_by_trial = numbers(counted(ended), trials)
                sums += each.step * ended_by_trial
                # The first step with an end, from the back, is the longest latency.
                longest[(ended_by_trial > 0) & (longest == 0)] = each.step
                by_step[each.step] = ranks
        return Latencies(numbers(counted(served), trials), sums, longest, by_step)


def _receipts(step: Step, hops: Indices, segment: Indices, rank_of: Indices) -> Receipts:
    order, sizes = grouped([segment[hops]])
    copies = Groups(hops[order], sizes)
    # The hops of a group have the same segment, so the first one names it.
    segments = segment[hops[order]][(np.cumsum(sizes) - sizes)[copies.order]]
    # Two segments of one receiver may come in one step: one end of its waiting, not two.
    order, sizes = grouped([rank_of[segments]])
    receivers = Groups(order, sizes)
    ranks = rank_of[segments][order][(np.cumsum(sizes) - sizes)[receivers.order]]
    return Receipts(step, copies, segments, receivers, ranks)
