"""One packet under faults: its arriving part, its lost parts and its port, by hand."""

import pytest

from coordinator.history.prediction import timed_faults
from coordinator.history.timetable import FaultFreeSteps
from coordinator.scenario.fault_syntax import parse_faults
from emunode.faults.in_time import FaultsInTime
from emunode.model import Packet
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.transmission import Departure, packet_size, transmit
from tests.emunode.timed.test_faults_in_time import CUBE, MS, made, predicted

SEGMENTS: Packet = ((0, -1, 0, 0, b"four"), (0, -1, 1, 0, b"another four"))
"""Of 16 bytes: 4 ms at a quarter of a millisecond per byte."""
COSTS = LinearCostModel(0.0, 0.25e-3)
START, STEP = 10 * MS, 3
STEPS = FaultFreeSteps(predicted(made("hypercube:3", "broadcast", "sbt"), "").packets, COSTS)
"""Steps without use for the faults here: all have times."""


def sent(faults: str) -> tuple[Departure | None, list[Departure], int | None]:
    """Send the segments from 000 to 001 at 10 ms."""
    parsed = parse_faults(faults.split(), CUBE, timed=True)
    in_time = FaultsInTime(CUBE, 0, timed_faults(parsed, STEPS))
    return transmit(in_time, COSTS, 0, STEP, 0, SEGMENTS, START)


def crossing(milliseconds: float, step: int = STEP, copies: int = 1) -> Departure:
    """Return the packet that crosses in these milliseconds."""
    return Departure(START, START + round(milliseconds * MS), 0, step, SEGMENTS * copies)


@pytest.mark.parametrize(
    ("faults", "milliseconds"),
    [
        ("", 4),
        ("slow:000:2", 8),
        ("slow:001:2", 4),
        ("slow:000:2 slow:000~001:1.5", 12),
        ("slow:000:2@0s-10ms", 4),
        ("crash:001@14ms", 4),
        ("down:000~001@14ms", 4),
        ("down:000~010@0s", 4),
    ],
)
def test_a_packet_that_crosses_occupies_its_port_until_then(faults: str, milliseconds: float) -> None:
    arriving = crossing(milliseconds)
    assert sent(faults) == (arriving, [], arriving.end)


@pytest.mark.parametrize(
    ("faults", "milliseconds"),
    [
        ("crash:001@13.9ms", 4),
        ("crash:000@12ms", 4),
        ("hang:001@11ms-12ms", 4),
        ("down:000~001@0s-10.1ms", 4),
        ("slow:000:2 crash:001@14ms", 8),
        ("loss:000>001:1", 4),
        ("drop:000>001:1", 4),
    ],
)
def test_a_packet_that_is_lost_occupies_its_port_as_long(faults: str, milliseconds: float) -> None:
    lost = crossing(milliseconds)
    assert sent(faults) == (None, [lost], lost.end)


def test_a_duplicate_arrives_with_the_packet_and_costs_nothing() -> None:
    assert sent("duplicate:000>001:1") == (crossing(4, copies=2), [], START + 4 * MS)


def test_a_packet_at_a_dead_end_is_lost_with_its_duplicate() -> None:
    assert sent("duplicate:000>001:1 crash:001@0s") == (None, [crossing(4, copies=2)], START + 4 * MS)


def test_a_delayed_packet_frees_its_port_before_it_arrives() -> None:
    arriving = crossing(12, step=STEP + 2)
    assert sent("delay:000>001:2") == (arriving, [], START + 4 * MS)
    assert sent("delay:000>001:2 crash:001@20ms") == (None, [arriving], START + 4 * MS)


def test_a_delay_is_measured_in_durations_without_slowness() -> None:
    """Three times 4 ms on the link, and two times 4 ms after it."""
    assert sent("slow:000:3 delay:000>001:2") == (crossing(20, step=STEP + 2), [], START + 12 * MS)


def test_a_withheld_packet_leaves_its_port_free() -> None:
    assert sent("silent:000") == (None, [Departure(START, START, 0, STEP, SEGMENTS)], None)


@pytest.mark.parametrize(("packet", "size"), [((), 0), (SEGMENTS[:1], 4), (SEGMENTS, 16)])
def test_the_size_of_a_packet_is_the_bytes_of_its_segments(packet: Packet, size: int) -> None:
    assert packet_size(packet) == size
