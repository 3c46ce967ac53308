"""The effect of a batch of fault sets on every hop of a schedule, as bit rows.

The hops of a step depend on hops of earlier steps only, so one pass over the steps decides for every hop the trials
where it is sent, arrives, and holds the right content.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from coordinator.theory.batch.fault_batch import Arcs, Episode, FaultBatch
from coordinator.theory.dependence.bit_rows import (
    Bits,
    Groups,
    Indices,
    added,
    counted,
    first_trials,
    mark,
    no_trials,
    numbers,
    unpacked,
)
from coordinator.theory.dependence.schedule import BEGIN, Schedule
from emunode.faults.effects import Alters, Interval, Loses, Stops
from emunode.faults.transit import FaultRandom
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


@dataclass(frozen=True)
class StepHops:
    """The hops of one step."""

    step: Step
    hops: Indices
    part: slice
    """The same as a slice."""
    carried: Indices
    """By hop, the hop that brought the copy; -1, the row behind the last hop, for contents that a rank has from the
    beginning.
    """
    packets: Indices
    """Positions of the first hops of packets; the other hops of a packet follow."""
    begins: Indices
    """Positions of the hops that begin at their sender."""
    folding: Indices
    """Positions of the hops that carry a fold, in the order of the results of `folds`."""
    folds: Groups
    """For each of these, the hops whose contents were folded."""


class Tracer:
    """Follows batches of fault sets through one schedule. `folds`: contents are folds of contributions."""

    def __init__(self, schedule: Schedule, arcs: Arcs, *, folds: bool) -> None:
        self._schedule = schedule
        self._arcs = arcs
        self._folds = folds
        self._rounds = [_round(schedule, step, part) for step, part in schedule.rounds]

    def has_values(self, batch: FaultBatch) -> bool:
        """Return whether contents can be wrong."""
        return self._folds or any(isinstance(episode.effect, Alters) for episode in batch.effects)

    def flow(self, batch: FaultBatch) -> Flow:
        """Follow a batch from hop to hop."""
        count, live = len(self._schedule), first_trials(batch.trials)
        arrived = np.empty((count + 1, batch.words), np.uint64)
        # The row behind the last hop stands for contents from the beginning, there in every trial; BEGIN, -1, is its
        # index.
        arrived[-1] = live
        planes = [no_trials(count + 1, batch.words) for _ in range(2)] if self.has_values(batch) else []
        lossy = self._losses(batch)
        steps = np.zeros(batch.trials, np.int64)
        segments: list[Bits] = []
        packets: list[Bits] = []
        for each in self._rounds:
            # A hop is sent in the trials where the hop that brought its content arrived.
            sent = arrived[each.carried]
            in_force = [(key, rows) for key, rows in batch.effects.items() if each.step in key.interval]
            self._silence(in_force, each, sent)
            if planes:
                values = [plane[each.carried] for plane in planes]
                self._fold(each, values[0], arrived, planes[0])
                self._forge(in_force, each, *values)
                for plane, rows in zip(planes, values, strict=True):
                    plane[each.part] = rows
            arrived[each.part] = self._received(in_force, each, sent, lossy)
            # Steps ascend, so the last assignment to a trial is its last step.
            steps[unpacked(np.bitwise_or.reduce(sent, axis=0))[: batch.trials].astype(np.bool_)] = each.step
            here = counted(sent)
            segments = added(segments, here)
            whole = len(each.packets) == len(each.hops)
            # A packet is sent if any of its hops is; its hops are adjacent.
            packets = added(packets, here if whole else counted(np.bitwise_or.reduceat(sent, each.packets)))
        wrong, apart = (plane[:-1] for plane in planes) if planes else (None, None)
        return Flow(arrived[:-1], wrong, apart, steps, *(numbers(each, batch.trials) for each in (segments, packets)))

    def _silence(self, in_force: Iterable[tuple[Episode, Bits]], each: StepHops, sent: Bits) -> None:
        """Take out the hops that stopped ranks would send."""
        for episode, rows in in_force:
            if isinstance(episode.effect, Stops) and not episode.on_links:
                # A rank that is stopped from the first step on has received nothing that it could pass on, so only its
                # own messages have to be taken out.
                at = each.begins if episode.interval.start <= 1 else slice(None)
                sent[at] &= ~rows[self._schedule.sender[each.hops[at]]]

    def _received(
        self, in_force: Iterable[tuple[Episode, Bits]], each: StepHops, sent: Bits, lossy: tuple[Indices, Bits] | None
    ) -> Bits:
        """Return the sent copies that arrive."""
        found = sent
        for episode, rows in in_force:
            match episode:
                case Episode(Stops(), on_links=False):
                    at = self._schedule.receiver
                case Episode(Loses(), on_links=False):
                    # The rank counts its packets as sent, so they are lost, not missing.
                    at = self._schedule.sender
                case Episode(Stops() | Loses(), stream=""):
                    at = self._arcs.of_hop
                case _:
                    continue
            # A new array: `sent` is counted afterwards.
            found = found & ~rows[at[each.part]]
        if lossy is not None:
            hops, rows = lossy
            # The lost hops are sorted, so the losses of a step are adjacent.
            first, last = np.searchsorted(hops, (each.part.start, each.part.stop))
            if first < last:
                found = found.copy()
                found[hops[first:last] - each.part.start] &= ~rows[first:last]
        return found

    def _fold(self, each: StepHops, wrong: Bits, arrived: Bits, before: Bits) -> None:
        """Mark folds as wrong where a contribution is missing or wrong; `before` has the wrong hops of earlier steps."""
        if len(each.folding):
            # A fold is right if all of its contributions arrived with the right content.
            whole = each.folds.combined(np.bitwise_and, lambda hops: arrived[hops] & ~before[hops])
            wrong[each.folding] |= ~whole

    def _forge(self, in_force: Iterable[tuple[Episode, Bits]], each: StepHops, wrong: Bits, apart: Bits) -> None:
        senders = self._schedule.sender[each.hops]
        # Common forgeries first: of several effects at a rank, values of its own decide.
        altered = [(effect.alike, rows) for (effect, *_), rows in in_force if isinstance(effect, Alters)]
        for alike, rows in sorted(altered, key=itemgetter(0), reverse=True):
            active = rows[senders]
            if not self._folds:
                # A rank does not alter its own messages; a fold under its name holds contributions of others.
                active[self._schedule.origin[each.hops] == senders] = 0
            wrong |= active
            if alike:
                apart &= ~active
            else:
                apart |= active

    # --- losses --------------------------------------------------------------------------------------------------------

    def _losses(self, batch: FaultBatch) -> tuple[Indices, Bits] | None:
        """Return the hops whose packets are lost at random, ascending, and the trials; drawn as the message engine
        draws them.
        """
        rows: dict[int, Bits] = {}
        for episode, struck in batch.effects.items():
            if not episode.stream:
                continue
            for arc in np.flatnonzero(struck.any(axis=1)).tolist():
                # Numbers are drawn in Python, one for each packet and trial, so trials with a working link are left
                # out.
                trials = np.flatnonzero(unpacked(struck[arc]))
                for step, hops in self._packets_of(arc, episode.interval):
                    lost = self._drawn(episode, arc, step, trials, batch.seeds)
                    row = no_trials(1, batch.words)
                    mark(row, np.zeros(len(lost), np.int64), lost)
                    for hop in hops.tolist():
                        rows[hop] = rows[hop] | row[0] if hop in rows else row[0]
        order = sorted(rows)
        return (np.array(order), np.stack([rows[hop] for hop in order])) if rows else None

    def _packets_of(self, arc: int, interval: Interval) -> Iterator[tuple[Step, Indices]]:
        """Yield the packets that cross an arc during an interval: the step and the hops of each."""
        arcs, order = self._by_arc
        first, last = np.searchsorted(arcs, (arc, arc + 1))
        hops = order[first:last]
        steps = self._schedule.step[hops]
        for step in np.unique(steps).tolist():
            if step in interval:
                yield step, hops[steps == step]

    @cached_property
    def _by_arc(self) -> tuple[Indices, Indices]:
        """The arcs of all hops in ascending order, and the hops."""
        order = np.argsort(self._arcs.of_hop, kind="stable")
        return self._arcs.of_hop[order], order

    def _drawn(self, episode: Episode, arc: int, step: Step, trials: Indices, seeds: Sequence[int]) -> Indices:
        """Return the trials where a packet is lost."""
        assert isinstance(episode.effect, Loses)
        rank, port = self._arcs.ends(arc)
        lost = []
        for trial in trials.tolist():
            # The generator of the engines, with the same seed: a trial has to lose the packets that its run with
            # messages loses.
            chance = FaultRandom(seeds[trial], step, rank, port)
            chance.start(episode.stream)
            if chance.draw() < episode.effect.probability:
                lost.append(trial)
        return np.array(lost, np.int64)


def _round(schedule: Schedule, step: Step, part: slice) -> StepHops:
    hops = np.arange(part.start, part.stop)
    carried = schedule.carried[part]
    starts, stops = schedule.fold_starts[part], schedule.fold_stops[part]
    folding = np.flatnonzero(stops > starts)
    sizes = (stops - starts)[folding]
    # For each fold the whole range of `fold_order` from its start to its stop.
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    folds = Groups(schedule.fold_order[np.repeat(starts[folding], sizes) + within], sizes)
    # BEGIN is -1, also the index of the last row.
    packets = np.unique(schedule.packets[part], return_index=True)[1]
    return StepHops(step, hops, part, carried, packets, np.flatnonzero(carried == BEGIN), folding[folds.order], folds)
