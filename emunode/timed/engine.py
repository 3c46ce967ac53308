"""The engine of the timed clock on a host: one heap of virtual times and one timer descriptor.

A packet is encoded as soon as it is decided, and stays in the heap until its start. A packet that arrived stays there
until its time of receipt. Nothing happens before its time. Lateness does not add up: a packet carries the virtual time
of its receipt, and later times are computed from that.

The kernel wakes the host by a timer descriptor. It is set to an absolute time of CLOCK_MONOTONIC, a clock that all
processes of a machine share. A sleeping task per packet would be late by about as much as a packet takes.

Under faults packets may be lost, and lost packets are only recorded. A host may be ahead of the virtual time of its
ranks, so a packet may be read long after it has arrived. The achieved time of a receipt is then max(arrival, virtual
time).
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
from emunode.algorithms.base import Algorithm
from emunode.engine import node as engine_node
from emunode.engine.known_paths import faults_in_time
from emunode.engine.rank_set import altered_copies
from emunode.engine.step_times import StepTimes
from emunode.errors import EmulatorError, RuleError
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, HopOutcome, Rank, Step
from emunode.net import wire
from emunode.net.framed_streams import FramedStreams
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.fault_free_rank import FaultFreeRank
from emunode.timed.hosted_rank import HostedRank, RankProgress
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
from emunode.timed.policies import RunSettings
from emunode.timed.rank import Receipt
from emunode.timed.through_protocol import RunTimes
from emunode.timed.transmission import NOTHING_PLANNED, Departure, RankTimetable

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

# The mark of a closed link in `LinkTable`: neither is written.
LOST = -1
"""Stands in place of the descriptor of a packet that is lost: the packet starts, and is written nowhere."""

EngineRank = FaultFreeRank | HostedRank
Start = tuple[int, bytes, int, Step, int, Step, EngineRank]
"""A packet to start: (descriptor, frame, slot, step, received slot, received step, node).

