"""A rank on a host under the timed clock: it waits for the packets that its list names, and acts at their times.

The coordinator has computed the whole history, so the list has the times when packets have crossed to this rank, and
when the rank learns that a packet does not come. Hence the rank knows what it can do before the next packet. Its
actions follow from the same `TimedRank` as in memory. No clock, no socket.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from emunode.errors import FrameError
from emunode.faults.effects import ALWAYS
from emunode.model import Hop, Packet, Port, Step
from emunode.timed.rank import Actions, Arrival, Receipt, TimedRank
from emunode.timed.transmission import Departure


class RankProgress(NamedTuple):
    """The decisions of a rank."""

    receipts: list[Receipt]
    departures: list[Departure]
    judged: list[tuple[Step, list[Hop]]]
    """Hops with their step."""
    losses: Sequence[Departure] = ()
    withheld: Sequence[Departure] = ()
    """Packets that did not leave, since the rank suspects the neighbour."""
    reports: Sequence[Departure] = ()
    """Decisions of the node on failures."""


class HostedRank:
    """One rank of a host. `pending` and the methods are as in `FaultFreeRank`; losses count as departures."""

    def __init__(
        self, rank: TimedRank, arrivals: Iterable[int], notices: Iterable[tuple[int, Step]] = (), cutoff: int = ALWAYS
    ) -> None:
        """Take the crossing times of packets (`arrivals`), and the times of notices that packets do not come."""
        self._rank = rank
        self._cutoff = cutoff
        self._missing = {time: [step for _, step in together] for time, together in groupby(notices, key=itemgetter(0))}
        # A notice may be the only event of its time: then no packet is awaited.
        counts = dict.fromkeys(self._missing, 0)
        for time in arrivals:
            counts[time] = counts.get(time, 0) + 1
        # Descending, so that the next time is popped off the end.
        self._schedule = sorted(counts.items(), reverse=True)
        """The times when packets have crossed, or do not come, and the number of packets; the next one last."""
        self._filed: dict[int, list[Arrival]] = {}
        self.pending = 0

    @property
    def done(self) -> bool:
        """Whether everything has been received and nothing more will be sent, except pending departures."""
        return not self._schedule and self._due == ALWAYS

    @property
    def _due(self) -> int:
        """The time when the rank acts without receiving anything; ALWAYS for none."""
        due = self._rank.next_time
        return ALWAYS if due is None or due >= self._cutoff else due

    def arrive(self, step: Step, port: Port, crossed: int, segments: Packet) -> RankProgress:
        """Take a packet that has crossed at `crossed`; FrameError for a packet that is not in the list."""
        # Packets that are under way when the run ends are left alone.
        if crossed < self._cutoff:
            if not self._schedule or crossed < self._schedule[-1][0]:
                awaited = f"one at {self._schedule[-1][0]} ns" if self._schedule else "none"
                raise FrameError(f"rank {self._rank.rank} got a packet at {crossed} ns and waits for {awaited}")
            self._filed.setdefault(crossed, []).append((port, step, segments))
        return self.advance()

    def departed(self) -> RankProgress:
        """Count one pending departure as sent; return the decisions that waited for it."""
        self.pending -= 1
        return self.advance()

    def advance(self) -> RankProgress:
        """Do everything that can be done now."""
        progress = RankProgress([], [], [], [], [], [])
        while True:
            due, awaited = self._due, self._schedule[-1][0] if self._schedule else ALWAYS
            # On a tie the packets come first: at one instant a rank receives before it acts, and acts once.
            if due < awaited:
                # Without this bound a rank would give all its signs of life at the beginning.
                if self.pending:
                    break
                self._note(self._rank.act(due, []), progress)
            elif not self._schedule or len(self._filed.get(awaited, ())) < self._schedule[-1][1]:
                break
            else:
                self._note(self._rank.act(awaited, self._take(), self._missing.get(awaited, ())), progress)
        return progress

    def _take(self) -> list[Arrival]:
        """Take the packets of the next time off the list; FrameError if there are too many."""
        time, count = self._schedule.pop()
        filed = self._filed.pop(time, [])
        if len(filed) > count:
            # A peer has computed another history than the coordinator: going on would only hide it.
            raise FrameError(f"rank {self._rank.rank} got more packets at {time} ns than its list has")
        return filed

    def _note(self, actions: Actions, progress: RankProgress) -> None:
        progress.receipts.extend(actions.receipts)
        progress.departures.extend(actions.departures)
        # A step without anything read has no rows.
        progress.judged.extend((step, hops) for step, hops in actions.judged if hops)
        progress.losses.extend(actions.losses)  # type: ignore[attr-defined]
        progress.withheld.extend(actions.withheld)  # type: ignore[attr-defined]
        progress.reports.extend(actions.reports)  # type: ignore[attr-defined]
        # A lost packet starts as any other, and the engine reports its departure too.
        self.pending += len(actions.departures) + len(actions.losses)
