"""Many sets of faults at once: for each effect, the places that have it in each trial, as bit rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from coordinator.dependence.bit_rows import Bits, Indices, first_trials, mark, no_trials, words_for
from coordinator.dependence.schedule import Schedule
from coordinator.planning.outages import outages_of
from emunode.faults.kinds import Down, Fault, Loss, NodeFault, Up
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology


class Effect(NamedTuple):
    """A kind of fault in an interval of steps; both ends are included."""

    kind: type[Fault]
    first: Step
    last: Step
    rate: float = 1.0
    number: int = 0
    """Number among the faults of this kind on the same link; it names their random numbers."""


class Arcs:
    """The directions of links that a schedule uses, numbered."""

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self.topology = topology
        self._ports = topology.degree
        self._known, self.of_hop = np.unique(schedule.sender * self._ports + schedule.port, return_inverse=True)

    def __len__(self) -> int:
        return len(self._known)

    def ends(self, arc: int) -> tuple[Rank, Port]:
        """The sender and its port."""
        rank, port = divmod(int(self._known[arc]), self._ports)
        return rank, port

    def numbers(self, senders: Indices, ports: Indices) -> Indices:
        """The numbers of these directions; -1 for one that the schedule does not use."""
        keys = senders * self._ports + ports
        found = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        return np.where(self._known[found] == keys, found, -1)


class FaultBatch:
    """The faults of `trials` trials: by effect, a row of bits for each place (rank, or arc) that may have it."""

    def __init__(self, arcs: Arcs, trials: int, seeds: Sequence[int] | None = None) -> None:
        self.arcs = arcs
        self.trials = trials
        self.words = words_for(trials)
        self.seeds = seeds or [0] * trials
        """The seed of each trial, for losses."""
        self.effects: dict[Effect, Bits] = {}

    def strike_nodes(self, effect: Effect, ranks: Indices, trials: Indices) -> None:
        """Give the nodes a fault in the trials; arrays of the same shape."""
        mark(self._rows(effect), ranks, trials)

    def strike_arcs(self, effect: Effect, arcs: Indices, trials: Indices) -> None:
        """Give the directions of links a fault; those that the schedule does not use (-1) are left out."""
        used = arcs >= 0
        mark(self._rows(effect), arcs[used], trials[used])

    def strike_all(self, effects: Iterable[tuple[Effect, int]]) -> None:
        """Give places a fault in every trial, as the faults of a scenario."""
        everywhere = first_trials(self.trials)
        for effect, place in effects:
            if place >= 0:
                self._rows(effect)[place] |= everywhere

    def part(self, words: slice) -> "FaultBatch":
        """The batch of the trials in some words of the rows."""
        start, stop, _ = words.indices(self.words)
        trials = min(self.trials, stop * 64) - start * 64
        found = FaultBatch(self.arcs, trials, self.seeds[start * 64 : start * 64 + trials])
        found.effects = {effect: rows[:, start:stop] for effect, rows in self.effects.items()}
        return found

    def _rows(self, effect: Effect) -> Bits:
        if effect not in self.effects:
            places = self.arcs.topology.order if issubclass(effect.kind, NodeFault) else len(self.arcs)
            self.effects[effect] = no_trials(places, self.words)
        return self.effects[effect]


def effects_of(faults: Sequence[Fault], arcs: Arcs) -> Iterator[tuple[Effect, int]]:
    """The effects of faults that were drawn up by hand, with their places (rank, or number of an arc)."""
    repaired = outages_of((fault for fault in faults if isinstance(fault, Down | Up)), (), arcs.topology, 0)
    assert repaired is not None
    for (sender, port), intervals in repaired.links.items():
        for first, last in intervals:
            yield Effect(Down, first, last), _number(arcs, sender, port)
    on_link: Counter[tuple[Rank, Port]] = Counter()
    for fault in faults:
        match fault:
            case Down() | Up():
                pass
            case Loss(rate=rate, sender=sender, port=port):
                if rate:
                    yield Effect(Loss, fault.step, fault.last, rate, on_link[sender, port]), _number(arcs, sender, port)
                    on_link[sender, port] += 1
            case NodeFault(rank=rank):
                yield Effect(type(fault), fault.step, fault.end), rank
            case _:
                raise TypeError(fault)


def _number(arcs: Arcs, sender: Rank, port: Port) -> int:
    return int(arcs.numbers(np.array([sender]), np.array([port]))[0])


def batch_of(arcs: Arcs, sets: Sequence[Sequence[Fault]], seeds: Sequence[int] | None = None) -> FaultBatch:
    """A batch of given sets of faults, one per trial; each set is in the order in which its faults take effect."""
    batch = FaultBatch(arcs, len(sets), seeds)
    struck: dict[Effect, tuple[list[int], list[int]]] = {}
    for trial, faults in enumerate(sets):
        for effect, place in effects_of(faults, arcs):
            places, trials = struck.setdefault(effect, ([], []))
            places.append(place)
            trials.append(trial)
    for effect, (places, trials) in struck.items():
        strike = batch.strike_nodes if issubclass(effect.kind, NodeFault) else batch.strike_arcs
        strike(effect, np.array(places), np.array(trials))
    return batch
