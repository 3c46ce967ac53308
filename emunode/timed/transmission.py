"""The transmission of one packet under the timed clock: how long it takes, and its fate under the faults of the run."""

from collections.abc import Mapping
from typing import NamedTuple

from emunode.faults.in_time import FaultsInTime
from emunode.model import Packet, Port, Rank, Step
from emunode.timed.cost_model import LinearCostModel


class Departure(NamedTuple):
    """A packet that starts; `end` is the time when it has crossed, or would have crossed."""

    start: int
    end: int
    port: Port
    step: Step
    segments: Packet


class TimedPacket(NamedTuple):
    """A packet with its times in nanoseconds; `end` is -1 for a lost packet."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank
    bytes: int
    start: int
    end: int


class RankTimetable(NamedTuple):
    """The part of one rank in the fault-free timetable."""

    receipts: Mapping[Step, int]
    """Packets that arrive, by step."""
    starts: Mapping[tuple[Step, Port], int]
    """The time when each packet leaves, in nanoseconds."""
    ends: Mapping[Step, int]
    """The time when all packets of a step have been received, for each step with arrivals."""


NOTHING_PLANNED = RankTimetable({}, {}, {})


def transmit(
    faults: FaultsInTime, costs: LinearCostModel, rank: Rank, step: Step, port: Port, segments: Packet, start: int
) -> tuple[Departure | None, list[Departure], int | None]:
    """Send one packet: return its arriving part, its lost parts, and the time when its port is free again.

    The time is None if the sender withholds everything. A delayed packet arrives in a later step, and after its port is
    free.
    """
    losses = []
    # The sender acts before the link, as in lock-step: faults of the link act on what the sender lets out.
    segments, withheld = faults.treated(step, rank, port, segments, start)
    if withheld:
        losses.append(Departure(start, start, port, step, withheld))
    if not segments:
        # A sender that withholds a whole packet does not occupy its port.
        return None, losses, None
    duration = costs.nanoseconds(packet_size(segments))
    end = start + faults.occupancy(step, rank, port, start, duration)
    transit = faults.transit(step, rank, port, segments, start)
    # A duplicate arrives with the first copy and occupies nothing.
    sent = Departure(start, end, port, step, transit.segments * transit.copies)
    crosses = faults.crosses(rank, port, start, end)
    if transit.lost or (transit.delay and not crosses):
        # As in lock-step: a packet that its link loses is recorded once, a packet that meets a dead end with its
        # duplicates. The sender knows of neither, so its port is busy all the same.
        return None, [*losses, sent._replace(segments=transit.segments)], end
    if not crosses:
        return None, [*losses, sent], end
    # Anything may happen to a delayed packet until it arrives.
    late = sent._replace(end=end + transit.delay * duration, step=step + transit.delay)
    if faults.crosses(rank, port, start, late.end):
        return late, losses, end
    return None, [*losses, late], end


def packet_size(segments: Packet) -> int:
    """Return the bytes of a packet that its occupancy depends on."""
    # Hot path, several times per packet: most packets have one segment.
    return len(segments[0][4]) if len(segments) == 1 else sum(len(segment[4]) for segment in segments)
