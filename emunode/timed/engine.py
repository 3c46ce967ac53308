"""The engine of the timed clock: one heap of virtual times and one timer descriptor per host.

A packet is encoded as soon as it is decided, and stays in the heap until its start; a packet that arrived stays there until
its time of receipt. Nothing happens before its time. Lateness does not add up: a packet carries the virtual time of its
receipt, and later times are computed from that. The kernel wakes the host by a timer descriptor that is set to an absolute
time of CLOCK_MONOTONIC, which all processes of a machine share. A sleeping task per packet would be late by about as much
as a packet takes.
"""

import ctypes
import gc
import os
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from emunode import runtime as libc
from emunode.algorithms.base import Algorithm, LocalView
from emunode.engine.node import Node
from emunode.errors import EmulatorError, RuleError
from emunode.faults.in_time import TimedFault
from emunode.model import Hop, Rank, Step
from emunode.net import wire
from emunode.net.framed_streams import FramedStreams
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.node import NEVER, Progress, TimedNode

TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
BATCH = 16
"""Packets that are written per reading of the clock."""
ARRIVALS = 128
"""Packets that are read before due events are handled."""
QUIET_NANOSECONDS = 2_000_000
"""Records are sent during the run if nothing is due for this long, .."""
MOST_RECORDS = 100_000
""".. or if there are more records than this."""

Start = tuple[int, bytes, int, Step, int, Step, TimedNode]
"""A packet to start: (descriptor, frame, slot, step), the slot and step of a packet that its node receives at the same time,
or -1 and 0, and the node."""
Receipt = tuple[int, Step]
"""A packet to receive: (slot, step)."""


class Receipts(NamedTuple):
    """The steps in which packets arrive under the timed clock, for each rank from `first` on."""

    first: Rank
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
    """The fault-free timetable of one rank after the other, from `first` on."""

    first: Rank
    tables: list[tuple[bytes, bytes]]
    """The receipts of each step (`wire.RECEIPTS`); step, port and start of packets that leave (`wire.DEPARTURE`)."""


class Stops(NamedTuple):
    """The times of hangs in which this process is stopped; it reports `reached` when it has done all that comes before."""

    times: Sequence[int]


class ByEvents(NamedTuple):
    """Ranks go by events: the durations of the steps of lock-step in nanoseconds, and the end of the signs of life."""

    durations: Sequence[int]
    horizon: int


class Arrivals(NamedTuple):
    """The times at which packets have crossed to each rank, from `first` on, as 8-byte numbers."""

    first: Rank
    times: Sequence[bytes]


TimedOrder = Receipts | Prepare | Begin | TimedFaults | FaultFree | Stops | ByEvents | Arrivals


class Timer:
    """A timer descriptor on CLOCK_MONOTONIC; RunError where the kernel has none."""

    def __init__(self) -> None:
        self.fd = libc.require("timerfd_create", time.CLOCK_MONOTONIC, TFD_FLAGS)
        self._value = (ctypes.c_long * 4)()

    def set(self, nanoseconds: int) -> None:
        """Make the descriptor readable from an absolute time on; never, for 0."""
        self._value[2], self._value[3] = divmod(nanoseconds, 1_000_000_000)
        # Seconds and nanoseconds of it_value; the interval in elements 0 and 1 stays 0: one expiry.
        libc.require("timerfd_settime", self.fd, TFD_TIMER_ABSTIME, self._value, None)


class LinkEnds(NamedTuple):
    """The ranks of a host and their link ends. The slot of a link end is rank index x degree + port."""

    ranks: range
    peers: Sequence[Rank]
    reverse: Sequence[int]
    """The port at the other end, by slot."""
    descriptors: Sequence[int]
    slots: Sequence[int]
    """Slot by descriptor; negative for one that is no link."""


class Owner(NamedTuple):
    """The functions of the host that its timed run calls."""

    make_node: Callable[[Rank], Node]
    create_node: Callable[[LocalView], Node]
    """A node in its initial state, without a place among those of the host."""
    tell: Callable[..., None]
    """Send a message to the coordinator."""
    fail: Callable[[Exception], None]
    """Report an error that ends the run."""
    on_frame: Callable[[int, bytes], None]
    """A frame of a stream that is no link."""


