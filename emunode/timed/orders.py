"""Orders of the coordinator to the timed clock of a host, as typed records."""

from collections.abc import Sequence
from typing import NamedTuple

from emunode.faults.in_time import TimedFault
from emunode.model import Step


class ReceiptSteps(NamedTuple):
    """The steps with arrivals under the timed clock, for each rank of the host from its place `first` on."""

    first: int
    steps: Sequence[bytes]


class Prepare(NamedTuple):
    """The linear cost model of the timed clock, and the last step."""

    startup_seconds: float
    seconds_per_byte: float
    packet_limit: int
    last: Step


class Begin(NamedTuple):
    """Start the timed clock at this reading of CLOCK_MONOTONIC."""

    nanoseconds: int


class TimedFaults(NamedTuple):
    """All faults of the run."""

    faults: list[TimedFault]


class FaultFree(NamedTuple):
    """The fault-free timetable of one rank of the host after the other, from its place `first` on."""

    first: int
    tables: list[tuple[bytes, bytes]]
    """The receipts of each step (`wire.RECEIPTS`); step, port and start of packets that leave (`wire.DEPARTURE`)."""


class ProcessStops(NamedTuple):
    """The times of hangs that stop this process; it reports `reached` when it has done all that comes before."""

    times: Sequence[int]


class ByEvents(NamedTuple):
    """The lengths of the steps of lock-step in nanoseconds, and the end of the signs of life, for ranks with protocols."""

    durations: Sequence[int]
    horizon: int


class CrossingTimes(NamedTuple):
    """The times when packets have crossed to each rank of the host from its place `first` on, as 8-byte numbers."""

    first: int
    times: Sequence[bytes]


class Notices(NamedTuple):
    """Notices of packets that do not come: when a rank learns it, and of which step.

    In the form `wire.NOTICE`, one entry for each rank of the host from place `first` on.
    """

    first: int
    tables: Sequence[bytes]


TimedOrder = (
    ReceiptSteps | Prepare | Begin | TimedFaults | FaultFree | ProcessStops | ByEvents | CrossingTimes | Notices
)
