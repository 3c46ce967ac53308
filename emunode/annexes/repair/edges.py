"""Repair by the fewest links, in dense Eisenstein-Jacobi and Gaussian networks.

A coordinate-reduction tree without its faulty nodes falls into c components; c - 1 links join them to a tree of the
healthy nodes. In one of a few orientations of the tree the result is hardly deeper than the tree (B. Albader, arXiv
2606.19834 for Eisenstein-Jacobi networks: one fault t + 1, two faults t + 2; 2606.17528 and 2606.21132 for Gaussian
ones: k + 2).

The papers' family of orientations and their choice of links were not available. Here the units are ordered cyclically,
from any one on and in either sense, so there are 12 (8) trees; the parent of a rank is behind the first unit that leads
closer to the source; and links are searched by branch and bound, among the `WAYS` best into every component.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks, Forest, Joining
from emunode.annexes.repair.dense import DenseRule
from emunode.annexes.repair.rules import RepairedBroadcast, RepairedTree
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.topologies.residues import Gaussian
from emunode.trees.base import Trees, refuse_root

WAYS: Final = 4
"""Links into a component that are tried, the best ones first."""
MOST_FAULTS = 2
"""The most faults with bounded depth."""


class CoordinateReduction(Trees):
    """The tree in which the parent of a rank is behind the first of `units`, as ports, that leads closer to the root."""

    shortest = True

    def __init__(self, topology: Topology, units: Sequence[Port]) -> None:
        super().__init__(topology)
        self.units = tuple(units)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        topology = self.topology
        closer = topology.weight(rank) - 1
        return next(port for port in self.units if topology.weight(topology.neighbour(rank, port)) == closer)


def orientations(topology: Topology) -> Iterator[CoordinateReduction]:
    """Yield the trees for every cyclic order of the units."""
    degree = topology.degree
    # A reflection of the network turns one sense into the other, but not the faults with it: both have to be tried.
    for sense in (1, -1):
        for first in range(degree):
            yield CoordinateReduction(topology, [(first + sense * place) % degree for place in range(degree)])


MOST_NODES: Final = 10_000
"""Nodes of the largest network where links are searched: about half a minute."""


class Edges(DenseRule):
    """The orientation whose components are joined to the tree of least depth.

    The broadcast runs over that tree, whatever the tree of the algorithm is.
    """

    name = "edges"
    citation = "edge-minimum repair (Albader)"
    describe = "join the components of a coordinate-reduction tree by c - 1 links; dense EJ and Gaussian networks"

    def require(self, algorithm: Algorithm) -> TreeCollective:
        found = super().require(algorithm)
        if found.topology.order > MOST_NODES:
            raise self.refusal(f"it searches links in at most {MOST_NODES:,} nodes, not {found.topology.order:,}")
        return found

    def repair(self, algorithm: TreeCollective, broken: BrokenLinks) -> RepairedTree:
        self.require_nodes(broken)
        kept, joined = shallowest(broken)
        return RepairedTree(joined.tree(), kept, len(joined.forest.components))

    def claims(self, algorithm: RepairedBroadcast) -> list[Claim]:
        faults, diameter = len(algorithm.broken.dead), algorithm.topology.diameter
        components = algorithm.repaired.components
        source = f"{self.citation}: c - 1 links join {components} components"
        claims = [Claim("repair_links", components - 1, "==", source)]
        if faults <= MOST_FAULTS:
            more, formula = (2, "k + 2") if isinstance(algorithm.topology, Gaussian) else (faults, "t + faults")
            steps = diameter + more + (algorithm.numbers - 1) * algorithm.period
            claims.append(Claim("steps", steps, "<=", f"{self.citation}: depth {formula}"))
        return claims


def shallowest(broken: BrokenLinks) -> tuple[CoordinateReduction, Joining]:
    """Return the tree of the best orientation, and its components joined to the tree of least depth that was found."""
    least = _eccentricity(broken)
    kept: CoordinateReduction | None = None
    best: Joining | None = None
    for tree in orientations(broken.topology):
        found = _joined(Joining(Forest(tree, broken)), best, least)
        # Only a strictly better one: of equal orientations the first stays, at every rank.
        if found is not best:
            kept, best = tree, found
    assert kept is not None
    assert best is not None
    return kept, best


def _eccentricity(broken: BrokenLinks) -> int:
    """Return the largest distance from the source over working links: no tree is less deep."""
    depth: dict[Rank, int] = {}
    for rank, before in broken.connected(0).items():
        depth[rank] = depth[before] + 1 if rank else 0
    return max(depth.values())


def _joined(joining: Joining, best: Joining | None, least: int) -> Joining | None:
    """Return the joining of least depth, by branch and bound; `best` if none is better. No joining is less deep than
    `least`.
    """
    # A joining only gets deeper with every component, so from the depth of the best one on none can win.
    if best is not None and (joining.depth >= best.depth or best.depth == least):
        return best
    left = joining.left
    if not left:
        return joining
    for number in left:
        # Sorted by depth, then by ranks: the ways that are left out lead deeper, or are ties that all ranks break
        # alike.
        for entry in joining.ways_into(number)[:WAYS]:
            best = _joined(joining.join(number, entry), best, least)
    return best


register(Edges())
