"""Spanning trees as tables of parents: what every construction for any network makes, and what `Trees` reads from it.

Constructions are pure functions of the links of a network as seen from the root, rank 0. A tree is the parent of every
rank (`checks.Parents`).
"""

from collections.abc import Iterable, Sequence

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.any_network.checks import NO_PARENT, Parents, depths
from emunode.trees.base import Trees, refuse_root

Adjacency = tuple[tuple[Rank, ...], ...]
"""The neighbours of every rank, by rank, in the order of ports."""


def adjacency_of(topology: Topology) -> Adjacency:
    """Return the links of a network."""
    return tuple(tuple(neighbour for _, neighbour in topology.adjacent(rank)) for rank in topology.ranks())


def distances(adjacency: Adjacency, root: Rank) -> list[int]:
    """Return the distance of every rank from `root`, by rank."""
    found = [-1] * len(adjacency)
    found[root] = 0
    queue = [root]
    for rank in queue:
        for other in adjacency[rank]:
            if found[other] < 0:
                found[other] = found[rank] + 1
                queue.append(other)
    return found


def shallowest_first(trees: Iterable[Parents]) -> tuple[tuple[Rank, ...], ...]:
    """Return the trees by height: a message that needs fewer trees than there are takes the shallow ones."""
    return tuple(sorted(map(tuple, trees), key=lambda parents: (max(depths(parents)), parents)))


class ParentTrees(Trees):
    """Spanning trees given by the parents of all ranks.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> trees = ParentTrees(Hypercube(2), [[-1, 0, 0, 1], [-1, 3, 0, 2]])
    >>> [trees.path(3, tree) for tree in range(trees.count)]
    [(0, 1, 3), (0, 2, 3)]
    """

    def __init__(self, topology: Topology, trees: Sequence[Parents]) -> None:
        super().__init__(topology, len(trees))
        self.parents = trees
        self._depths = [depths(parents) for parents in trees]
        self._heights = [max(depth) for depth in self._depths]
        self._ports: list[list[tuple[Port, ...]]] = []
        """By tree and rank: the ports that lead to children."""
        self._up: list[list[Port]] = []
        for parents in trees:
            up = [NO_PARENT] * topology.order
            down: list[list[Port]] = [[] for _ in parents]
            for rank in topology.ranks():
                for port, neighbour, its_port in topology.ends(rank):
                    if parents[neighbour] == rank:
                        down[rank].append(port)
                        up[neighbour] = its_port
            self._up.append(up)
            self._ports.append([tuple(ports) for ports in down])

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        return self._up[tree][rank]

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        return self._ports[tree][rank]

    def depths(self, tree: int) -> Sequence[int]:
        """Return the level of every rank in one tree."""
        return self._depths[tree]

    def level(self, rank: Rank, tree: int) -> int:
        return self._depths[tree][rank]

    def height(self, tree: int) -> int:
        return self._heights[tree]
