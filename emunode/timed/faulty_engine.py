"""The engine of the timed clock on a host, with faults.

It differs from `TimedRun` in that packets may be lost, which are only recorded, and in that a packet may be read long after
it has arrived: a host may be ahead of the virtual time of its ranks. So the achieved time of a receipt is the time at which
the packet was there, and no earlier than its virtual time.
"""

import time
from array import array
from collections.abc import Sequence
from heapq import heappush
from typing import cast

from emunode.algorithms.base import Algorithm
from emunode.engine.rank_set import altered_copies
from emunode.errors import RuleError
from emunode.faults.effects import ALWAYS
from emunode.model import HopOutcome, Rank, Step
from emunode.net import wire
from emunode.net.framed_streams import FramedStreams
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.engine import (
    ARRIVALS,
    Arrivals,
    ByEvents,
    FaultFree,
    LinkEnds,
    Owner,
    Prepare,
    Start,
    Stops,
    TimedFaults,
    TimedOrder,
    TimedRun,
)
from emunode.timed.event_node import EventTimedNode
from emunode.timed.event_rank import EventRank, RunTimes
from emunode.timed.faulty_node import FaultyProgress, FaultyTimedNode
from emunode.timed.faulty_rank import Departure, FaultyRank, Timetable
from emunode.timed.forwarding_rank import ForwardingRank
from emunode.timed.memory import NOTHING_PLANNED, faults_of
from emunode.timed.node import TimedNode
from emunode.timed.step_times import StepTimes

LOST = -1
"""In place of the descriptor of a packet that is lost: it starts, and is written nowhere."""


