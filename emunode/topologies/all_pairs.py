"""Distances between all pairs of ranks: searches by sets of bits, where a pass over the links advances thousands of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from emunode.model import Rank

ROOTS_AT_ONCE_BITS: Final = 1 << 27
"""Bits in the sets of one round: as many roots are searched at once as fit, in 16 megabytes."""

NeighbourLists = Sequence[Sequence[Rank]]
"""The neighbours of every rank, by rank."""


def blocks_of_roots(order: int) -> Iterator[range]:
    """Yield all ranks, in ranges of roots that are searched together."""
    size = max(64, ROOTS_AT_ONCE_BITS // order)
    for first in range(0, order, size):
        yield range(first, min(order, first + size))


def reach_by_distance(adjacency: NeighbourLists, roots: range) -> Iterator[list[int]]:
    """Yield, for distance 0, 1, .. and every rank, the set of `roots` within that distance of it; bit i is `roots[i]`.

    Stops at the distance where every set has stopped growing.
    """
    reach = [0] * len(adjacency)
    for bit, root in enumerate(roots):
        reach[root] = 1 << bit
    everything = (1 << len(roots)) - 1
    grown = True
    while grown:
        yield reach
        grown = False
        following = []
        for known, neighbours in zip(reach, adjacency, strict=True):
            union = known
            if known != everything:
                for neighbour in neighbours:
                    union |= reach[neighbour]
                grown = grown or union != known
            following.append(union)
        reach = following


def ordered_pairs_by_distance(adjacency: NeighbourLists) -> tuple[int, ...]:
    """Return how many ordered pairs of ranks are at distance 0, 1, .., diameter of a connected network."""
    within: Counter[int] = Counter()
    for roots in blocks_of_roots(len(adjacency)):
        count = 0
        for distance, reach in enumerate(reach_by_distance(adjacency, roots)):
            before, count = count, sum(known.bit_count() for known in reach)
            within[distance] += count - before
    return tuple(within[distance] for distance in range(len(within)))