class TimedRun:
    """The ranks of one host under the timed clock, given the host's links and the timed orders of the coordinator.

    It tells the coordinator `prepared`, from time to time `rows`, `times` and `heartbeat`, and at the end `finished`.
    """

    def __init__(self, algorithm: Algorithm, streams: FramedStreams, ends: LinkEnds, owner: Owner) -> None:
        self._order = algorithm.topology.order
        self._degree = algorithm.topology.degree
        self._port_model = algorithm.spec.port_model
        self._ranks, self._peers, self._reverse, self._descriptors, self._slot_of = ends
        self._make_node, _, self._tell, self._fail, self._otherwise = owner
        self._streams = streams
        self._receipts: dict[Rank, Sequence[Step]] = {}
        self._nodes: list[TimedNode] = []
        self._running: set[int] = set()
        self._moments: list[int] = []
        self._starts: dict[int, list[Start]] = {}
        self._receipts_at: dict[int, list[Receipt]] = {}
        self._begin: int | None = None
        self._armed = 0
        self._arrivals = 0
        self._judged: list[tuple[int, list[tuple[Step, list[Hop]]]]] = []
        self._started: list[tuple[int, int, list[Start]]] = []
        self._received: list[tuple[int, int, list[Receipt]]] = []
        self.finished = False
        self._timer = Timer()
        streams.watch(self._timer.fd, self._on_timer)

    def explains_end(self, slot: int) -> bool:
        """Whether a fault explains that the link at a slot has ended."""
        del slot
        return False

    def close(self) -> None:
        """Close the timer descriptor; the streams stay the owner's."""
        os.close(self._timer.fd)

    # --- orders ----------------------------------------------------------------------------------------------------

    def carry_out(self, order: TimedOrder) -> None:
        """Carry out an order of the coordinator."""
        match order:
            case Receipts(first, tables):
                for rank, table in enumerate(tables, first):
                    # Four bytes a step: a timetable of millions of receipts stays small on the wire and in memory.
                    self._receipts[rank] = array("I", table)
            case Prepare():
                self._prepare(order)
            case Begin(nanoseconds):
                self._begin = nanoseconds
                self.turn()

    def _prepare(self, order: Prepare) -> None:
        """Create the nodes; each decides what it sends before any packet arrives."""
        self._make_nodes(order)
        self._running = set(range(len(self._nodes)))
        gc.collect()
        gc.disable()  # a collection during the run would make packets late
        self._streams.set_frame_handler(self._on_frame)
        for index, node in enumerate(self._nodes):
            self._plan(index, node.advance())
        self._tell("prepared")

    def _make_nodes(self, order: Prepare) -> None:
        costs = LinearCostModel(order.startup_seconds, order.seconds_per_byte, order.packet_limit)
        for rank in self._ranks:
            ports = PortOccupancy(self._port_model, self._degree)
            # `pop`: the node holds its schedule from now on.
            node = TimedNode(self._make_node(rank), ports, costs, self._receipts.pop(rank, ()), order.last)
            self._nodes.append(node)

    # --- packets ---------------------------------------------------------------------------------------------------

    def _on_frame(self, fd: int, frame: bytes) -> None:
        """Take a packet of a link; FrameError for one that is not in the timetable."""
        slot = self._slot_of[fd]
        if slot < 0:
            self._otherwise(fd, frame)
            return
        deadline, step, segments = wire.decode_timed_packet(frame, self._order)
        index, port = divmod(slot, self._degree)
        try:
            progress = self._nodes[index].arrive(step, port, deadline, segments)
        except RuleError as error:
            self._fail(error)
            return
        if progress is not None:
            self._plan(index, progress)
        # After every ARRIVALS packets, so that a burst of arrivals does not make departures late.
        self._arrivals += 1
        if not self._arrivals % ARRIVALS:
            self._fire()

    def _plan(self, index: int, progress: Progress) -> None:
        """Schedule the decisions of a node."""
        # The heap holds plain integers, 2 x time for starts and 2 x time + 1 for receipts: comparing them is cheaper than
        # comparing tuples, and at one time starts come first. A receipt at the time of the first start needs no entry of
        # its own; it is recorded with the start.
        receipts, departures, judged = progress
        base, node, moments = index * self._degree, self._nodes[index], self._moments
        receipt, received_step = -1, 0
        # One entry for both: a receipt at the time of the first start is recorded with it.
        if departures and len(receipts) == 1 and receipts[0][0] == departures[0][0]:
            _, port, received_step = receipts.pop()
            receipt = base + port
        for received, port, step in receipts:
            if received not in self._receipts_at:
                self._receipts_at[received] = []
                heappush(moments, 2 * received + 1)
            self._receipts_at[received].append((base + port, step))
        descriptors, starts, encode = self._descriptors, self._starts, wire.encode_timed_packet
        for start, deadline, port, step, segments in departures:
            slot = base + port
            event = (
                descriptors[slot], encode(deadline, step, segments), slot, step, receipt, received_step, node,
            )  # fmt: skip
            if start in starts:
                starts[start].append(event)
            else:
                starts[start] = [event]
                heappush(moments, 2 * start)
            # Only the first departure carries the receipt.
            receipt = -1
        if judged:
            self._judged.append((index, judged))
        # Nothing to receive and nothing to send: this rank is done.
        if node.awaited == NEVER and node.done:
            self._running.discard(index)

    def _on_timer(self) -> None:
        self._armed = 0
        try:
            # The number of expiries is of no interest, but the descriptor stays readable until it is read.
            os.read(self._timer.fd, 8)
        except BlockingIOError:
            return
        self._fire()

    def _fire(self) -> None:
        """Handle all events whose time has come; at equal times, starts before receipts."""
        if self._begin is None:
            return
        moments, clock = self._moments, time.monotonic_ns
        while moments:
            # Read once per event: writing packets takes time, in which the next event may become due.
            now = clock() - self._begin
            moment, odd = divmod(moments[0], 2)
            if moment > now:
                break
            heappop(moments)
            if odd:
                self._received.append((moment, now, self._receipts_at.pop(moment)))
            else:
                events = self._starts.pop(moment)
                # In batches, so that the recorded time of a packet is close to the moment it was written.
                for first in range(0, len(events), BATCH):
                    self._start(moment, events[first : first + BATCH])

    def _start(self, moment: int, events: list[Start]) -> None:
        """Write packets, record the time, and continue the nodes that waited for these departures."""
        assert self._begin is not None
        self._write(events)
        self._started.append((moment, time.monotonic_ns() - self._begin, events))
        for event in events:
            try:
                progress = event[6].departed()
            except EmulatorError as error:
                self._fail(error)
                # Other packets of this moment still have to leave; the coordinator decides about the run.
                continue
            if progress is not None:
                self._plan(event[2] // self._degree, progress)

    def _may_finish(self) -> bool:
        return True

    def _write(self, events: list[Start]) -> None:
        self._streams.send_all([event[:2] for event in events])

    def turn(self) -> None:
        """Handle due events, set the timer for the next one and detect the end; call this after every batch of arrivals."""
        if self.finished or self._begin is None:
            return
        self._fire()
        if self._moments:
            # Half of the heap's number is the time: see `_plan`.
            moment = self._begin + (self._moments[0] >> 1)
            # Setting a timer is a system call; most turns do not change the next event.
            if moment != self._armed:
                self._timer.set(moment)
                self._armed = moment
        elif not self._running and self._may_finish():
            self.finished = True
            gc.enable()
            self.flush()
            self._tell("finished")

    # --- records ---------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Send a heartbeat and, if there is time before the next event, the records so far."""
        if self.finished or self._begin is None:
            return
        next_moment = self._moments[0] >> 1 if self._moments else 0
        # Packing records takes milliseconds, so it has to fit into the gap before the next event.
        quiet = next_moment - (time.monotonic_ns() - self._begin) > QUIET_NANOSECONDS
        if quiet or len(self._judged) > MOST_RECORDS:
            self.flush()
        self._tell("heartbeat")

    def flush(self) -> None:
        """Send the records so far."""
        rows = bytearray()
        self._pack_rows(rows)
        self._judged.clear()
        times = b"".join(wire.TIME.pack(*time) for time in self._told_times())
        self._started.clear()
        self._received.clear()
        self._tell("rows", bytes(rows))
        self._tell("times", times)

    def _pack_rows(self, rows: bytearray) -> None:
        """Append the journal rows since the last `flush`."""
        degree, first, reverse = self._degree, self._ranks[0], self._reverse
        for index, judged in self._judged:
            base = index * degree
            for step, hops in judged:
                wire.encode_rows(rows, step, first + index, self._peers, base, reverse[base : base + degree], hops)

    def _told_times(self) -> Iterator[tuple[int, ...]]:
        """The fields of `wire.TIME` for every start and receipt since the last `flush`."""
        degree, first, peers, reverse = self._degree, self._ranks[0], self._peers, self._reverse
        for moment, now, starts in self._started:
            for _, _, slot, step, receipt, received_step, _ in starts:
                yield step, first + slot // degree, slot % degree, 0, moment, now
                if receipt >= 0:
                    yield received_step, peers[receipt], reverse[receipt], 1, moment, now
        for moment, now, receipts in self._received:
            for slot, step in receipts:
                yield step, peers[slot], reverse[slot], 1, moment, now
