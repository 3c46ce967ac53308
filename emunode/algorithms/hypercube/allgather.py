"""Allgather (all-to-all broadcast) on the hypercube, after Johnsson and Ho (1986), section 6 and tables 10 to 14.

Every rank is the root of the same trees, moved to it. Over one port all nodes use one dimension in a cycle: the cycle
of an arc is its label, and everything of that label is sent in one exchange. Over all ports everything moves one level in
every cycle. So the links of a dimension are loaded alike, and the load of a cycle is the weighted number of its arcs.
"""

from fractions import Fraction
from functools import cached_property
from math import comb

from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import (
    CycleLoads,
    allgather_binomial,
    allgather_edge_disjoint,
    allgather_rotated,
    bound_claims,
    cube_levels,
    edge_disjoint_levels,
    ones,
)
from emunode.algorithms.hypercube.schedule import (
    EXCHANGES,
    CubeDissemination,
    EdgeDisjointRedundancy,
    MergedSchedule,
    balanced_steps,
    disjoint_steps,
)
from emunode.model import Collective, Duplex, PortModel, Rank, Step
from emunode.registry import register
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

ALL = PortModel.ALL_PORT


class CubeAllgather(CubeDissemination, MergedSchedule):
    """Merged schedules: all blocks that wait for a link cross it together."""

    collective = Collective.ALLGATHER
    link_capacity = None
    duplexes = (Duplex.FULL,)
    port_models: tuple[PortModel, ...] = (ALL, *EXCHANGES)
    tables = ("tables 10 to 12", "tables 13 and 14")

    @property
    def period(self) -> Step:
        # Everything that waits for a link crosses it at once, so segments are not pipelined.
        return 0

    def claims(self) -> list[Claim]:
        claims = super().claims() + bound_claims(self.spec, self.topology.degree) + self.structure_claims()
        if self.spec.redundancy > 1:
            return claims
        return [*claims, self.edge_load_claim("arcs of a dimension"), *self.cost_of_loads()]


@register
class GrayAllgather(CubeAllgather):
    """Along the Gray code path, BRG: every node forwards one block over dimension t(l) in cycle l.

    N - 1 steps of one block each, N(N-1) transmissions, over one port. Johnsson and Ho, section 6.1, tables 10 to 12.
    """

    name = "brg"
    citation = "Johnsson-Ho 1986, BRG"
    port_models = EXCHANGES
    trees_class = GrayPaths

    @cached_property
    def loads(self) -> CycleLoads:
        return ones(self.topology.order - 1)


@register
class RotatedGrayAllgather(CubeAllgather):
    """Along n rotated Gray code paths, nRBRG: in every cycle a part of one block on every link.

    N - 1 steps, (N-1)M/n bytes on every link, over all ports. Johnsson and Ho, section 6.1, tables 13 and 14.
    """

    name = "nrbrg"
    citation = "Johnsson-Ho 1986, nRBRG"
    port_models = (ALL,)
    trees_class = GrayPaths
    tree_per_dimension = True

    @cached_property
    def loads(self) -> CycleLoads:
        return ones(self.topology.order - 1, self.topology.degree)


@register
class BinomialAllgather(CubeAllgather):
    """Down spanning binomial trees, SBT: over one port the exchange algorithm, in cycle d all that is held over dimension d.

    n steps. Over one port loads 1, 2, 4, .. blocks, (N-1)M in all: optimal. Over all ports in cycle l the blocks that
    arrived in the cycle before, C(n-1, l) of them on the fullest link, NM/2 in all (errata: section 6.1 prints the
    ports i-1, i-2, .. for i-1, i, .., and sends earlier arrivals again). Johnsson and Ho, section 6.1, tables
    10 to 14.
    """

    name = "sbt"
    citation = "Johnsson-Ho 1986, SBT"
    trees_class = BinomialTree

    @cached_property
    def loads(self) -> CycleLoads:
        n = self.topology.degree
        if self.spec.port_model is ALL:
            # C(n-1, l) nodes of level l + 1 are reached over the fullest dimension, n - 1.
            return [Fraction(comb(n - 1, level)) for level in range(n)]
        return allgather_binomial(n)


@register
class TwoRootedAllgather(CubeAllgather):
    """Down two-rooted complete binary trees, TCBT, one level in a cycle over all ports: n steps.

    The paper gives no load; the claims walk the embedding. Johnsson and Ho, section 6.
    """

    name = "tcbt"
    citation = "Johnsson-Ho 1986, TCBT"
    tables = ("", "section 6, by walking the tree")
    port_models = (ALL,)
    trees_class = TwoRootedTree


