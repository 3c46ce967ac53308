"""A rank with faults on a host: it waits for the packets that its list names, and runs its steps in order.

The coordinator has computed the whole history, so the list has exactly the packets that arrive. The steps themselves, what
is lost in them and all times follow from the same `FaultyRank` as there. No clock, no socket.
"""

from collections.abc import Iterable
from typing import NamedTuple

from emunode.errors import FrameError
from emunode.model import Hop, Packet, Port, Step
from emunode.timed.awaited import AwaitedPackets
from emunode.timed.faulty_rank import Arrival, Departure, FaultyRank
from emunode.timed.node import NEVER


class FaultyProgress(NamedTuple):
    """The decisions of a rank."""

    receipts: list[tuple[int, Port, Step, int]]
    """Time of receipt, port, step, and time at which it had crossed, of every packet that it read."""
    departures: list[Departure]
    losses: list[Departure]
    judged: list[tuple[Step, list[Hop]]]
    """Hops with their step."""
    withheld: list[Departure]
    """Packets that did not leave, since the rank suspects the neighbour."""


class FaultyTimedNode:
    """One rank of a host. `pending` and the methods are as those of `TimedNode`, losses count as departures."""

    def __init__(self, rank: FaultyRank, receipts: Iterable[Step], last: Step) -> None:
        self._rank = rank
        self._last = last
        self._awaited = AwaitedPackets[Arrival](rank.rank, receipts, "of step {}")
        self.pending = 0

    @property
    def done(self) -> bool:
        """Whether everything has been received and nothing more will be sent, except pending departures."""
        due = self._rank.due
        return self._awaited.next == NEVER and (due is None or due > self._last)

    def arrive(self, step: Step, port: Port, crossed: int, segments: Packet) -> FaultyProgress:
        """Take a packet that has crossed at `crossed`; FrameError for one that is not in the list."""
        if step > self._last:
            raise FrameError(f"rank {self._rank.rank} got a packet of step {step}, and the last step is {self._last}")
        self._awaited.file(step, (crossed, port, segments))
        return self.advance()

    def departed(self) -> FaultyProgress:
        """Count one pending departure as sent; returns the decisions that waited for it."""
        self.pending -= 1
        return self.advance()

    def advance(self) -> FaultyProgress:
        """Run all steps that can run now."""
        progress = FaultyProgress([], [], [], [], [])
        while True:
            due, awaited = self._rank.due, self._awaited.next
            if due is not None and due <= awaited:
                if self.pending or due > self._last:
                    return progress
                self._run(due, [], progress)
                continue
            arrivals = self._awaited.take()
            if arrivals is None:
                return progress
            self._run(awaited + 1, arrivals, progress)

    def _run(self, step: Step, arrivals: list[Arrival], progress: FaultyProgress) -> None:
        result = self._rank.step(step, arrivals)
        progress.receipts.extend((received, port, step - 1, crossed) for received, port, crossed in result.receipts)
        progress.departures.extend(result.departures)
        progress.losses.extend(result.losses)
        if result.hops:
            progress.judged.append((step - 1, result.hops))
        self.pending += len(result.departures) + len(result.losses)
