"""Alltoall (total exchange) on the hypercube, after Johnsson and Ho (1986), section 7 and tables 15 to 19.

Every rank scatters from the root of the same trees, moved to it. Over one port all nodes use one dimension in a cycle
and whole subtrees move, each arc in the cycle of its label. Over all ports there are two orders with the same loads in
turn:

* *concurrent postorder*: a block makes its l-th hop in cycle l, so whole subtrees move together;
* *reverse breadth first* (`-rbf`): a block for level L makes it in cycle h - L + l, so that everything arrives in the
  last.
"""

from fractions import Fraction
from functools import cached_property

from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import (
    CycleLoads,
    alltoall_binomial,
    alltoall_edge_disjoint,
    alltoall_rotated,
    below,
    cube_levels,
    edge_disjoint_levels,
)
from emunode.algorithms.hypercube.schedule import (
    EXCHANGES,
    CubeRouting,
    EdgeDisjointRedundancy,
    balanced_steps,
    disjoint_steps,
)
from emunode.algorithms.routed_collective import Route
from emunode.algorithms.transforms import derived
from emunode.model import Collective, Duplex, PortModel, Rank
from emunode.registry import register
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

ALL = PortModel.ALL_PORT


class CubeAlltoall(CubeRouting):
    """Total exchange scheduled by the labels or the levels of trees."""

    collective = Collective.ALLTOALL
    duplexes = (Duplex.FULL,)
    tables = ("tables 15 and 16", "tables 17 and 18")
    discipline = "postorder"
    port_models: tuple[PortModel, ...] = (ALL, *EXCHANGES)

    @cached_property
    def loads(self) -> CycleLoads:
        loads = self.postorder_loads() if self.spec.port_model is ALL else self.label_loads()
        if loads is None:
            return self.found_loads()
        # Reverse breadth first has the loads of concurrent postorder in reverse order.
        return loads[::-1] if self.discipline == "rbf" and self.spec.port_model is ALL else loads

    def postorder_loads(self) -> CycleLoads | None:
        """Return the load of every cycle over all ports.

        None if it must be found by walking all routes.
        """
        return None

    def label_loads(self) -> CycleLoads | None:
        """Return the load of every cycle over one port.

        None if it must be found by walking all routes.
        """
        return None


def reverse_breadth_first(postorder: type[CubeAlltoall], **attributes: str) -> type[CubeAlltoall]:
    """Return the total exchange `postorder` in reverse breadth-first order over all ports.

    The farthest segments leave first.
    """
    name = f"{postorder.name}-rbf"
    description = f"`{postorder.name}` in reverse breadth-first order.\n\n    {(postorder.__doc__ or '').strip()}"
    changed: dict[str, object] = {"name": name, "discipline": "rbf", "port_models": (ALL,), **attributes}
    return derived(postorder, f"{postorder.__name__}ReverseBreadthFirst", description, **changed)


@register
class GrayAlltoall(CubeAlltoall):
    """Along the Gray code path, BRG: everything moves one hop in every cycle.

    N - 1 steps over one port, N - 1, N - 2, .. 1 blocks, N(N-1)M/2 in all. Johnsson and Ho, section 7.1, tables 15 and
    16.
    """

    name = "brg"
    citation = "Johnsson-Ho 1986, BRG"
    port_models = EXCHANGES
    trees_class = GrayPaths

    def label_loads(self) -> CycleLoads:
        # A path with one node per level: N - 1, N - 2, .. blocks.
        return below([1] * (self.topology.order - 1), 1)


@register
class RotatedGrayAlltoall(CubeAlltoall):
    """Along n rotated Gray code paths, nRBRG, a part of every block each, everything one hop in every cycle.

    N - 1 steps over all ports, (N-1-l)M/n in cycle l, N(N-1)M/(2n) in all. Johnsson and Ho, section 7.1, tables 17 and
    18.
    """

    name = "nrbrg"
    citation = "Johnsson-Ho 1986, nRBRG"
    port_models = (ALL,)
    trees_class = GrayPaths
    tree_per_dimension = True

    def postorder_loads(self) -> CycleLoads:
        return below([1] * (self.topology.order - 1), self.count)


@register
class BinomialAlltoall(CubeAlltoall):
    """Down spanning binomial trees, SBT.

    Over one port this is the exchange algorithm, over all ports concurrent postorder. It takes n steps. Over one port,
    cycle d sends every block that is held and whose target differs in bit d. These are N/2 blocks, nNM/2 in all, which
    is optimal. Over all ports the fullest links carry max_d C(d, l) 2^(n-d-1) blocks in cycle l, about 0.5 sqrt(n) N M
    in all. Johnsson and Ho, section 7.1, tables 15 to 18.
    """

    name = "sbt"
    citation = "Johnsson-Ho 1986, SBT"
    trees_class = BinomialTree

    def label_loads(self) -> CycleLoads:
        n = self.topology.degree
        # In every cycle of the exchange algorithm half of all blocks change sides.
        return [Fraction(1 << n - 1)] * n

    def postorder_loads(self) -> CycleLoads:
        return alltoall_binomial(self.topology.degree)


@register
class TwoRootedAlltoall(CubeAlltoall):
    """Down two-rooted complete binary trees, TCBT, concurrent postorder over all ports.

    It takes n steps, and ((2n-3)N/2 + 2)M leave every node in all. The paper gives no loads, so the claims walk the
    embedding. Johnsson and Ho, section 7.1.
    """

    name = "tcbt"
    citation = "Johnsson-Ho 1986, TCBT"
    tables = ("section 7.1, by walking the tree",) * 2
    port_models = (ALL,)
    trees_class = TwoRootedTree


