"""Trees of MPI libraries over virtual ranks: each function returns the parent of each rank, and -1 for rank 0."""

from coordinator.annexes.mpi.rules.base import split


def low(rank: int) -> int:
    """Return the lowest set bit of a positive number."""
    return rank & -rank


def high(rank: int) -> int:
    """Return the highest set bit of a positive number."""
    return 1 << (rank.bit_length() - 1)


def in_order_binomial_tree(ranks: int) -> list[int]:
    """Return parents in the binomial tree whose subtrees are ranges of ranks: the lowest bit is cleared."""
    return [-1, *(rank - low(rank) for rank in range(1, ranks))]


def binomial_tree(ranks: int) -> list[int]:
    """Return parents in the binomial tree with the children 1, 2, 4, .. of rank 0: the highest bit is cleared."""
    return [-1, *(rank - high(rank) for rank in range(1, ranks))]


def k_nomial_tree(ranks: int, radix: int) -> list[int]:
    """Return parents in the tree that clears the lowest non-zero digit of a rank in base `radix`."""
    parents = [-1]
    for rank in range(1, ranks):
        unit = 1
        while rank // unit % radix == 0:
            unit *= radix
        parents.append(rank - rank // unit % radix * unit)
    return parents


def binary_tree(ranks: int) -> list[int]:
    """Return parents in the binary tree with odd ranks below 1 and even ones below 2.

    Level L has the ranks 2^L - 1 .. 2^(L+1) - 2; the children of a rank there are rank + 2^L and rank + 2^(L+1).
    """
    parents = [-1]
    for rank in range(1, ranks):
        level_above = 1 << ((rank + 1).bit_length() - 2)
        # The first half of a level are first children, the others second ones.
        is_second = rank - (2 * level_above - 1) >= level_above
        parents.append(rank - level_above * (2 if is_second else 1))
    return parents


def chains(ranks: int, count: int) -> list[int]:
    """Return parents in at most `count` chains of consecutive ranks that begin below rank 0."""
    parents = [-1]
    for length in split(ranks - 1, min(count, ranks - 1)):
        first = len(parents)
        parents += [0, *range(first, first + length - 1)]
    return parents


def in_order_binary_tree(ranks: int) -> list[int]:
    """Return parents in the binary tree over real ranks whose root is the last rank and whose subtrees are ranges."""
    parents = [-1] * ranks

    def hang(first: int, size: int, parent: int) -> None:
        if size:
            top = first + size - 1
            parents[top] = parent
            half = 1 if size == 2 else size // 2
            hang(first, half if size > 1 else 0, top)
            hang(first + half, size - 1 - half if size > 1 else 0, top)

    hang(0, ranks, -1)
    return parents
