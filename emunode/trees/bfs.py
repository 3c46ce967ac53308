"""The breadth-first tree of any network: every rank hangs under its lowest port that leads one closer to the root."""

from emunode.model import Port, Rank
from emunode.topology.base import Topology
from emunode.trees.base import Trees


class BreadthFirstTree(Trees):
    """One shortest-path tree, by closed-form distances alone.

    A node knows its own relative address and the distance formula. Height: the diameter. One faulty node or link cuts
    off the subtree behind it.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)

    def parent(self, rank: Rank, tree: int) -> Port:
        topology = self.topology
        closer = topology.weight(rank) - 1
        for port in range(topology.degree):
            if topology.weight(topology.neighbour(rank, port)) == closer:
                return port
        raise ValueError("the root has no parent")

    def level(self, rank: Rank, tree: int) -> int:
        return self.topology.weight(rank)

    def height(self, tree: int) -> int:
        return self.topology.diameter
