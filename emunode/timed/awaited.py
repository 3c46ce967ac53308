"""The packets that are to arrive at a rank, as its list names them: how many at each step or time, in ascending order."""

from collections.abc import Iterable
from itertools import groupby
from typing import Generic, TypeVar

from emunode.errors import FrameError
from emunode.model import Rank
from emunode.timed.node import NEVER

Arrival = TypeVar("Arrival")


class AwaitedPackets(Generic[Arrival]):
    """Keeps what arrives until everything of the next step or time is there.

    `moments` has one entry per packet, ascending. `when` has the words for a moment in messages, such as "of step {}".
    """

    def __init__(self, rank: Rank, moments: Iterable[int], when: str) -> None:
        self._rank = rank
        self._when = when
        self._schedule = [(moment, len(list(same))) for moment, same in groupby(moments)]
        # A moment that never comes, so that the rank waits for nothing after its last receipt.
        self._schedule.append((NEVER, 0))
        self._schedule.reverse()
        self._filed: dict[int, list[Arrival]] = {}
        self.next, self._missing = self._schedule.pop()
        """The step or time of the next packets; NEVER after the last ones."""

    def file(self, moment: int, arrival: Arrival) -> None:
        """Keep a packet; FrameError for one that comes after all packets of its step or time."""
        if moment < self.next:
            awaited = "none" if self.next == NEVER else f"one {self._when.format(self.next)}"
            raise FrameError(f"rank {self._rank} got a packet {self._when.format(moment)} and waits for {awaited}")
        self._filed.setdefault(moment, []).append(arrival)

    def take(self) -> list[Arrival] | None:
        """The packets of `next`, which then moves on; None if some are missing. FrameError if there are too many."""
        filed = self._filed.get(self.next, [])
        if self.next == NEVER or len(filed) < self._missing:
            return None
        if len(filed) > self._missing:
            raise FrameError(f"rank {self._rank} got more packets {self._when.format(self.next)} than its list has")
        del self._filed[self.next]
        self.next, self._missing = self._schedule.pop()
        return filed
