"""The breadth-first tree of any network: the parent of a rank is over its lowest port that leads one closer to the root."""

from collections.abc import Container

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees
from emunode.trees.partial import PartialTree


class BreadthFirstTree(Trees):
    """One shortest-path tree, by distances alone.

    A node knows its own relative address and the distance formula (or the table of distances, in a network without a
    formula). Height: the eccentricity of the root. One faulty node or link cuts off the subtree below it.

    >>> from emunode.topologies.star import StarGraph
    >>> tree = BreadthFirstTree(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '4231', '2431', '3421', '4321']
    """

    shortest = True

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)

    def parent(self, rank: Rank, tree: int) -> Port:
        topology = self.topology
        closer = topology.weight(rank) - 1
        # The lowest port decides, so that all nodes agree on one tree without a message.
        for port, neighbour in topology.adjacent(rank):
            if topology.weight(neighbour) == closer:
                return port
        raise ValueError("the root has no parent")

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        topology = self.topology
        farther = topology.weight(rank) + 1
        # Only nodes farther away are asked for their parents: that takes each its degree; a neighbour of the root has
        # no other parent. On complete:300, that makes a reduce 60 times as fast.
        return tuple(
            port
            for port, neighbour, its_port in topology.ends(rank)
            if topology.weight(neighbour) == farther and (not rank or self.parent(neighbour, tree) == its_port)
        )


class GrownTree(PartialTree):
    """The breadth-first tree over intact links, grown rank by rank from the root; each rank tries its ports in order.

    `broken` contains (rank, port) of every direction of a link that carries nothing. The tree is a table of the whole
    network; every node with full fault knowledge can compute it. It omits unreachable ranks: they have no parent.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> whole, around = (GrownTree(Hypercube(2), broken) for broken in ([], [(0, 0), (1, 0)]))
    >>> whole.path(1, 0), around.path(1, 0)
    ((0, 1), (0, 2, 3, 1))
    """

    def __init__(self, topology: Topology, broken: Container[tuple[Rank, Port]]) -> None:
        parents: dict[Rank, Port] = {}
        reached = [0]
        # The list grows while it is read: breadth first, so every level is a distance in the network without the
        # broken links.
        for rank in reached:
            for port, child, its_port in topology.ends(rank):
                if child and child not in parents and (rank, port) not in broken:
                    parents[child] = its_port
                    reached.append(child)
        super().__init__(topology, parents)
