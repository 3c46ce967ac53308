"""The interface of every family of spanning trees: at root 0, the port up and the ports down of every rank.

A tree is data that a node computes from its own relative address: `parent` and `children` are local rules. Where the
network has translations (they keep ports), one rule serves every root; elsewhere trees are made from
`topology.seen_from(root)`. A family has `count` trees, numbered from 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final, TypeVar

from emunode.errors import ContractError, RuleError, ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import Topology

CACHE_ENTRIES: Final = 1 << 16
"""The size of every cache of values by rank: bounded, because ranks are not."""

Kind = TypeVar("Kind", bound=Topology)


class Trees(ABC):
    """`count` spanning trees of `topology`, rooted at rank 0.

    Subclasses define `parent`, and `child_ports` where the literature has a closed form of the children.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> class Descent(Trees):
    ...     def parent(self, rank, tree):
    ...         return next(bit for bit in range(self.topology.degree) if rank >> bit & 1)
    ...
    >>> tree = Descent(Hypercube(3))
    >>> tree.path(7, 0), tree.children(0, 0)
    ((0, 4, 6, 7), (0, 1, 2))
    """

    shortest: ClassVar[bool] = False
    """Whether every path from the root is a shortest one: levels are distances, and the height is the eccentricity."""

    def __init__(self, topology: Topology, count: int = 1) -> None:
        self.topology = topology
        self.count = count
        self._children: Callable[[Rank, int], tuple[Port, ...]] = lru_cache(CACHE_ENTRIES)(self.child_ports)

    @abstractmethod
    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the port of `rank` that leads to its parent in `tree`; raises ValueError for the root."""

    def children(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of `rank` that lead to its children in `tree`; the child served first is first."""
        return self._children(rank, tree)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return `children` without the cache: here by asking every neighbour for its parent, by ascending port."""
        topology = self.topology
        return tuple(
            # O(degree) parents per call: slow for a whole network, but no family has to state its children to be
            # usable.
            port
            # The root is not a child of any node, and its `parent` raises ValueError.
            for port, neighbour, its_port in topology.ends(rank)
            if neighbour and self.parent(neighbour, tree) == its_port
        )

    def route(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the path from the root down to `rank`, in the order of the path.

        Raises RuleError if following the parents does not end at the root.
        """
        topology = self.topology
        ports: list[Port] = []
        while rank:
            # `reverse_port`: the parent uses its own port of the same link to come down.
            # A path in a tree has at most order - 1 links; a longer one runs in a circle.
            rank, port = topology.end(rank, self.parent(rank, tree))
            ports.append(port)
            if len(ports) >= topology.order:
                raise RuleError(f"{type(self).__name__} tree {tree} of {topology.name} has a cycle through rank {rank}")
        return tuple(reversed(ports))

    def path(self, rank: Rank, tree: int) -> tuple[Rank, ...]:
        """Return the ranks from the root to `rank`, both included."""
        ranks = [0]
        for port in self.route(rank, tree):
            ranks.append(self.topology.neighbour(ranks[-1], port))
        return tuple(ranks)

    def level(self, rank: Rank, tree: int) -> int:
        """Return the number of links from the root to `rank` in `tree`; 0 at the root."""
        return self.topology.weight(rank) if self.shortest else len(self.route(rank, tree))

    def height(self, tree: int) -> int:
        """Return the largest level. Unless paths are shortest or a subclass has a formula, this walks the whole tree."""
        return self.topology.eccentricity(0) if self.shortest else max(levels(self, tree).values())


def refuse_root(rank: Rank) -> None:
    """Raise ValueError for the root: it has no parent."""
    if not rank:
        raise ValueError("the root has no parent")


def require(topology: Topology, kind: type[Kind], trees: str) -> Kind:
    """Return `topology`, narrowed to the class that `trees` are defined on; ScenarioError for any other class."""
    if not isinstance(topology, kind):
        raise ScenarioError("topology", topology.name, f"{trees} needs a network {kind.family}:...")
    return topology


def levels(trees: Trees, tree: int) -> dict[Rank, int]:
    """Return the level of every rank that the children of `tree` reach from the root, in breadth-first order.

    Raises ContractError if a rank is reached twice.
    """
    topology = trees.topology
    found = {0: 0}
    queue = [0]
    # The list grows while it is read, so the loop is breadth-first.
    for rank in queue:
        for port in trees.children(rank, tree):
            child = topology.neighbour(rank, port)
            # Two parents claim one child: the children do not describe a tree, whatever `parent` says.
            if child in found:
                raise ContractError(f"tree {tree} of {topology.name} reaches {topology.label(child)} twice")
            found[child] = found[rank] + 1
            queue.append(child)
    return found
