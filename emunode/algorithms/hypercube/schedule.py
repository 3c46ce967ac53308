"""Timetables of Johnsson and Ho's algorithms on the hypercube, from the levels and labels of their trees.

Over one port the arc into a node is used in the cycle given by its label, over all ports in the cycle of its level, unless
an algorithm defines another order. Cycles of the paper count from 0, steps from 1. A schedule is *merged* if everything
that waits for a link crosses it in one cycle: all segments of a part travel together.

Every algorithm states its cost in closed form (`costs`). The walks here find the same numbers from the timetable, and
replace the formula where the paper has none.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from emunode.algorithms.base import Algorithm, Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import CycleLoads, bound_claims, load_claims
from emunode.algorithms.routed_collective import Route, TreeRoutedCollective
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import FOLDING, ROOTLESS, Collective, CollectiveSpec, Port, PortModel, Rank, Step
from emunode.topologies.base import Topology
from emunode.trees.hypercube.binomial import CubeTrees

EXCHANGES = (PortModel.EXCHANGE, PortModel.ONE_PORT)
"""Port models of a schedule with exchanges between neighbours: both directions over one port."""
ONE_WAY = (PortModel.EXCHANGE, PortModel.ONE_PORT, PortModel.SEND_OR_RECEIVE)
"""Port models of a schedule where no node sends and receives in one step."""

ArcUse = tuple[Step, Rank, Port]
"""A step, and the directed link that something crosses in it."""


class OnCubeTrees(Algorithm):
    """The part that all algorithms over spanning trees of the hypercube share."""

    family = "hypercube"
    trees: CubeTrees
    trees_class: ClassVar[Callable[..., CubeTrees]]
    tree_per_dimension: ClassVar[bool] = False
    """True if `trees_class` is asked for n trees, rotations of one; its default is one tree."""

    def make_trees(self, topology: Topology) -> CubeTrees:
        """Return the trees, rooted at 0."""
        return self.trees_class(topology, topology.degree) if self.tree_per_dimension else self.trees_class(topology)

    def structure_claims(self) -> list[Claim]:
        """Return the claims about paths: in a greedy graph all paths are shortest paths."""
        # The paper calls a graph greedy if all its paths from the root are shortest paths.
        greedy = Claim("longest_detour", 0, "==", f"{self.citation}: a greedy graph (section 3)")
        return [*super().structure_claims(), greedy] if self.trees.greedy else super().structure_claims()


class CubeDissemination(OnCubeTrees, TreeCollective):
    """Trees whose labels or levels are the timetable."""

    trees: CubeTrees

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        here = self.offset(relative, tree)
        # The delay is the difference of two absolute cycles, because labels and levels are absolute.
        return [self.offset(self.topology.neighbour(relative, port), tree) - here for port in ports]

    def offset(self, relative: Rank, tree: int) -> Step:
        if self.spec.port_model is PortModel.ALL_PORT:
            return self.trees.level(relative, tree)
        # Cycles count from 0, steps from 1; the root's label -1 becomes step 0.
        return self.trees.label(relative, tree) + 1

    def tree_last_offset(self, tree: int) -> Step:
        """Return the largest offset in one tree."""
        if self.spec.port_model is PortModel.ALL_PORT:
            return self.trees.height(tree)
        return self.trees.last_label(tree) + 1

    @cached_property
    def last_offset(self) -> Step:
        return max(map(self.tree_last_offset, range(self.trees.count)))

    @property
    def last_step(self) -> Step:
        # Copies left over by the division go to the first trees, so trees may end at different numbers.
        carried = [(tree, -(-(self.copies - tree) // self.trees.count)) for tree in range(self.trees.count)]
        return max(self.tree_last_offset(tree) + (many - 1) * self.period for tree, many in carried if many > 0)

    def crossings(self) -> Iterator[ArcUse]:
        """Yield every arc of every tree with the step of its crossing, by one part of a message each."""
        for tree in range(self.trees.count):
            for rank, step in self._walk(tree):
                for port, delay in self.child_delays(rank, tree):
                    yield step + delay, rank, port


class Uncut(Algorithm):
    """Everything that waits for a link crosses it in one packet, so nothing is gained by cutting messages."""

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return 1, since the best packet is the largest load."""
        del topology, spec, startup, per_byte
        return 1


