"""Repair by another source, in dense Eisenstein-Jacobi and Gaussian networks.

Two faulty nodes lie together at the largest distance of some healthy node, so in a shortest-path broadcast from there they
are leaves, and nothing is lost (B. Albader, arXiv 2606.18712 for Eisenstein-Jacobi networks; with co-authors 2606.16954 for
Gaussian ones). The message goes to that node first, and is at every healthy node after at most two diameters. Three faults
may have no such node.

The papers do not say how the message gets there around faults, nor how to choose between several nodes. Here the
message takes a shortest route over healthy nodes, to the node with the shortest route; ties go to the lowest rank as
seen from the source.
"""

from itertools import pairwise

from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks, port_to
from emunode.annexes.repair.dense import DenseRule
from emunode.annexes.repair.rules import RepairedBroadcast, RepairedTree
from emunode.model import Rank
from emunode.registry import register
from emunode.topologies.base import CayleyTopology
from emunode.trees.breadth_first import BreadthFirstTree
from emunode.trees.partial import PartialTree

MOST_FAULTS = 2
"""The most faults that always leave another source."""


def valid_sources(broken: BrokenLinks) -> list[Rank]:
    """Return the ranks at the largest distance from every faulty one, ascending."""
    topology = broken.topology
    # A rank at the largest distance lies on no shortest path to another rank, so it is a leaf of every shortest-path
    # tree.
    shells = (
        {rank for rank in topology.ranks() if topology.distance(rank, dead) == topology.diameter}
        for dead in broken.dead
    )
    return sorted(set(topology.ranks()).intersection(*shells))


class ReRoot(DenseRule):
    """Broadcast from a node at the largest distance from all faults; the message goes to this node first.

    Ranks on the way have the message already, and serve their subtrees from then on. If no node is at the largest
    distance from all faults, nothing is repaired.
    """

    name = "re-root"
    citation = "re-rooting (Albader)"
    describe = "broadcast from a node that has all faults at the largest distance; dense EJ and Gaussian networks"

    def repair(self, algorithm: TreeCollective, broken: BrokenLinks) -> RepairedTree | None:
        self.require_nodes(broken)
        topology = broken.topology
        assert isinstance(topology, CayleyTopology)
        before = broken.connected(0)
        place = {rank: number for number, rank in enumerate(before)}
        routes = [_route(before, root) for root in valid_sources(broken) if root in place]
        if not routes:
            return None
        # The shortest route delays the broadcast least; the rank decides between routes of one length, so all ranks
        # agree.
        route = min(routes, key=lambda ranks: (len(ranks), ranks[-1]))
        root = route[-1]
        tree = algorithm.trees if algorithm.trees.shortest else BreadthFirstTree(topology)
        parents = {
            # Translations keep ports, so the address seen from the new source has the same port to the parent.
            rank: tree.parent(topology.relative(rank, root), 0)
            for rank in before
            if rank not in route
        }
        # The tree stays rooted at the old source: along the route each rank hangs below the one before it.
        for rank, following in pairwise(route):
            parents[following] = port_to(topology, following, rank)
        return RepairedTree(PartialTree(topology, parents))

    def claims(self, algorithm: RepairedBroadcast) -> list[Claim]:
        if len(algorithm.broken.dead) > MOST_FAULTS:
            return []
        bound = 2 * algorithm.topology.diameter + (algorithm.numbers - 1) * algorithm.period
        return [Claim("steps", bound, "<=", f"{self.citation}: two diameters for two faults, relocation included")]


def _route(before: dict[Rank, Rank], root: Rank) -> list[Rank]:
    """Return the ranks from the source to a new one, both included."""
    ranks = [root]
    while ranks[-1]:
        ranks.append(before[ranks[-1]])
    return ranks[::-1]


register(ReRoot())
