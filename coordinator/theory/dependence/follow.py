"""One pass over a schedule under faults: the fate of every hop, in any number of trials at once.

A hop depends on hops of earlier steps only, so one pass over the steps decides all of them. A hop is sent if the hop that
brought its content has arrived and its sender is in service; it has the right content if each content that it carries or
folds is there and right. The faults come from three sources: many random sets (`batch.fault_batch`), the faults of one plan,
treated by the code of the engines (`batch.derived`), and outages (`dependence.losses`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from coordinator.theory.dependence.bit_rows import (
    Bits,
    Indices,
    added,
    counted,
    first_trials,
    no_trials,
    numbers,
    unpacked,
    words_for,
)
from coordinator.theory.dependence.schedule import Schedule, StepHops
from emunode.model import Step


@dataclass(frozen=True)
class Flow:
    """The state of every hop. A copy is right, or holds the forgery that byzantine nodes agree on, or a value of its own."""

    arrived: Bits
    wrong: Bits | None
    """None where no content can be wrong."""
    apart: Bits | None
    """The wrong copies with a value of their own; other wrong copies have the common forgery."""
    steps: Indices
    """By trial, the last step with a send."""
    segments: Indices
    """By trial, the segments sent, whether they arrive or not."""
    packets: Indices

    @cached_property
    def right(self) -> Bits:
        """Copies that arrive with the right content."""
        return self.arrived if self.wrong is None else self.arrived & ~self.wrong


class HopEffects(Protocol):
    """The faults of some trials, as they act on hops. Rows have a bit for each trial, and may be changed in place."""

    trials: int
    has_values: bool
    """Whether contents can be wrong."""

    def begin(self, step: Step, arrived: Bits) -> None:
        """Begin a step; take receipts of earlier steps out of `arrived` that their rank has forgotten."""

    def silence(self, hops: StepHops, sent: Bits) -> None:
        """Take the hops out of `sent` that their sender does not send."""

    def cross(self, hops: StepHops, sent: Bits, wrong: Bits | None, apart: Bits | None) -> Bits:
        """Return the hops of `sent` that arrive; change the contents in `wrong` and `apart`."""


def follow(schedule: Schedule, effects: HopEffects, *, totals: bool = True) -> Flow:
    """Follow the hops of a schedule under faults; without `totals`, nothing that is sent is counted."""
    count, trials, words = len(schedule), effects.trials, words_for(effects.trials)
    arrived = np.empty((count + 1, words), np.uint64)
    # The row behind the last hop stands for contents from the beginning, there in every trial; BEGIN, -1, is its index.
    arrived[-1] = first_trials(trials)
    planes = [no_trials(count + 1, words) for _ in range(2)] if effects.has_values else []
    sums = _Totals(trials)
    for hops in schedule.steps:
        effects.begin(hops.step, arrived)
        sent = arrived[hops.carried]
        effects.silence(hops, sent)
        wrong = apart = None
        if planes:
            wrong, apart = (plane[hops.carried] for plane in planes)
            if len(hops.folding):
                # A fold is right if all of its contributions arrived with the right content.
                whole = hops.folds.combined(np.bitwise_and, lambda each: arrived[each] & ~planes[0][each])
                wrong[hops.folding] |= ~whole
        arrived[hops.part] = effects.cross(hops, sent, wrong, apart)
        if wrong is not None and apart is not None:
            planes[0][hops.part], planes[1][hops.part] = wrong, apart
        if totals:
            sums.add(hops, sent)
    wrong, apart = (plane[:-1] for plane in planes) if planes else (None, None)
    segments, packets = (numbers(each, trials) for each in (sums.segments, sums.packets))
    return Flow(arrived[:-1], wrong, apart, sums.steps, segments, packets)


class _Totals:
    """The last step, the segments and the packets of each trial."""

    def __init__(self, trials: int) -> None:
        self.steps = np.zeros(trials, np.int64)
        self.segments: list[Bits] = []
        self.packets: list[Bits] = []

    def add(self, hops: StepHops, sent: Bits) -> None:
        # Steps ascend, so the last assignment to a trial is its last step.
        any_sent = np.bitwise_or.reduce(sent, axis=0)
        self.steps[unpacked(any_sent)[: len(self.steps)].astype(np.bool_)] = hops.step
        segments = counted(sent)
        self.segments = added(self.segments, segments)
        # A packet is sent if any of its hops is; its hops are adjacent.
        one_segment_each = len(hops.packets) == len(sent)
        packets = segments if one_segment_each else counted(np.bitwise_or.reduceat(sent, hops.packets))
        self.packets = added(self.packets, packets)
