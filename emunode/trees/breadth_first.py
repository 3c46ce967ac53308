"""The breadth-first tree of any network: every rank hangs under its lowest port that leads one closer to the root."""

from collections.abc import Container

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees


class BreadthFirstTree(Trees):
    """One shortest-path tree, by closed-form distances alone.

    A node knows its own relative address and the distance formula. Height: the diameter. One faulty node or link cuts
    off the subtree behind it.
    """

    shortest = True

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)

    def parent(self, rank: Rank, tree: int) -> Port:
        topology = self.topology
        closer = topology.weight(rank) - 1
        for port in range(topology.degree):
            if topology.weight(topology.neighbour(rank, port)) == closer:
                return port
        raise ValueError("the root has no parent")


class GrownTree(Trees):
    """The breadth-first tree over links that carry: grown rank by rank from the root, each rank trying its ports in order.

    `broken` holds (rank, port) of what carries nothing in that direction. A table of the whole network, which whoever knows
    all that is broken can make; ranks that cannot be reached are not in the tree, and have no parent.
    """

    def __init__(self, topology: Topology, broken: Container[tuple[Rank, Port]]) -> None:
        super().__init__(topology)
        self._levels = {0: 0}
        self._parents: dict[Rank, Port] = {}
        self._ports: dict[Rank, tuple[Port, ...]] = {}
        reached = [0]
        for rank in reached:
            ports = []
            for port, child in enumerate(topology.neighbours(rank)):
                if child not in self._levels and (rank, port) not in broken:
                    self._levels[child] = self._levels[rank] + 1
                    self._parents[child] = topology.reverse_port(port)
                    ports.append(port)
                    reached.append(child)
            self._ports[rank] = tuple(ports)

    def parent(self, rank: Rank, tree: int) -> Port:
        if rank not in self._parents:
            raise ValueError(f"rank {rank} has no parent: it is the root, or cannot be reached")
        return self._parents[rank]

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        return self._ports.get(rank, ())

    def level(self, rank: Rank, tree: int) -> int:
        return self._levels[rank]

    def height(self, tree: int) -> int:
        return max(self._levels.values())
