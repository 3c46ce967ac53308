"""Broadcast, reduce, scatter, gather and allgather over spanning trees that a file gives.

Only the trees are given, so every claim follows from them: transmissions, deliveries, steps, paths, and the faults that
copies over several trees survive.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from emunode.algorithms.base import ANY_FAMILY, Algorithm, Need
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.routed_collective import Route, TreeRoutedCollective
from emunode.algorithms.transforms import backwards
from emunode.algorithms.tree_collective import OverTrees, TreeCollective
from emunode.annexes import TREES
from emunode.annexes.trees.tree_text import invalid_trees, parse_trees, rooted_at
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS, Collective, CollectiveSpec, Duplex, Port, PortModel, Rank, Step
from emunode.topologies.base import Topology
from emunode.trees.any_network.checks import (
    arc_disjoint_problem,
    arcs_of,
    edge_disjoint_problem,
    independence_problem,
)
from emunode.trees.any_network.parents import ParentTrees


class GivenTrees(OverTrees):
    """The common part: the trees, and what follows from them."""

    family = ANY_FAMILY
    name = TREES
    citation = "the given trees"
    needs = frozenset({Need.TABLE})
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    trees: ParentTrees

    def make_trees(self, topology: Topology) -> ParentTrees:
        given = self.spec.trees
        if not given:
            raise invalid_trees(f"algorithm {TREES!r} needs a file: --trees FILE")
        trees = ParentTrees(topology, rooted_at(self.topology, parse_trees(given), self.spec.source))
        parents = trees.parents
        arcs_differ = arc_disjoint_problem(topology, parents) is None
        self.disjoint_paths = self.survives_nodes = independence_problem(topology, parents) is None
        self.trees_per_link = 1 if self.disjoint_paths or edge_disjoint_problem(topology, parents) is None else 2
        self._survives = arcs_differ or self.disjoint_paths
        if self.collective in ROOTLESS or len(parents) > 1:
            # Two trees may need one port in one step, and so may two sources.
            self.port_models, self.duplexes = (PortModel.ALL_PORT,), (Duplex.FULL,)
        self.link_capacity = 1 if arcs_differ and self.collective not in ROOTLESS else None
        return trees

    @property
    def max_redundancy(self) -> int:
        # A fold has one path for each contribution.
        return 1 if self.collective is Collective.REDUCE else self.trees.count

    @property
    def tolerated_faults(self) -> int:
        """Faults that leave every healthy rank a copy: of links, and of nodes too if the trees are independent."""
        return self.spec.redundancy - 1 if self._survives else 0

    @property
    def used(self) -> range:
        """The trees that carry copies: those are dealt to them in turn."""
        copies = self.spec.messages * self.segments_per_message * self.spec.redundancy
        return range(min(copies, self.trees.count))

    def structure_claims(self) -> list[Claim]:
        far = self.rooted.distances_from(0)
        detour = max(depth - far[rank] for tree in self.used for rank, depth in enumerate(self.trees.depths(tree)))
        shared = max(Counter(arc for tree in self.used for arc in arcs_of(self.trees.parents[tree])).values())
        # Nothing needs to arrive at a switch.
        whole: Relation = "==" if len(self.topology.data_ranks) == self.topology.order else "<="
        return [
            Claim("longest_detour", detour, whole, f"{self.citation}: depths, less the distances from the root"),
            Claim("trees_per_arc", shared, whole, f"{self.citation}: the links that they have in common"),
        ]

    def tree_claims(self) -> list[Claim]:
        """Return the claims about paths, and the steps that the longest one takes."""
        deepest = max(map(self.trees.height, self.used))
        longest = Claim("steps", deepest, ">=", f"{self.citation}: a step for each link of the longest path")
        return [longest, *self.structure_claims()]


class GivenTreesBroadcast(GivenTrees, TreeCollective):
    """Segments follow each other down the trees, one per step over all ports.

    With redundancy 1 a message is cut into as many parts as there are trees; with redundancy x it goes whole over x of them.
    Over one port, with one tree, a node serves its children one after the other, by ascending port, and the source starts
    the next segment when the node with the most children has served them.
    """

    collective = Collective.BROADCAST

    @cached_property
    def period(self) -> Step:
        if self.spec.port_model is PortModel.ALL_PORT:
            return 1
        return max(len(self.trees.children(rank, 0)) for rank in self.rooted.ranks())

    @cached_property
    def _last_offsets(self) -> Sequence[Step]:
        """By tree that carries copies: the step when its last node has the first of them."""
        if self.spec.port_model is PortModel.ALL_PORT:  # by the trees alone, not by the timetable
            return [self.trees.height(tree) for tree in self.used]
        return [max(step for _, step in self._walk(tree)) for tree in self.used]

    @cached_property
    def last_offset(self) -> Step:
        return max(self._last_offsets)

    @cached_property
    def last_step(self) -> Step:
        # The first trees may have one copy more than the last ones.
        loads = [sum(1 for _ in self.copies_on_tree(tree)) for tree in self.used]
        return max(offset + (load - 1) * self.period for offset, load in zip(self._last_offsets, loads, strict=True))

    def claims(self) -> list[Claim]:
        return [*super().claims(), *self.tree_claims()]


class GivenTreesAllgather(GivenTreesBroadcast):
    """The broadcasts of all nodes at once, each down the trees that a translation carries to it; packets hold what meets.

    All-port, on networks with translations.
    """

    collective = Collective.ALLGATHER


class GivenTreesScatter(GivenTrees, TreeRoutedCollective):
    """Each link of the source carries in each tree the segments for the farthest nodes first, one per step.

    Nodes forward at once: segments of a tree that leave the source in different steps never meet. Over one port, with one
    tree, the source sends one segment per step.
    """

    collective = Collective.SCATTER

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        # A switch owns no data, so it is no target.
        return iter(()) if self.rooted.is_switch(target) else super().copies_of(target)

    @cached_property
    def _starts(self) -> Mapping[tuple[int, Rank], Step]:
        """By tree and target: the step when the first copy leaves the source."""
        starts, trees = dict[tuple[int, Rank], Step](), self.trees
        begins: Counter[tuple[int, Port]] = Counter()
        for tree in range(trees.count):
            depths = trees.depths(tree)
            for target in sorted(range(1, self.topology.order), key=lambda rank: (-depths[rank], rank)):
                queue = tree, trees.route(target, tree)[0] if self.spec.port_model is PortModel.ALL_PORT else 0
                starts[tree, target] = begins[queue] + 1
                begins[queue] += sum(route_index == tree for route_index, _, _ in self.copies_of(target))
        return starts

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        start = self._starts[route_index, target] + number
        return [(port, start + hop) for hop, port in enumerate(self.trees.route(target, route_index))]

    def claims(self) -> list[Claim]:
        return [*super().claims(), *self.tree_claims()]


GIVEN: Final[Mapping[Collective, type[GivenTrees]]] = {
    entry.collective: entry
    for entry in (
        GivenTreesBroadcast, backwards(GivenTreesBroadcast), GivenTreesScatter, backwards(GivenTreesScatter),
        GivenTreesAllgather,
    )
}  # fmt: skip
"""By collective. They are not registered, so lists of algorithms leave them out: they need a file to run."""


def find_given_trees(spec: CollectiveSpec) -> type[Algorithm]:
    """Return the algorithm of given trees for a collective. Raises ScenarioError."""
    if spec.collective not in GIVEN:
        raise ScenarioError("collective", str(spec.collective), f"given trees perform: {', '.join(GIVEN)}")
    return GIVEN[spec.collective]
