"""Many sets of faults at once: for each effect, the places that have it in each trial, as bit rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coordinator.theory.dependence.bit_rows import Bits, Indices, first_trials, mark, no_trials, words_for
from coordinator.theory.dependence.schedule import Schedule
from emunode.faults.effects import Effect, Interval, LinkEnd, Place
from emunode.faults.kinds import Fault, LinkFault, kind_of
from emunode.faults.timeline import FaultTimeline
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
        found = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        return np.where(self._known[found] == keys, found, -1)


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
        found = FaultBatch(self.arcs, trials, self.seeds[start * 64 : start * 64 + trials])
        found.effects = {episode: rows[:, start:stop] for episode, rows in self.effects.items()}
        return found

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
    """Return for each fault of a link the name of its random numbers: the engines number faults of one kind on one
    link.
    """
    numbers: Counter[tuple[object, ...]] = Counter()
    streams = {}
    for fault in faults:
        if isinstance(fault, LinkFault):
            key = type(fault), fault.place
            # By identity, because two equal faults on one link have different random numbers.
            streams[id(fault)] = f"{kind_of(fault)} {numbers[key]}"
            # Faults with a rate of 0 are not counted.
            # The number of a fault on its link is part of its stream, as in the engines.
            numbers[key] += fault.breaks
    return streams


def effects_of(faults: Sequence[Fault], arcs: Arcs) -> Iterator[tuple[Episode, int]]:
    """Yield the effects of faults with their places: ranks, or numbers of arcs."""
    for episode, place in episodes_of(faults):
        yield episode, arcs.number.get(place, -1) if isinstance(place, tuple) else place


def batch_of(arcs: Arcs, sets: Sequence[Sequence[Fault]], seeds: Sequence[int] | None = None) -> FaultBatch:
    """Return a batch of given sets of faults, one per trial; each set is in the order of its faults' effects."""
    batch = FaultBatch(arcs, len(sets), seeds)
    struck: dict[Episode, tuple[list[int], list[int]]] = {}
    for trial, faults in enumerate(sets):
        for episode, place in effects_of(faults, arcs):
            places, trials = struck.setdefault(episode, ([], []))
            # Collected first and marked at once: numpy takes a whole list as fast as one place.
            places.append(place)
            trials.append(trial)
    for episode, (places, trials) in struck.items():
        strike = batch.strike_arcs if episode.on_links else batch.strike_nodes
        strike(episode, np.array(places), np.array(trials))
    return batch
