"""Recursive doubling over any number of ranks, where ranks without a partner receive from a rank of their own half."""

from collections.abc import Iterator, Sequence

from coordinator.annexes.mpi.rules.base import distances


def exchange_in_groups(blocks: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield source, target and elements of the messages that bring each rank the blocks of all, in elements."""
    ranks = len(blocks)
    held = list(blocks)
    for distance in distances(ranks):
        received = {rank ^ distance: held[rank] for rank in range(ranks) if rank ^ distance < ranks}
        for target, elements in received.items():
            yield target ^ distance, target, elements
        for first in range(0, ranks, 2 * distance):
            partners = ranks - first - distance
            if 0 <= partners < distance:
                yield from _hand_on(first, distance, partners, received)
        for rank, elements in received.items():
            held[rank] += elements


def _hand_on(first: int, distance: int, partners: int, received: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Spread the upper half over the lower ranks `first` .. `first + distance - 1`; of these `partners` received it."""
    step = distance // 2
    while step:
        for rank in range(first, first + distance):
            other, group = rank ^ step, rank - rank % (2 * step)
            crosses = other > rank and rank < group + partners <= other
            if crosses and rank in received and other not in received:
                yield rank, other, received[rank]
                received[other] = received[rank]
        step //= 2
