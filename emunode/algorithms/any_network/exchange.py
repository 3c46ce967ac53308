"""Total exchange on any connected network: shortest paths chosen for even loads, then list scheduling.

Paths are chosen pair by pair, the nearest first, over the links that carry least so far, and chosen again when all others
are known. Then, in every step, every link carries the waiting segments that have most links to go: one, or as many as the
scenario's link capacity allows. Segments may wait inside nodes.

Where translations carry every node to every other, all sources can do the same relative to themselves: a port then stands
for the links of all nodes at that port, and only the segments of node 0 are scheduled. On a small network where that misses
the lower bound, all pairs are scheduled one by one as well, also on breadth-first trees, and the shortest table is used.
"""

from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from heapq import heappop, heappush
from itertools import product
from typing import ClassVar

from emunode.algorithms.any_network.last_hops import require_searchable
from emunode.algorithms.any_network.table_collective import SegmentKey, TableCollective, TableHop
from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim, lower_bound, one_segment
from emunode.model import Collective, Port, Rank, Step
from emunode.registry import register
from emunode.topologies.base import CayleyTopology, Topology

LinkPath = tuple[tuple[Rank, Port], ...]
"""The links of a path, as (sender, port)."""
Chain = tuple[tuple[Rank, Port], "Chain"] | None
"""A path as its first link and the rest."""
CITATION = "list scheduling (Graham 1966) on shortest paths"
MOST_HOPS = 5_000_000
"""Hops that a table may have: about a gigabyte and two minutes."""
FEW_HOPS = 100_000
"""Up to this number of hops of all sources, both kinds of tables are tried: about a second."""
ROUNDS = 3
"""How often every path is chosen. Further rounds made no schedule shorter."""


class ExchangeTable:
    """Paths and a timetable for `copies` segments of every pair of ranks.

    If `translated`, only the pairs of node 0 are in it.
    """

    def __init__(self, topology: Topology, copies: int, capacity: int, *, translated: bool) -> None:
        """Prepare the table for links that carry at most `capacity` segments in one step."""
        self.topology = topology
        self.copies = copies
        self.capacity = capacity
        self.translated = translated
        origins = range(1) if translated else topology.data_ranks
        self.distances: Mapping[Rank, array[int]] = {rank: topology.distances_from(rank) for rank in origins}
        # The links into every rank, as (sender, port there), by ascending port of the rank.
        self.entering = [[(sender, port) for _, sender, port in topology.ends(rank)] for rank in topology.ranks()]

    def machine(self, sender: Rank, port: Port) -> int:
        """Return a unit that carries `capacity` segments per step.

        It is a link, or with translations all links at one port.
        """
        return port if self.translated else sender * self.topology.degree + port

    @property
    def pairs(self) -> list[tuple[Rank, Rank]]:
        """(origin, target) of all pairs, the nearest first.

        Of pairs that are equally near, origins turn to different targets.
        """
        order, data = self.topology.order, self.topology.data_ranks
        pairs = [(origin, target) for origin in self.distances for target in data if target != origin]
        return sorted(pairs, key=lambda pair: (self.distances[pair[0]][pair[1]], (pair[1] - pair[0]) % order, pair))

    @cached_property
    def hops(self) -> list[TableHop]:
        """Every hop, in order of steps.

        Every machine serves the waiting segments that have most links to go.
        """
        paths, order = self.paths(), self.topology.order
        ready: dict[int, list[tuple[int, int, SegmentKey]]] = {}
        done = dict.fromkeys(paths, 0)

        def enqueue(item: SegmentKey) -> None:
            path, place = paths[item], done[item]
            if place < len(path):
                # Among equals, origins turn to different targets again, or all would crowd around one.
                urgency = (place - len(path), (item[1] - item[0]) % order, item)
                heappush(ready.setdefault(self.machine(*path[place]), []), urgency)

        for item in paths:
            enqueue(item)
        hops, step = [], 0
        while ready:
            step += 1
            # All machines first: a segment that has just been served is not served again in the same step.
            served = [
                heappop(queue)[2] for _, queue in sorted(ready.items()) for _ in range(min(self.capacity, len(queue)))
            ]
            ready = {machine: queue for machine, queue in ready.items() if queue}
            for item in served:
                hops.append(TableHop(step, *paths[item][done[item]], item))
                done[item] += 1
                enqueue(item)
        return hops

    @property
    def steps(self) -> Step:
        """The last step."""
        return self.hops[-1].step

    @abstractmethod
    def paths(self) -> dict[SegmentKey, LinkPath]:
        """Return a shortest path for every segment of every pair."""


