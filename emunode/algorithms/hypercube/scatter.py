"""Scatter (one-to-all personalised) on the hypercube, after Johnsson and Ho (1986), section 5 and tables 7 to 9.

Over one port whole subtrees move, each arc in the cycle of its label. Over all ports data moves in reverse breadth
first order: data for level L of a tree of height h leaves in cycle h - L and moves one level in every cycle, so that
everything arrives in the last cycle. Both schedules are merged: the packet limit B only counts start-ups, and the best B
is the largest packet.

Schedules for packets of one block, or of 2^b blocks, are algorithms of their own (`scatter_ordered`).
"""

from functools import cached_property
from math import log2

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import (
    CycleLoads,
    binomial_levels,
    cube_levels,
    edge_disjoint_levels,
    scatter_by_level,
    scatter_halving,
    scatter_rotated,
    scatter_tworooted,
)
from emunode.algorithms.hypercube.schedule import (
    ONE_WAY,
    CubeRouting,
    EdgeDisjointRedundancy,
    balanced_steps,
    disjoint_steps,
)
from emunode.algorithms.transforms import backwards
from emunode.model import Collective, Duplex, PortModel
from emunode.registry import register
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

ALL = PortModel.ALL_PORT


class CubeScatter(CubeRouting):
    """Scatter from one source by the labels or the levels of trees."""

    collective = Collective.SCATTER
    tables = ("tables 7 and 8", "tables 7 and 9")
    port_models: tuple[PortModel, ...] = (ALL, *ONE_WAY)

    @cached_property
    def loads(self) -> CycleLoads:
        loads = self.forward_loads()
        return loads[::-1] if self.collective is Collective.GATHER else loads

    def forward_loads(self) -> CycleLoads:
        """Return the load of every cycle of the scatter; here by walking all routes."""
        found = self.found_loads()
        # `found_loads` has turned the cycles of a gather round, and `loads` will do so again.
        return found[::-1] if self.collective is Collective.GATHER else found


@register
class RotatedGrayScatter(CubeScatter):
    """Along n rotated Gray code paths, nRBRG, a part of every block each; everything moves in every cycle.

    N - 1 steps over all ports, (N-1-l)M/n in cycle l, N(N-1)M/(2n) in all. Johnsson and Ho, section 5.1.1, tables 7 and
    9.
    """

    name = "nrbrg"
    needs = frozenset({Need.TABLE, Need.EVERY_NODE})
    citation = "Johnsson-Ho 1986, nRBRG"
    port_models = (ALL,)
    discipline = "postorder"
    trees_class = GrayPaths
    tree_per_dimension = True

    def forward_loads(self) -> CycleLoads:
        # A path holds one node per level, so cycle l still moves N - 1 - l blocks.
        return scatter_by_level(range(1, self.topology.order), self.count)


@register
class BinomialScatter(CubeScatter):
    """Down the spanning binomial tree, SBT, by halving over one port.

    n steps. Over one port cycle d sends over port d everything for the subtree behind it: 2^(n-1-d) blocks, (N-1)M in
    all, optimal, even with one send or one receive. Over all ports C(n-1, L-1) blocks for level L, NM/2. Johnsson and
    Ho, section 5.1.2, tables 7 to 9.
    """

    name = "sbt"
    citation = "Johnsson-Ho 1986, SBT"
    trees_class = BinomialTree

    def forward_loads(self) -> CycleLoads:
        n = self.topology.degree
        return scatter_by_level(binomial_levels(n)) if self.spec.port_model is ALL else scatter_halving(n)


@register
class TwoRootedScatter(CubeScatter):
    """Down the two-rooted complete binary tree, TCBT, whole subtrees in the order of the broadcast.

    2n - 2 steps over one port, even with one send or one receive: N/2, N/2 - 1, then 2^i - 1 blocks twice for i = n-2
    .. 1, (2N - 2n - 1)M in all. n steps over all ports: N/4, then 2^(n-2) .. 2, 1 blocks, (3N/4 - 1)M. Johnsson and Ho,
    section 5.1.3, tables 7 to 9 (erratum: table 7 counts the start-ups over one port too low).
    """

    name = "tcbt"
    citation = "Johnsson-Ho 1986, TCBT"
    tables = ("tables 7 and 8 (erratum: exact start-ups)", "tables 7 and 9")
    trees_class = TwoRootedTree

    def forward_loads(self) -> CycleLoads:
        n = self.topology.degree
        if self.spec.port_model is not ALL:
            return scatter_tworooted(n)
        # Level sizes behind the larger child: 1, 2, 4, .., and N/4 on level n.
        return scatter_by_level([*(1 << level for level in range(n - 1)), 1 << n - 2])