class MergedSchedule(Uncut, OnCubeTrees):
    """A merged schedule, whose cost is the largest load of a directed link in every cycle."""

    needs = frozenset({Need.EVERY_NODE})

    walked = False
    """True if the loads were found by walking trees or routes, because there is no formula."""
    tables: ClassVar[tuple[str, str]]
    """The places in the paper that state the loads, over one port and over all ports."""

    @abstractmethod
    def crossings(self) -> Iterator[ArcUse]:
        """Return every use of an arc by the messages of one source, rank 0: one part of a message each."""

    @cached_property
    def loads(self) -> CycleLoads:
        """The largest load of a directed link in every cycle; here by enumeration, in some classes by formula."""
        return self.found_loads()

    def found_loads(self) -> list[Fraction]:
        """Return the largest load of a directed link in every cycle, by enumeration."""
        self.walked = True
        found = largest_per_step(self.crossings(), self.trees.count, together=self._all_sources)
        # A gather runs the cycles backwards.
        return found[::-1] if self.collective is Collective.GATHER else found

    @cached_property
    def edge_load(self) -> Fraction:
        """The largest load of a directed link over the whole run, by enumeration."""
        return largest_in_all(self.crossings(), self.trees.count, together=self._all_sources)

    @property
    def _all_sources(self) -> bool:
        return self.collective in ROOTLESS

    def edge_load_claim(self, where: str) -> Claim:
        """Return the segments that the fullest link carries in the whole run."""
        # Loads are in messages; a whole number of segments, because parts of a message are equal.
        heaviest = int(self.edge_load * self.segments_per_message * self.spec.messages)
        return Claim("max_link_segments", heaviest, "==", f"{self.citation}: {where}", derived=True)

    def cost_of_loads(self) -> list[Claim]:
        """Return the claims on steps, start-ups and bytes."""
        # `tables` has the place for one port first, for all ports second.
        cited = f"{self.citation}: {self.tables[self.spec.port_model is PortModel.ALL_PORT]}"
        loads = self.loads
        return [
            Claim("steps", len(loads), "==", cited, derived=self.walked),
            *load_claims(self.spec, self.segments_per_message, loads, cited, derived=self.walked),
        ]


class CubeRouting(MergedSchedule, TreeRoutedCollective):
    """Paths in trees; a merged timetable by the labels over one port and in `discipline` over all ports.

    Reverse breadth first (`rbf`): messages for level L wait for height - L steps, so that everything arrives in the last
    step. Concurrent postorder (`postorder`): everything moves one level in every step, so that whole subtrees move
    together.
    """

    link_capacity: int | None = None
    discipline = "rbf"
    trees: CubeTrees

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        ports = self.trees.route(target, route_index)
        if self.spec.port_model is not PortModel.ALL_PORT:
            return self._by_label(ports, route_index)
        # Postorder: all start in step 1. Reverse breadth first: level L waits for height - L steps.
        first = 1 if self.discipline == "postorder" else self.trees.height(route_index) + 1 - len(ports)
        return list(zip(ports, range(first, first + len(ports)), strict=True))

    def _by_label(self, ports: Sequence[Port], route_index: int) -> Route:
        route, here = [], 0
        for port in ports:
            here = self.topology.neighbour(here, port)
            route.append((port, self.trees.label(here, route_index) + 1))
        return route

    @cached_property
    def last_step(self) -> Step:
        # The loads are stated for one copy in parts, and do not apply with redundancy.
        return len(self.loads) if self.spec.redundancy == 1 else super().last_step

    @cached_property
    def hops(self) -> int:
        # All targets have the same copies on each route, so one target tells how often each tree is used.
        counts = Counter(route_index for route_index, _, _ in self.copies_of(1))
        return sum(
            counts[route_index] * self.trees.level(target, route_index)
            for route_index in range(self.count)
            for target in range(1, self.topology.order)
        )

    def crossings(self) -> Iterator[ArcUse]:
        """Yield every hop of a message from rank 0 with its step, by one part of the message each."""
        for target in range(1, self.topology.order):
            # Part number 0 stands for all parts of a route: a merged schedule sends them together.
            for route_index in range(self.count):
                here = 0
                for port, step in self.route(target, route_index, 0):
                    yield step, here, port
                    here = self.topology.neighbour(here, port)

    def claims(self) -> list[Claim]:
        claims = super().claims() + bound_claims(self.spec, self.topology.degree) + self.structure_claims()
        sources = self.topology.order if self.collective is Collective.ALLTOALL else 1
        hops = sources * self.copies * self.trees.sum_of_levels
        claims.append(Claim("segments", hops, "==", f"{self.citation}: sum of the levels"))
        if self.spec.redundancy > 1:
            return claims
        return [*claims, self.edge_load_claim("edge load"), *self.cost_of_loads()]


