"""The first half of Rabenseifner's algorithm as Open MPI has it, shared by allreduce and reduce."""

from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, distances


def rank_of_virtual(call: MpiCall, virtual: int) -> int:
    """Return the rank that takes part as `virtual` where the odd ranks of folded pairs leave."""
    return 2 * virtual if virtual < call.excess else virtual + call.excess


def fold_by_halves(call: MpiCall, messages: MessageList) -> None:
    """Add the messages of each pair of neighbours that reduces one half of the vector each; the even rank stays."""
    for even in range(0, 2 * call.excess, 2):
        messages.send(even + 1, even, call.elements // 2)
        messages.send(even, even + 1, call.elements - call.elements // 2)
        messages.send(even + 1, even, call.elements - call.elements // 2)


def halve(call: MpiCall, messages: MessageList) -> list[list[int]]:
    """Add the messages of the halving; returns what each virtual rank holds at first and after each step, in elements.

    The largest exchange is at distance 1; textbooks that begin at distance P/2 have the same totals and other pairs.
    """
    kept = [[call.elements] for _ in range(call.power)]
    for distance in distances(call.power):
        for virtual, windows in enumerate(kept):
            lower = windows[-1] // 2
            upper = windows[-1] - lower
            keeps_upper = bool(virtual & distance)
            messages.send(
                rank_of_virtual(call, virtual),
                rank_of_virtual(call, virtual ^ distance),
                lower if keeps_upper else upper,
            )
            windows.append(upper if keeps_upper else lower)
    return kept