@register
class RotatedBinomialAllgather(CubeAllgather):
    """Down n rotated spanning binomial trees, nRSBT, one part of the block per tree.

    Over one port tree j uses dimension d in cycle j + (d - j) mod n: 2n - 1 steps, (N-1)M. Over all ports one level in
    a cycle: n steps of C(n, l+1) M/n, (N-1)M/n in all: optimal. Johnsson and Ho, section 6.1, tables 10 to 14.
    """

    name = "nrsbt"
    citation = "Johnsson-Ho 1986, nRSBT"
    trees_class = RotatedBinomialTrees

    @cached_property
    def loads(self) -> CycleLoads:
        n = self.topology.degree
        if self.spec.port_model is ALL:
            # The n trees spread the C(n, l+1) nodes of a level evenly over the n dimensions.
            return [Fraction(size, n) for size in cube_levels(n)]
        return allgather_rotated(n)


@register
class RotatedExchangeAllgather(CubeAllgather):
    """n exchange algorithms at once, part j in the order of dimensions j, j+1, ..: nRSBT with other delays.

    n steps over all ports, loads 2^i M/n, (N-1)M/n in all as for `nrsbt`, but with the largest packet NM/(2n). Johnsson
    and Ho, section 7.1, remark (erratum: with 2^(i-1) links in cycle i counted from 1).
    """

    name = "nrsbt-exchange"
    citation = "Johnsson-Ho 1986, nRSBT by rotated exchanges"
    tables = ("", "section 7.1")
    port_models = (ALL,)
    trees: RotatedBinomialTrees
    trees_class = RotatedBinomialTrees

    def offset(self, relative: Rank, tree: int) -> Step:
        # Each tree starts at its own dimension in step 1, instead of waiting for its label.
        return self.trees.place(relative, tree) + 1

    @cached_property
    def loads(self) -> CycleLoads:
        n = self.topology.degree
        return [load / n for load in allgather_binomial(n)]


@register
class EdgeDisjointAllgather(EdgeDisjointRedundancy, CubeAllgather):
    """Down n arc-disjoint spanning binomial trees, nESBT, one part of the block per tree, or whole blocks over x trees.

    2n steps over one port, n + 1 over all; (N-1)M or (N-1)M/n in all. With redundancy x every block survives x - 1
    faults. Johnsson and Ho, section 6.1, tables 10 to 14.
    """

    name = "nesbt"
    citation = "Johnsson-Ho 1986, nESBT"
    trees_class = EdgeDisjointBinomialTrees

    def claims(self) -> list[Claim]:
        return [*super().claims(), *disjoint_steps(self.spec, self.topology.degree, self.copies, self.citation)]

    @cached_property
    def loads(self) -> CycleLoads:
        n = self.topology.degree
        if self.spec.port_model is ALL:
            return [Fraction(size, n) for size in edge_disjoint_levels(n)]
        return allgather_edge_disjoint(n)


@register
class BalancedAllgather(CubeAllgather):
    """Down spanning balanced n-trees, SBnT, with one path to every node.

    Over one port an arc of dimension d behind port j of the root is used in cycle j + (d - j) mod n: 2n - 2 steps,
    (N-1)M; n steps over all ports. The paper gives the loads of `sbntc`; these are found by walking the tree. Johnsson
    and Ho, section 6 (erratum: table 10 prints the 2n - 1 of several paths).
    """

    name = "sbnt"
    citation = "Johnsson-Ho 1986, SBnT with one path to a node"
    tables = ("section 6, by walking the tree",) * 2
    trees_class = BalancedTrees

    def claims(self) -> list[Claim]:
        return [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: section 6")]


@register
class BalancedPathsAllgather(CubeAllgather):
    """Down spanning balanced n-trees with several paths to cyclic nodes, SBnTc, the block in parts for them.

    2n - 1 steps and (N-1)M over one port; over all ports n steps of C(n, l+1) M/n, (N-1)M/n in all: optimal. An inner
    node has all of a block, and sends a cyclic child the parts of its base. Johnsson and Ho, section 6.1, tables 10
    to 14.
    """

    name = "sbntc"
    citation = "Johnsson-Ho 1986, SBnT with several paths to cyclic nodes"
    trees_class = BalancedTrees
    tree_per_dimension = True

    @cached_property
    def loads(self) -> CycleLoads:
        n = self.topology.degree
        if self.spec.port_model is ALL:
            return [Fraction(size, n) for size in cube_levels(n)]
        # The paper gives no closed form over one port, so the tree is walked.
        return self.found_loads()

    def claims(self) -> list[Claim]:
        return [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: tables 10 to 14")]
