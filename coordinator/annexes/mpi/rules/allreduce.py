"""Rules of allreduce; a vector of n elements on each rank."""

from collections.abc import Sequence

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, algorithm, distances, split
from coordinator.annexes.mpi.rules.halving import fold_by_halves, halve, rank_of_virtual


@algorithm("allreduce", 1, "basic_linear", "all ranks send to rank 0, which sends the result to each", keeps_order=True)
def basic_linear(call: MpiCall, messages: MessageList) -> None:
    for rank in range(1, call.ranks):
        messages.send(rank, 0, call.elements)
        messages.send(0, rank, call.elements)


def _reduce_and_broadcast(call: MpiCall) -> Sequence[MpiCall]:
    return [call.part("reduce", call.elements), call.part("bcast", call.elements)]


@algorithm(
    "allreduce", 2, "nonoverlapping", "the default reduce to rank 0, then the default bcast",
    parts=_reduce_and_broadcast, keeps_order=True,
)  # fmt: skip
def nonoverlapping(call: MpiCall, messages: MessageList) -> None:
    """Send nothing beyond both parts."""


@algorithm(
    "allreduce", 3, "recursive_doubling",
    "pairs of neighbours fold to a power of two; then whole vectors are exchanged at distance 1, 2, 4, ..",
    keeps_order=True,
)  # fmt: skip
def recursive_doubling(call: MpiCall, messages: MessageList) -> None:
    for even in range(0, 2 * call.excess, 2):
        messages.send(even, even + 1, call.elements)
        messages.send(even + 1, even, call.elements)
    for distance in distances(call.power):
        for virtual in range(call.power):
            messages.send(stays_odd(call, virtual), stays_odd(call, virtual ^ distance), call.elements)


def stays_odd(call: MpiCall, virtual: int) -> int:
    """Return the rank that takes part as `virtual` where the even ranks of folded pairs leave."""
    return 2 * virtual + 1 if virtual < call.excess else virtual + call.excess


@algorithm(
    "allreduce", 4, "ring", "blocks go round the ring twice: reduced, then gathered; always to the next rank",
    keeps_order=False,
)  # fmt: skip
def ring(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.ranks:
        recursive_doubling(call, messages)
        return "recursive_doubling"
    blocks = split(call.elements, call.ranks)
    for rank in range(call.ranks):
        for k in range(call.ranks - 1):
            for block in (rank - k, rank + 1 - k):
                messages.send(rank, (rank + 1) % call.ranks, blocks[block % call.ranks])
    return None


@algorithm(
    "allreduce", 5, "segmented_ring", "the ring, whose first round cuts each block into segments",
    keeps_order=False,
)  # fmt: skip
def segmented_ring(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.ranks:
        recursive_doubling(call, messages)
        return "recursive_doubling"
    whole = call.ranks * call.pieces()[0]
    if call.elements < whole:
        ring(call, messages)
        return "ring"
    phases, rest = divmod(call.elements, whole)
    phases += rest >= call.ranks and rest > whole // 2
    blocks = split(call.elements, call.ranks)
    for rank in range(call.ranks):
        for k in range(call.ranks - 1):
            target = (rank + 1) % call.ranks
            messages.send_each(rank, target, split(blocks[(rank - k) % call.ranks], phases))
            # The second round gathers whole blocks: the library does not segment it.
            messages.send(rank, target, blocks[(rank + 1 - k) % call.ranks])
    return None


@algorithm(
    "allreduce", 6, "rabenseifner",
    "pairs of neighbours fold by halves; vectors are halved at distance 1, 2, 4, .., and gathered in the reverse order",
    keeps_order=True,
)  # fmt: skip
def rabenseifner(call: MpiCall, messages: MessageList) -> str | None:
    if call.elements < call.power or not call.commutative:
        basic_linear(call, messages)
        return "basic_linear"
    fold_by_halves(call, messages)
    kept = halve(call, messages)
    for bit, distance in reversed(list(enumerate(distances(call.power)))):
        for virtual in range(call.power):
            messages.send(
                rank_of_virtual(call, virtual), rank_of_virtual(call, virtual ^ distance), kept[virtual][bit + 1]
            )
    for even in range(0, 2 * call.excess, 2):
        messages.send(even, even + 1, call.elements)
    return None