@register
class RotatedBinomialScatter(CubeScatter):
    """Down n rotated spanning binomial trees, nRSBT, a part of every block each.

    Over one port tree j starts in cycle j: 2n - 1 steps, (N-1)M, even with one send or one receive. Over all ports n
    steps of C(n, L) M/n, (N-1)M/n in all: optimal. Johnsson and Ho, section 5.1.4, tables 7 to 9 (erratum: the text
    prints 1/2^(n+1-n) for 1/2^(i+1-n)).
    """

    name = "nrsbt"
    citation = "Johnsson-Ho 1986, nRSBT"
    trees_class = RotatedBinomialTrees

    def forward_loads(self) -> CycleLoads:
        n = self.topology.degree
        return scatter_by_level(cube_levels(n), n) if self.spec.port_model is ALL else scatter_rotated(n)


@register
class EdgeDisjointScatter(EdgeDisjointRedundancy, CubeScatter):
    """Down n arc-disjoint spanning binomial trees, nESBT, a part of every block each, or whole blocks over x of them.

    n + 1 steps over all ports, (N-1)M/n in all. With redundancy x every block survives x - 1 faults. Not in the paper;
    by its rule for other trees (Johnsson and Ho, section 5).
    """

    name = "nesbt"
    citation = "after Johnsson-Ho 1986, nESBT"
    tables = ("", "section 5 and lemma 3.23")
    port_models = (ALL,)
    duplexes = (Duplex.FULL,)
    trees_class = EdgeDisjointBinomialTrees

    def claims(self) -> list[Claim]:
        return [*super().claims(), *disjoint_steps(self.spec, self.topology.degree, self.copies, self.citation)]

    def forward_loads(self) -> CycleLoads:
        n = self.topology.degree
        # Every tree has one root link, for its whole levels.
        return scatter_by_level(edge_disjoint_levels(n), n)


@register
class BalancedScatter(CubeScatter):
    """Down the spanning balanced n-tree, SBnT, with one path to every node.

    Over one port the root serves subtree j in cycle j, an arc of dimension d there is used in cycle j + (d - j) mod n:
    2n - 2 steps, even with one send or one receive, less than N(1 + 2 log2(n)/n)M in all. n steps over all ports, as
    many blocks over a port in all as there are necklaces but one. Johnsson and Ho, section 5.1.5, table 8.
    """

    name = "sbnt"
    needs = frozenset({Need.TABLE, Need.EVERY_NODE})
    citation = "Johnsson-Ho 1986, SBnT with one path to a node"
    tables = ("section 5.1.5, by walking the tree",) * 2
    trees_class = BalancedTrees

    def claims(self) -> list[Claim]:
        claims = [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: table 8")]
        return claims if self.spec.port_model is ALL else [*claims, most_bytes(self)]


@register
class BalancedPathsScatter(CubeScatter):
    """Down the spanning balanced n-tree with several paths to cyclic nodes, SBnTc, blocks for those in parts.

    Over one port 2n - 1 steps, even with one send or one receive; over all ports n steps of C(n, L) M/n, (N-1)M/n in
    all: optimal. Johnsson and Ho, section 5.1.5, tables 7 to 9 (erratum: table 8 prints the 2n - 2 of one path).
    """

    name = "sbntc"
    citation = "Johnsson-Ho 1986, SBnT with several paths to cyclic nodes"
    trees_class = BalancedTrees
    tree_per_dimension = True

    def forward_loads(self) -> CycleLoads:
        n = self.topology.degree
        return scatter_by_level(cube_levels(n), n) if self.spec.port_model is ALL else super().forward_loads()

    def claims(self) -> list[Claim]:
        claims = [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: section 5.1.5")]
        return claims if self.spec.port_model is ALL else [*claims, most_bytes(self)]


def most_bytes(algorithm: CubeScatter) -> Claim:
    """Return the paper's bound on a scatter down SBnT over one port, N(1 + 2 log2(n)/n) M, in whole parts of a block."""
    spec, n = algorithm.spec, algorithm.topology.degree
    size = algorithm.segments_per_message * algorithm.largest_segment_bytes * spec.messages
    most = int((1 << n) * (1 + 2 * log2(n) / n) * size)
    return Claim("transfer_bytes", most, "<=", f"{algorithm.citation}: table 8")


register(backwards(RotatedGrayScatter))
register(backwards(BinomialScatter))
register(backwards(TwoRootedScatter))
register(backwards(RotatedBinomialScatter))
register(backwards(EdgeDisjointScatter))
register(backwards(BalancedScatter))
register(backwards(BalancedPathsScatter))
