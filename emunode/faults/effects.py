"""The effects of faults as data, each with its place, its interval and its probability.

A kind states its effects once, by `Fault.effects`, and all code that asks about a set of faults reads a `FaultTimeline`
(`emunode.faults.timeline`). Only the engines carry faults out by code of their own, for single packets, and a test
holds that code against the effects.

An effect at a rank concerns the rank, and the packets that it sends; an effect at a (rank, port) concerns the packets that
this rank sends by this port.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from emunode.model import Port, Rank

LinkEnd = tuple[Rank, Port]
"""One direction of a link: the packets that this rank sends by this port."""
Place = Rank | LinkEnd
"""A rank, or one direction of a link."""
ALWAYS: Final = 2**62
"""The end of an interval that does not end, in steps as in nanoseconds."""


class Interval(NamedTuple):
    """Steps, or nanoseconds under the timed clock, from `start` on and before `end`."""

    start: int
    end: int

    @property
    def is_endless(self) -> bool:
        """Whether it lasts to the end of a run, however long that is."""
        return self.end >= ALWAYS

    def overlaps(self, start: int, end: int) -> bool:
        """Report whether [start, end) and this interval have an instant in common."""
        return max(self.start, start) < min(self.end, end)

    def __contains__(self, time: object) -> bool:
        return isinstance(time, int) and self.start <= time < self.end


class Choice(StrEnum):
    """The unit that a fault affects or spares as a whole, by one random choice for each."""

    PACKET = "packet"
    """A packet. On a link it is affected if the first number that its fault draws for it is below the probability."""
    PORT = "port"
    SEGMENT = "segment"
    """A segment of a message, the same at every port."""
    COPY = "copy"
    """A segment on one tree at one port."""
    VOTE = "vote"
    """A copy whose alteration wins a vote; the probability says nothing."""


@dataclass(frozen=True)
class Effect:
    """An effect of a fault on its place while the fault is in force."""


@dataclass(frozen=True)
class Stops(Effect):
    """A rank neither reads nor sends, or nothing crosses a link."""

    forgets: bool = False
    """Whether the rank loses its state and its connections."""


@dataclass(frozen=True)
class Loses(Effect):
    """Packets or copies that are sent get lost, with a probability."""

    probability: float = 1.0
    choice: Choice = Choice.PACKET
    packet: int | None = None
    """Only this packet is lost, counted from 1 while the fault is in force."""


@dataclass(frozen=True)
class Alters(Effect):
    """Packets or copies that are sent get other bytes, with a probability. A rank does not alter its own messages."""

    probability: float = 1.0
    choice: Choice = Choice.PACKET
    alike: bool = False
    """Whether all ranks with this effect put the same bytes in place of a segment."""


@dataclass(frozen=True)
class Duplicates(Effect):
    """A packet arrives twice, with a probability."""

    probability: float = 1.0


@dataclass(frozen=True)
class Delays(Effect):
    """A packet crosses a number of steps after its own step."""

    steps: int


@dataclass(frozen=True)
class Slows(Effect):
    """A packet occupies its port `factor` times as long, and up to `spread` more of its duration."""

    factor: float = 1.0
    spread: float = 0.0


@dataclass(frozen=True)
class Drifts(Effect):
    """The clock of a rank runs at a rate of 1 + `rate`."""

    rate: float


@dataclass(frozen=True)
class Ends(Effect):
    """From the start of its interval on, effects of earlier faults at this place end."""

    effects: tuple[Effect, ...] | None = None
    """The effects that end; None: all of them."""


Effects = Iterable[tuple[Place, Interval, Effect]]
"""The form of `Fault.effects`."""
