"""Orders of the coordinator as typed records, decoded and checked where they enter a host.

A decoded order has the right shape and names ranks and ports that exist; FrameError for everything else. So no code behind
the decoders needs to guard against malformed orders, and an exception there is a mistake of the emulator.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from emunode.errors import FrameError
from emunode.faults.effects import LinkEnd
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import FOREVER, Fault, from_record
from emunode.model import MOST_DATA, CollectiveSpec, Step
from emunode.net import wire
from emunode.net.protocol import HostConfig
from emunode.net.records import decode_record
from emunode.net.validation import INT64, integer, integers, items, nonce, number, octets, text
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
from emunode.topologies.base import Topology

StepKind = Literal["step", "drain", "catch_up"]
Listener = tuple[str, int, bytes]
"""Where a host listens: address, port, and the nonce that a hello to it is bound to."""


class Connect(NamedTuple):
    """Dial at most `own` links within this host and `quota` to each other host.

    The first wave brings the listeners of the hosts that this one said it will dial, in ascending order.
    """

    wave: int
    own: int
    quota: int
    listeners: Sequence[Listener]


class Dial(NamedTuple):
    """Dial links that were closed; `listeners` says where the hosts at their other ends listen now."""

    wave: int
    links: Sequence[LinkEnd]
    listeners: Mapping[int, Listener]


class CloseLinks(NamedTuple):
    """Close links, each named by one of its ends."""

    links: Sequence[LinkEnd]


class Reset(NamedTuple):
    """Forget everything but the links; the next step is step 1 of this collective."""

    spec: CollectiveSpec


class JoinTree(NamedTuple):
    """Take a place in the tree of control: dial `parent`, unless it is the coordinator, and expect children."""

    parent: Listener | None
    children: int


class OpenStep(NamedTuple):
    """Begin a step, with the faults that take effect in it.

    `drain`: only read earlier arrivals, since the process is about to be killed or stopped. `catch_up`: the process was
    stopped or is new; take note of all faults up to this step.
    """

    kind: StepKind
    step: Step
    faults: Sequence[Fault]
    through_tree: bool = False
    """Whether the order is passed on to the children of the host, and answered through the tree."""


class AreYouThere(NamedTuple):
    """Answer at once: some host has not reported for long."""


class Look(NamedTuple):
    """Report what has arrived in `step`, before it is read."""

    step: Step


class SendResults(NamedTuple):
    """Send the results that the ranks of this host have."""


class RunOver(NamedTuple):
    """The run is over, though the coordinator goes on; `reason` says why it did not end normally, or is empty."""

    reason: str


class DataPart(NamedTuple):
    """The next part of the numbers that the user gives; `total` are the bytes of all parts."""

    total: int
    part: bytes


class Refused(NamedTuple):
    """The coordinator cannot use this host."""

    reason: str


class Shutdown(NamedTuple):
    """The run is over, and so is this host."""


Order = (
    HostConfig
    | DataPart
    | Connect
    | Dial
    | CloseLinks
    | Reset
    | OpenStep
    | JoinTree
    | AreYouThere
    | Look
    | SendResults
    | TimedOrder
    | RunOver
    | Refused
    | Shutdown
)


def read_order(frame: bytes, topology: Topology | None) -> Order:
    """Decode an order; `topology` is the topology of the run, None before the host is configured."""
    name, *fields = wire.decode_control(frame)
    decode = DECODERS.get(str(name))
    if decode is not None:  # first, because nearly all orders are steps
        if topology is None:
            raise FrameError(f"order {name!r} before the host was configured")
        return decode(fields, topology)
    if name == "assign":
        return HostConfig.from_record(fields)
    if name == "data":
        total, part = items(fields, 2)
        return DataPart(integer(total, 1, MOST_DATA), octets(part))
    if name == "shutdown":
        return Shutdown()
    if name in ("over", "refused"):
        (reason,) = items(fields, 1)
        return RunOver(text(reason)) if name == "over" else Refused(text(reason))
    raise FrameError(f"unknown order {name!r:.80}")


def _connect(fields: Sequence[object], _topology: Topology) -> Connect:
    wave, own, quota, listeners = items(fields, 4)
    return Connect(integer(wave), integer(own), integer(quota), [_listener(one) for one in items(listeners)])


def _dial(fields: Sequence[object], topology: Topology) -> Dial:
    wave, links, listeners = items(fields, 3)
    if not isinstance(listeners, dict):
        raise FrameError(f"expected listeners by host, got {listeners!r:.200}")
    found = {integer(host): _listener(one) for host, one in listeners.items()}
    # Listeners again: a host that was started anew listens at another port, with another nonce.
    return Dial(integer(wave), _link_ends(links, topology), found)


def _close_links(fields: Sequence[object], topology: Topology) -> CloseLinks:
    (links,) = items(fields, 1)
    return CloseLinks(_link_ends(links, topology))


def _reset(fields: Sequence[object], _topology: Topology) -> Reset:
    return Reset(decode_record(CollectiveSpec, fields))


def _tree(fields: Sequence[object], _topology: Topology) -> JoinTree:
    parent, children = items(fields, 2)
    return JoinTree(None if parent is None else _listener(parent), integer(children))


def _step(kind: StepKind, *, through_tree: bool = False) -> Callable[[Sequence[object], Topology], OpenStep]:
    def decode(fields: Sequence[object], topology: Topology) -> OpenStep:
        step, faults = items(fields, 2)
        least = 0 if kind == "catch_up" else 1  # a process that recovers in step 1 catches up with step 0
        found = [from_record(one, topology) for one in items(faults)]
        return OpenStep(kind, integer(step, least, FOREVER), found, through_tree)

    return decode


def _timetable(fields: Sequence[object], topology: Topology) -> ReceiptSteps:
    first, tables = items(fields, 2)
    steps = [octets(table, 4) for table in items(tables)]
    # The last rank of the tables has to exist as well.
    return ReceiptSteps(integer(first, 0, max(0, topology.order - len(steps))), steps)


def _timed_faults(fields: Sequence[object], topology: Topology) -> TimedFaults:
    (faults,) = items(fields, 1)
    return TimedFaults([TimedFault.from_record(fault, topology) for fault in items(faults)])


def _fault_free(fields: Sequence[object], topology: Topology) -> FaultFree:
    first, tables = items(fields, 2)
    pairs = [items(pair, 2) for pair in items(tables)]
    sizes = wire.RECEIPTS.size, wire.DEPARTURE.size
    read = [(octets(receipts, sizes[0]), octets(departures, sizes[1])) for receipts, departures in pairs]
    return FaultFree(integer(first, 0, max(0, topology.order - len(read))), read)


def _by_events(fields: Sequence[object], _topology: Topology) -> ByEvents:
    durations, horizon = items(fields, 2)
    return ByEvents(integers(durations, None, 0, INT64 - 1), integer(horizon, 0, INT64 - 1))


def _arrivals(fields: Sequence[object], topology: Topology) -> CrossingTimes:
    first, tables = items(fields, 2)
    times = [octets(table, 8) for table in items(tables)]
    return CrossingTimes(integer(first, 0, max(0, topology.order - len(times))), times)


def _notices(fields: Sequence[object], topology: Topology) -> Notices:
    first, tables = items(fields, 2)
    notices = [octets(table, wire.NOTICE.size) for table in items(tables)]
    return Notices(integer(first, 0, max(0, topology.order - len(notices))), notices)


def _stops(fields: Sequence[object], _topology: Topology) -> ProcessStops:
    (times,) = items(fields, 1)
    return ProcessStops(integers(times, None, 0, INT64 - 1))


def _prepare(fields: Sequence[object], _topology: Topology) -> Prepare:
    startup, per_byte, packet_limit, last = items(fields, 4)
    return Prepare(number(startup), number(per_byte), integer(packet_limit), integer(last))


def _results(fields: Sequence[object], _topology: Topology) -> SendResults:
    items(fields, 0)
    return SendResults()


def _are_you_there(fields: Sequence[object], _topology: Topology) -> AreYouThere:
    items(fields, 0)
    return AreYouThere()


def _look(fields: Sequence[object], _topology: Topology) -> Look:
    (step,) = integers(fields, 1, 1, FOREVER)
    return Look(step)


def _begin(fields: Sequence[object], _topology: Topology) -> Begin:
    (nanoseconds,) = integers(fields, 1, 0, INT64 - 1)
    return Begin(nanoseconds)


DECODERS: Mapping[str, Callable[[Sequence[object], Topology], Order]] = {
    "connect": _connect,
    "dial": _dial,
    "close_links": _close_links,
    "reset": _reset,
    "step": _step("step"),
    "tree_step": _step("step", through_tree=True),
    "tree": _tree,
    "are_you_there": _are_you_there,
    "look": _look,
    "drain": _step("drain"),
    "catch_up": _step("catch_up"),
    "timetable": _timetable,
    "timed_faults": _timed_faults,
    "fault_free": _fault_free,
    "by_events": _by_events,
    "arrivals": _arrivals,
    "notices": _notices,
    "stops": _stops,
    "prepare": _prepare,
    "begin": _begin,
    "results": _results,
}


def _listener(value: object) -> Listener:
    address, port, its_nonce = items(value, 3)
    return text(address), integer(port, 0, 65535), nonce(its_nonce)


def _link_ends(values: object, topology: Topology) -> list[LinkEnd]:
    ends = [
        (integer(rank, 0, topology.order - 1), integer(port)) for rank, port in (items(end, 2) for end in items(values))
    ]
    for rank, port in ends:
        # Not a comparison with the degree: at the border of a mesh, say, ports are missing in between.
        if port not in topology.ports(rank):
            raise FrameError(f"port {port} of rank {rank}, which does not exist")
    return ends
