"""Orders of the coordinator to the timed clock: each comes out of its frame as it went in."""

from typing import Any, get_args

import pytest

from emunode.errors import FrameError
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import Crash
from emunode.faults.slowness import Slow
from emunode.host.orders import read_order
from emunode.net import wire
from emunode.timed.orders import (
    Begin,
    ByEvents,
    CrossingTimes,
    FaultFree,
    Notices,
    Prepare,
    ProcessStops,
    ReceiptSteps,
    TimedFaults,
    TimedOrder,
)
from emunode.topologies.registry import parse_topology

RING = parse_topology("ring:5")
EIGHT, RECEIPT = bytes(range(8)), bytes(range(wire.RECEIPTS.size))
ORDERS: dict[str, TimedOrder] = {
    "timetable": ReceiptSteps(3, [b"", bytes(8)]),
    "prepare": Prepare(1e-3, 0.0, 512, 7),
    "begin": Begin(2**62),
    "timed_faults": TimedFaults([]),
    "fault_free": FaultFree(4, [(RECEIPT, b"")]),
    "stops": ProcessStops([1, 5]),
    "by_events": ByEvents([10, 20], 10**9),
    "arrivals": CrossingTimes(0, [EIGHT, b"", EIGHT * 2]),
    "notices": Notices(0, [bytes(wire.NOTICE.size)]),
}


def decoded(name: str, *fields: Any) -> object:
    """Return the order in a frame, as a host reads it."""
    return read_order(wire.encode_control(name, *fields), RING)


def test_the_list_has_every_order() -> None:
    assert {type(order) for order in ORDERS.values()} == {*get_args(TimedOrder)}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_comes_out_of_its_frame(name: str) -> None:
    order = ORDERS[name]
    found = decoded(name, *order)
    assert type(found) is type(order)
    for value, given in zip(found, order, strict=True):
        assert plain(value) == plain(given)


def plain(value: object) -> object:
    """Return a value with lists in place of all sequences."""
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def test_faults_keep_kind_place_and_times() -> None:
    faults = [
        TimedFault(1_000_000, ALWAYS, Crash(1, 2)),
        TimedFault(0, 3_000_000, Slow(1, 4, 2.0)),
    ]
    assert decoded("timed_faults", [fault.record() for fault in faults]) == TimedFaults(faults)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("timetable", (4, [b"", b""])),  # there is no rank 5
        ("timetable", (0, [b"123"])),
        ("arrivals", (0, [b"1234"])),
        ("notices", (-1, [])),
        ("fault_free", (0, [(b"", b"", b"")])),
        ("begin", (-1,)),
        ("stops", ([2.5],)),
        ("by_events", ([10],)),
    ],
    ids=str,
)
def test_a_malformed_order_is_refused(name: str, fields: tuple[object, ...]) -> None:
    with pytest.raises(FrameError):
        decoded(name, *fields)
