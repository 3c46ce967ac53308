"""Collectives of messages with one target each: routes and a timetable.

Scatter, gather and alltoall (total exchange) follow one scheme. From root 0, every target r != 0 has one or more *routes*:
lists of (port, step), the link to take and the step when the message crosses it. This is a scatter. Then

* a **scatter** runs it from one source;
* an **alltoall** runs it from every rank at once, each on the translated routes;
* a **gather** runs it backwards: a message that would cross a link in step s crosses it the other way in step T + 1 - s.

So an algorithm is data: `route`, and `count`, the number of routes. The rule of a rank is local: it finds its place on
the route from its own relative address and the address of the target.

Segments. Segment s from one rank to another travels as copies x s .. x s + x - 1 (redundancy x); copy c takes
route c mod count as its number c div count.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

from emunode.algorithms.base import Algorithm, Dependence, LocalView, Need, Rule, require_translations
from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import OverTrees
from emunode.model import Collective, CollectiveSpec, Duplex, Port, PortPacket, Rank, ScheduledSend, Step
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES, levels

Route = Sequence[tuple[Port, Step]]
"""The links from rank 0 to a target, in order, each with the step of its crossing; steps increase."""


class RoutedCollective(Algorithm):
    """Routes from root 0 with a timetable.

    The timetable runs forwards from one source or from all, or backwards to one target.

    >>> from emunode.algorithms.registry import make_algorithm
    >>> from emunode.model import Collective, CollectiveSpec
    >>> from emunode.topologies.registry import parse_topology
    >>> spec = CollectiveSpec("star:4", Collective.SCATTER, "balanced-tree", source=0)
    >>> algorithm = make_algorithm(parse_topology("star:4"), spec)
    >>> isinstance(algorithm, RoutedCollective), algorithm.final_step
    (True, 8)
    """

    link_capacity: int | None = 1
    dependence = Dependence.FIXED
    splits_across_trees = True
    """Whether a message is cut into `count` x `segments` parts for the routes.

    If not, it travels whole over one route.
    """
    count: int = 1
    """Number of routes of each target."""

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        super().__init__(topology, spec)
        # Hot path: every hop of a copy looks the route up again; plain form: the method without a cache.
        self.hop_schedule = lru_cache(CACHE_ENTRIES)(self._hop_schedule)

    def validate(self) -> None:
        require_translations(self)
        super().validate()
        # With redundancy every route must carry whole messages, so there are no parts to cut.
        self.cut(self.count if self.splits_across_trees and self.spec.redundancy == 1 else 1)

    @abstractmethod
    def route(self, target: Rank, route_index: int, number: int) -> Route:
        """Return the links and steps of copy `number` on route `route_index`.

        The route leads from rank 0 to the relative rank `target`.
        """

    @property
    def max_redundancy(self) -> int:
        return 1 if self.splits_across_trees else self.count

    @property
    def copies(self) -> int:
        """Copies of segments that one rank sends to another, over all routes."""
        return self.spec.messages * self.segments_per_message * self.spec.redundancy

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        """Yield (route_index, number, segment) of every copy for one target.

        Here they are the same for all targets.
        """
        del target
        for copy in range(self.copies):
            # (route, number, segment): copy c takes route c mod count as its number c div count.
            yield copy % self.count, copy // self.count, copy // self.spec.redundancy

    def number(self, target: Rank, route_index: int, segment: int) -> int:
        """Return the inverse of `copies_of`: the number of a segment's copy on `route_index`."""
        del target
        first = segment * self.spec.redundancy
        # `first` is the segment's first copy; the copy on this route is the next one congruent to it modulo count.
        return (first + (route_index - first) % self.count) // self.count

    def _hop_schedule(self, target: Rank, route_index: int, number: int) -> dict[Rank, tuple[Port, Step]]:
        """Return the port and the step of a copy's departure at each rank of the route.

        In a gather, these are for the way back to rank 0.
        """
        rank, stations = 0, {}
        backwards = self.collective is Collective.GATHER
        for port, step in self.route(target, route_index, number):
            there, its_port = self.rooted.end(rank, port)
            if backwards:
                # Time and direction reversed: the step T + 1 - s, from the farther end of the link.
                stations[there] = (its_port, self.last_step + 1 - step)
            else:
                stations[rank] = (port, step)
            rank = there
        return stations

    @cached_property
    def last_step(self) -> Step:
        """The step of the last copy's arrival.

        Here it is found by enumerating all routes.
        """
        return max(
            self.route(target, route_index, number)[-1][1]
            for target in range(1, self.topology.order)
            for route_index, number, _ in self.copies_of(target)
        )

    @cached_property
    def hops(self) -> int:
        """Transmissions of one source.

        Here they are found by enumerating all routes.
        """
        return sum(
            len(self.route(target, route_index, number))
            for target in range(1, self.topology.order)
            for route_index, number, _ in self.copies_of(target)
        )

    @cached_property
    def departures(self) -> list[tuple[Step, Port, Rank, int, int]]:
        """(step, port, relative target, route_index, segment) of all sends of a source, in order."""
        return sorted(
            (step, port, target, route_index, segment)
            for target in range(1, self.topology.order)
            for route_index, number, segment in self.copies_of(target)
            # A loop of one element unpacks the hop that leaves rank 0.
            for port, step in [self.hop_schedule(target, route_index, number)[0]]
        )

    def rule(self, view: LocalView) -> Rule:
        return GatherRule(self, view) if self.collective is Collective.GATHER else DeliverRule(self, view)

    def claims(self) -> list[Claim]:
        """Return the claims that every timetable of routes implies.

        Subclasses add claims of their paper.
        """
        data = len(self.topology.data_ranks)
        sources = data if self.collective is Collective.ALLTOALL else 1
        return [
            Claim("steps", self.last_step, "==", f"{self.citation}: timetable of the routes", derived=True),
            Claim("segments", sources * self.hops, "==", f"{self.citation}: lengths of the routes", derived=True),
            Claim(
                "intact_deliveries", sources * (data - 1) * self.spec.messages, "==", f"{self.citation}: a route each"
            ),
        ]


