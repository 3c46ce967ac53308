"""The thin shell of the timed clock: one heap of virtual times and one timer descriptor a host.

A packet is worked out, down to its bytes, as soon as it is known, and lies in the heap until it may start; a packet that
came in lies there until it counts as received. Nothing happens before its time. What is late is late once: a packet carries
the virtual time at which it is received, and what follows from it is reckoned from there. The kernel wakes the host by a
timer descriptor set to an absolute time of CLOCK_MONOTONIC, which all processes of a machine share; a sleeping task for each
packet would be off by as much as a packet takes.
"""

import ctypes
import gc
import os
import time
from array import array
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from emunode import wire
from emunode.collective.base import Algorithm
from emunode.errors import EmulatorError, FrameError, RunError
from emunode.free import FreeNode
from emunode.links import Streams
from emunode.model import Hop, Rank, Step
from emunode.node import Node
from emunode.pacing import Costs, Ports

LIBC = ctypes.CDLL(None, use_errno=True)
TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
BATCH = 16
"""Packets that are written in a row under one reading of the clock."""
QUIET_NANOSECONDS = 2_000_000
"""Records are sent ahead of the end of a run while nothing is due for this long."""

Event = tuple[int, int, int, int, Step, bytes]
"""(2 x virtual time, odd for a receipt; running number; link end; descriptor, -1 for a receipt; step; frame)."""


class Timer:
    """A timer descriptor on CLOCK_MONOTONIC; RunError where the kernel has none."""

    def __init__(self) -> None:
        self.fd = LIBC.timerfd_create(time.CLOCK_MONOTONIC, TFD_FLAGS)
        if self.fd < 0:
            raise RunError(f"timerfd_create failed: {os.strerror(ctypes.get_errno())}")
        self._value = (ctypes.c_long * 4)()

    def set(self, nanoseconds: int) -> None:
        """Make the descriptor readable from an absolute time on; 0 for never."""
        self._value[2], self._value[3] = divmod(nanoseconds, 1_000_000_000)
        if LIBC.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, self._value, None):
            raise RunError(f"timerfd_settime failed: {os.strerror(ctypes.get_errno())}")


