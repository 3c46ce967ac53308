"""Places: the order of ranks in a classical algorithm, and the links that it needs between them.

An algorithm for p ranks speaks of places 0..p-1. Place i is rank i, unless an algorithm needs a Hamiltonian cycle: then it
is the i-th rank on a cycle that is known for the family, or found by a search of bounded length.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import ABSENT, CACHE_ENTRIES, Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph
from emunode.trees.star.hamiltonian import hamiltonian_cycle

SEARCHED_NODES = 2000
"""Nodes of the largest network where a Hamiltonian cycle is searched."""
SEARCH_STEPS = 200_000
"""Most ranks that the search tries."""


class Places:
    """An order of the ranks, and the ports between places."""

    def __init__(self, topology: Topology, ranks: Sequence[Rank]) -> None:
        self.topology = topology
        self.ranks = ranks
        """The rank at each place."""
        self.count = len(ranks)
        natural = ranks == range(topology.order)
        self._place = {} if natural else {rank: place for place, rank in enumerate(ranks)}
        # A ring asks for the same port of a place once for each block that passes, and a search looks at every port.
        self.port = lru_cache(CACHE_ENTRIES)(self._port)
        """The port that leads from one place to another; ValueError if no link does."""

    def place(self, rank: Rank) -> int:
        """Return the place of a rank."""
        return self._place.get(rank, rank)

    def _port(self, place: int, other: int) -> Port:
        return self.topology.neighbours(self.ranks[place]).index(self.ranks[other])

    def require(self, links: Iterable[tuple[int, int]], name: str) -> None:
        """Refuse the network (field `topology`) if it lacks a link between two places; the first one is named."""
        for place, other in links:
            here, there = self.ranks[place], self.ranks[other]
            if there not in self.topology.neighbours(here):
                label = self.topology.label
                reason = f"{name} needs a link between {label(here)} and {label(there)}, which this network lacks"
                raise ScenarioError("topology", self.topology.name, reason)


def natural_places(topology: Topology) -> Places:
    """Place i is rank i."""
    return Places(topology, topology.ranks())


def ring_places(topology: Topology) -> Places:
    """Return the places along a Hamiltonian cycle; the order of the ranks where it is one, or where no cycle is found."""
    return Places(topology, _cycle(topology))


@lru_cache(16)
def _cycle(topology: Topology) -> Sequence[Rank]:
    ranks = topology.ranks()
    if all((rank + 1) % topology.order in topology.neighbours(rank) for rank in ranks):
        return ranks
    match topology:
        case StarGraph() as star:
            return list(_walk(topology, hamiltonian_cycle(star)))
        case Hypercube():
            return [rank ^ rank >> 1 for rank in ranks]
        case EisensteinJacobi(dimensions=1) if gcd(topology.a, topology.b) == 1:
            # The unit 1 then generates all residues.
            return list(_walk(topology, [0] * topology.order))
    return _searched(topology) or ranks


def _walk(topology: Topology, ports: Iterable[Port]) -> Iterator[Rank]:
    """Yield the ranks from 0 on along `ports`, without the last one: it closes the cycle."""
    here = 0
    for port in ports:
        yield here
        here = topology.neighbour(here, port)


def _searched(topology: Topology) -> list[Rank] | None:
    """Return a Hamiltonian cycle by backtracking, ranks with the fewest free neighbours first; None if the search is
    too long.
    """
    if topology.order > SEARCHED_NODES:
        return None
    around = [[peer for peer in topology.neighbours(rank) if peer != ABSENT] for rank in topology.ranks()]
    path, used = [0], {0}

    def choices(rank: Rank) -> list[Rank]:
        free = [peer for peer in around[rank] if peer not in used]
        # The best choice is the last item.
        return sorted(free, key=lambda peer: (sum(each not in used for each in around[peer]), peer), reverse=True)

    left = [choices(0)]
    for _ in range(SEARCH_STEPS):
        if len(path) == topology.order and 0 in around[path[-1]]:
            return path
        if left[-1]:
            rank = left[-1].pop()
            path.append(rank)
            used.add(rank)
            left.append(choices(rank))
        elif len(path) == 1:
            return None
        else:
            left.pop()
            used.discard(path.pop())
    return None
