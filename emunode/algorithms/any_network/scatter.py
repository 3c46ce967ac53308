"""Scatter and gather on any connected network: in the fewest steps by a flow over time, or down the breadth-first tree."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from emunode.algorithms.any_network.time_flow import TimeFlow
from emunode.algorithms.base import Need, receivers_by_distance
from emunode.algorithms.claims import Claim, cut_into, lower_bound, one_segment
from emunode.algorithms.routed_collective import Route, RoutedCollective
from emunode.algorithms.transforms import backwards
from emunode.model import Collective, Duplex, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.breadth_first import BreadthFirstTree

MOST_PLACES = 1_500_000
"""Links times steps of the largest flow over time: about a minute."""


class AnyScatter(RoutedCollective):
    """A scatter with one route per segment.

    Over one port the source sends one segment per step down the breadth-first tree, the farthest targets first. Segments
    that leave the source in different steps never meet, so this takes the least number of steps.
    """

    family = "any"
    collective = Collective.SCATTER
    needs = frozenset({Need.TABLE})
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    duplexes = (Duplex.FULL,)
    splits_across_trees = False

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        # A switch owns no data, so it is no target.
        return iter(()) if self.rooted.is_switch(target) else super().copies_of(target)

    @property
    def one_port(self) -> bool:
        """Whether a node sends and receives one packet per step."""
        return self.spec.port_model is PortModel.ONE_PORT

    @cached_property
    def tree(self) -> BreadthFirstTree:
        """The breadth-first tree of the source."""
        return BreadthFirstTree(self.rooted)

    def first_queue(self, path: Sequence[int]) -> int:
        """Return the targets that share a queue at the source, by the path to them: over one port all of them."""
        return 0 if self.one_port else path[0]

    @cached_property
    def tree_routes(self) -> Mapping[Rank, Sequence[Route]]:
        """Routes down the tree by target: every queue of the source sends one segment per step, the farthest target
        first."""
        topology, found = self.rooted, {}
        targets = [rank for rank in range(1, topology.order) if not topology.is_switch(rank)]
        begins: Counter[int] = Counter()
        for target in sorted(targets, key=lambda target: (-topology.weight(target), target)):
            path = self.tree.route(target, 0)
            queue = self.first_queue(path)
            found[target] = [
                [(port, begins[queue] + number + hop) for hop, port in enumerate(path, 1)]
                for number in range(self.copies)
            ]
            begins[queue] += self.copies
        return found

    @property
    @abstractmethod
    def routes(self) -> Mapping[Rank, Sequence[Route]]:
        """The routes of all segments, by target."""

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        del route_index
        return self.routes[target][number]

    @cached_property
    def receivers_beyond(self) -> Sequence[int]:
        """Segments for targets at distance 1, 2, .. or more from the source."""
        by_distance = receivers_by_distance(self)
        return [self.copies * sum(by_distance[distance:]) for distance in range(len(by_distance))]

    @cached_property
    def least_steps(self) -> Step:
        """The lower bound: segments for distance t or more cross the links to level t, one per step from step t on."""
        if self.one_port:
            return max(distance + beyond for distance, beyond in enumerate(self.receivers_beyond))
        crossing: Counter[int] = Counter()
        for rank in self.rooted.ranks():
            level = self.rooted.weight(rank)
            crossing[level] += sum(self.rooted.weight(peer) > level for _, peer in self.rooted.adjacent(rank))
        return max(distance - (-beyond // crossing[distance]) for distance, beyond in enumerate(self.receivers_beyond))

    def claims(self) -> list[Claim]:
        shortest = sum(self.receivers_beyond)
        bound = "lower bound: t - 1 and the segments for distance t or more over the links to level t"
        claims = [
            *super().claims(),
            lower_bound("segments", shortest, "lower bound: sum of the distances", cut_into(self.segments_per_message)),
            lower_bound("steps", self.least_steps, bound, one_segment(self.segments_per_message)),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: a link carries one segment per step"),
        ]
        if self.one_port:
            optimal = f"{self.citation}: over one port the farthest first, optimal"
            claims.append(Claim("steps", self.least_steps, "==", optimal))
        return claims


@register
class TreeScatter(AnyScatter):
    """Scatter down the breadth-first tree of the source, the farthest targets first: the baseline for routes by flow.

    Every link of the source carries one segment per step for the targets below it, so the largest of these subtrees decides
    on the number of steps.
    """

    name = "bfs-tree"
    citation = "breadth-first spanning tree (E. F. Moore 1959)"

    @property
    def routes(self) -> Mapping[Rank, Sequence[Route]]:
        return self.tree_routes

    def claims(self) -> list[Claim]:
        shortest = Claim("segments", sum(self.receivers_beyond), "==", f"{self.citation}: sum of the distances")
        return [*super().claims(), shortest, *self.structure_claims()]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{self.citation}: shortest paths")]


@register
class FlowScatter(AnyScatter):
    """Scatter in the fewest steps, by the quickest flow from the source to all targets over time.

    An integral flow in the time-expanded network is the timetable: routes of shortest paths where the number of steps allows
    it, waiting included. No schedule takes fewer steps. It usually meets the lower bound by levels; where it does not, the
    flow itself proves that the bound cannot be met.
    """

    name = "list-schedule"
    citation = "quickest flow (Ford and Fulkerson 1958)"

    def validate(self) -> None:
        super().validate()
        if not self.one_port:
            places = 2 * self.topology.link_count * self.least_steps
            reason = f"{self.name} searches {places:,} links times steps here, and at most {MOST_PLACES:,} are possible"
            self.topology.require(places <= MOST_PLACES, reason)

    @cached_property
    def routes(self) -> Mapping[Rank, Sequence[Route]]:
        if self.one_port:
            return self.tree_routes
        return quickest_routes(self.rooted, self.copies, self.least_steps)


def quickest_routes(topology: Topology, copies: int, least_steps: Step) -> Mapping[Rank, Sequence[Route]]:
    """Return routes from rank 0 for `copies` segments to every other rank that owns data, in the fewest steps."""
    targets = [rank for rank in range(1, topology.order) if not topology.is_switch(rank)]
    flow = TimeFlow(topology, dict.fromkeys(targets, copies), least_steps)
    flow.complete()
    return flow.routes()


TreeGather = register(backwards(TreeScatter))
FlowGather = register(backwards(FlowScatter))
