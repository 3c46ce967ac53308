"""All sets of a given number of nodes, thousands at once. Row r holds one bit for every set: 1 if r is a member.

The operations on a block of sets are bitwise operations on rows, so that a search from one node takes a fraction of
a nanosecond for each set and link.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.theory.dependence.bit_rows import Bits, first_trials, packed, unpacked

BitRows = Bits
"""By node, the packed bits of the sets."""
NodeFlags = NDArray[np.bool_]

BLOCK: Final = 1 << 15
"""Most sets of a block. Rows have 4 KB: the rows of 64 nodes and their neighbours fit into the cache of a core."""


MOST_SETS: Final = 10**30
"""Larger numbers of sets count as this number, above every budget: the true number may exceed a float."""


class SetBlock(NamedTuple):
    """Some sets of nodes."""

    members: BitRows
    others: BitRows
    """The nodes that are not members; the bits after the last set are 0 in both."""
    sets: int


def blocks(order: int, size: int, *, with_first: bool) -> Iterator[SetBlock]:
    """Yield all sets of `size` of the nodes 0 .. order - 1; with `with_first`, the sets that contain node 0."""
    free = int(with_first)
    for chosen, low, rest in _splits(order - free, size - free):
        count = comb(low, rest)
        every = first_trials(count)
        members = np.zeros((order, len(every)), dtype=np.uint64)
        # The sets of a block agree in their last members. Their first members run through all subsets of one size; many
        # blocks share these.
        members[free : free + low] = _subsets(low, rest)
        members[[free + node for node in chosen]] = every
        # With `with_first`, node 0 is a member of every set, and the other members are chosen among the rest.
        members[:free] = every
        # A complement alone would set the bits behind the last set.
        yield SetBlock(members, every & ~members, count)


def set_count(order: int, size: int, *, with_first: bool) -> int:
    """Return the number of sets that `blocks` goes through."""
    return comb(order - with_first, size - with_first)


def _splits(nodes: int, size: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield the blocks of all sets: common last members, number of first nodes, and how many of these complete a set.

    There are at most BLOCK ways to complete one.
    """
    stack: list[tuple[tuple[int, ...], int, int]] = [((), nodes, size)]
    while stack:
        chosen, nodes, size = stack.pop()
        if comb(nodes, size) <= BLOCK:
            yield chosen, nodes, size
        else:
            # The sets with the last of these nodes come after those without it.
            stack += [((*chosen, nodes - 1), nodes - 1, size - 1), (chosen, nodes - 1, size)]


@lru_cache(64)
def _subsets(nodes: int, size: int) -> BitRows:
    count = comb(nodes, size)
    members = np.zeros((nodes, count), dtype=np.bool_)
    if size:
        members[np.array(list(combinations(range(nodes), size))).T, np.arange(count)] = True
    return packed(members)


def flood(table: NDArray[np.intp], start: BitRows, through: BitRows) -> BitRows:
    """Return the nodes that paths through the nodes `through` reach from `start`.

    Row r of `table` has the neighbours of node r.
    """
    reach = start
    while True:
        # A round for each distance: all sets of the block grow at once, and the last one to stop ends the loop.
        grown = advance(table, reach, through)
        if np.array_equal(grown, reach):
            return reach
        reach = grown


def advance(table: NDArray[np.intp], reach: BitRows, through: BitRows) -> BitRows:
    """Return `reach` and its neighbours that are in `through`."""
    grown = reach.copy()
    for port in range(table.shape[1]):
        # Every row takes in the row of its neighbour at this port, in all sets at once.
        grown |= reach[table[:, port]]
    grown &= through
    return grown


def lowest(rows: BitRows) -> BitRows:
    """Return the member of lowest rank of every set."""
    before = np.bitwise_or.accumulate(rows, axis=0)
    first = rows.copy()
    # A set that has a member in an earlier row loses it here, so that exactly its lowest member is left.
    first[1:] &= ~before[:-1]
    return first


def components(table: NDArray[np.intp], nodes: BitRows) -> Iterator[BitRows]:
    """Yield the components of every set, one after another by lowest rank; empty for a set that has no more of them."""
    while nodes.any():
        component = flood(table, lowest(nodes), nodes)
        yield component
        nodes = nodes & ~component


def unpack(rows: BitRows, count: int) -> NodeFlags:
    """Return the bits of rows, or of a row, as truth values."""
    return unpacked(rows)[..., :count].view(np.bool_)


def sizes(rows: BitRows, count: int) -> NDArray[np.intp]:
    """Return the number of members of each set."""
    members: NDArray[np.intp] = np.sum(unpack(rows, count), axis=0, dtype=np.intp)
    return members
