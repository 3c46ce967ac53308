"""Rules of reduce; a vector of n elements to the root. Trees are over ranks relative to the root unless stated."""

from collections.abc import Sequence

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, algorithm, distances
from coordinator.annexes.mpi.rules.bcast import CHAINS
from coordinator.annexes.mpi.rules.halving import fold_by_halves, halve, rank_of_virtual
from coordinator.annexes.mpi.rules.trees import binary_tree, chains, in_order_binary_tree, in_order_binomial_tree


@algorithm("reduce", 1, "linear", "all ranks send to the root", keeps_order=True)
def linear(call: MpiCall, messages: MessageList) -> None:
    for virtual in range(1, call.ranks):
        messages.send(call.rank(virtual), call.root, call.elements)


def _up(call: MpiCall, messages: MessageList, parents: Sequence[int]) -> None:
    for virtual, parent in enumerate(parents):
        if parent >= 0:
            messages.send_each(call.rank(virtual), call.rank(parent), call.pieces())


@algorithm("reduce", 2, "chain", "segments go up four chains", keeps_order=False)
def chain(call: MpiCall, messages: MessageList) -> None:
    _up(call, messages, chains(call.ranks, CHAINS))


@algorithm("reduce", 3, "pipeline", "segments go up one chain", keeps_order=False)
def pipeline(call: MpiCall, messages: MessageList) -> None:
    _up(call, messages, chains(call.ranks, 1))


@algorithm("reduce", 4, "binary", "segments go up a binary tree", keeps_order=False)
def binary(call: MpiCall, messages: MessageList) -> None:
    _up(call, messages, binary_tree(call.ranks))


@algorithm(
    "reduce", 5, "binomial", "segments go up the binomial tree whose subtrees are ranges: not the tree of bcast",
    keeps_order=False,
)  # fmt: skip
def binomial(call: MpiCall, messages: MessageList) -> None:
    _up(call, messages, in_order_binomial_tree(call.ranks))


@algorithm(
    "reduce", 6, "in-order_binary", "segments go up a binary tree to the last rank, which sends the result to the root",
    keeps_order=True,
)  # fmt: skip
def in_order_binary(call: MpiCall, messages: MessageList) -> None:
    # Over real ranks whatever the root is, so that operands stay in rank order.
    for rank, parent in enumerate(in_order_binary_tree(call.ranks)):
        if parent >= 0:
            messages.send_each(rank, parent, call.pieces())
    if call.root != call.ranks - 1:
        messages.send(call.ranks - 1, call.root, call.elements)


@algorithm(
    "reduce",
    7,
    "rabenseifner",
    "vectors are halved as in allreduce, then gathered up a binomial tree",
    keeps_order=True,
)
def rabenseifner(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.power or not call.commutative:
        linear(call, messages)
        return "linear"
    fold_by_halves(call, messages)
    kept = halve(call, messages)
    members = [rank_of_virtual(call, virtual) for virtual in range(call.power)]
    if call.root in members:
        top = members.index(call.root)
    else:
        # The root left when pairs folded: it takes the place of rank 0.
        messages.send(0, call.root, kept[0][-1])
        members[0], top = call.root, 0
    alive = set(range(call.power))
    for bit, distance in reversed(list(enumerate(distances(call.power)))):
        for virtual in sorted(alive):
            if (virtual ^ distance) >> bit == top >> bit:
                messages.send(members[virtual], members[virtual ^ distance], kept[virtual][bit + 1])
                alive.discard(virtual)
    return None
