"""Rules of gather and scatter; a block of n elements for each rank."""

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, algorithm
from coordinator.annexes.mpi.rules.trees import in_order_binomial_tree, low


def _directly(call: MpiCall, messages: MessageList) -> None:
    inwards = call.collective == "gather"
    for virtual in range(1, call.ranks):
        pair = (call.rank(virtual), call.root) if inwards else (call.root, call.rank(virtual))
        messages.send(*pair, call.elements)


def _along_tree(call: MpiCall, messages: MessageList) -> None:
    inwards = call.collective == "gather"
    for virtual, parent in enumerate(in_order_binomial_tree(call.ranks)):
        if parent >= 0:
            ends = (call.rank(virtual), call.rank(parent))
            blocks = min(low(virtual), call.ranks - virtual)
            messages.send(*(ends if inwards else ends[::-1]), call.elements * blocks)


algorithm("gather", 1, "basic_linear", "all ranks send to the root")(_directly)
algorithm("gather", 2, "binomial", "blocks of whole subtrees go up a binomial tree")(_along_tree)
algorithm("scatter", 1, "basic_linear", "the root sends to each rank")(_directly)
algorithm("scatter", 2, "binomial", "blocks of whole subtrees go down a binomial tree")(_along_tree)
algorithm("scatter", 3, "linear_nb", "the root sends to each rank, a few at a time")(_directly)


@algorithm("gather", 3, "linear_sync", "the root asks each rank for a first segment and then for the rest")
def linear_sync(call: MpiCall, messages: MessageList) -> None:
    first = call.pieces()[0]
    for virtual in range(1, call.ranks):
        messages.send(call.root, call.rank(virtual), 0)
        # Two messages always: without segments the second is empty.
        messages.send_each(call.rank(virtual), call.root, [first, call.elements - first])
