"""A rank on a host that goes by events: it waits for the packets that its list names, and goes by their times.

The coordinator has computed the whole history, so the list has the times at which packets have crossed to this rank. Hence
it knows what it can do before the next one. What it does follows from the same `ActingRank` as there.
"""

from collections.abc import Iterable

from emunode.faults.effects import ALWAYS
from emunode.model import Packet, Port, Step
from emunode.timed.acting_rank import EventArrival
from emunode.timed.awaited import AwaitedPackets
from emunode.timed.event_rank import EventRank
from emunode.timed.faulty_node import FaultyProgress
from emunode.timed.forwarding_rank import ForwardingRank


class EventTimedNode:
    """One rank of a host. `pending` and the methods are as those of `FaultyTimedNode`."""

    def __init__(self, rank: EventRank | ForwardingRank, arrivals: Iterable[int], cutoff: int) -> None:
        """`arrivals` are the times at which packets have crossed, ascending."""
        self._rank = rank
        self._cutoff = cutoff
        self._awaited = AwaitedPackets[EventArrival](rank.rank, arrivals, "at {} ns")
        self.pending = 0

    @property
    def done(self) -> bool:
        """Whether everything has been received and nothing more will be sent, except pending departures."""
        return self._awaited.next == ALWAYS and self._due == ALWAYS

    @property
    def _due(self) -> int:
        """The time at which it acts without receiving anything; ALWAYS for none."""
        due = self._rank.next_time
        return ALWAYS if due is None or due >= self._cutoff else due

    def arrive(self, step: Step, port: Port, crossed: int, segments: Packet) -> FaultyProgress:
        """Take a packet that has crossed at `crossed`; FrameError for one that is not in the list."""
        if crossed >= self._cutoff:
            # Still under way when the run ends.
            return self.advance()
        self._awaited.file(crossed, (port, step, segments))
        return self.advance()

    def departed(self) -> FaultyProgress:
        """Count one pending departure as sent; returns the decisions that waited for it."""
        self.pending -= 1
        return self.advance()

    def advance(self) -> FaultyProgress:
        """Do everything that can be done now."""
        progress = FaultyProgress([], [], [], [], [])
        while True:
            due, awaited = self._due, self._awaited.next
            if due < awaited:
                # Without this bound a rank would give all its signs of life at the beginning.
                if self.pending:
                    return progress
                self._act(due, [], progress)
                continue
            arrivals = self._awaited.take()
            if arrivals is None:
                return progress
            self._act(awaited, arrivals, progress)

    def _act(self, now: int, arrivals: list[EventArrival], progress: FaultyProgress) -> None:
        actions = self._rank.act(now, arrivals)
        progress.receipts.extend((now, port, step, crossed) for port, step, crossed in actions.receipts)
        progress.departures.extend(actions.departures)
        progress.losses.extend(actions.losses)
        progress.withheld.extend(actions.withheld)
        progress.judged.extend((step, hops) for step, hops in actions.judged if hops)
        self.pending += len(actions.departures) + len(actions.losses)