class LightestPaths(ExchangeTable):
    """Every path avoids links that others use."""

    def paths(self) -> dict[SegmentKey, LinkPath]:
        loads: Counter[int] = Counter()
        chosen: dict[SegmentKey, LinkPath] = {}
        for _ in range(ROUNDS):
            for (origin, target), copy in product(self.pairs, range(self.copies)):
                item = origin, target, copy
                loads.subtract(self.machine(*link) for link in chosen.get(item, ()))
                chosen[item] = self._lightest_path(origin, target, loads)
                loads.update(self.machine(*link) for link in chosen[item])
        return chosen

    def _lightest_path(self, origin: Rank, target: Rank, loads: Mapping[int, int]) -> LinkPath:
        """Return the shortest path with the least sum of squared loads, the load of this path included; ties by rank
        and port.
        """
        distances, entering = self.distances[origin], self.entering
        # By rank: the cost of the best way on to the target, and that way as a chain of links.
        level: dict[Rank, tuple[int, Chain]] = {target: (0, None)}
        for distance in range(distances[target], 0, -1):
            nearer: dict[Rank, tuple[int, Chain]] = {}
            for rank, (cost, onward) in sorted(level.items()):
                for link in entering[rank]:
                    if distances[link[0]] == distance - 1:
                        whole = cost + (loads[self.machine(*link)] + 1) ** 2
                        if link[0] not in nearer or whole < nearer[link[0]][0]:
                            nearer[link[0]] = whole, (link, onward)
            level = nearer
        path, chain = [], level[origin][1]
        while chain is not None:
            path.append(chain[0])
            chain = chain[1]
        return tuple(path)


class TreePaths(ExchangeTable):
    """Every path is the one in the breadth-first tree of its origin."""

    def paths(self) -> dict[SegmentKey, LinkPath]:
        return {
            (origin, target, copy): path
            for origin, target in self.pairs
            for path in [self._path(origin, target)]
            for copy in range(self.copies)
        }

    def _path(self, origin: Rank, target: Rank) -> LinkPath:
        """Return the path from the target backwards, over the lowest port that leads closer to the origin."""
        distances, rank = self.distances[origin], target
        path: list[tuple[Rank, Port]] = []
        while rank != origin:
            path.append(next(link for link in self.entering[rank] if distances[link[0]] < distances[rank]))
            rank = path[-1][0]
        return tuple(reversed(path))


