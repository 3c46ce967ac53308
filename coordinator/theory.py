"""What trees promise under random faults, exactly: the expected delivery ratio of a broadcast, without running it.

A node is served if every piece of a message has a copy on some tree whose path to the node is whole. With f of K nodes and
m of L links broken at random before the first step, all paths of a set U of trees to a node are whole with probability

    C(K - 1 - a, f) / C(K, f)  x  C(L - b, m) / C(L, m)

where a and b count the nodes between and the links on these paths together (the 1 is the node itself). Inclusion and
exclusion over the sets U gives the probability that what is whole suffices; the trees need
not be disjoint.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import comb

from emunode.collective.base import Algorithm
from emunode.collective.dissemination import Dissemination
from emunode.model import Collective, Rank

MOST_SUBSETS = 2_000_000
"""(node, set of trees) pairs that are gone through."""


def expectation(algorithm: Algorithm) -> Callable[[int, int], float] | None:
    """Expected delivery ratio by (crashed nodes, links down), each drawn at random before step 1, never the source.

    None where there is no such formula: for anything but a broadcast over trees, and where it would take too long.
    """
    if not isinstance(algorithm, Dissemination) or algorithm.collective is not Collective.BROADCAST:
        return None
    used = [tree for tree in range(algorithm.trees.count) if next(algorithm.numbered(tree), None)]
    if algorithm.topology.order << len(used) > MOST_SUBSETS:
        return None
    weights = _weights(algorithm, used)
    unions = [_unions(algorithm, used, rank) for rank in range(1, algorithm.topology.order)]
    nodes, links = algorithm.topology.order - 1, algorithm.topology.link_count

    @lru_cache
    def whole(inner: int, arcs: int, crashed: int, down: int) -> float:
        healthy = comb(nodes - 1 - inner, crashed) / comb(nodes, crashed) if nodes - 1 >= inner else 0.0
        return healthy * comb(links - arcs, down) / comb(links, down)

    def ratio(crashed: int, down: int) -> float:
        if crashed >= nodes or down > links:
            return 0.0
        served = sum(
            weight * whole(*union, crashed, down)
            for of_rank in unions
            for weight, union in zip(weights, of_rank, strict=True)
            if weight
        )
        return served / (nodes - crashed)

    return ratio


def _weights(algorithm: Dissemination, used: Sequence[int]) -> list[float]:
    """For every set of trees, as bits: what its paths being whole adds to the share of messages served."""
    needs: list[set[int]] = [set() for _ in range(algorithm.job.messages)]
    carriers: dict[int, int] = {}
    for bit, tree in enumerate(used):
        for _, segment in algorithm.numbered(tree):
            carriers[segment] = carriers.get(segment, 0) | 1 << bit
    for segment, trees in carriers.items():
        needs[segment // algorithm.pieces].add(trees)
    suffices = [
        sum(all(subset & trees for trees in need) for need in needs) / len(needs) for subset in range(1 << len(used))
    ]
    for bit in range(len(used)):  # Moebius inversion over subsets
        for subset in range(1 << len(used)):
            if subset >> bit & 1:
                suffices[subset] -= suffices[subset ^ 1 << bit]
    return suffices


def _unions(algorithm: Dissemination, used: Sequence[int], rank: Rank) -> list[tuple[int, int]]:
    """For every set of trees: how many nodes lie between, and how many links, on its paths to a relative address."""
    between: list[frozenset[Rank]] = [frozenset()]
    arcs: list[frozenset[tuple[Rank, Rank]]] = [frozenset()]
    for tree in used:
        path = algorithm.trees.path(rank, tree)
        inner = frozenset(path[1:-1])
        along = frozenset((min(arc), max(arc)) for arc in pairwise(path))
        between += [nodes | inner for nodes in between]
        arcs += [links | along for links in arcs]
    return list(zip(map(len, between), map(len, arcs), strict=True))
