"""The rest of a network without some nodes: its components, their sizes and degrees, for all sets of a given size."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from coordinator.annexes.invariants.base import Budget, InvariantNetwork
from coordinator.annexes.invariants.node_sets import (
    MOST_SETS,
    NodeFlags,
    SetBlock,
    blocks,
    components,
    flood,
    lowest,
    set_count,
    sizes,
    unpack,
)
from coordinator.theory.dependence.bit_rows import packed


@dataclass
class Separations:
    """All sets F of nodes that leave `nodes_left` nodes, counted by properties of the rest G - F."""

    nodes_left: int
    sets: int = 0
    most_components: int = 1
    largest: Counter[int] = field(default_factory=Counter)
    """Number of nodes of the largest component -> number of sets."""
    best_smallest: int = 0
    """The most nodes that the smallest component of a disconnected rest has; 0 if no set disconnects."""
    best_degree: int = -1
    """The largest least degree of a disconnected rest; -1 if no set disconnects."""

    @property
    def disconnecting(self) -> int:
        """The number of sets that disconnect the rest."""
        return self.sets - self.connected

    @property
    def connected(self) -> int:
        """The number of sets that leave a connected rest."""
        return self.largest[self.nodes_left]


def separations(network: InvariantNetwork, size: int, budget: Budget) -> Separations:
    """Go through all sets of `size` nodes, 0 <= size < order; where all ranks are equivalent, through the sets with
    node 0.
    """
    return network.keep(("separations", size), budget, lambda: _count(network, size, budget))  # type: ignore[no-any-return]


def disconnecting(network: InvariantNetwork, size: int, budget: Budget) -> int:
    """Count the sets of `size` nodes that disconnect the rest. It takes less work than `separations`."""
    known = network.keep(("disconnecting", size), budget, lambda: _disconnecting(network, size, budget))
    return int(known)


def search_work(network: InvariantNetwork, size: int) -> float:
    """Estimate the work to search the rest after each set of `size` nodes: about eight rounds, each at 0.1 ns for a set
    and link.
    """
    sets = set_count(network.order, size, with_first=_with_first(network, size))
    return 20 + min(sets, MOST_SETS) * len(network.links) * 1e-3


def _with_first(network: InvariantNetwork, size: int) -> bool:
    # The empty set contains no node, so it cannot be counted by its members.
    return network.transitive and size > 0


def _everywhere(network: InvariantNetwork, size: int, count: int) -> int:
    """Return the number of all sets, from the number of sets with node 0: every node is in equally many sets."""
    # Pairs (set, member) counted in two ways: each node is in as many of these sets as node 0, and each set has `size`
    # members.
    return count * network.order // size if _with_first(network, size) else count


def _disconnecting(network: InvariantNetwork, size: int, budget: Budget) -> int:
    first = _with_first(network, size)
    budget.spend(search_work(network, size))
    split = sum(int(_splits(network, block).sum()) for block in blocks(network.order, size, with_first=first))
    return _everywhere(network, size, split)


def _splits(network: InvariantNetwork, block: SetBlock) -> NodeFlags:
    """Return for each set whether it disconnects the rest."""
    # One search is enough: a rest is connected if its lowest node reaches all of it.
    reached = flood(network.table, lowest(block.others), block.others)
    return unpack(np.bitwise_or.reduce(block.others & ~reached, axis=0), block.sets)


def _count(network: InvariantNetwork, size: int, budget: Budget) -> Separations:
    first, order = _with_first(network, size), network.order
    # Few sets disconnect until half of the nodes are gone; the others are looked at more closely.
    budget.spend(8 * search_work(network, size))
    counted = Separations(order - size, set_count(order, size, with_first=False))
    for block in blocks(order, size, with_first=first):
        split = _splits(network, block)
        # A connected rest is its own largest component.
        counted.largest[order - size] += block.sets - int(split.sum())
        if split.any():
            _look_closer(network, counted, unpack(block.others, block.sets)[:, split])
    for nodes, sets in counted.largest.items():
        counted.largest[nodes] = _everywhere(network, size, sets)
    return counted


def _look_closer(network: InvariantNetwork, counted: Separations, others: NodeFlags) -> None:
    """Count sets that disconnect; `others` are the nodes that they leave."""
    count = others.shape[1]
    number = np.zeros(count, dtype=np.intp)
    least, most = np.full(count, network.order), np.zeros(count, dtype=np.intp)
    for component in components(network.table, packed(others)):
        nodes = sizes(component, count)
        number += nodes > 0
        # A set that has no further component has no node in this one, and keeps its numbers.
        least = np.where(nodes > 0, np.minimum(least, nodes), least)
        most = np.maximum(most, nodes)
    degrees = np.zeros(others.shape, dtype=np.uint16)
    itself = np.arange(network.order)
    for port in range(network.table.shape[1]):
        peers = network.table[:, port]
        # The table names a node itself where it has no neighbour at this port: that is no link.
        degrees += others[peers] & (peers != itself)[:, np.newaxis]
    degree = np.where(others, degrees, network.order).min(axis=0)
    counted.most_components = max(counted.most_components, int(number.max()))
    counted.best_smallest = max(counted.best_smallest, int(least.max()))
    counted.best_degree = max(counted.best_degree, int(degree.max()))
    counted.largest.update(Counter(most.tolist()))
