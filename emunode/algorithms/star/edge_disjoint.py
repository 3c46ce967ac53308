"""Broadcast, reduce, scatter, gather and total exchange over the n-1 arc-disjoint spanning trees of the star graph.

P. Fragopoulou and S. G. Akl, "Edge-disjoint spanning trees on the star network with applications to fault
tolerance", IEEE Trans. Computers 45(2), 1996; all-port, one message per directed link and step (the paper leaves
one-port versions open). The formulas of the only available text are lost, so trees and schedules are reconstructed. M is
the number of messages, x (`redundancy`) the number of trees that carry each; the x root paths of a node in them
share no inner node, so x - 1 faulty nodes or links leave every healthy node a copy. h is the height of the trees,
floor(3n/2) + 1 as measured for n = 3..10, d their sum of depths (see `sum_of_depths`): 15, 96, 648, 4838 for n = 3..6.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.routed_collective import PipelinedScatter, Route, TreeRoutedCollective
from emunode.algorithms.star.bounds import DISJOINT, sum_of_depths, total_distance, unit_bounds
from emunode.algorithms.transforms import backwards
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Duplex, Rank, Step
from emunode.registry import register
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.star.rotation import Rotation


@register
class DisjointTreesBroadcast(TreeCollective):
    """M messages, each down x of the n-1 trees, pipelined. All-port.

    This takes ceil(Mx/(n-1)) + h - 1 steps and Mx(n!-1) transmissions. Copy c of the list (message 0 x times, message 1
    x times, ..) goes down tree c mod (n-1), so the copies of a message take different trees. A node knows its own
    relative label only, and a message carries its tree. The steps exceed the bound by h - D_n, that is 2 or 3. Survives
    x - 1 faults. Fragopoulou and Akl 1996, single node broadcast and its fault-tolerant version (reconstructed).
    """

    family = "star"
    name = "edt"
    collective = Collective.BROADCAST
    citation = f"{DISJOINT}, single node broadcast"
    duplexes = (Duplex.FULL,)
    disjoint_paths = True
    splits_across_trees = False
    trees_class = EdgeDisjointTrees

    @cached_property
    def last_offset(self) -> Step:
        return self.trees.height(0)

    def claims(self) -> list[Claim]:
        # Pipelined: ceil(Mx/(n-1)) messages per tree; the last message needs h steps.
        steps = -(-self.copies // self.trees.count) + self.trees.height(0) - 1
        source = f"{self.citation}: ceil(Mx/(n-1)) + h - 1, h = floor(3n/2) + 1 measured"
        return [
            *super().claims(),
            Claim("steps", steps, "==", source),
            Claim("max_link_segments", self.numbers, "<=", f"{self.citation}: the trees are arc-disjoint"),
            *unit_bounds(self.topology, self.spec, self.copies),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return edt_structure("==", disjoint=self.copies > 1)


@register
class DisjointTreesScatter(PipelinedScatter):
    """M messages for each node, each down x of the trees. All-port.

    In each tree the messages for the farthest node leave first, one message per step from the root. This takes M x
    (n!-1)/(n-1) steps and M x d transmissions where n-1 divides M x. Else the copies for all nodes are dealt out to the
    trees in turn, so that every tree has the same number within one. All nodes but the source forward at once, by their
    own relative labels. The source needs the table of n! depths. Survives x - 1 faults. Fragopoulou and Akl 1996, single
    node scattering (reconstructed).
    """

    family = "star"
    name = "edt"
    citation = f"{DISJOINT}, single node scattering"
    splits_across_trees = False
    trees: EdgeDisjointTrees
    trees_class = EdgeDisjointTrees

    @property
    def even(self) -> bool:
        """True if every tree carries the same number of copies for every node."""
        # Then there are M x / (n-1) rounds over all trees, and the formulas of the paper hold as they stand.
        return not self.copies % self.count

    def claims(self) -> list[Claim]:
        steps, hops = (self._even_claims if self.even else self._uneven_claims)()
        bounds = unit_bounds(self.topology, self.spec, self.copies)
        return [*super().claims(), *bounds, *steps, *hops, *self.structure_claims()]

    def structure_claims(self) -> list[Claim]:
        return edt_structure("<=", disjoint=self.copies > 1)

    def _even_claims(self) -> tuple[list[Claim], list[Claim]]:
        steps = self.copies * (self.topology.order - 1) // self.count
        hops = self.copies * sum_of_depths(self.topology)
        return (
            [Claim("steps", steps, "==", f"{self.citation}: M x (n!-1)/(n-1)")],
            [Claim("segments", hops, "==", f"{self.citation}: M x times the sum of depths, {DEPTHS}")],
        )

    def _uneven_claims(self) -> tuple[list[Claim], list[Claim]]:
        """Return bounds.

        After full rounds of all trees some copies remain. Their trees depend on the numbering of nodes.
        """
        others = self.topology.order - 1
        # Copies are dealt to the trees in turn, so the fullest root link carries the mean, rounded up.
        busiest = -(-self.copies * others // self.count)
        rounds, left = divmod(self.copies, self.count)
        # A full round costs the sum of depths in all trees, whichever node takes which tree first.
        full = rounds * self.count * sum_of_depths(self.topology)
        shortest = left * total_distance(self.topology)
        last = f"{self.citation}: ceil(M x (n!-1)/(n-1)) copies a tree, of which the last takes at most h steps"
        hops = (
            f"{self.citation}: full rounds of all trees, and between distance and distance + 4 for each copy left over"
        )
        return (
            [Claim("steps", busiest + self.trees.height(0) - 1, "<=", last)],
            [
                Claim("segments", full + shortest, ">=", hops),
                # EDT paths are longer than the distance by 0, 2 or 4.
                Claim("segments", full + shortest + 4 * left * others, "<=", hops),
            ],
        )


@register
class DisjointTreesExchange(TreeRoutedCollective):
    """M messages from each to each, each down x of the trees; rotations of one path are walked at once. All-port.

    For each node i, in order of depth in tree 0, a group: to R^k(i) on tree k for k = 0 .. n-2, simultaneously; the
    next group starts when this one has arrived. With all trees that takes M d steps and n! M x d transmissions. With
    fewer a node is served by the trees where it is least deep, and only the groups needed are sent (the paper has x =
    n-1). Nodes find paths by their own relative labels; the order of groups is a table of n! entries that all share.
    Survives x - 1 faults. Fragopoulou and Akl 1996, total exchange (reconstructed).
    """

    family = "star"
    name = "edt"
    collective = Collective.ALLTOALL
    needs = frozenset({Need.TABLE})
    citation = f"{DISJOINT}, total exchange"
    duplexes = (Duplex.FULL,)
    disjoint_paths = True
    splits_across_trees = False
    trees: EdgeDisjointTrees
    trees_class = EdgeDisjointTrees

    @cached_property
    def _preference(self) -> dict[Rank, Sequence[int]]:
        """The trees in order of the depth of a node in them.

        All nodes of a necklace use the same groups.
        """
        # Depth first: a copy that needs fewer than n-1 trees should take the shallow ones.
        level, group = self.trees.level, self._group
        return {
            target: sorted(range(self.count), key=lambda tree: (level(target, tree), group(target, tree), tree))
            for target in range(1, self.topology.order)
        }

    def copies_of(self, target: Rank) -> Iterator[tuple[int, int, int]]:
        preference = self._preference[target]
        for copy in range(self.copies):
            yield preference[copy % self.count], copy // self.count, copy // self.spec.redundancy

    def number(self, target: Rank, route_index: int, segment: int) -> int:
        first = segment * self.spec.redundancy
        return (first + (self._preference[target].index(route_index) - first) % self.count) // self.count

    @cached_property
    def rotation(self) -> Rotation:
        """The rotation R that carries tree 0 to the other trees."""
        return Rotation(self.trees.star)

    def _group(self, target: Rank, tree: int) -> Rank:
        """Return the i with the target R^tree(i) on `tree`."""
        # Tree k is R^k of tree 0, so the path to the target in tree k is the image of a path to i in tree 0.
        return self.rotation.rotate(target, -tree)

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        start = self._starts[self._group(target, route_index), number]
        return [(port, start + hop) for hop, port in enumerate(self.trees.route(target, route_index))]

    @cached_property
    def _starts(self) -> dict[tuple[Rank, int], Step]:
        """The step when each group (node i, number) starts."""
        depth = {rank: self.trees.level(rank, 0) for rank in range(1, self.topology.order)}
        groups = {
            (number, depth[i], i)
            for target in depth
            for route_index, number, _ in self.copies_of(target)
            for i in [self._group(target, route_index)]
        }
        starts: dict[tuple[Rank, int], Step] = {}
        step = 1
        # All copies of one number before the next: a message's copies then finish close together.
        for number, length, i in sorted(groups):
            starts[i, number] = step
            # Only one group is on its way at a time, so two groups cannot collide; within a group all types differ.
            step += length
        return starts

    def claims(self) -> list[Claim]:
        bounds = unit_bounds(self.topology, self.spec, self.copies)
        return [*super().claims(), *bounds, *self._step_claims(), *self._hop_claims(), *self.structure_claims()]

    def structure_claims(self) -> list[Claim]:
        types = Claim("same_type_per_step", 1, "==", f"{self.citation}: links of a step are of different types")
        return [types, *edt_structure("<=", disjoint=self.copies > 1)]

    def _step_claims(self) -> list[Claim]:
        """Return the claims about steps.

        Every full round of all trees takes d steps. The groups of the remaining copies take fewer.
        """
        rounds, left = divmod(self.copies, self.count)
        depths = sum_of_depths(self.topology)
        if not left:
            return [Claim("steps", rounds * depths, "==", f"{self.citation}: M x d/(n-1), {DEPTHS}")]
        source = (
            f"{self.citation}: d steps a full round of all trees, {DEPTHS}, and at most that for the copies left over"
        )
        # The groups left over have at most d steps, and no fewer than the distances require.
        least = rounds * depths - (-left * total_distance(self.topology) // self.count)
        rest = f"{self.citation}: d steps a full round of all trees, {DEPTHS}, and t_n/(n-1) for each copy left over"
        return [
            Claim("steps", least, ">=", rest),
            Claim("steps", (rounds + 1) * depths, "<=", source),
        ]

    def _hop_claims(self) -> list[Claim]:
        """Return the claims about transmissions.

        Copies left over by full rounds use the trees where targets are least deep.
        """
        rounds, left = divmod(self.copies, self.count)
        order, depths = self.topology.order, sum_of_depths(self.topology)
        if not left:
            source = f"{self.citation}: n! M x d, {DEPTHS}"
            return [Claim("segments", order * self.copies * depths, "==", source)]
        least = order * (rounds * self.count * depths + left * total_distance(self.topology))
        # A single copy goes to the tree where the target is least deep: for EDT that is its distance.
        if left == 1:
            source = f"{self.citation}: full rounds of all trees, {DEPTHS}, and one copy over a shortest path"
            return [Claim("segments", least, "==", source)]
        source = f"{self.citation}: full rounds of all trees, {DEPTHS}; copies left over go where they are least deep"
        return [
            Claim("segments", least, ">=", source),
            Claim("segments", order * self.copies * depths, "<=", source),
        ]


DEPTHS = "d = t_n + 3(n-2)(n-1)! - 2(n-2)! + 2"


def edt_structure(relation: Relation, *, disjoint: bool) -> list[Claim]:
    """Return the properties of all paths over EDT.

    The paths are `disjoint` only if several trees are used.
    """
    detour = Claim("longest_detour", 4, relation, f"{DISJOINT}, properties of EDT: distance + 0, 2 or 4")
    if not disjoint:
        return [detour]
    return [
        detour,
        Claim("trees_per_arc", 1, "==", f"{DISJOINT}, properties of EDT: arc-disjoint trees"),
        Claim("paths_per_inner_node", 1, "==", f"{DISJOINT}, properties of EDT: vertex-disjoint paths to every node"),
    ]


register(
    backwards(
        DisjointTreesBroadcast,
        "A faulty node takes what its subtree has sent with it. The paper has the broadcast only.",
        citation=f"{DISJOINT}, single node broadcast backwards",
    )
)
register(
    backwards(
        DisjointTreesScatter,
        "The paper has the scatter only.",
        citation=f"{DISJOINT}, single node scattering backwards",
    )
)
