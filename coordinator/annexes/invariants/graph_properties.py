"""Properties of a network as a graph: distances, girth, connectivity, symmetry.

A family may know a property by a formula. Everything else is computed from the links, exactly, within a time limit for each
property and up to a largest network; otherwise it is `NotComputed` with the reason.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from coordinator.annexes.invariants.graph_connectivity import (
    Expired,
    OutOfTimeError,
    check_time,
    edge_connectivity,
    never,
    vertex_connectivity,
)
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.all_pairs import NeighbourLists, blocks_of_roots, reach_by_distance
from emunode.topologies.base import (
    SEARCH_LIMIT,
    CayleyTopology,
    RegularTopology,
    Topology,
    VertexTransitiveTopology,
    knows,
)
from emunode.topologies.digest import network_sha256
from emunode.topologies.table import TableTopology

LARGEST_TABLE: Final = 1 << 18
"""The largest network, in nodes, whose links are listed; larger ones are known by formulas only."""
LARGEST_CYCLE_SEARCH: Final = 1 << 20
"""Most nodes that one search for a shortest cycle visits."""

Computed = TypeVar("Computed")
StartClock = Callable[[], Expired]
"""Begins the time of one property."""


SEARCHED_AVERAGES: Final = (
    Topology.average_distance,
    VertexTransitiveTopology.average_distance,
    TableTopology.average_distance,
)
"""Definitions that search from every rank, and have no time limit."""


@dataclass(frozen=True)
class NotComputed:
    """A property that is not known, and why."""

    reason: str


Known = int | float | str | bool | tuple[int, ...] | None | NotComputed
"""The value of a property."""


@dataclass(frozen=True)
class DistanceTable:
    """Distances between all pairs of ranks, counted."""

    ordered_pairs: tuple[int, ...]
    """How many ordered pairs of ranks are at distance 0, 1, .., diameter."""
    profiles: int
    """How many different sequences (ranks at distance 1, 2, ..) the ranks have."""


class GraphProperties:
    """The properties of one network, each computed when it is asked for."""

    def __init__(self, topology: Topology, start_clock: StartClock = lambda: never, seconds: float = 0) -> None:
        """Store how to start the clock of each property; `seconds` is the time that `start_clock` allows, for messages."""
        self.topology = topology
        self.transitive = isinstance(topology, VertexTransitiveTopology)
        self._start_clock = start_clock
        self._seconds = seconds
        self._failed: dict[str, Exception] = {}

    def record(self) -> dict[str, Known]:
        """Return all properties by name, in the order of display."""
        return {name: self.value(name) for name in NAMES}

    def value(self, name: str) -> Known:
        """Return one of `NAMES`, or why it is not known."""
        found: Known
        try:
            found = getattr(self, name)
        except OutOfTimeError:
            found = NotComputed(f"it takes more than {self._seconds:g} s")
        except LargeNetworkError as error:
            found = NotComputed(str(error))
        except ScenarioError as error:
            # The family refuses a search over all nodes.
            found = NotComputed(error.allowed)
        return found

    # Size.

    @property
    def order(self) -> int:
        """Number of nodes."""
        return self.topology.order

    @property
    def links(self) -> int:
        """Number of links."""
        topology = self.topology
        # The general definition looks at every rank; a family that overrides it has a formula.
        known = isinstance(topology, RegularTopology) or type(topology).link_count is not Topology.link_count
        # Refused in advance: a count of links has no time limit.
        self._require(known or self.order <= LARGEST_TABLE, LARGEST_TABLE)
        return topology.link_count

    @property
    def degree_min(self) -> int:
        """The least number of links at a node."""
        return self._degrees[0]

    @property
    def degree_max(self) -> int:
        """The largest number of links at a node."""
        return self._degrees[1]

    @property
    def ports(self) -> int:
        """How many port numbers there are; nodes may lack some of them."""
        return self.topology.degree

    @property
    def switches(self) -> int:
        """How many nodes only forward."""
        if type(self.topology).is_switch is Topology.is_switch:
            return 0
        self._require(self.order <= LARGEST_TABLE, LARGEST_TABLE)
        return sum(map(self.topology.is_switch, self.topology.ranks()))

    @cached_property
    def _degrees(self) -> tuple[int, int]:
        # No rank has to be looked at where all have the same degree.
        if isinstance(self.topology, RegularTopology):
            return self.topology.degree, self.topology.degree
        degrees = [len(neighbours) for neighbours in self._adjacency]
        return min(degrees), max(degrees)

    # Distances.

    @property
    def bipartite(self) -> bool:
        """Whether there are no cycles of odd length."""
        topology = self.topology
        self._require(knows(topology, "bipartite") or self.order <= LARGEST_TABLE, LARGEST_TABLE)
        return topology.bipartite

    @property
    def diameter(self) -> int:
        """The largest distance."""
        if knows(self.topology, "diameter"):
            return self.topology.diameter
        return len(self.ordered_pairs_by_distance) - 1

    @property
    def average_distance(self) -> float:
        """Mean distance between two different nodes."""
        if type(self.topology).average_distance not in SEARCHED_AVERAGES:
            return float(self.topology.average_distance)
        pairs = self.ordered_pairs_by_distance
        return sum(distance * count for distance, count in enumerate(pairs)) / (sum(pairs) - pairs[0])

    @cached_property
    def distances_from_rank_0(self) -> tuple[int, ...]:
        """How many nodes are at distance 0, 1, .. from rank 0."""
        topology = self.topology
        # A family that overrides the general search has a formula for its distances.
        known = isinstance(topology, VertexTransitiveTopology) and (
            type(topology).distance_distribution is not VertexTransitiveTopology.distance_distribution
        )
        self._require(known or self.order <= SEARCH_LIMIT, SEARCH_LIMIT)
        return topology.distribution_from(0)

    @property
    def ordered_pairs_by_distance(self) -> tuple[int, ...]:
        """How many ordered pairs of nodes are at distance 0, 1, .., diameter."""
        if self.transitive:
            return tuple(self.order * count for count in self.distances_from_rank_0)
        return self._distances.ordered_pairs

    @cached_property
    def _distances(self) -> DistanceTable:
        adjacency = self._adjacency
        return self._once("distances", lambda: distance_table(adjacency, self._start_clock()))

    # Cycles and cuts.

    @cached_property
    def girth(self) -> int | None:
        """The length of a shortest cycle; None if there are no cycles."""
        if self.transitive:
            # One root stands for all, and few of its links need to be known.
            return girth(self._neighbours, [0], self._start_clock())
        return girth(self._adjacency.__getitem__, self.topology.ranks(), self._start_clock())

    @cached_property
    def edge_connectivity(self) -> int:
        """The least number of links whose loss disconnects the network."""
        if self.transitive:
            return self.topology.degree  # as of every connected vertex-transitive graph (Mader 1971)
        return edge_connectivity(self._adjacency, self._start_clock())

    @cached_property
    def vertex_connectivity(self) -> int:
        """The least number of nodes whose loss disconnects the network."""
        return vertex_connectivity(self._adjacency, self._start_clock())

    # Symmetry and identity.

    @property
    def symmetry(self) -> str:
        """The known symmetry: `cayley`, `vertex-transitive`, `not vertex-transitive` or `unknown`."""
        if self.transitive:
            return "cayley" if isinstance(self.topology, CayleyTopology) else "vertex-transitive"
        # Symmetries keep degrees and distances, so ranks that differ in either are not equivalent. Equal ranks prove
        # nothing.
        if self.degree_min != self.degree_max or self._distances.profiles > 1:
            return "not vertex-transitive"
        return "unknown"

    @property
    def network_sha256(self) -> str:
        """The digest of labels, links and ports."""
        self._require(self.order <= LARGEST_TABLE, LARGEST_TABLE)
        # Of 8 million links it takes a minute.
        return network_sha256(self.topology, partial(check_time, self._start_clock()))

    # The links.

    @cached_property
    def _adjacency(self) -> NeighbourLists:
        self._require(self.order <= LARGEST_TABLE, LARGEST_TABLE)
        return self._once("adjacency", self._list_links)

    def _list_links(self) -> NeighbourLists:
        expired = self._start_clock()
        adjacency = []
        for rank in self.topology.ranks():
            check_time(expired)
            adjacency.append(self._neighbours(rank))
        return adjacency

    def _once(self, name: str, compute: Callable[[], Computed]) -> Computed:
        """Return the result of `compute`. If its time is over, it is not tried again."""
        # Several properties need the same table; its time is over for all of them.
        if name in self._failed:
            raise self._failed[name]
        try:
            return compute()
        except OutOfTimeError as error:
            self._failed[name] = error
            raise

    def _neighbours(self, rank: Rank) -> Sequence[Rank]:
        return [neighbour for _, neighbour in self.topology.adjacent(rank)]

    def _require(self, condition: bool, limit: int) -> None:
        if not condition:
            raise LargeNetworkError(f"no formula is known, and {self.order:,} nodes are more than {limit:,}")


class LargeNetworkError(Exception):
    """A network is too large for a computation."""


NAMES: Final = (
    "order", "switches", "degree_min", "degree_max", "ports", "links", "bipartite", "diameter", "average_distance",
    "distances_from_rank_0", "ordered_pairs_by_distance", "girth", "vertex_connectivity", "edge_connectivity", "symmetry",
    "network_sha256",
)  # fmt: skip
"""The properties in the order of display."""


def distance_table(adjacency: NeighbourLists, expired: Expired = never) -> DistanceTable:
    """Search from every rank of a connected network."""
    order = len(adjacency)
    at_distance: list[NDArray[np.int64]] = []
    """By distance and rank: how many ranks are at that distance."""
    for roots in blocks_of_roots(order):
        before = np.zeros(order, dtype=np.int64)
        for distance, reach in enumerate(reach_by_distance(adjacency, roots)):
            check_time(expired)
            if distance == len(at_distance):
                at_distance.append(np.zeros(order, dtype=np.int64))
            within = np.fromiter(map(int.bit_count, reach), dtype=np.int64, count=order)
            # `reach` has everything within a distance, so the ranks at exactly this distance are the new ones.
            at_distance[distance] += within - before
            before = within
    # A column has the counts of one rank at all distances, so equal columns are ranks with equal profiles.
    profiles = np.unique(np.stack(at_distance), axis=1).shape[1]
    return DistanceTable(tuple(int(counts.sum()) for counts in at_distance), profiles)


def girth(neighbours: Callable[[Rank], Sequence[Rank]], roots: Iterable[Rank], expired: Expired = never) -> int | None:
    """Return the length of a shortest cycle, or None if there are no cycles.

    One of `roots` must be on a shortest cycle.
    """
    shortest: int | None = None
    for root in roots:
        check_time(expired)
        shortest = _shorter_cycle(neighbours, root, shortest, expired)
        # No cycle is shorter than a triangle.
        if shortest == 3:
            break
    return shortest


def _shorter_cycle(
    neighbours: Callable[[Rank], Sequence[Rank]], root: Rank, shortest: int | None, expired: Expired
) -> int | None:
    """Return the length of the first cycle that a search from `root` closes, if it is shorter than `shortest`."""
    distance, parent = {root: 0}, {root: root}
    queue = [root]
    for rank in queue:
        here = distance[rank]
        # A cycle that is closed at this distance or beyond has at least 2 x distance + 1 links.
        if shortest is not None and 2 * here + 1 >= shortest:
            break
        if len(distance) > LARGEST_CYCLE_SEARCH:
            raise LargeNetworkError(
                f"the {LARGEST_CYCLE_SEARCH:,} nodes closest to one node have no cycle, and the search ends there"
            )
        check_time(expired)
        for neighbour in neighbours(rank):
            if neighbour not in distance:
                distance[neighbour], parent[neighbour] = here + 1, rank
                queue.append(neighbour)
            # The link closes a walk through the root. If the two paths share a beginning, the walk is longer than the
            # cycle in it, so lengths are never too small, and exact at a root on a shortest cycle.
            elif neighbour != parent[rank]:
                length = here + distance[neighbour] + 1
                shortest = length if shortest is None else min(shortest, length)
    return shortest
