"""One tree as a table; the table may omit ranks that faults have cut off from the root."""

from collections.abc import Mapping

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees


class PartialTree(Trees):
    """The tree where each rank in `parents` has its parent behind that port, and all others but the root are missing.

    `parents` must lead every rank to the root, rank 0. Children are served by ascending port.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> tree = PartialTree(Hypercube(2), {1: 0, 3: 1})
    >>> tree.path(3, 0), tree.children(0, 0)
    ((0, 1, 3), (0,))
    """

    def __init__(self, topology: Topology, parents: Mapping[Rank, Port]) -> None:
        super().__init__(topology)
        self._parents = dict(parents)
        below: dict[Rank, list[Port]] = {}
        for rank, port in self._parents.items():
            parent, its_port = topology.end(rank, port)
            below.setdefault(parent, []).append(its_port)
        self._ports = {rank: tuple(sorted(ports)) for rank, ports in below.items()}
        self._levels = {0: 0}
        reached = [0]
        for rank in reached:
            for port in self._ports.get(rank, ()):
                child = topology.neighbour(rank, port)
                self._levels[child] = self._levels[rank] + 1
                reached.append(child)

    def parent(self, rank: Rank, tree: int) -> Port:
        if rank not in self._parents:
            raise ValueError(f"rank {rank} has no parent: it is the root or unreachable")
        return self._parents[rank]

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        return self._ports.get(rank, ())

    def level(self, rank: Rank, tree: int) -> int:
        return self._levels[rank]

    def height(self, tree: int) -> int:
        return max(self._levels.values())
