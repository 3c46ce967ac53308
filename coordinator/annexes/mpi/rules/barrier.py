"""Rules of barrier; all messages are empty."""

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, RefusedCall, algorithm, distances
from coordinator.annexes.mpi.rules.trees import in_order_binomial_tree


@algorithm("barrier", 1, "linear", "all ranks report to rank 0, which answers each")
def linear(call: MpiCall, messages: MessageList) -> None:
    for rank in range(1, call.ranks):
        messages.send(rank, 0, 0)
        messages.send(0, rank, 0)


@algorithm("barrier", 2, "double_ring", "a token goes round the ring twice")
def double_ring(call: MpiCall, messages: MessageList) -> None:
    for rank in range(call.ranks):
        messages.send(rank, (rank + 1) % call.ranks, 0, 2)


@algorithm(
    "barrier", 3, "recursive_doubling", "exchanges at distance 1, 2, 4, .. among the first power of two of ranks"
)
def recursive_doubling(call: MpiCall, messages: MessageList) -> None:
    # Ranks beyond the power of two report to the rank that lies a power below; allreduce folds neighbours instead.
    for rank in range(call.power, call.ranks):
        messages.send(rank, rank - call.power, 0)
        messages.send(rank - call.power, rank, 0)
    for distance in distances(call.power):
        for rank in range(call.power):
            messages.send(rank, rank ^ distance, 0)


@algorithm("barrier", 4, "bruck", "each rank signals the ranks 1, 2, 4, .. behind it")
def bruck(call: MpiCall, messages: MessageList) -> None:
    for distance in distances(call.ranks):
        for rank in range(call.ranks):
            messages.send(rank, (rank + distance) % call.ranks, 0)


@algorithm("barrier", 5, "two_proc", "two ranks signal each other; refused for more ranks")
def two_proc(call: MpiCall, messages: MessageList) -> None:
    if call.ranks != 2:
        raise RefusedCall
    bruck(call, messages)


@algorithm("barrier", 6, "tree", "up and down a binomial tree")
def tree(call: MpiCall, messages: MessageList) -> None:
    for rank, parent in enumerate(in_order_binomial_tree(call.ranks)):
        if parent >= 0:
            messages.send(rank, parent, 0)
            messages.send(parent, rank, 0)