class EdgeDisjointRedundancy(Algorithm):
    """Redundancy on the n trees of nESBT: a whole message over each of x of them.

    The paths to a node share no inner node. So x - 1 faulty nodes or links stop at most x - 1 of the x copies.
    """

    disjoint_paths = True

    @property
    def max_redundancy(self) -> int:
        return 1 if self.collective in FOLDING else self.topology.degree

    def structure_claims(self) -> list[Claim]:
        # Level |c| or |c| + 2 (section 3.5).
        claims = [Claim("longest_detour", 2, "<=", f"{self.citation}: level |c| or |c| + 2")]
        if self.spec.messages * self.segments_per_message * self.spec.redundancy > 1:
            paths = f"{self.citation}: the n paths to a node share no inner node (not in the paper)"
            claims += [
                Claim("trees_per_arc", 1, "==", f"{self.citation}: arc-disjoint trees"),
                Claim("paths_per_inner_node", 1, "==", paths),
            ]
        return [*super().structure_claims(), *claims]


def balanced_steps(trees: CubeTrees, spec: CollectiveSpec, source: str) -> Claim:
    """Return the steps of a merged schedule over SBnT; over one port, one more where cyclic nodes have several paths."""
    n = trees.topology.degree
    # Several paths: a cyclic node may hang below the last port, which adds one cycle.
    one_port = 2 * n - 2 if trees.count == 1 else 2 * n - 1
    return Claim("steps", n if spec.port_model is PortModel.ALL_PORT else one_port, "==", source)


def disjoint_steps(spec: CollectiveSpec, n: int, copies: int, citation: str) -> list[Claim]:
    """Return the steps of a merged schedule over nESBT: its height, or over one port the last label of the trees in
    use.
    """
    if spec.port_model is PortModel.ALL_PORT:
        return [Claim("steps", n + 1, "==", f"{citation}: height n + 1")]
    # Fewer copies than trees use only the first trees, whose last labels are smaller.
    return [Claim("steps", n + min(copies, n), "==", f"{citation}: the last label of tree j is n + j")]


def largest_per_step(crossings: Iterable[ArcUse], parts: int, *, together: bool) -> list[Fraction]:
    """Return the largest load of a directed link in every step from 1, in messages of `parts` parts.

    All sources `together` load every link of a dimension alike: with the sum over this dimension of what one source sends.
    """
    # All sources together: by translation symmetry every link of a dimension has the same load.
    found = Counter((step, 0 if together else rank, port) for step, rank, port in crossings)
    largest = [0] * max(step for step, _, _ in found)
    for (step, _, _), load in found.items():
        largest[step - 1] = max(largest[step - 1], load)
    return [Fraction(load, parts) for load in largest]


def largest_in_all(crossings: Iterable[ArcUse], parts: int, *, together: bool) -> Fraction:
    """Return the largest load of a directed link over all steps, in messages of `parts` parts."""
    found = Counter((0 if together else rank, port) for _, rank, port in crossings)
    return Fraction(max(found.values()), parts)
