"""Rules of allgather; a block of n elements on each rank."""

from collections.abc import Sequence

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, RefusedCall, algorithm, distances
from coordinator.annexes.mpi.rules.trees import low


def _gather_and_broadcast(call: MpiCall) -> Sequence[MpiCall]:
    return [call.part("gather", call.elements), call.part("bcast", call.ranks * call.elements)]


@algorithm(
    "allgather", 1, "linear", "the default gather to rank 0, then the default bcast", parts=_gather_and_broadcast
)
def linear(call: MpiCall, messages: MessageList) -> None:
    """Send nothing beyond both parts."""


@algorithm("allgather", 2, "bruck", "all blocks so far to the rank 1, 2, 4, .. before, at most those that it lacks")
def bruck(call: MpiCall, messages: MessageList) -> None:
    for distance in distances(call.ranks):
        for rank in range(call.ranks):
            blocks = min(distance, call.ranks - distance)
            messages.send(rank, (rank - distance) % call.ranks, call.elements * blocks)


@algorithm(
    "allgather", 3, "recursive_doubling",
    "all blocks so far are exchanged at distance 1, 2, 4, ..; bruck unless the number of ranks is a power of two",
)  # fmt: skip
def recursive_doubling(call: MpiCall, messages: MessageList) -> str | None:
    if call.excess:
        bruck(call, messages)
        return "bruck"
    for distance in distances(call.ranks):
        for rank in range(call.ranks):
            messages.send(rank, rank ^ distance, call.elements * distance)
    return None


@algorithm("allgather", 4, "ring", "one block to the next rank in each step")
def ring(call: MpiCall, messages: MessageList) -> None:
    for rank in range(call.ranks):
        messages.send(rank, (rank + 1) % call.ranks, call.elements * (call.ranks - 1), call.ranks - 1)


@algorithm(
    "allgather",
    5,
    "neighbor",
    "two blocks are exchanged with both neighbours in turn; ring if the number of ranks is odd",
)
def neighbor(call: MpiCall, messages: MessageList) -> str | None:
    if call.ranks % 2:
        ring(call, messages)
        return "ring"
    for rank in range(call.ranks):
        first, second = ((rank + step) % call.ranks for step in ((1, -1) if rank % 2 == 0 else (-1, 1)))
        messages.send(rank, first, call.elements)
        for step in range(call.ranks // 2 - 1):
            messages.send(rank, first if step % 2 else second, 2 * call.elements)
    return None


@algorithm("allgather", 6, "two_proc", "two ranks exchange their blocks; refused for more ranks")
def two_proc(call: MpiCall, messages: MessageList) -> None:
    if call.ranks != 2:
        raise RefusedCall
    messages.send(0, 1, call.elements)
    messages.send(1, 0, call.elements)


@algorithm("allgather", 7, "sparbit", "single blocks to the ranks .., 4, 2, 1 behind; blocks are never joined")
def sparbit(call: MpiCall, messages: MessageList) -> None:
    held = 1
    for distance in reversed(distances(call.ranks)):
        # A rank that would receive its own block again is skipped.
        skipped = distance == low(call.ranks) or (distance > low(call.ranks) and not call.ranks & distance)
        for rank in range(call.ranks):
            if held > skipped:
                target = (rank + distance) % call.ranks
                messages.send(rank, target, call.elements * (held - skipped), held - skipped)
        held = 2 * held - skipped