If its node receives a packet at the same time, slot and step of that one follow; otherwise -1 and 0.
"""
DueReceipt = tuple[int, Step]
"""A packet to receive: (slot, step)."""


class Timer:
    """A timer descriptor on CLOCK_MONOTONIC.

    Raises RunError where the kernel has none.
    """

    def __init__(self) -> None:
        self.fd = libc.require("timerfd_create", time.CLOCK_MONOTONIC, TFD_FLAGS)
        # A struct itimerspec, which is two pairs of seconds and nanoseconds; one for all calls.
        self._value = (ctypes.c_long * 4)()

    def set(self, nanoseconds: int) -> None:
        """Make the descriptor readable from an absolute time on.

        With 0, it never becomes readable.
        """
        self._value[2], self._value[3] = divmod(nanoseconds, 1_000_000_000)
        # Seconds and nanoseconds of it_value; the interval in elements 0 and 1 stays 0: one expiry.
        libc.require("timerfd_settime", self.fd, TFD_TIMER_ABSTIME, self._value, None)


class LinkEnds(NamedTuple):
    """The ranks of a host, ascending, and their link ends.

    The slot of a link end is rank index x degree + port.
    """

    ranks: Sequence[Rank]
    peers: Sequence[Rank]
    reverse: Sequence[int]
    """The port at the other end, by slot."""
    descriptors: Sequence[int]
    slots: Sequence[int]
    """Slot by descriptor. Negative for a descriptor that is no link."""


class HostCallbacks(NamedTuple):
    """The functions of the host that its timed run calls."""

    make_node: Callable[[Rank], engine_node.Node]
    tell: Callable[..., None]
    """Send a message to the coordinator."""
    fail: Callable[[Exception], None]
    """Report an error that ends the run."""
    on_frame: Callable[[int, bytes], None]
    """Handle a frame of a stream that is no link."""


class TimedRun:
    """The ranks of one host under the timed clock.

    It takes the host's links and the timed orders of the coordinator. It sends the coordinator `prepared`, from time to
    time `rows`, `times` and `heartbeat`, and at the end `finished`.
    """

    def __init__(self, algorithm: Algorithm, streams: FramedStreams, ends: LinkEnds, callbacks: HostCallbacks) -> None:
        self._algorithm = algorithm
        self._order = algorithm.topology.order
        self._degree = algorithm.topology.degree
        # Names of their own: an attribute of a tuple costs a look-up for every packet.
        self._ranks, self._peers, self._reverse, self._descriptors, self._slot_of = ends
        self._make_node, self._tell, self._fail, self._otherwise = callbacks
        self._streams = streams
        self._receipts: dict[Rank, Sequence[Step]] = {}
        self._faults: FaultsInTime | None = None
        """The faults of the run; None without faults and protocols."""
        self._plans: dict[Rank, RankTimetable] = {}
        self._run_times: RunTimes | None = None
        """The times of a run whose ranks have protocols; None for others."""
        self._crossings: dict[Rank, Sequence[int]] = {}
        self._notices: dict[Rank, list[tuple[int, Step]]] = {}
        self._nodes: list[EngineRank] = []
        self._running: set[int] = set()
        self._moments: list[int] = []
        # By time, so that the heap has each time once, however many packets start at it.
        self._starts: dict[int, list[Start]] = {}
        self._receipts_at: dict[int, list[DueReceipt]] = {}
        self._there: dict[tuple[int, Step, int], int] = {}
        """By slot, step and time of crossing, under faults: the time when the packet had arrived."""
        self._stops: list[int] = []
        self._begin: int | None = None
        self._armed = 0
        self._arrivals = 0
        self._judged: list[tuple[int, list[tuple[Step, list[Hop]]]]] = []
        self._losses: list[tuple[int, Departure, HopOutcome]] = []
        self._started: list[tuple[int, int, list[Start]]] = []
        self._received: list[tuple[int, int, list[DueReceipt]]] = []
        self.finished = False
        self._timer = Timer()
        streams.watch(self._timer.fd, self._on_timer)

    def explains_end(self, slot: int) -> bool:
        """Report whether a fault explains that the link at a slot has ended."""
        # A crash without a recovery: the process of the peer may have been killed for it.
        return self._faults is not None and self._faults.incarnations(self._peers[slot])[-1].end < ALWAYS

    def close(self) -> None:
        """Close the timer descriptor; the streams stay the host's."""
        os.close(self._timer.fd)

    # --- orders ----------------------------------------------------------------------------------------------------

    def carry_out(self, order: TimedOrder) -> None:
        """Carry out an order of the coordinator."""
        match order:
            case ReceiptSteps(first, tables):
                for rank, table in zip(self._ranks[first:], tables, strict=False):
                    # Four bytes a step: a timetable of millions of receipts stays small on the wire and in memory.
                    self._receipts[rank] = array("I", table)
            case Begin(nanoseconds):
                self._begin = nanoseconds
                # Without an arrival nothing else would set the timer for the first event.
                self.turn()
            case Prepare():
                self._prepare(order)
            case _:
                self._take_faults(order)

    def _take_faults(self, order: TimedOrder) -> None:
        """Take an order of a run with faults or protocols."""
        match order:
            case TimedFaults(faults):
                self._faults = faults_in_time(self._algorithm, faults)
            case FaultFree(first, tables):
                self._plans.update(zip(self._ranks[first:], map(_timetable, tables), strict=False))
            case ByEvents(durations, horizon):
                steps = StepTimes(durations)
                self._run_times = RunTimes(steps, ALWAYS, horizon)
            case CrossingTimes(first, tables):
                for rank, times in zip(self._ranks[first:], tables, strict=False):
                    self._crossings[rank] = array("Q", times)
            case Notices(first, tables):
                for rank, table in zip(self._ranks[first:], tables, strict=False):
                    self._notices[rank] = list(wire.NOTICE.iter_unpack(table))
            case ProcessStops(times):
                # Descending, so that the next stop is popped off the end.
                self._stops = sorted(times, reverse=True)
                for moment in times:
                    # As a receipt of nothing: it comes after everything else of that time.
                    self._receipts_at[moment] = []
                    heappush(self._moments, 2 * moment + 1)

    def _prepare(self, order: Prepare) -> None:
        """Create the nodes.

        Each decides what it sends before any packet arrives.
        """
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
        if self._faults is None:
            for rank in self._ranks:
                ports = PortOccupancy(self._algorithm.spec.port_model, self._degree)
                # `pop`: the node holds its schedule from now on.
                receipts = self._receipts.pop(rank, ())
                self._nodes.append(FaultFreeRank(self._make_node(rank), ports, costs, receipts, order.last))
            return
        times = self._run_times
        if times is not None:
            # Nothing happens from the end of the last step on, the beginning of the next one.
            times.cutoff = times.steps.begins(order.last + 1)
        settings = RunSettings(self._algorithm, costs, self._faults, order.last, times)
        for rank in self._ranks:
            ranked = settings.make_rank(rank, self._plans.pop(rank, NOTHING_PLANNED))
            lists = self._crossings.pop(rank, ()), self._notices.pop(rank, ())
            self._nodes.append(HostedRank(ranked, *lists, ALWAYS if times is None else times.cutoff))

    # --- packets ---------------------------------------------------------------------------------------------------

    def _on_frame(self, fd: int, frame: bytes) -> None:
        """Take a packet of a link.

        Raises FrameError for a packet that is not in the timetable.
        """
        slot = self._slot_of[fd]
        if slot < 0:
            self._otherwise(fd, frame)
            return
        deadline, step, segments = wire.decode_timed_packet(frame, self._order)
        index, port = divmod(slot, self._degree)
        if self._faults is not None:
            self._there[slot, step, deadline] = self._now()
        try:
            progress = self._nodes[index].arrive(step, port, deadline, segments)
        except RuleError as error:
            # A mistake of a rule, not of the peer: its stream stays open, and the coordinator ends the run.
            self._fail(error)
            return
        # None: the packet waits for others, and there is nothing to schedule.
        if progress is not None:
            self._plan(index, progress)
        # After every ARRIVALS packets, so that a burst of arrivals does not make departures late.
        self._arrivals += 1
        if not self._arrivals % ARRIVALS:
            self._fire()

    def _plan(self, index: int, progress: RankProgress) -> None:
        """Schedule the decisions of a node."""
        # The heap holds plain integers, 2 x time for starts and 2 x time + 1 for receipts: comparing them is cheaper than
        # comparing tuples, and at one time starts come first. A receipt at the time of the first start needs no entry of
        # its own; it is recorded with the start.
        receipts, departures, judged, losses, withheld, reports = progress
        base, node, moments = index * self._degree, self._nodes[index], self._moments
        receipt, received_step = -1, 0
        if self._faults is not None:
            receipts = self._not_yet_received(base, receipts)
        elif departures and len(receipts) == 1 and receipts[0][0] == departures[0][0]:
            _, port, received_step, _ = receipts.pop()
            receipt = base + port
        for received, port, step, _ in receipts:
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
        if losses or withheld or reports:
            self._plan_losses(index, losses, withheld, reports)
        if judged:
            self._judged.append((index, judged))
        # Nothing to receive and nothing to send: this rank is done.
        if node.done:
            self._running.discard(index)

    def _not_yet_received(self, base: int, receipts: Sequence[Receipt]) -> list[Receipt]:
        """Record the receipts whose virtual times have passed, and return the others."""
        now, waiting = self._now(), []
        for receipt in receipts:
            received, port, step, crossed = receipt
            slot = base + port
            arrived = self._there.pop((slot, step, crossed), now)
            if received > now:
                waiting.append(receipt)
            else:
                # Achieved is the later of two times: the packet had arrived, and its virtual time had come.
                self._received.append((received, max(received, arrived), [(slot, step)]))
        return waiting

    def _plan_losses(
        self, index: int, losses: Sequence[Departure], withheld: Sequence[Departure], reports: Sequence[Departure]
    ) -> None:
        """Schedule the starts of lost packets, and note withheld packets and reports.

        None of them crosses a link.
        """
        for loss in losses:
            self._losses.append((index, loss, HopOutcome.LOST))
            # It starts like any other, since its sender does not know: the node waits for this departure too.
            event = (LOST, b"", index * self._degree + loss.port, loss.step, -1, 0, self._nodes[index])
            if loss.start not in self._starts:
                self._starts[loss.start] = []
                heappush(self._moments, 2 * loss.start)
            self._starts[loss.start].append(event)
        self._losses += [(index, kept, HopOutcome.WITHHELD) for kept in withheld]
        self._losses += [(index, report, HopOutcome.REPORT) for report in reports]

    def _now(self) -> int:
        """Return the nanoseconds since the run began; 0 before."""
        return time.monotonic_ns() - self._begin if self._begin is not None else 0

    def _on_timer(self) -> None:
        # The timer has expired once and is off: even the same time has to be set anew.
        self._armed = 0
        try:
            # The number of expiries is of no interest, but the descriptor stays readable until it is read.
            os.read(self._timer.fd, 8)
        except BlockingIOError:
            return
        self._fire()

    def _fire(self) -> None:
        """Handle all events whose time has come.

        At equal times, starts come before receipts.
        """
        if self._begin is None:
            return
        moments, clock = self._moments, time.monotonic_ns
        while moments:
            # Read once per event: writing packets takes time, and the next event may become due meanwhile.
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
        # All that comes before a stop has been done.
        while self._stops and self._stops[-1] <= self._now() and not self._before(self._stops[-1]):
            self.flush()
            self._tell("reached", self._stops.pop())

    def _before(self, moment: int) -> bool:
        """Report whether anything is still to be done up to a time."""
        # Receipts at the time itself included: they come before the fault that stops the process.
        return bool(self._moments) and self._moments[0] <= 2 * moment + 1

    def _start(self, moment: int, events: list[Start]) -> None:
        """Write packets, record the time, and continue the nodes that waited for these departures."""
        assert self._begin is not None
        self._write(events)
        # The clock is read after the write: a departure is never recorded as earlier than it was.
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

    def _write(self, events: list[Start]) -> None:
        self._streams.send_all([event[:2] for event in events if event[0] != LOST])

    def turn(self) -> None:
        """Handle due events, set the timer for the next one and detect the end.

        Call this after every batch of arrivals.
        """
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
        # Under faults the process may be killed afterwards, and with it what has not been written yet.
        elif not self._running and (self._faults is None or self._streams.idle):
            self.finished = True
            gc.enable()
            self.flush()
            self._tell("finished")

    # --- records ---------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Send a heartbeat.

        If there is time before the next event, the records so far are sent too.
        """
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
        times = b"".join(wire.TIME.pack(*time) for time in self._times_so_far())
        self._started.clear()
        self._received.clear()
        self._tell("rows", bytes(rows))
        self._tell("times", times)

    def _pack_rows(self, rows: bytearray) -> None:
        """Append the journal rows since the last `flush`."""
        degree, ranks, reverse = self._degree, self._ranks, self._reverse
        # Altered copies matter where receivers vote on several.
        if self._faults is not None and self._algorithm.spec.redundancy > 1:
            self._tell_altered_copies()
        for index, loss, outcome in self._losses:
            # A report is a packet of a rank to itself.
            receiver = ranks[index] if outcome is HopOutcome.REPORT else self._peers[index * degree + loss.port]
            wire.encode_losses(rows, loss.step, ranks[index], loss.port, receiver, loss.segments, outcome)
        self._losses.clear()
        for index, judged in self._judged:
            base = index * degree
            for step, hops in judged:
                wire.encode_rows(rows, step, ranks[index], self._peers, base, reverse[base : base + degree], hops)

    def _tell_altered_copies(self) -> None:
        copies = [
            copy
            for index, judged in self._judged
            for step, hops in judged
            for copy in altered_copies(step, self._ranks[index], hops)
        ]
        if copies:
            self._tell("altered_copies", copies)

    def _times_so_far(self) -> Iterator[tuple[int, ...]]:
        """Yield the fields of `wire.TIME` for every start and receipt since the last `flush`."""
        degree, ranks, peers, reverse = self._degree, self._ranks, self._peers, self._reverse
        for moment, now, starts in self._started:
            for _, _, slot, step, receipt, received_step, _ in starts:
                yield step, ranks[slot // degree], slot % degree, 0, moment, now
                if receipt >= 0:
                    # Both ends are named by the sender and its port, as the row of the hop is.
                    yield received_step, peers[receipt], reverse[receipt], 1, moment, now
        for moment, now, receipts in self._received:
            for slot, step in receipts:
                yield step, peers[slot], reverse[slot], 1, moment, now


def _timetable(tables: tuple[bytes, bytes]) -> RankTimetable:
    """Decode the part of one rank in the fault-free timetable."""
    receipts, departures = tables
    starts = {(step, port): start for step, port, start in wire.DEPARTURE.iter_unpack(departures)}
    ends = {step: end for step, _, end in wire.RECEIPTS.iter_unpack(receipts)}
    counts = {step: count for step, count, _ in wire.RECEIPTS.iter_unpack(receipts)}
    return RankTimetable(counts, starts, ends)
