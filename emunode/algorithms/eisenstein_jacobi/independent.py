"""Collectives of Eisenstein-Jacobi networks over the 6n independent spanning trees, an extension of the paper.

The trees share no arc, so all of them work at once without a collision: a message is cut into 6n parts, one per tree.
Their root paths share no inner node, so a message that goes whole over x trees survives any x - 1 faulty nodes or
links. A link may belong to two trees in opposite directions: links are full-duplex.
"""

from collections.abc import Sequence
from functools import cached_property

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim, lower_bound, one_segment
from emunode.algorithms.routed_collective import PipelinedScatter
from emunode.algorithms.transforms import backwards
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import FOLDING, Collective, Duplex, Step
from emunode.registry import register
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.eisenstein_jacobi.independent import IndependentTrees

CITATION = "6n independent spanning trees"


def one_dimension_height(a: int, b: int) -> int:
    """Return the height of every tree of a + b rho in one dimension, by formula; enumerated for all 149 alphas with b
    <= 16.
    """
    if not a:
        return b
    if a < b:
        return a + b - 1
    return 2 * a if a > 2 else 3


def height_claim(network: EisensteinJacobi, after: int) -> Claim:
    """Return the steps of a pipeline whose last segment starts `after` the first one.

    n times the height of one dimension, exact in one dimension and where b = a + 1 > 2; at most that elsewhere.
    """
    height = network.dimensions * one_dimension_height(network.a, network.b)
    # Elsewhere the product rule may cut a path short, so that n times the height is not reached.
    exact = network.dimensions == 1 or network.b == network.a + 1 > 2
    formula = "a + b - 1 (a = 0: b; a = b: 2a, 3 for 2 + 2 rho)"
    return Claim("steps", height + after, "==" if exact else "<=", f"{CITATION}: h + P - 1, h = n times {formula}")


def independence_claims(copies: int) -> list[Claim]:
    """Return the properties of the paths of `copies` that are spread in turn over all trees."""
    # A single copy shows nothing about the disjointness of trees.
    if copies < 2:
        return []
    return [
        Claim("trees_per_arc", 1, "==", f"{CITATION}: arc-disjoint"),
        Claim("paths_per_inner_node", 1, "==", f"{CITATION}: the paths to a node share no inner node"),
    ]


@register
class IndependentBroadcast(TreeCollective):
    """Broadcast over the 6n independent spanning trees of an Eisenstein-Jacobi network.

    All-port, full duplex. With redundancy 1 a message is cut into 6n parts, one per tree; with redundancy x > 1 it goes
    whole over x trees, and any x - 1 faulty nodes or links leave every healthy node served. h + P - 1 steps for P
    segments a tree, with h the height of the trees used (a + b - 1 in one dimension for 1 <= a < b; at most n times
    that), and N^n - 1 packets a segment and tree. A node knows its own relative label only. Works for every 0 <= a <= b
    with N >= 7.

    Extension; there is no paper on it.
    """

    needs = frozenset({Need.EVERY_NODE})

    family = "ej"
    name = "independent-trees"
    collective = Collective.BROADCAST
    citation = CITATION
    duplexes = (Duplex.FULL,)
    disjoint_paths = True
    trees: IndependentTrees
    trees_class = IndependentTrees

    @property
    def max_redundancy(self) -> int:
        return 1 if self.collective in FOLDING else self.trees.count

    def _numbers(self, tree: int) -> int:
        """Return the number of copies that travel on `tree`."""
        return len(range(tree, self.copies, self.trees.count))

    @cached_property
    def last_step(self) -> Step:
        # Fewer copies than trees use only the first trees.
        used = range(min(self.copies, self.trees.count))
        return max(self.trees.height(tree) + self._numbers(tree) - 1 for tree in used)

    def claims(self) -> list[Claim]:
        return [
            *super().claims(),
            height_claim(self.trees.network, self.numbers - 1),
            Claim("max_link_segments", self.numbers, "==", f"{self.citation}: arc-disjoint"),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return independence_claims(self.copies)


@register
class IndependentScatter(PipelinedScatter):
    """Scatter over the 6n independent spanning trees of an Eisenstein-Jacobi network.

    All-port, full duplex. With redundancy 1 each message is cut into 6n parts, one per tree: N^n - 1 steps per segment
    of a tree, the optimum, because the root sends on all ports in every step. With redundancy x > 1 messages go whole
    over x trees, in about (N^n - 1) x / 6n steps each, and any x - 1 faulty nodes or links leave every healthy node
    served. A node knows its own relative label and the target's.

    Extension; there is no paper on it.
    """

    needs = frozenset({Need.TABLE, Need.EVERY_NODE})

    family = "ej"
    name = "independent-trees"
    citation = CITATION
    trees: IndependentTrees
    trees_class = IndependentTrees

    def depths(self, tree: int) -> Sequence[int]:
        return self.trees.levels(tree)

    @cached_property
    def last_step(self) -> Step:
        """N^n - 1 steps per segment where all trees carry the same; the last one is for a neighbour of the root."""
        if self.copies % self.count == 0:
            # Even loads: the root sends on all 6n links in every step, to the end.
            return (self.topology.order - 1) * self.copies // self.count
        return max(
            self._starts[tree][target] + number + self.trees.levels(tree)[target] - 1
            for target in range(1, self.topology.order)
            for tree, number, _ in self.copies_of(target)
        )

    @cached_property
    def hops(self) -> int:
        targets = range(1, self.topology.order)
        return sum(self.trees.levels(tree)[target] for target in targets for tree, _, _ in self.copies_of(target))

    def claims(self) -> list[Claim]:
        others, copies = self.topology.order - 1, self.copies
        # The root's 6n links, one segment each in a step: the load of the fullest one.
        busy = -(-others * copies // self.count)
        distances = enumerate(self.topology.distribution_from(0))
        shortest = sum(distance * nodes for distance, nodes in distances)
        highest = self.trees.network.dimensions * one_dimension_height(self.trees.network.a, self.trees.network.b)
        lengths = f"{self.citation}: no path shorter than the distance, none longer than h"
        return [
            *super().claims(),
            self._step_claim(busy, highest),
            lower_bound(
                "steps",
                busy,
                "6n links at the root, one segment each in a step",
                one_segment(self.segments_per_message),
            ),
            Claim("segments", copies * shortest, ">=", lengths),
            Claim("segments", copies * others * highest, "<=", lengths),
            # The copies that leave over the fullest root link.
            Claim("max_link_segments", busy, "==", f"{self.citation}: the root links carry everything"),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return independence_claims(self.copies)

    def _step_claim(self, busy: int, highest: int) -> Claim:
        """Return the claim about steps: as many as the root link of a tree is busy if all trees carry the same; else up
        to h - 1 more.
        """
        if self.copies % self.count == 0:
            return Claim("steps", busy, "==", f"{self.citation}: (N^n - 1) copies / 6n, every tree carries the same")
        return Claim(
            "steps", busy + highest - 1, "<=", f"{self.citation}: the last copy on a tree takes at most h steps"
        )


register(
    backwards(
        IndependentBroadcast,
        "It has no redundancy and survives no fault: the contribution of a node travels in one tree.",
        needs=frozenset({Need.EVERY_NODE, Need.TABLE}),
    )
)
register(backwards(IndependentScatter))
