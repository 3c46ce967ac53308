"""Messages from one node to one other, or from every node to its target under a permutation, on any connected network."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from emunode.algorithms.any_network.disjoint_paths import OutgoingLink, closed_lengths, disjoint_families
from emunode.algorithms.any_network.last_hops import require_searchable
from emunode.algorithms.any_network.time_flow import TimeFlow
from emunode.algorithms.base import Algorithm, Dependence, LocalView, Need, Rule, Timing
from emunode.algorithms.claims import Claim, lower_bound, one_segment
from emunode.algorithms.routed_collective import Route, RoutedCollective
from emunode.errors import ScenarioError
from emunode.model import Collective, Duplex, Port, PortModel, PortPacket, Rank, ScheduledSend, Step
from emunode.registry import register
from emunode.topologies.base import SEARCH_LIMIT, CayleyTopology
from emunode.topologies.star import StarGraph
from emunode.trees.base import CACHE_ENTRIES, Trees
from emunode.trees.breadth_first import BreadthFirstTree
from emunode.trees.star.greedy import GreedyTree

MOST_NODES = 50_000
"""The largest network where disjoint paths are searched: some seconds."""
MOST_PLACES = 50_000
"""The most links times steps where the optimum of all schedules is computed: less than a second."""


# --- one shortest path -----------------------------------------------------------------------------------------------


@register
class MinimalUnicast(Algorithm):
    """Unicast over one shortest path, found hop by hop: a node sends on over the port that its own address and the target
    give.

    On the star graph by cycles: the symbol in first position moves to its place, or if it is at home the least symbol that
    is not. Elsewhere over the lowest port that leads closer: on hypercubes the lowest differing bit (e-cube), on lattices
    one direction after the other. Distances come from the formula of the family, or from a table of next hops.

    One message of p segments takes d + p - 1 steps. In a permutation every node sends, and segments queue for their links:
    a node serves its own segments first and then others in the order of their arrival. No fault is survived.
    """

    family = "any"
    name = "minimal"
    collective = Collective.UNICAST
    citation = "minimal routing by a local rule"
    dependence = Dependence.FIXED
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    link_capacity = 1

    def validate(self) -> None:
        topology = self.topology
        if self.spec.permutation:
            # Segments of several nodes meet: they come in over several ports at once, and over a link in both directions.
            allowed = self.spec.port_model is PortModel.ALL_PORT and self.spec.duplex is Duplex.FULL
            if self.spec.port_model in self.port_models and self.spec.duplex in self.duplexes and not allowed:
                model = f"{self.spec.port_model}, {self.spec.duplex}-duplex"
                reason = (
                    f"{self.name} carries one only all-port over full-duplex links, where segments meet; not {model}"
                )
                raise ScenarioError("permutation", None, reason)
            self.port_models = (PortModel.ALL_PORT,)
            self.duplexes = (Duplex.FULL,)
            self.timing = Timing.ADAPTIVE
            self.dependence = Dependence.QUEUED
        if not (
            topology.has_distance_formula or (isinstance(topology, CayleyTopology) and topology.order <= SEARCH_LIMIT)
        ):
            require_searchable(topology, self.name)
        super().validate()
        self.cut()
        # Hot path: every segment of a message asks the same at every node on its way; plain form: the method without a
        # cache.
        self.next_port = lru_cache(CACHE_ENTRIES)(self._next_port)

    @property
    def copies(self) -> int:
        """Segments of one origin."""
        return self.spec.messages * self.segments_per_message

    @cached_property
    def _homeward(self) -> Trees:
        """Shortest paths to rank 0.

        On a network with translations, these serve every rank.
        """
        return GreedyTree(self.topology) if isinstance(self.topology, StarGraph) else BreadthFirstTree(self.topology)

    def _next_port(self, rank: Rank, target: Rank) -> Port:
        """Return the port of `rank` towards `target`, one link closer."""
        topology = self.topology
        if isinstance(topology, CayleyTopology):
            return self._homeward.parent(topology.relative(rank, target), 0)
        if topology.has_distance_formula:
            distance = topology.distance(rank, target)
            return next(port for port, peer in topology.adjacent(rank) if topology.distance(peer, target) < distance)
        return self._next_hops(target)[rank]

    @cached_property
    def _next_hops(self) -> "Callable[[Rank], Sequence[Port]]":
        return lru_cache(None)(self._next_hops_to)

    def _next_hops_to(self, target: Rank) -> Sequence[Port]:
        """Return for each rank the lowest port that leads closer to `target`.

        The target itself has no such port.
        """
        distances = self.topology.distances_from(target)
        return [
            next((port for port, peer in self.topology.adjacent(rank) if distances[peer] < distances[rank]), -1)
            for rank in self.topology.ranks()
        ]

    def path(self, origin: Rank) -> Iterator[tuple[Rank, Port]]:
        """Yield the links from `origin` to its target, as (sender, port)."""
        here, target = origin, self.spec.destination(origin)
        while here != target:
            port = self.next_port(here, target)
            yield here, port
            here = self.topology.neighbour(here, port)

    def rule(self, view: LocalView) -> Rule:
        return RouteQueueRule(self, view)

    def claims(self) -> list[Claim]:
        distances = [self.topology.distance(origin, self.spec.destination(origin)) for origin in self.sources]
        hops, farthest = self.copies * sum(distances), max(distances, default=0)
        claims = [
            Claim("segments", hops, "==", f"{self.citation}: sum of the distances, optimal"),
            Claim("intact_deliveries", self.spec.messages * len(distances), "==", f"{self.citation}: a path each"),
            Claim("max_link_segments_per_step", 1 if distances else 0, "==", f"{self.citation}: one segment per step"),
            *self.structure_claims(),
        ]
        if not self.spec.permutation:
            return [
                *claims,
                Claim("steps", farthest + self.copies - 1, "==", f"{self.citation}: distance + segments - 1"),
            ]
        if not distances:
            return claims
        arcs, packets = 2 * self.topology.link_count, one_segment(self.segments_per_message)
        return [
            *claims,
            lower_bound(
                "steps",
                farthest + (self.copies - 1) // self.topology.degree,
                "lower bound: the largest distance",
                packets,
            ),
            lower_bound(
                "steps",
                -(-hops // arcs),
                "lower bound: sum of the distances over the number of directed links",
                packets,
            ),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{self.citation}: shortest paths")] if self.sources else []


class RouteQueueRule(Rule):
    """Send every segment on towards its target, one per port and step.

    A segment that finds its port busy waits.
    """

    __slots__ = ("_algorithm", "_free", "_rank")

    def __init__(self, algorithm: MinimalUnicast, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        # The first step when each port is free; own segments occupy theirs from the start.
        self._free: dict[Port, Step] = {}
        if view.rank in algorithm.sources:
            self._free[algorithm.next_port(view.rank, algorithm.spec.destination(view.rank))] = algorithm.copies + 1

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        if me not in algorithm.sources:
            return
        target = algorithm.spec.destination(me)
        port = algorithm.next_port(me, target)
        for number in range(algorithm.copies):
            yield number + 1, port, (me, target, 0, number, algorithm.payloads.segment(me, target, number))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        sends, free = [], self._free
        for _, segments in packets:
            for segment in segments:
                if segment[1] != self._rank:
                    port = self._algorithm.next_port(self._rank, segment[1])
                    when = max(step + 1, free.get(port, 0))
                    free[port] = when + 1
                    sends.append((when, port, segment))
        return sends


# --- disjoint paths --------------------------------------------------------------------------------------------------


class Striping(NamedTuple):
    """Segments over several paths: the number of steps, and the segments of each path."""

    steps: Step
    slots: Sequence[tuple[int, int]]
    """(number, path) of every segment.

    The segment with number k of a path leaves the source in step k + 1.
    """


def striped(lengths: Sequence[int], segments: int) -> Striping:
    """Return the fewest steps that paths of these lengths take for `segments` segments.

    Each path starts one segment per step.
    """
    steps = min(lengths)
    while sum(max(0, steps - length + 1) for length in lengths) < segments:
        steps += 1
    slots = sorted((number, path) for path, length in enumerate(lengths) for number in range(steps - length + 1))
    return Striping(steps, slots[:segments])


@register
class DisjointUnicast(RoutedCollective):
    """Unicast over node-disjoint paths of least total length, found by a flow (Suurballe): n-1 on S_n, n on Q_n, 6n on
    EJ^(n).

    With redundancy x every segment travels over all x paths, so that any x - 1 faulty nodes or links between source and
    target leave a copy. With redundancy 1 the segments are dealt to the number of paths that takes the fewest steps: k
    paths of lengths l_i carry sum over i of T - l_i + 1 segments in T steps.
    """

    family = "any"
    name = "disjoint-paths"
    collective = Collective.UNICAST
    citation = "node-disjoint paths (Suurballe 1974)"
    needs = frozenset({Need.TABLE})
    disjoint_paths = True
    splits_across_trees = False

    def validate(self) -> None:
        spec, topology = self.spec, self.topology
        if spec.permutation:
            reason = f"{self.name} joins one source and one target; minimal carries permutations"
            raise ScenarioError("permutation", None, reason)
        topology.require(
            topology.order <= MOST_NODES, f"{self.name} searches it, which is limited to {MOST_NODES} nodes"
        )
        most = len(self.families)
        if spec.redundancy > most:
            ends = f"{topology.label(spec.source)} and {topology.label(spec.target)}"
            raise ScenarioError(
                "redundancy", spec.redundancy, f"at most {most} node-disjoint paths join {ends}: 1..{most}"
            )
        super().validate()
        self.count = len(self.paths)

    @property
    def max_redundancy(self) -> int:
        return len(self.families)

    @property
    def goal(self) -> Rank:
        """The target, relative to the source."""
        return self.topology.relative(self.spec.target, self.spec.source)

    @cached_property
    def families(self) -> Sequence[Sequence[Sequence[OutgoingLink]]]:
        """For k = 1, 2, ..: k node-disjoint paths from rank 0 to the target.

        Their total length is the least possible.
        """
        return disjoint_families(self.rooted, self.goal)

    @cached_property
    def paths(self) -> Sequence[Sequence[OutgoingLink]]:
        """The paths that are used.

        They are as many as there are copies, or as many as take the fewest steps.
        """
        if self.spec.redundancy > 1:
            return self.families[self.spec.redundancy - 1]
        return min(self.families, key=lambda family: striped([len(path) for path in family], self.copies).steps)

    @property
    def lengths(self) -> list[int]:
        """The lengths of the paths that are used."""
        return [len(path) for path in self.paths]

    @cached_property
    def striping(self) -> Striping:
        """The timetable with redundancy 1."""
        return striped(self.lengths, self.copies)

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        if target != self.goal:
            return iter(())
        if self.spec.redundancy > 1:
            return super().copies_of(target)
        return ((path, number, segment) for segment, (number, path) in enumerate(self.striping.slots))

    def number(self, target: Rank, route_index: int, segment: int) -> int:
        if self.spec.redundancy > 1:
            return super().number(target, route_index, segment)
        return self.striping.slots[segment][0]

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        return [(port, number + hop) for hop, (_, port) in enumerate(self.paths[route_index], 1)]

    def claims(self) -> list[Claim]:
        spec, lengths = self.spec, self.lengths
        segments = spec.messages * self.segments_per_message
        return [
            Claim("steps", self.last_step, "==", f"{self.citation}: timetable of the paths", derived=True),
            lower_bound(
                "steps",
                self.least_steps(segments),
                "lower bound: the quickest flow from the source to the target",
                one_segment(self.segments_per_message),
            ),
            Claim("segments", self.hops, "==", f"{self.citation}: lengths of the paths", derived=True),
            Claim("intact_deliveries", spec.messages, "==", f"{self.citation}: one target"),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: one segment per link and step"),
            *self._closed_claims(segments, len(lengths)),
        ]

    def _closed_claims(self, segments: int, used: int) -> list[Claim]:
        """Return the claims that follow from path lengths in the literature, without the paths."""
        found = closed_lengths(self.topology, self.goal)
        if found is None:
            return []
        lengths, source = found
        if self.spec.redundancy > 1 and used == len(lengths):
            return [Claim("segments", segments * sum(lengths), "==", f"{source}: least total length of all paths")]
        if self.spec.redundancy > 1:
            return []
        steps = min(striped(lengths[:k], segments).steps for k in range(1, len(lengths) + 1))
        return [Claim("steps", steps, "<=", f"{source}: the best number of paths")]

    def least_steps(self, segments: int) -> Step:
        """Return a lower bound on the steps of all schedules.

        It is the optimum where that is quickly computed.
        """
        topology, goal = self.rooted, self.goal
        narrow = min(len(topology.ports(0)), len(topology.ports(goal)))
        least = topology.weight(goal) - 1 - (-segments // narrow)
        if 2 * topology.link_count * least > MOST_PLACES:
            return least
        flow = TimeFlow(topology, {goal: segments}, least)
        flow.complete()
        return flow.steps
