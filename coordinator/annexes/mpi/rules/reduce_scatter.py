"""Rules of reduce_scatter, a vector of n elements with a block for each rank, and reduce_scatter_block, a block of n
elements for each rank.
"""

from collections.abc import Sequence

from coordinator.annexes.mpi.rules.allreduce import stays_odd
from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, algorithm, distances, split
from coordinator.annexes.mpi.rules.group_doubling import exchange_in_groups


def _blocks(call: MpiCall) -> list[int]:
    if call.collective == "reduce_scatter":
        return split(call.elements, call.ranks)
    return [call.elements] * call.ranks


def _groups(call: MpiCall) -> list[int]:
    """Return the elements of the block or the pair of blocks of each virtual rank."""
    blocks = _blocks(call)
    pairs = [blocks[2 * index] + blocks[2 * index + 1] for index in range(call.excess)]
    return pairs + blocks[2 * call.excess :]


def _fold(call: MpiCall, messages: MessageList) -> None:
    for even in range(0, 2 * call.excess, 2):
        messages.send(even, even + 1, sum(_blocks(call)))


def _reduce_whole(call: MpiCall) -> Sequence[MpiCall]:
    return [call.part("reduce", call.elements)]


@algorithm(
    "reduce_scatter", 1, "non-overlapping", "the default reduce to rank 0, which sends each rank its block",
    parts=_reduce_whole, keeps_order=True,
)  # fmt: skip
def non_overlapping(call: MpiCall, messages: MessageList) -> None:
    for rank, elements in enumerate(_blocks(call)):
        # Empty blocks are no messages here.
        if rank and elements:
            messages.send(0, rank, elements)


def _reduce_and_scatter(call: MpiCall) -> Sequence[MpiCall]:
    return [call.part("reduce", call.ranks * call.elements), call.part("scatter", call.elements)]


@algorithm(
    "reduce_scatter_block", 1, "basic_linear", "the default reduce to rank 0, then the default scatter",
    parts=_reduce_and_scatter, keeps_order=True,
)  # fmt: skip
def basic_linear(call: MpiCall, messages: MessageList) -> None:
    """Send nothing beyond both parts."""


@algorithm(
    "reduce_scatter_block", 2, "recursive_doubling",
    "all blocks but those of the own group are exchanged at distance 1, 2, 4, ..", keeps_order=True,
)  # fmt: skip
def recursive_doubling(call: MpiCall, messages: MessageList) -> None:
    # The pairs and the blocks without need are those of an allgather: a rank sends all others.
    for source, target, held in exchange_in_groups([call.elements] * call.ranks):
        messages.send(source, target, call.ranks * call.elements - held)


def _halving(call: MpiCall, messages: MessageList) -> str | None:
    _fold(call, messages)
    groups, blocks = _groups(call), _blocks(call)
    for virtual in range(call.power):
        first, last = 0, call.power
        for distance in reversed(distances(call.power)):
            middle = first + distance
            sends_lower = virtual >= middle
            elements = sum(groups[first:middle] if sends_lower else groups[middle:last])
            if elements:
                messages.send(stays_odd(call, virtual), stays_odd(call, virtual ^ distance), elements)
            first, last = (middle, last) if sends_lower else (first, middle)
    for even in range(0, 2 * call.excess, 2):
        if blocks[even]:
            messages.send(even + 1, even, blocks[even])
    return None


_HALVING = "pairs of neighbours fold to a power of two; vectors are halved at distance .., 4, 2, 1"


@algorithm("reduce_scatter", 2, "recursive_halving", _HALVING, keeps_order=False)
def recursive_halving(call: MpiCall, messages: MessageList) -> str | None:
    return _halving(call, messages)


@algorithm("reduce_scatter_block", 3, "recursive_halving", _HALVING, keeps_order=True)
def recursive_halving_of_blocks(call: MpiCall, messages: MessageList) -> str | None:
    return _halving(call, messages)


@algorithm("reduce_scatter", 3, "ring", "blocks go round the ring once, to the next rank", keeps_order=False)
def ring(call: MpiCall, messages: MessageList) -> None:
    blocks = _blocks(call)
    for rank in range(call.ranks):
        for k in range(call.ranks - 1):
            messages.send(rank, (rank + 1) % call.ranks, blocks[(rank - 1 - k) % call.ranks])


_BUTTERFLY = "pairs of neighbours fold; vectors are halved at distance 1, 2, 4, ..; blocks then go to their ranks"


def _butterfly(call: MpiCall, messages: MessageList) -> list[int]:
    """Halve at growing distances; returns the group that each virtual rank ends with."""
    _fold(call, messages)
    groups = _groups(call)
    held = []
    for virtual in range(call.power):
        first, last = 0, call.power
        for distance in distances(call.power):
            middle = (first + last) // 2
            keeps_upper = bool(virtual & distance)
            sent = groups[first:middle] if keeps_upper else groups[middle:last]
            messages.send(stays_odd(call, virtual), stays_odd(call, virtual ^ distance), sum(sent))
            first, last = (middle, last) if keeps_upper else (first, middle)
        held.append(first)
    return held


def _to_owners(call: MpiCall, messages: MessageList, held: Sequence[int]) -> None:
    blocks = _blocks(call)
    for virtual, group in enumerate(held):
        source = stays_odd(call, virtual)
        if group < call.excess:
            messages.send(source, 2 * group, blocks[2 * group])
        if group != virtual:
            messages.send(source, stays_odd(call, group), blocks[stays_odd(call, group)])


@algorithm("reduce_scatter", 4, "butterfly", _BUTTERFLY, keeps_order=True)
def butterfly(call: MpiCall, messages: MessageList) -> None:
    _to_owners(call, messages, _butterfly(call, messages))


@algorithm("reduce_scatter_block", 4, "butterfly", _BUTTERFLY, keeps_order=True)
def butterfly_of_blocks(call: MpiCall, messages: MessageList) -> None:
    held = _butterfly(call, messages)
    # With a power of two the library permutes its input beforehand, so that each rank ends with its own block.
    if call.excess:
        _to_owners(call, messages, held)
