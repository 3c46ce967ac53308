"""How many healthy nodes a network still connects to the source under faults, whatever algorithm runs on it.

A node is reached if a path from the source leads to it over nodes and links that work: no algorithm delivers more. Only
faults that are in force from the first step to the end, and that stop nodes or links wholly, leave such a network behind;
for others there is no answer here. The links are followed one hop after the other for thousands of fault sets at once; no
algorithm, schedule or engine has a part in it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.theory.dependence.bit_rows import (
    ALL,
    Indices,
    counted,
    first_trials,
    mark,
    no_trials,
    numbers,
    unpacked,
    words_for,
)
from emunode.faults.effects import Loses, Stops
from emunode.faults.kinds import Fault, LinkFault, NodeFault, stated_effects
from emunode.model import Rank
from emunode.topologies.base import Topology

MOST_FLAGS: Final = 2**25
"""Links times fault sets that are followed at once."""


class FailedPlaces(NamedTuple):
    """Places that stop in some fault sets: pairs of a place and a set, both as positions."""

    places: Indices
    sets: Indices


class ReachedCounts(NamedTuple):
    """By fault set: healthy nodes that own data, without the source, and how many of them are connected to it."""

    healthy: Indices
    reached: Indices
    decided: NDArray[np.bool_]
    """Whether the source and another node with data are healthy."""


def stops_permanently(fault: Fault) -> bool | None:
    """Return whether a fault stops its place from the first step to the end; None if it does, or may do, something else.

    A fault without any effect stops nothing.
    """
    effects = stated_effects(fault)
    if not effects:
        return None if effects is None else False
    for _, interval, effect in effects:
        stops_all = isinstance(effect, Stops) or (
            isinstance(effect, Loses) and effect.probability == 1 and effect.packet is None
        )
        if not stops_all or interval.start > 1 or not interval.is_endless:
            return None
    return True


class Connectivity:
    """A network, and the nodes and directions of links that stop in every fault set."""

    def __init__(self, topology: Topology, source: Rank, given: Sequence[Fault] = (), *, towards: bool = False) -> None:
        """Take the faults `given`, all of which stop a place to the end. With `towards`, paths lead to the source."""
        self.topology, self.source = topology, source
        rows = [(rank, port, other) for rank in topology.ranks() for port, other in topology.adjacent(rank)]
        table = np.array(rows, np.int64).reshape(-1, 3)
        senders, _, receivers = table.T
        self._arc = {(rank, port): at for at, (rank, port, _) in enumerate(rows)}
        self._begin, self._end = (receivers, senders) if towards else (senders, receivers)
        self._dead_nodes = sorted({fault.rank for fault in given if isinstance(fault, NodeFault)})
        self._dead_arcs = sorted(
            {self._arc[fault.sender, fault.port] for fault in given if isinstance(fault, LinkFault)}
        )
        self._counted = np.ones(topology.order, np.bool_)
        self._counted[[rank for rank in topology.ranks() if topology.is_switch(rank)]] = False
        self._counted[source] = False

    def arcs_of(self, links: Iterable[tuple[Rank, Rank]]) -> Indices:
        """Return the two directions of each link, a row each."""
        arc = {(rank, self.topology.neighbour(rank, port)): at for (rank, port), at in self._arc.items()}
        return np.array([(arc[one, other], arc[other, one]) for one, other in links], np.int64).reshape(-1, 2)

    def reached(self, sets: int, nodes: FailedPlaces, arcs: FailedPlaces) -> ReachedCounts:
        """Return what is reached in each of `sets` fault sets; `nodes` are ranks, `arcs` numbers of directed links."""
        size = max(1, MOST_FLAGS // max(1, len(self._begin)))
        parts = [
            self._followed(min(size, sets - start), *(_part(struck, start, start + size) for struck in (nodes, arcs)))
            for start in range(0, sets, size)
        ]
        return ReachedCounts(*(np.concatenate([part[at] for part in parts]) for at in range(3))) if parts else _NOTHING

    def _followed(self, sets: int, nodes: FailedPlaces, arcs: FailedPlaces) -> ReachedCounts:
        words = words_for(sets)
        stopped, cut = no_trials(self.topology.order, words), no_trials(len(self._begin), words)
        mark(stopped, nodes.places, nodes.sets)
        mark(cut, arcs.places, arcs.sets)
        stopped[self._dead_nodes] = ALL
        cut[self._dead_arcs] = ALL
        alive, works = first_trials(sets) & ~stopped, ~cut
        reached = np.zeros_like(alive)
        reached[self.source] = alive[self.source]
        # Sorted by their ends, so that one reduction joins all links into a node.
        order = np.argsort(self._end, kind="stable")
        begin, works = self._begin[order], works[order]
        ends, starts = np.unique(self._end[order], return_index=True)
        while True:
            more = reached.copy()
            more[ends] |= np.bitwise_or.reduceat(reached[begin] & works, starts, axis=0)
            more &= alive
            if np.array_equal(more, reached):
                break
            reached = more
        healthy, connected = (numbers(counted(rows[self._counted]), sets) for rows in (alive, reached))
        decided = unpacked(alive[self.source])[:sets].astype(np.bool_) & (healthy > 0)
        return ReachedCounts(healthy, connected, decided)


def _part(struck: FailedPlaces, start: int, stop: int) -> FailedPlaces:
    within = (struck.sets >= start) & (struck.sets < stop)
    return FailedPlaces(struck.places[within], struck.sets[within] - start)


_NOTHING = ReachedCounts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
