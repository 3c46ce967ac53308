"""Rules of bcast; a vector of n elements from the root. Trees are over ranks relative to the root."""

from collections.abc import Sequence

from coordinator.annexes.mpi.rules.base import ELEMENT_BYTES, MessageList, MpiCall, algorithm
from coordinator.annexes.mpi.rules.group_doubling import exchange_in_groups
from coordinator.annexes.mpi.rules.trees import (
    binary_tree,
    binomial_tree,
    chains,
    in_order_binomial_tree,
    k_nomial_tree,
    low,
)

CHAINS = 4
RADIX = 4


@algorithm("bcast", 1, "basic_linear", "the root sends to each rank, whatever the segment size")
def basic_linear(call: MpiCall, messages: MessageList) -> None:
    for virtual in range(1, call.ranks):
        messages.send(call.root, call.rank(virtual), call.elements)


def _down(call: MpiCall, messages: MessageList, parents: Sequence[int]) -> None:
    for virtual, parent in enumerate(parents):
        if parent >= 0:
            messages.send_each(call.rank(parent), call.rank(virtual), call.pieces())


@algorithm("bcast", 2, "chain", "segments go down four chains")
def chain(call: MpiCall, messages: MessageList) -> None:
    _down(call, messages, chains(call.ranks, CHAINS))


@algorithm("bcast", 3, "pipeline", "segments go down one chain")
def pipeline(call: MpiCall, messages: MessageList) -> None:
    _down(call, messages, chains(call.ranks, 1))


@algorithm(
    "bcast", 4, "split_binary_tree", "each side of a binary tree gets one half; then both sides exchange their halves"
)
def split_binary_tree(call: MpiCall, messages: MessageList) -> str | None:
    second = call.elements // 2
    halves = (second, call.elements - second)  # of even and of odd virtual ranks
    if not second or call.segment > ELEMENT_BYTES * second:
        pipeline(call, messages)
        return "pipeline"
    for virtual, parent in enumerate(binary_tree(call.ranks)):
        if parent >= 0:
            messages.send_each(call.rank(parent), call.rank(virtual), call.pieces(halves[virtual % 2]))
    for odd in range(1, call.ranks - 1, 2):
        messages.send(call.rank(odd), call.rank(odd + 1), halves[1])
        messages.send(call.rank(odd + 1), call.rank(odd), halves[0])
    if call.ranks % 2 == 0:
        # The last rank has no partner on the other side.
        messages.send(call.root, call.rank(call.ranks - 1), halves[0])
    return None


@algorithm("bcast", 5, "binary_tree", "segments go down a binary tree")
def binary(call: MpiCall, messages: MessageList) -> None:
    _down(call, messages, binary_tree(call.ranks))


@algorithm("bcast", 6, "binomial", "segments go down a binomial tree: the root sends to 1, 2, 4, ..")
def binomial(call: MpiCall, messages: MessageList) -> None:
    _down(call, messages, binomial_tree(call.ranks))


@algorithm("bcast", 7, "knomial", "segments go down a 4-nomial tree")
def knomial(call: MpiCall, messages: MessageList) -> None:
    _down(call, messages, k_nomial_tree(call.ranks, RADIX))


def _scatter(call: MpiCall, messages: MessageList) -> list[int]:
    """Scatter blocks down the in-order binomial tree; returns their lengths by virtual rank."""
    length = -(-call.elements // call.ranks)
    blocks = [max(0, min(length, call.elements - virtual * length)) for virtual in range(call.ranks)]
    for virtual, parent in enumerate(in_order_binomial_tree(call.ranks)):
        if parent >= 0:
            subtree = sum(blocks[virtual : virtual + low(virtual)])
            if subtree:
                messages.send(call.rank(parent), call.rank(virtual), subtree)
    return blocks


@algorithm("bcast", 8, "scatter_allgather", "blocks are scattered, then gathered by all ranks by recursive doubling")
def scatter_allgather(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.ranks:
        basic_linear(call, messages)
        return "basic_linear"
    for source, target, elements in exchange_in_groups(_scatter(call, messages)):
        messages.send(call.rank(source), call.rank(target), elements)
    return None


@algorithm("bcast", 9, "scatter_allgather_ring", "blocks are scattered, then go round the ring")
def scatter_allgather_ring(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.ranks:
        basic_linear(call, messages)
        return "basic_linear"
    blocks = _scatter(call, messages)
    for virtual in range(call.ranks):
        for k in range(call.ranks - 1):
            # Empty blocks are messages too.
            messages.send(call.rank(virtual), call.rank(virtual + 1), blocks[(virtual - k) % call.ranks])
    return None