class Exchange(TableCollective):
    """Total exchange by a table of shortest paths."""

    family = "any"
    collective = Collective.ALLTOALL
    link_capacity = 1
    needs = frozenset({Need.TABLE, Need.OPEN_CAPACITY})
    citation = CITATION
    tables: ClassVar[tuple[type[ExchangeTable], ...]]
    """The ways to choose paths; on a small network all are tried."""

    def validate(self) -> None:
        require_searchable(self.topology, self.name)
        super().validate()
        self.cut()
        hops = self.table_hops
        reason = f"{self.name} schedules {hops:,} hops here, and its tables hold at most {MOST_HOPS:,}"
        self.topology.require(hops <= MOST_HOPS, reason)

    @property
    def table_hops(self) -> int:
        return self.all_hops // (self.topology.order if isinstance(self.topology, CayleyTopology) else 1)

    @cached_property
    def all_hops(self) -> int:
        """The sum of the distances of all pairs, times the segments for each."""
        topology, data = self.topology, self.topology.data_ranks
        if isinstance(topology, CayleyTopology):
            distribution = enumerate(topology.distribution_from(0))
            return self.copies * topology.order * sum(distance * count for distance, count in distribution)
        return self.copies * sum(
            distances[rank] for root in data for distances in [topology.distances_from(root)] for rank in data
        )

    @property
    def least_steps(self) -> Step:
        """The lower bound by distances: every directed link carries a full packet in each step, and the farthest pair sends
        one."""
        return max(-(-self.all_hops // (2 * self.topology.link_count * self.most_per_step)), self.topology.diameter)

    @property
    def most_per_step(self) -> int:
        """The most segments that a link carries in one step."""
        # Without a bound, as many as there are.
        return self.all_hops if self.link_capacity is None else self.link_capacity

    @property
    def _farthest(self) -> int:
        """The distance of the farthest pair."""
        topology, data = self.topology, self.topology.data_ranks
        if isinstance(topology, CayleyTopology):
            return len(topology.distribution_from(0)) - 1
        return max(distances[rank] for root in data for distances in [topology.distances_from(root)] for rank in data)

    @cached_property
    def table(self) -> ExchangeTable:
        """The shortest of several tables, tried until one meets the lower bound."""
        topology = self.topology
        shortest: ExchangeTable | None = None
        for translated, paths in product((True, False), self.tables):
            if translated and not isinstance(topology, CayleyTopology):
                continue
            if shortest is None or (self.all_hops <= FEW_HOPS and shortest.steps > self.least_steps):
                other = paths(topology, self.copies, self.most_per_step, translated=translated)
                shortest = other if shortest is None or other.steps < shortest.steps else shortest
        assert shortest is not None
        return shortest

    @cached_property
    def translated(self) -> bool:
        return self.table.translated

    def hops(self) -> Iterator[TableHop]:
        return iter(self.table.hops)

    def claims(self) -> list[Claim]:
        data = len(self.topology.data_ranks)
        return [
            *self._step_claims(),
            Claim("segments", self.all_hops, "==", f"{CITATION}: sum of the distances of all pairs"),
            Claim(
                "intact_deliveries", data * (data - 1) * self.spec.messages, "==", f"{CITATION}: a path for each pair"
            ),
            *self.structure_claims(),
        ]

    def _step_claims(self) -> list[Claim]:
        """Return the claims about steps, and about the sizes of packets."""
        capacity = self.link_capacity
        if capacity is None:
            source = f"{CITATION}: nothing waits, and the farthest pair needs its distance"
            return [Claim("steps", self._farthest, "==", source)]
        bound = "lower bound: sum of distances over directed links, and the diameter"
        packets = one_segment(self.segments_per_message) if capacity == 1 else f"packets of at most {capacity} segments"
        return [
            Claim("steps", self.table.steps, "==", f"{CITATION}: the table", derived=True),
            lower_bound("steps", self.least_steps, bound, packets),
            Claim(
                "max_link_segments_per_step",
                capacity,
                "==" if capacity == 1 else "<=",
                f"{CITATION}: a link carries {'one segment' if capacity == 1 else f'{capacity} segments'} per step",
            ),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{CITATION}: shortest paths")]


@register
class ListScheduledExchange(Exchange):
    """Total exchange over the least loaded shortest paths; in every step a link carries the segment that has most links to
    go.

    A heuristic without a proof. It meets the lower bound by distances on complete networks, rings, hypercubes, S_3, the
    Petersen graph and others, and misses it by a few per cent on most; the ratio of a run to the bound is in its claims.
    """

    name = "list-schedule"
    tables = (LightestPaths, TreePaths)


@register
class TreeExchange(Exchange):
    """Total exchange down the breadth-first tree of every source: the baseline for chosen paths.

    A path enters every rank over the lowest port that leads closer to the source. Links are scheduled as in `list-schedule`.
    """

    name = "bfs-tree"
    tables = (TreePaths,)