class FaultyTimedRun(TimedRun):
    """The ranks of one host, with faults."""

    def __init__(self, algorithm: Algorithm, streams: FramedStreams, ends: LinkEnds, owner: Owner) -> None:
        super().__init__(algorithm, streams, ends, owner)
        self._algorithm = algorithm
        self._create_node = owner.create_node
        self._faults = faults_of(algorithm, ())
        self._plans: dict[Rank, Timetable] = {}
        self._run_times: RunTimes | None = None
        """The times of a run whose nodes have protocols; None for others."""
        self._crossings: dict[Rank, Sequence[int]] = {}
        self._ranked: list[FaultyTimedNode | EventTimedNode] = []
        self._there: dict[tuple[int, Step, int], int] = {}
        """By slot, step and time of crossing: the time at which the packet had arrived."""
        self._losses: list[tuple[int, Departure, HopOutcome]] = []
        self._stops: list[int] = []

    def carry_out(self, order: TimedOrder) -> None:
        match order:
            case TimedFaults(faults):
                self._faults = faults_of(self._algorithm, faults)
            case FaultFree(first, tables):
                for rank, (receipts, departures) in enumerate(tables, first):
                    starts = {(step, port): start for step, port, start in wire.DEPARTURE.iter_unpack(departures)}
                    ends = {step: end for step, _, end in wire.RECEIPTS.iter_unpack(receipts)}
                    counts = {step: count for step, count, _ in wire.RECEIPTS.iter_unpack(receipts)}
                    self._plans[rank] = Timetable(counts, starts, ends)
            case ByEvents(durations, horizon):
                steps = StepTimes(durations)
                self._run_times = RunTimes(steps, ALWAYS, horizon)
            case Arrivals(first, tables):
                for rank, times in enumerate(tables, first):
                    self._crossings[rank] = array("Q", times)
            case Stops(times):
                self._stops = sorted(times, reverse=True)
                for moment in times:
                    # As a receipt of nothing: it comes after everything else of that time.
                    self._receipts_at[moment] = []
                    heappush(self._moments, 2 * moment + 1)
            case _:
                super().carry_out(order)

    def explains_end(self, slot: int) -> bool:
        # A crash without a recovery, for which the process of the peer may have been killed.
        return self._faults.lives(self._peers[slot])[-1][1] < ALWAYS

    def _make_nodes(self, order: Prepare) -> None:
        costs = LinearCostModel(order.startup_seconds, order.seconds_per_byte, order.packet_limit)
        for rank in self._ranks:
            if self._run_times is not None:
                self._ranked.append(self._by_events(rank, costs, order.last, self._run_times))
            elif self._algorithm.goes_by_arrivals:
                self._ranked.append(self._forwarding(rank, costs, order.last))
            else:
                self._ranked.append(self._stepped(rank, costs, order.last))
        # The engine asks its nodes for nothing but what these have as well.
        self._nodes = cast("list[TimedNode]", self._ranked)

    def _stepped(self, rank: Rank, costs: LinearCostModel, last: Step) -> FaultyTimedNode:
        faulty = FaultyRank(
            rank,
            self._algorithm.topology,
            self._create_node,
            self._port_model,
            costs,
            self._faults,
            self._plans.pop(rank, NOTHING_PLANNED),
            last,
        )
        return FaultyTimedNode(faulty, self._receipts.pop(rank, ()), last)

    def _by_events(self, rank: Rank, costs: LinearCostModel, last: Step, times: RunTimes) -> EventTimedNode:
        times.cutoff = times.steps.begins(last + 1)
        ranked = EventRank(rank, self._algorithm, costs, self._faults, times)
        return EventTimedNode(ranked, self._crossings.pop(rank, ()), times.cutoff)

    def _forwarding(self, rank: Rank, costs: LinearCostModel, last: Step) -> EventTimedNode:
        plan = self._plans.pop(rank, NOTHING_PLANNED)
        ranked = ForwardingRank(rank, self._algorithm, costs, self._faults, plan, last)
        return EventTimedNode(ranked, self._crossings.pop(rank, ()), ALWAYS)

    # --- packets ---------------------------------------------------------------------------------------------------

    def _on_frame(self, fd: int, frame: bytes) -> None:
        slot = self._slot_of[fd]
        if slot < 0:
            self._otherwise(fd, frame)
            return
        crossed, step, segments = wire.decode_timed_packet(frame, self._order)
        index, port = divmod(slot, self._degree)
        self._there[slot, step, crossed] = self._now()
        try:
            progress = self._ranked[index].arrive(step, port, crossed, segments)
        except RuleError as error:
            self._fail(error)
            return
        self._schedule(index, progress)
        self._arrivals += 1
        if not self._arrivals % ARRIVALS:
            self._fire()

    def _now(self) -> int:
        """Nanoseconds since the run began; 0 before."""
        return time.monotonic_ns() - self._begin if self._begin is not None else 0

    def _plan(self, index: int, progress: object) -> None:
        self._schedule(index, cast("FaultyProgress", progress))

    def _schedule(self, index: int, progress: FaultyProgress) -> None:
        base, now = index * self._degree, self._now()
        for received, port, step, crossed in progress.receipts:
            slot = base + port
            there = self._there.pop((slot, step, crossed), now)
            if received > now:
                if received not in self._receipts_at:
                    self._receipts_at[received] = []
                    heappush(self._moments, 2 * received + 1)
                self._receipts_at[received].append((slot, step))
            else:
                self._received.append((received, max(received, there), [(slot, step)]))
        for departure in progress.departures:
            frame = wire.encode_timed_packet(departure.end, departure.step, departure.segments)
            self._add_start(index, departure, self._descriptors[base + departure.port], frame)
        for loss in progress.losses:
            self._losses.append((index, loss, HopOutcome.LOST))
            self._add_start(index, loss, LOST, b"")
        self._losses += [(index, kept, HopOutcome.WITHHELD) for kept in progress.withheld]
        if progress.judged:
            self._judged.append((index, progress.judged))
        node = self._ranked[index]
        if node.done:
            self._running.discard(index)

    def _add_start(self, index: int, departure: Departure, fd: int, frame: bytes) -> None:
        event = (fd, frame, index * self._degree + departure.port, departure.step, -1, 0, self._nodes[index])
        if departure.start not in self._starts:
            self._starts[departure.start] = []
            heappush(self._moments, 2 * departure.start)
        self._starts[departure.start].append(event)

    def _write(self, events: list[Start]) -> None:
        super()._write([event for event in events if event[0] != LOST])

    def _fire(self) -> None:
        super()._fire()
        while self._stops and self._stops[-1] <= self._now() and not self._before(self._stops[-1]):
            self.flush()
            self._tell("reached", self._stops.pop())

    def _may_finish(self) -> bool:
        # The process may be killed afterwards, and with it what has not been written yet.
        return self._streams.idle

    def _before(self, moment: int) -> bool:
        """Whether anything is still to be done up to a time."""
        return bool(self._moments) and self._moments[0] <= 2 * moment + 1

    # --- records ---------------------------------------------------------------------------------------------------

    def _pack_rows(self, rows: bytearray) -> None:
        first, degree = self._ranks[0], self._degree
        copies = [
            copy
            for index, judged in self._judged
            for step, hops in judged
            for copy in altered_copies(step, first + index, hops)
        ]
        if copies and self._algorithm.spec.redundancy > 1:
            self._tell("altered_copies", copies)
        for index, loss, outcome in self._losses:
            receiver = self._peers[index * degree + loss.port]
            wire.encode_losses(rows, loss.step, first + index, loss.port, receiver, loss.segments, outcome)
        self._losses = []
        super()._pack_rows(rows)