class TimedRun:
    """The ranks of one host under the timed clock; `Host` hands it its links and its orders.

    Orders: "timetable" (first rank, steps of receipts by rank), "prepare" (startup, per_byte, packet_limit, last step),
    "begin" (nanoseconds on CLOCK_MONOTONIC). It tells "prepared", now and then "rows", "times" and "going", and "ran".
    """

    def __init__(
        self,
        algorithm: Algorithm,
        ranks: range,
        peers: Sequence[Rank],
        reverse: Sequence[int],
        descriptors: Sequence[int],
        streams: Streams,
        make_node: Callable[[Rank], Node],
        tell: Callable[..., None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._order = algorithm.topology.order
        self._degree = algorithm.topology.degree
        self._port_model = algorithm.job.port_model
        self._ranks = ranks
        self._peers = peers
        self._reverse = reverse
        self._descriptors = descriptors
        self._streams = streams
        self._make_node = make_node
        self._tell = tell
        self._fail = fail
        self._receipts: dict[Rank, Sequence[Step]] = {}
        self._nodes: list[FreeNode] = []
        self._running = 0
        self._heap: list[Event] = []
        self._number = 0
        self._begin: int | None = None
        self._armed = 0
        self._judged: list[tuple[Step, Rank, list[Hop]]] = []
        self._times: list[tuple[int, Step, int, int, int]] = []
        self.finished = False
        self._timer = Timer()
        streams.watch(self._timer.fd, self._on_timer)

    def close(self) -> None:
        """Let go of the timer."""
        os.close(self._timer.fd)

    # --- orders ----------------------------------------------------------------------------------------------------

    def obey(self, name: str, fields: Sequence[object]) -> None:
        """Carry an order out; raises EmulatorError when that cannot be."""
        match name, *fields:
            case "timetable", int(first), tables:
                for rank, table in enumerate(tables, first):  # type: ignore[arg-type,var-annotated]
                    self._receipts[rank] = array("I", table)
            case "prepare", startup, per_byte, packet_limit, last:
                costs = Costs(startup, per_byte, packet_limit)  # type: ignore[arg-type]
                for rank in self._ranks:
                    ports = Ports(self._port_model, self._degree)
                    node = FreeNode(self._make_node(rank), ports, costs, self._receipts.pop(rank, ()), last)  # type: ignore[arg-type]
                    self._nodes.append(node)
                self._running = len(self._nodes)
                gc.collect()
                gc.disable()
                for index, node in enumerate(self._nodes):
                    self._advance(index, node)
                    self._running -= node.done
                self._tell("prepared")
            case "begin", int(begin):
                self._begin = begin
                self.turn()
            case _:
                raise FrameError(f"an order that is none: {name!r}")

    # --- packets ---------------------------------------------------------------------------------------------------

    def on_packet(self, slot: int, body: bytes) -> None:
        """Take a packet that came in at a link end; raises FrameError for one that is none, or that nobody waits for."""
        deadline, step, segments = wire.decode_timed_packet(body, self._order)
        index, port = divmod(slot, self._degree)
        node = self._nodes[index]
        if node.arrive(step, port, deadline, segments):
            self._advance(index, node)
            self._running -= node.done
        if self._begin is not None and self._heap and self._heap[0][0] <= 2 * (time.monotonic_ns() - self._begin):
            self._fire()

    def _advance(self, index: int, node: FreeNode) -> None:
        """Let a node decide, and put on the heap what comes of it."""
        try:
            receipts, departures, judged = node.advance()
        except EmulatorError as error:
            self._fail(error)
            return
        base, heap, descriptors, number = index * self._degree, self._heap, self._descriptors, self._number
        for received, port, step in receipts:
            number += 1
            heappush(heap, (2 * received + 1, number, base + port, -1, step, b""))
        for start, deadline, port, step, segments in departures:
            number += 1
            frame = wire.encode_timed_packet(deadline, step, segments)
            heappush(heap, (2 * start, number, base + port, descriptors[base + port], step, frame))
        self._number = number
        for step, hops in judged:
            self._judged.append((step, self._ranks[index], hops))

    def _on_timer(self) -> None:
        self._armed = 0
        try:
            os.read(self._timer.fd, 8)
        except BlockingIOError:
            return
        self._fire()

    def _fire(self) -> None:
        """Let everything happen whose time has come."""
        begin = self._begin
        if begin is None:
            return
        heap, times = self._heap, self._times
        now = time.monotonic_ns() - begin
        frames: list[tuple[int, bytes]] = []
        started: list[tuple[int, Step, int]] = []
        while heap:
            if heap[0][0] > 2 * now + 1:
                now = self._write(frames, started)
                if not heap or heap[0][0] > 2 * now + 1:
                    break
            moment, _, slot, fd, step, frame = heappop(heap)
            if fd < 0:
                if frames:
                    now = self._write(frames, started)
                times.append((1, step, slot, moment >> 1, now))
            else:
                frames.append((fd, frame))
                started.append((moment >> 1, step, slot))
                if len(frames) == BATCH:
                    now = self._write(frames, started)
        if frames:
            self._write(frames, started)

    def _write(self, frames: list[tuple[int, bytes]], started: list[tuple[int, Step, int]]) -> int:
        """Write packets, note when they started, and let their nodes go on that waited for it; the time."""
        assert self._begin is not None
        self._streams.send_all(frames)
        now = time.monotonic_ns() - self._begin
        self._times += [(0, step, slot, start, now) for start, step, slot in started]
        frames.clear()
        for _, _, slot in started:
            index = slot // self._degree
            node = self._nodes[index]
            if node.departed() and not node.done:
                self._advance(index, node)
                self._running -= node.done
        started.clear()
        return now

    def turn(self) -> None:
        """After every batch of arrivals: do what is due, set the timer for what comes next, notice the end."""
        if self.finished or self._begin is None:
            return
        self._fire()
        if self._heap:
            moment = self._begin + (self._heap[0][0] >> 1)
            if moment != self._armed:
                self._timer.set(moment)
                self._armed = moment
        elif not self._running:
            self.finished = True
            gc.enable()
            self.flush()
            self._tell("ran")

    # --- records ---------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Now and then: say that this host is alive and, if it has the time, what it has seen so far."""
        if self.finished or self._begin is None:
            return
        next_moment = self._heap[0][0] >> 1 if self._heap else 2**62
        if next_moment - (time.monotonic_ns() - self._begin) > QUIET_NANOSECONDS:
            self.flush()
        self._tell("going")

    def flush(self) -> None:
        """Send the records so far."""
        rows, degree, first = bytearray(), self._degree, self._ranks[0]
        for step, rank, hops in self._judged:
            wire.encode_rows(rows, step, rank, self._peers, (rank - first) * degree, self._reverse, hops)
        self._judged.clear()
        times = bytearray()
        for ended, step, slot, intended, achieved in self._times:
            index, port = divmod(slot, degree)
            sender, its_port = (self._peers[slot], self._reverse[port]) if ended else (first + index, port)
            times += wire.TIME.pack(step, sender, its_port, ended, intended, achieved)
        self._times.clear()
        self._tell("rows", bytes(rows))
        self._tell("times", bytes(times))
