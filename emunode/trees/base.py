"""What every family of spanning trees answers: at root 0, which port leads up and which ports lead down.

A tree is data that a node works out from its own relative address: `parent` and `children` are local rules, and
because a translation keeps ports one rule serves every root. A family has `count` trees; `tree` counts from 0. The
checks at the end walk whole trees and are meant for small networks and tests.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from emunode.errors import RuleError, ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.graph import ContractError

CACHE_ENTRIES = 1 << 16

Kind = TypeVar("Kind", bound=Topology)


class Trees(ABC):
    """`count` spanning trees of `topology`, rooted at rank 0.

    Subclasses state `parent`, and where the literature has one the closed form of the children as `child_ports`.
    """

    def __init__(self, topology: Topology, count: int = 1) -> None:
        self.topology = topology
        self.count = count
        self._children: Callable[[Rank, int], tuple[Port, ...]] = lru_cache(CACHE_ENTRIES)(self.child_ports)

    @abstractmethod
    def parent(self, rank: Rank, tree: int) -> Port:
        """The port of `rank` that leads to its parent in `tree`; raises ValueError for rank 0, which has none."""

    def children(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """The ports of `rank` that lead to its children in `tree`, in the order in which they are served."""
        return self._children(rank, tree)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """`children` without memory: here by asking every neighbour for its parent, by ascending port."""
        topology = self.topology
        return tuple(
            port
            for port, neighbour in enumerate(topology.neighbours(rank))
            if neighbour and self.parent(neighbour, tree) == topology.reverse_port(port)
        )

    def route(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """The ports that lead from the root down to `rank`, in the order in which they are taken.

        Raises RuleError if following the parents does not end at the root.
        """
        topology = self.topology
        ports: list[Port] = []
        while rank:
            port = self.parent(rank, tree)
            ports.append(topology.reverse_port(port))
            rank = topology.neighbour(rank, port)
            if len(ports) >= topology.order:
                raise RuleError(f"{type(self).__name__} tree {tree} of {topology.name} has a cycle through rank {rank}")
        return tuple(reversed(ports))

    def path(self, rank: Rank, tree: int) -> tuple[Rank, ...]:
        """The ranks from the root to `rank`, both included."""
        ranks = [0]
        for port in self.route(rank, tree):
            ranks.append(self.topology.neighbour(ranks[-1], port))
        return tuple(ranks)

    def level(self, rank: Rank, tree: int) -> int:
        """Number of links from the root to `rank` in `tree`; 0 at the root."""
        return len(self.route(rank, tree))

    def height(self, tree: int) -> int:
        """Largest level, here by walking the whole tree; subclasses know a formula."""
        return max(levels(self, tree).values())


def require(topology: Topology, kind: type[Kind], trees: str) -> Kind:
    """`topology` as the kind that `trees` are defined on; raises ScenarioError (field `topology`) if it is another."""
    if not isinstance(topology, kind):
        raise ScenarioError("topology", topology.name, f"{trees} needs a network {kind.family}:...")
    return topology


def levels(trees: Trees, tree: int) -> dict[Rank, int]:
    """Level of every rank that the children of `tree` reach from the root, in breadth-first order.

    Raises ContractError if a rank is reached twice.
    """
    topology = trees.topology
    found = {0: 0}
    queue = [0]
    for rank in queue:
        for port in trees.children(rank, tree):
            child = topology.neighbour(rank, port)
            if child in found:
                raise ContractError(f"tree {tree} of {topology.name} reaches {topology.label(child)} twice")
            found[child] = found[rank] + 1
            queue.append(child)
    return found


def verify(trees: Trees) -> None:
    """Every tree spans the network without a cycle, and its children are the inverse of its parents.

    Raises ContractError with the first rank that breaks it. Walks `count` whole trees.
    """
    topology = trees.topology
    for tree in range(trees.count):
        reached = levels(trees, tree)
        if len(reached) != topology.order:
            raise ContractError(f"tree {tree} of {topology.name} spans {len(reached)} of {topology.order} ranks")
        for rank in topology.ranks():
            for port in trees.children(rank, tree):
                child = topology.neighbour(rank, port)
                if trees.parent(child, tree) != topology.reverse_port(port):
                    raise ContractError(f"tree {tree} of {topology.name}: {topology.label(child)} denies its parent")
        try:
            trees.parent(0, tree)
        except ValueError:
            continue
        raise ContractError(f"tree {tree} of {topology.name}: the root has a parent")


def arc_loads(trees: Trees) -> Counter[tuple[Rank, Port]]:
    """Number of trees that use each arc, an arc being (parent, port towards the child); unused arcs are missing."""
    return Counter(
        (rank, port)
        for tree in range(trees.count)
        for rank in trees.topology.ranks()
        for port in trees.children(rank, tree)
    )


def arc_congestion(trees: Trees) -> int:
    """Most trees that share one arc; 1 means that the family is arc-disjoint."""
    return max(arc_loads(trees).values())


def shared_rank(trees: Trees) -> Rank | None:
    """The first rank two of whose root paths share an inner rank; None if all root paths are vertex-disjoint."""
    for rank in trees.topology.ranks():
        inner = [between for tree in range(trees.count) for between in trees.path(rank, tree)[1:-1]]
        if len(set(inner)) < len(inner):
            return rank
    return None