class TreeRoutedCollective(OverTrees, RoutedCollective):
    """Routes through spanning trees: route i of a target is its path in tree i."""

    def validate(self) -> None:
        self.trees = self.make_trees(self.rooted)
        self.count = self.trees.count
        super().validate()


class PipelinedScatter(TreeRoutedCollective):
    """Scatter through trees that share no arc.

    The root link of each tree carries one segment per step, farthest target first. Copy c for relative target r takes
    tree ((r-1) copies + c) mod count, so the loads of any two trees differ by at most one copy. Nodes forward at once:
    two segments of a tree that leave the root in different steps never meet. Only the source needs the table of depths.
    """

    collective = Collective.SCATTER
    needs = frozenset({Need.TABLE})
    duplexes = (Duplex.FULL,)
    disjoint_paths = True

    @property
    def max_redundancy(self) -> int:
        return self.count

    def first_tree(self, target: Rank) -> int:
        """Return the tree of copy 0.

        The following copies take the following trees.
        """
        # Dealing continues where the previous target ended, so that the trees stay level within one copy.
        return (target - 1) * self.copies % self.count

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        first = self.first_tree(target)
        for copy in range(self.copies):
            yield (first + copy) % self.count, copy // self.count, copy // self.spec.redundancy

    def number(self, target: Rank, route_index: int, segment: int) -> int:
        first = segment * self.spec.redundancy
        # As in the base class, shifted by the tree of copy 0.
        return (first + (route_index - first - self.first_tree(target)) % self.count) // self.count

    def depths(self, tree: int) -> Mapping[Rank, int] | Sequence[int]:
        """Return the level of every rank in one tree."""
        return levels(self.trees, tree)

    @cached_property
    def _starts(self) -> list[dict[Rank, Step]]:
        """By tree and target, the step when the first copy leaves the root.

        The other copies follow it.
        """
        # Count first, then place: how long a target occupies the root link depends on its copies on that tree.
        loads: list[Counter[Rank]] = [Counter() for _ in range(self.count)]
        for target in range(1, self.topology.order):
            for tree, _, _ in self.copies_of(target):
                loads[tree][target] += 1
        starts: list[dict[Rank, Step]] = []
        for tree, load in enumerate(loads):
            depth = self.depths(tree)
            # The farthest first: its copy leaves earlier than any other and needs the most steps.
            farthest_first = sorted(load, key=lambda target: (-depth[target], target))
            # Running sums: a target starts when all copies for farther targets have left.
            begins = accumulate((load[target] for target in farthest_first), initial=1)
            starts.append(dict(zip(farthest_first, begins, strict=False)))
        return starts

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        start = self._starts[route_index][target] + number
        # Every node forwards at once, so hop number `hop` is crossed in step start + hop.
        return [(port, start + hop) for hop, port in enumerate(self.trees.route(target, route_index))]


class DeliverRule(Rule):
    """Start every own copy, and forward copies for other ranks."""

    __slots__ = ("_algorithm", "_view")

    def __init__(self, algorithm: RoutedCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if me not in algorithm.sources:
            return
        for step, port, relative, route_index, segment in algorithm.departures:
            target = algorithm.topology.absolute(relative, me)
            yield step, port, (me, target, route_index, segment, algorithm.payloads.segment(me, target, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm, view = self._algorithm, self._view
        sends = []
        for _, segments in packets:
            for segment in segments:
                origin, target, route_index, index, _ = segment
                # A segment for this rank ends here.
                if target != view.rank:
                    goal = algorithm.topology.relative(target, origin)
                    stations = algorithm.hop_schedule(goal, route_index, algorithm.number(goal, route_index, index))
                    # The place of this rank on the route, by its address relative to the origin.
                    port, when = stations[view.relative(origin)]
                    sends.append((when, port, segment))
        return sends


class GatherRule(Rule):
    """Send the own copies towards the root at their scheduled steps.

    The copies of other ranks are forwarded.
    """

    __slots__ = ("_algorithm", "_relative", "_view")

    def __init__(self, algorithm: RoutedCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._relative = view.relative(algorithm.spec.source)

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me, root = self._algorithm, self._view.rank, self._algorithm.spec.source
        # The target itself has nothing to send.
        if not self._relative:
            return
        departures = sorted(
            (
                *reversed(algorithm.hop_schedule(self._relative, route_index, number)[self._relative]),
                route_index,
                segment,
            )
            for route_index, number, segment in algorithm.copies_of(self._relative)
        )
        for step, port, route_index, segment in departures:
            yield step, port, (me, root, route_index, segment, algorithm.payloads.segment(me, root, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm = self._algorithm
        if not self._relative:
            return ()
        sends = []
        for _, segments in packets:
            for segment in segments:
                origin, root, route_index, index, _ = segment
                start = algorithm.topology.relative(origin, root)
                port, when = algorithm.hop_schedule(start, route_index, algorithm.number(start, route_index, index))[
                    self._relative
                ]
                sends.append((when, port, segment))
        return sends
