"""Rules of alltoall; a block of n elements for each pair of ranks."""

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, RefusedCall, algorithm, distances


def _all_pairs(call: MpiCall, messages: MessageList) -> None:
    for rank in range(call.ranks):
        for distance in range(1, call.ranks):
            messages.send(rank, (rank + distance) % call.ranks, call.elements)


# The first, second and fourth differ in their order alone, and no count shows the order.
algorithm("alltoall", 1, "linear", "one block between all pairs, all at once")(_all_pairs)
algorithm("alltoall", 2, "pairwise", "one block between all pairs, by distance")(_all_pairs)


@algorithm("alltoall", 3, "modified_bruck", "at distance 1, 2, 4, .. all blocks whose distance has that bit")
def modified_bruck(call: MpiCall, messages: MessageList) -> None:
    for distance in distances(call.ranks):
        blocks = sum(1 for offset in range(1, call.ranks) if offset & distance)
        for rank in range(call.ranks):
            messages.send(rank, (rank + distance) % call.ranks, call.elements * blocks)


algorithm("alltoall", 4, "linear_sync", "one block between all pairs, a few at a time")(_all_pairs)


@algorithm("alltoall", 5, "two_proc", "two ranks exchange their blocks; refused for more ranks")
def two_proc(call: MpiCall, messages: MessageList) -> None:
    if call.ranks != 2:
        raise RefusedCall
    _all_pairs(call, messages)
