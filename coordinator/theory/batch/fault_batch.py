"""Many sets of faults at once: for each effect, the places that have it in each trial, and what it does to hops."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from coordinator.theory.dependence.bit_rows import (
    Bits,
    Indices,
    first_trials,
    mark,
    no_trials,
    unpacked,
    words_for,
)
from coordinator.theory.dependence.schedule import Schedule, StepHops
from emunode.faults.effects import Alters, Effect, Interval, LinkEnd, Loses, Place, Stops
from emunode.faults.kinds import Fault, LinkFault, kind_of
from emunode.faults.timeline import FaultTimeline
from emunode.faults.transit import FaultRandom
from emunode.model import Step
from emunode.topologies.base import Topology


class Episode(NamedTuple):
    """An effect during an interval of steps, at ranks or on links."""

    effect: Effect
    interval: Interval
    on_links: bool = False
    stream: str = ""
    """The name of the random numbers that decide about each packet; empty if the effect is certain."""


class Arcs:
    """The directions of links that a schedule uses, numbered."""

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self.topology = topology
        self._ports = topology.degree
        # Sender and port as one number, so that arcs are sorted and searched by a single key.
        self._known, self.of_hop = np.unique(schedule.sender * self._ports + schedule.port, return_inverse=True)

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def in_order(self) -> tuple[Indices, Indices]:
        """The arcs of all hops in ascending order, and the hops."""
        order = np.argsort(self.of_hop, kind="stable")
        return self.of_hop[order], order

    def ends(self, arc: int) -> LinkEnd:
        """Return the sender and its port."""
        rank, port = divmod(int(self._known[arc]), self._ports)
        return rank, port

    @cached_property
    def number(self) -> Mapping[LinkEnd, int]:
        """The number of each direction that the schedule uses."""
        return {self.ends(arc): arc for arc in range(len(self))}

    def numbers(self, senders: Indices, ports: Indices) -> Indices:
        """Return the numbers of these directions; -1 for an unused direction."""
        keys = senders * self._ports + ports
        # The search may end behind the last arc; the comparison below refuses every key that is not there.
        nearest = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        return np.where(self._known[nearest] == keys, nearest, -1)


class FaultBatch:
    """The faults of `trials` trials: by effect, a row of bits for each place (rank, or arc) that may have it."""

    def __init__(self, arcs: Arcs, trials: int, seeds: Sequence[int] | None = None) -> None:
        self.arcs = arcs
        self.trials = trials
        self.words = words_for(trials)
        # Without random losses no seed is used.
        self.seeds = seeds or [0] * trials
        """The seed of each trial, for losses."""
        self.effects: dict[Episode, Bits] = {}

    def strike_nodes(self, episode: Episode, ranks: Indices, trials: Indices) -> None:
        """Give nodes an effect in the trials; arrays of the same shape."""
        mark(self._rows(episode), ranks, trials)

    def strike_arcs(self, episode: Episode, arcs: Indices, trials: Indices) -> None:
        """Give directions of links an effect; unused directions (-1) are left out."""
        # No packet crosses the other directions, so their faults have no effect.
        used = arcs >= 0
        mark(self._rows(episode), arcs[used], trials[used])

    def strike_all(self, effects: Iterable[tuple[Episode, int]]) -> None:
        """Give places an effect in every trial, as the faults of a scenario."""
        everywhere = first_trials(self.trials)
        for episode, place in effects:
            if place >= 0:
                self._rows(episode)[place] |= everywhere

    def part(self, words: slice) -> "FaultBatch":
        """Return the batch of the trials in some words of the rows."""
        start, stop, _ = words.indices(self.words)
        # The last word may have unused bits.
        trials = min(self.trials, stop * 64) - start * 64
        batch = FaultBatch(self.arcs, trials, self.seeds[start * 64 : start * 64 + trials])
        batch.effects = {episode: rows[:, start:stop] for episode, rows in self.effects.items()}
        return batch

    def _rows(self, episode: Episode) -> Bits:
        # Rows are made on first use: most effects of a description strike few kinds of places.
        if episode not in self.effects:
            places = len(self.arcs) if episode.on_links else self.arcs.topology.order
            self.effects[episode] = no_trials(places, self.words)
        return self.effects[episode]


def episodes_of(faults: Sequence[Fault]) -> Iterator[tuple[Episode, Place]]:
    """Yield the effects of faults with their places; the faults are in the order of their effects."""
    streams = _streams(faults)
    for place, spells in FaultTimeline(faults).spells.items():
        for interval, effect, fault in spells:
            # Certain effects draw no number, so that all faults with this effect share one row for each place.
            drawn = getattr(effect, "probability", 1.0) < 1
            yield Episode(effect, interval, isinstance(place, tuple), streams[id(fault)] if drawn else ""), place


def _streams(faults: Iterable[Fault]) -> dict[int, str]:
    """Return for each fault of a link, by identity, the name of its random numbers."""
    numbers: Counter[tuple[object, ...]] = Counter()
    streams = {}
    for fault in faults:
        if isinstance(fault, LinkFault):
            key = type(fault), fault.place
            # By identity, because two equal faults on one link have different random numbers.
            streams[id(fault)] = f"{kind_of(fault)} {numbers[key]}"
            # As in the engines, the stream has the number of the fault on its link, and a fault with a rate of 0 takes no
            # number.
            numbers[key] += fault.breaks
    return streams


def effects_of(faults: Sequence[Fault], arcs: Arcs) -> Iterator[tuple[Episode, int]]:
    """Yield the effects of faults with their places: ranks, or numbers of arcs."""
    for episode, place in episodes_of(faults):
        yield episode, arcs.number.get(place, -1) if isinstance(place, tuple) else place


# --- on the hops of a schedule -----------------------------------------------------------------------------------------


class BatchEffects:
    """The effects of a batch on the hops of a schedule. `folds`: contents are folds of contributions."""

    def __init__(self, schedule: Schedule, batch: FaultBatch, *, folds: bool) -> None:
        self.trials = batch.trials
        self.has_values = has_values(batch, folds=folds)
        self._schedule = schedule
        self._batch = batch
        self._arcs = batch.arcs
        self._folds = folds
        self._in_force: list[tuple[Episode, Bits]] = []
        self._lost = self._losses()

    def begin(self, step: Step, arrived: Bits) -> None:
        """Take the effects that are in force; what a rank has received it keeps."""
        del arrived
        self._in_force = [(episode, rows) for episode, rows in self._batch.effects.items() if step in episode.interval]

    def silence(self, hops: StepHops, sent: Bits) -> None:
        """Take out the hops that stopped ranks would send."""
        for episode, rows in self._in_force:
            if isinstance(episode.effect, Stops) and not episode.on_links:
                # A rank that is stopped from the first step on has received nothing that it could pass on, so only its
                # own messages have to be taken out.
                at = hops.begins if episode.interval.start <= 1 else slice(None)
                sent[at] &= ~rows[self._schedule.sender[hops.part][at]]

    def cross(self, hops: StepHops, sent: Bits, wrong: Bits | None, apart: Bits | None) -> Bits:
        """Return the sent copies that arrive, and forge contents."""
        if wrong is not None and apart is not None:
            self._forge(hops, wrong, apart)
        arriving = sent
        for episode, rows in self._in_force:
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
            arriving = arriving & ~rows[at[hops.part]]
        if self._lost is not None:
            lost, rows = self._lost
            # The lost hops are sorted, so the losses of a step are adjacent.
            first, last = np.searchsorted(lost, (hops.part.start, hops.part.stop))
            if first < last:
                arriving = arriving.copy()
                arriving[lost[first:last] - hops.part.start] &= ~rows[first:last]
        return arriving

    def _forge(self, hops: StepHops, wrong: Bits, apart: Bits) -> None:
        senders = self._schedule.sender[hops.part]
        # Common forgeries first: of several effects at a rank, values of its own decide.
        altered = [(effect.alike, rows) for (effect, *_), rows in self._in_force if isinstance(effect, Alters)]
        for alike, rows in sorted(altered, key=itemgetter(0), reverse=True):
            active = rows[senders]
            if not self._folds:
                # A rank does not alter its own messages; a fold under its name holds contributions of others.
                active[self._schedule.origin[hops.part] == senders] = 0
            wrong |= active
            if alike:
                apart &= ~active
            else:
                apart |= active

    # --- losses --------------------------------------------------------------------------------------------------------

    def _losses(self) -> tuple[Indices, Bits] | None:
        """Return the hops whose packets are lost at random, ascending, and the trials.

        Losses are drawn as the message engine draws them.
        """
        rows: dict[int, Bits] = {}
        for episode, struck in self._batch.effects.items():
            if not episode.stream:
                continue
            for arc in np.flatnonzero(struck.any(axis=1)).tolist():
                # Numbers are drawn in Python, one for each packet and trial, so trials with a working link are left
                # out.
                trials = np.flatnonzero(unpacked(struck[arc]))
                for step, hops in self._packets_of(arc, episode.interval):
                    lost = self._drawn(episode, arc, step, trials, self._batch.seeds)
                    row = no_trials(1, self._batch.words)
                    mark(row, np.zeros(len(lost), np.int64), lost)
                    for hop in hops.tolist():
                        rows[hop] = rows[hop] | row[0] if hop in rows else row[0]
        order = sorted(rows)
        return (np.array(order), np.stack([rows[hop] for hop in order])) if rows else None

    def _packets_of(self, arc: int, interval: Interval) -> Iterator[tuple[Step, Indices]]:
        """Yield the packets that cross an arc during an interval: the step and the hops of each."""
        arcs, order = self._arcs.in_order
        first, last = np.searchsorted(arcs, (arc, arc + 1))
        hops = order[first:last]
        steps = self._schedule.step[hops]
        for step in np.unique(steps).tolist():
            if step in interval:
                yield step, hops[steps == step]

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


def has_values(batch: FaultBatch, *, folds: bool) -> bool:
    """Return whether contents can be wrong under a batch."""
    return folds or any(isinstance(episode.effect, Alters) for episode in batch.effects)