@register
class RotatedExchangeAlltoall(CubeAlltoall):
    """n exchange algorithms at once, nRSBT: part j of every block in the order of dimensions j, j+1, ...

    Over all ports n steps of NM/(2n) on every link, NM/2 in all: optimal in everything (erratum: the last row of table
    19 names nESBT). Over one port tree j uses dimension d in cycle j + (d - j) mod n: 2n - 1 steps, nNM/2. Johnsson and
    Ho, section 7.1, tables 15 to 19.
    """

    name = "nrsbt"
    citation = "Johnsson-Ho 1986, nRSBT"
    tables = ("tables 15 and 16", "tables 17 to 19 (erratum: table 19 names nESBT)")
    trees_class = RotatedBinomialTrees

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        if self.spec.port_model is not ALL:
            return super().route(target, route_index, number)
        n = self.topology.degree
        # Part j takes the dimensions in the order j, j + 1, ..: cycle (d - j) mod n, whether or not d is needed.
        return [(port, (port - route_index) % n + 1) for port in self.trees.route(target, route_index)]

    def label_loads(self) -> CycleLoads:
        return alltoall_rotated(self.topology.degree)

    def postorder_loads(self) -> CycleLoads:
        n = self.topology.degree
        # In every cycle, half of the N blocks change sides in each of the n parts.
        return [Fraction(1 << n, 2 * n)] * n


@register
class RotatedBinomialAlltoall(CubeAlltoall):
    """Down n rotated spanning binomial trees, nRSBT, a part of every block each, concurrent postorder.

    n steps over all ports, the nodes beyond level l over n in cycle l, NM/2 in all, optimal but for the largest packet
    (N-1)M/n. Johnsson and Ho, section 7.1, tables 17 and 18.
    """

    name = "nrsbt-postorder"
    citation = "Johnsson-Ho 1986, nRSBT in postorder"
    port_models = (ALL,)
    trees_class = RotatedBinomialTrees

    def postorder_loads(self) -> CycleLoads:
        n = self.topology.degree
        return below(cube_levels(n), n)


@register
class EdgeDisjointAlltoall(EdgeDisjointRedundancy, CubeAlltoall):
    """Down n arc-disjoint spanning binomial trees, nESBT, a part of every block each, or whole blocks over x of them.

    2n steps over one port, nN/2 + N - 2 blocks in all (errata: table 15 prints N/(2n) + N - 2, table 16 the largest
    packet with n - 1 for n + 1); n + 1 steps over all ports, N/2 + (N-2)/n. With redundancy x every block survives x -
    1 faults. Johnsson and Ho, section 7.1, tables 15 to 18.
    """

    name = "nesbt"
    citation = "Johnsson-Ho 1986, nESBT"
    tables = ("tables 15 and 16 (erratum: nN/2 + N - 2)", "tables 17 and 18")
    trees_class = EdgeDisjointBinomialTrees

    def claims(self) -> list[Claim]:
        return [*super().claims(), *disjoint_steps(self.spec, self.topology.degree, self.copies, self.citation)]

    def label_loads(self) -> CycleLoads:
        return alltoall_edge_disjoint(self.topology.degree)

    def postorder_loads(self) -> CycleLoads:
        n = self.topology.degree
        return below(edge_disjoint_levels(n), n)


@register
class BalancedAlltoall(CubeAlltoall):
    """Down spanning balanced n-trees, SBnT, with one path to every node.

    2n - 2 steps over one port, nNM/2 in all; n steps over all ports, concurrent postorder. The paper gives the loads of
    `sbntc`; these are found by walking the tree. Johnsson and Ho, section 7.1 (erratum: NM/2 printed for
    nNM/2).
    """

    name = "sbnt"
    citation = "Johnsson-Ho 1986, SBnT with one path to a node"
    tables = ("section 7.1, by walking the tree",) * 2
    trees_class = BalancedTrees

    def claims(self) -> list[Claim]:
        return [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: section 7.1")]


@register
class BalancedPathsAlltoall(CubeAlltoall):
    """Down spanning balanced n-trees with several paths to cyclic nodes, SBnTc, blocks for those in parts.

    2n - 1 steps and nNM/2 over one port; n steps over all ports, concurrent postorder, NM/2 in all, the largest packet
    (N-1)M/n. Johnsson and Ho, section 7.1, tables 15 to 18 (erratum: section 7.1 prints NM/2 over one port).
    """

    name = "sbntc"
    citation = "Johnsson-Ho 1986, SBnT with several paths to cyclic nodes"
    trees_class = BalancedTrees
    tree_per_dimension = True

    def postorder_loads(self) -> CycleLoads:
        n = self.topology.degree
        return below(cube_levels(n), n)

    def claims(self) -> list[Claim]:
        return [*super().claims(), balanced_steps(self.trees, self.spec, f"{self.citation}: table 10 and section 7.1")]


register(reverse_breadth_first(RotatedGrayAlltoall))
register(reverse_breadth_first(BinomialAlltoall))
register(reverse_breadth_first(TwoRootedAlltoall))
register(
    reverse_breadth_first(
        RotatedBinomialAlltoall,
        name="nrsbt-rbf",
        citation="Johnsson-Ho 1986, nRSBT in reverse breadth first order",
    )
)
register(reverse_breadth_first(EdgeDisjointAlltoall))
register(reverse_breadth_first(BalancedAlltoall))
register(reverse_breadth_first(BalancedPathsAlltoall))
