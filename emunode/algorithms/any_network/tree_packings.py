"""Broadcast, reduce, allreduce, scatter and gather over packings of spanning trees, on any connected network.

Three packings: edge-disjoint trees, which survive broken links; independent trees, which survive faulty nodes too; and
arc-disjoint trees away from the root (arborescences), of which there are most. The trees are tables of the whole network as
seen from the root, computed once per process from the links alone (`emunode.trees.any_network`).

With redundancy 1 a message is cut into as many parts as there are trees, and the parts are dealt to the trees such that the
last one arrives as early as possible: T steps are enough if the sum over the trees of max(0, T - height + 1), but at most
every segment once on each tree, reaches the number of copies. With redundancy x every segment goes over x trees.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, count
from typing import Final

from emunode.algorithms.base import ANY_FAMILY, Need
from emunode.algorithms.claims import Claim, Relation, cut_into, lower_bound, one_segment
from emunode.algorithms.routed_collective import PipelinedScatter
from emunode.algorithms.transforms import allreduce_of, backwards
from emunode.algorithms.tree_collective import OverTrees, TreeCollective
from emunode.errors import ScenarioError
from emunode.model import Collective, Duplex, Step
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.any_network.arborescences import arborescences, edge_connectivity
from emunode.trees.any_network.checks import Parents, depths
from emunode.trees.any_network.edge_disjoint import edge_disjoint_trees
from emunode.trees.any_network.independent import CutNode, independent_trees
from emunode.trees.any_network.parents import Adjacency, ParentTrees, adjacency_of

KEPT_PACKINGS: Final = 8
"""Packings that a process keeps: hosts, engines and judges of one run all ask for the same one."""
MOST_WORK: Final = 1 << 33
"""Most trees^2 x links x nodes of a packing: about two minutes."""
COMPARED_WORK: Final = 1 << 25
"""Most trees^2 x links x nodes where arborescences are made in several ways to find low ones."""

edge_disjoint = lru_cache(KEPT_PACKINGS)(edge_disjoint_trees)
independent = lru_cache(KEPT_PACKINGS)(independent_trees)
arc_disjoint = lru_cache(KEPT_PACKINGS)(arborescences)
smallest_cut = lru_cache(KEPT_PACKINGS)(edge_connectivity)


def least_steps(heights: Sequence[int], segments: int, copies: int) -> Step:
    """Return the fewest steps that trees of these heights take for `copies`, each tree each of `segments` once at most."""
    return next(steps for steps in count(min(heights)) if sum(_loads_within(heights, segments, steps)) >= copies)


def _loads_within(heights: Sequence[int], segments: int, steps: Step) -> list[int]:
    """Return most copies that each tree carries in that many steps: the root starts one per step, and the last needs
    the height.
    """
    return [min(segments, max(0, steps - height + 1)) for height in heights]


class TreePacking(OverTrees):
    """The common part of the collectives over one packing."""

    family = ANY_FAMILY
    needs = frozenset({Need.TABLE})

    @abstractmethod
    def packings(self, adjacency: Adjacency) -> Sequence[Sequence[Parents]]:
        """Return the trees at rank 0, made in one or several ways; ScenarioError if the network has none."""

    @abstractmethod
    def bound(self) -> tuple[int, str]:
        """Return most trees that the network can have, found without the trees, and the reason."""

    def make_trees(self, topology: Topology) -> ParentTrees:
        """Return the packing that needs the fewest steps for this job."""
        adjacency = adjacency_of(topology)
        least, links = min(map(len, adjacency)), topology.link_count
        if least**2 * links * topology.order > MOST_WORK:
            raise ScenarioError(
                "topology",
                self.topology.name,
                f"{self.name} builds tables in about nodes x links x degree^2 operations; here that is "
                f"{least**2 * links * topology.order:.1g}, and at most {MOST_WORK:.1g} are allowed",
            )
        self._refuse_switches()
        packings = self.packings(adjacency)
        return ParentTrees(topology, min(packings, key=self._steps))

    def _steps(self, packing: Sequence[Parents]) -> Step:
        """Return the steps that a packing needs; here all packings are as good."""
        del packing
        return 0

    def _refuse_switches(self) -> None:
        """Raise ScenarioError for a scatter or a gather on a network with switches, where every rank would be a target."""
        switches = self.topology.order - len(self.topology.data_ranks)
        if switches and self.collective in (Collective.SCATTER, Collective.GATHER):
            reason = f"{self.collective} by {self.name} needs a network without switches"
            raise ScenarioError("topology", self.topology.name, reason)

    @property
    def max_redundancy(self) -> int:
        return 1 if self.collective is Collective.REDUCE else self.trees.count

    @property
    def why_no_more(self) -> str:
        return "" if self.collective is Collective.REDUCE else f": {self.bound()[1]}"

    # --- faults ------------------------------------------------------------------------------------------------------

    @property
    def tolerated_faults(self) -> int:
        """Faulty links, or nodes and links, that leave every healthy rank a copy."""
        return self.spec.redundancy - 1

    # --- claims ------------------------------------------------------------------------------------------------------

    def structure_claims(self) -> list[Claim]:
        disjoint = [Claim("trees_per_arc", 1, "==", f"{self.citation}: no two trees share an arc")]
        if self.traits.trees_per_link == 1 and not self.traits.survives_nodes:
            disjoint.append(Claim("trees_per_link", 1, "==", f"{self.citation}: no two trees share a link"))
        if self.traits.survives_nodes:
            paths = f"{self.citation}: the paths to a node share no inner node"
            disjoint.append(Claim("paths_per_inner_node", 1, "==", paths))
        return disjoint


class PackingBroadcast(TreePacking, TreeCollective):
    """The copies on a tree follow each other, one per step, and every node forwards at once."""

    collective = Collective.BROADCAST
    duplexes: tuple[Duplex, ...] = (Duplex.FULL,)

    def validate(self) -> None:
        super().validate()
        # From here on the trees are known, and with them how many copies each carries.
        within = _loads_within(self._heights, self._segments, self.last_step)
        excess = sum(within) - self.copies
        self.loads = list(within)
        for tree in reversed(range(self.trees.count)):
            spared = min(excess, self.loads[tree])
            self.loads[tree] -= spared
            excess -= spared
        self._firsts = list(accumulate(self.loads, initial=0))

    def _steps(self, packing: Sequence[Parents]) -> Step:
        spec = self.spec
        cut = len(packing) if spec.redundancy == 1 else 1
        segments = spec.messages * spec.segments * cut
        return least_steps(
            [max(depths(tree)) for tree in packing], segments, segments * min(spec.redundancy, len(packing))
        )

    @property
    def _heights(self) -> list[int]:
        return [self.trees.height(tree) for tree in range(self.trees.count)]

    @property
    def _segments(self) -> int:
        return self.spec.messages * self.segments_per_message

    @cached_property
    def last_step(self) -> Step:
        return least_steps(self._heights, self._segments, self.copies)

    @cached_property
    def last_offset(self) -> Step:
        return max(self._heights)

    @property
    def numbers(self) -> int:
        return max(self.loads)

    def copies_on_tree(self, tree: int) -> Iterator[tuple[int, int]]:
        # A tree has a run of consecutive copies, not longer than the list of segments: it carries each once at most.
        first = self._firsts[tree]
        for number in range(self.loads[tree]):
            yield number, (first + number) % self._segments

    def tree_of(self, segment: int) -> int:
        return bisect_right(self._firsts, segment) - 1

    def claims(self) -> list[Claim]:
        used = sum(load > 0 for load in self.loads)
        most, reason = self.bound()
        arcs: Relation = "==" if used == most else "<="
        return [
            *super().claims(),
            *self._bounds(),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: no two trees share an arc"),
            Claim("max_link_segments", self._segments, "<=", f"{self.citation}: every segment once on an arc at most"),
            Claim("links_used", most * (self.topology.order - 1), arcs, f"{self.citation}: {reason}"),
            *self.structure_claims(),
        ]

    def _bounds(self) -> list[Claim]:
        """Return the lower bounds of the steps of any schedule that brings every node as many copies."""
        distance = self.rooted.distances_from(0)
        ends = [rank for rank in self.rooted.ranks() if rank and not self.rooted.is_switch(rank)]
        last = max(distance[rank] - 1 - -self.copies // len(self.rooted.ports(rank)) for rank in ends)
        return [
            lower_bound(
                "steps",
                last,
                "any schedule: d(source, v) - 1 + ceil(copies / links of v) for every node v",
                one_segment(self.segments_per_message),
            )
        ]


class PackingScatter(TreePacking, PipelinedScatter):
    """The copies for the farthest nodes first, dealt to the trees in turn."""

    needs = frozenset({Need.TABLE, Need.SPECIAL_LINKS})
    disjoint_paths = False
    trees: ParentTrees

    @property
    def max_redundancy(self) -> int:
        return self.trees.count

    def depths(self, tree: int) -> Sequence[int]:
        return self.trees.depths(tree)

    def claims(self) -> list[Claim]:
        others, degree = self.topology.order - 1, len(self.rooted.ports(0))
        shortest = self.copies * sum(self.rooted.distances_from(0))
        return [
            *super().claims(),
            lower_bound(
                "steps",
                -(-others * self.copies // degree),
                f"{degree} links at the root, one copy each per step",
                one_segment(self.segments_per_message),
            ),
            lower_bound(
                "segments", shortest, "no path is shorter than the distance", cut_into(self.segments_per_message)
            ),
            Claim("max_link_segments_per_step", 1, "==", f"{self.citation}: no two trees share an arc"),
            *self.structure_claims(),
        ]


# --- edge-disjoint trees -------------------------------------------------------------------------------------------------


class EdgeDisjoint(TreePacking):
    """The most edge-disjoint spanning trees."""

    name = "edge-disjoint-trees"
    citation = "edge-disjoint spanning trees by matroid union (Roskind and Tarjan 1985)"
    survives_nodes = False

    def packings(self, adjacency: Adjacency) -> Sequence[Sequence[Parents]]:
        return [edge_disjoint(adjacency).trees]

    def bound(self) -> tuple[int, str]:
        parts, crossing = edge_disjoint(adjacency_of(self.rooted))[1:]
        most = crossing // (len(parts) - 1)
        between = f"{len(parts)} parts of {self.topology.name} have only {crossing} links between them"
        return most, f"{between}, and a tree needs {len(parts) - 1}"


@register
class EdgeDisjointPackingBroadcast(EdgeDisjoint, PackingBroadcast):
    """Broadcast over as many edge-disjoint spanning trees as the network has.

    All-port; links may be half-duplex, because a link belongs to one tree and is used in one direction. With redundancy 1
    a message is cut into as many parts as there are trees; with redundancy x it goes whole over x of them, and any x - 1
    broken links leave every node a copy (faulty nodes do not: trees share inner nodes). How many trees there are is proven
    by a partition of the nodes (Nash-Williams 1961, Tutte 1961). Every node follows its rows of a table, computed from the
    links.
    """

    duplexes = (Duplex.FULL, Duplex.HALF)


@register
class EdgeDisjointPackingScatter(EdgeDisjoint, PackingScatter):
    """Scatter over as many edge-disjoint spanning trees as the network has, the farthest nodes first.

    All-port. With redundancy x every message goes over x trees, and any x - 1 broken links leave every node a copy.
    """


# --- independent trees ---------------------------------------------------------------------------------------------------


class Independent(TreePacking):
    """Two or three independent spanning trees."""

    name = "independent-trees"
    needs = frozenset({Need.TABLE, Need.SPECIAL_LINKS})
    citation = "independent spanning trees (Itai and Rodeh 1988; Cheriyan and Maheshwari 1988)"
    survives_nodes = True

    def packings(self, adjacency: Adjacency) -> Sequence[Sequence[Parents]]:
        topology = self.topology
        if len(adjacency) < 3:
            raise ScenarioError("topology", topology.name, f"{self.name} needs at least three nodes")
        found = independent(adjacency)
        if isinstance(found, CutNode):
            cut = topology.label(topology.absolute(found.rank, self.spec.source))
            reason = (
                f"{self.name} needs a network that no single node disconnects; without {cut} this one is disconnected"
            )
            raise ScenarioError("topology", topology.name, reason)
        return [found]

    def bound(self) -> tuple[int, str]:
        least = min(map(len, adjacency_of(self.rooted)))
        return min(3, least), "two trees are built on every 2-connected network, and three at most"


@register
class IndependentPackingBroadcast(Independent, PackingBroadcast):
    """Broadcast over two independent spanning trees of any 2-connected network, or three where they are found.

    All-port, full duplex. With redundancy 1 a message is cut into as many parts as there are trees; with redundancy x it
    goes whole over x of them, and any x - 1 faulty nodes or links leave every healthy node a copy: its paths share no inner
    node. Two trees by an st-numbering, three on 3-connected networks by non-separating ears. A network with a cut node is
    refused. Every node follows its rows of a table, computed from the links.
    """


@register
class IndependentPackingScatter(Independent, PackingScatter):
    """Scatter over two or three independent spanning trees, the farthest nodes first.

    All-port, full duplex. With redundancy x every message goes over x trees, and any x - 1 faulty nodes or links leave every
    healthy node a copy.
    """


# --- arborescences -------------------------------------------------------------------------------------------------------


class Arborescences(TreePacking):
    """The most arc-disjoint spanning trees away from the root."""

    name = "arborescences"
    citation = "arborescence packing (Edmonds 1973, Lovasz 1976)"
    survives_nodes = False
    trees_per_link = 2

    def packings(self, adjacency: Adjacency) -> Sequence[Sequence[Parents]]:
        together = arc_disjoint(adjacency)
        links = sum(map(len, adjacency)) // 2
        if len(together) ** 2 * links * len(adjacency) > COMPARED_WORK:
            return [together]
        # One after the other: the first tree is lower, the last one higher. That suits few segments.
        return [together, arc_disjoint(adjacency, together=False)]

    def bound(self) -> tuple[int, str]:
        adjacency = adjacency_of(self.rooted)
        least = min(map(len, adjacency))
        # No cut is smaller than that around a node of least degree if there are as many trees.
        most = least if self.trees.count == least else smallest_cut(adjacency)
        return most, f"the smallest cut of {self.topology.name} has {most} links"


@register
class ArborescenceBroadcast(Arborescences, PackingBroadcast):
    """Pipelined broadcast over as many arc-disjoint trees as the smallest cut has links, the highest rate possible.

    All-port, full duplex: trees use the two directions of a link independently. With redundancy 1 a message is cut into
    as many parts as there are trees; p segments in all take the least T with sum max(0, T - height + 1) >= p. With
    redundancy x a message goes whole over x trees, and any x - 1 broken directions of links leave every node a copy. Every
    node follows its rows of a table, computed from the links.
    """


@register
class ArborescenceScatter(Arborescences, PackingScatter):
    """Scatter over as many arc-disjoint trees as the smallest cut has links, the farthest nodes first.

    All-port, full duplex. With redundancy x any x - 1 broken directions of links leave every node a copy.
    """


BACKWARDS: Final = "It has no redundancy and survives no fault: the contribution of a node travels in one tree."
for _broadcast in (EdgeDisjointPackingBroadcast, IndependentPackingBroadcast, ArborescenceBroadcast):
    register(backwards(_broadcast, BACKWARDS))
    register(allreduce_of(_broadcast))
for _scatter in (EdgeDisjointPackingScatter, IndependentPackingScatter, ArborescenceScatter):
    register(backwards(_scatter))
