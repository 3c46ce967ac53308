"""The memory engine of the timed clock for ranks that go by events, with protocols or by arrivals: event by event.

Every packet takes a nanosecond at least, so what ranks do at one time depends on what they did earlier, and they may act in
any order.
"""

from array import array
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.engine.rank_set import AlteredCopy, altered_copies
from emunode.engine.step import ReversePorts
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import TimedFault
from emunode.model import CONTROL_TREE, FaultKnowledge, HopOutcome, Packet, Port, Rank, Step
from emunode.net.wire import encode_losses, encode_rows
from emunode.protocols.base import ControlKind
from emunode.timed.acting_rank import EventArrival, TimedSuspicion
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.event_rank import EventRank, RunTimes
from emunode.timed.faulty_rank import Departure, Timetable, packet_size
from emunode.timed.forwarding_rank import ForwardingRank
from emunode.timed.memory import NOTHING_PLANNED, TimedPacket, faults_of
from emunode.timed.step_times import StepTimes


class Withheld(NamedTuple):
    """Segments that did not leave, since their sender suspects the neighbour; `silent`: with reason."""

    step: Step
    sender: Rank
    port: Port
    silent: bool


class EventHistory(NamedTuple):
    """The record of a run with protocols, besides its packets."""

    horizon: int
    """The time at which signs of life and suspicions ended."""
    suspicions: list[TimedSuspicion]
    withheld: list[Withheld]


class EventMemoryEngine:
    """The ranks of one run. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(
        self,
        algorithm: Algorithm,
        faults: Iterable[TimedFault],
        costs: LinearCostModel,
        steps: StepTimes,
        last: Step,
        plans: Mapping[Rank, Timetable] | None = None,
    ) -> None:
        """Nothing happens after step `last`. Ranks without protocols go by `plans`, the fault-free timetable."""
        faults = tuple(faults)
        spec = algorithm.spec
        self._plans = plans
        self._last = last
        self._algorithm = algorithm
        self._topology = algorithm.topology
        self._costs = costs
        # Packets that faults make late may leave long after the step that names them.
        self._run = RunTimes(steps, steps.begins(last + 1) if plans is None else ALWAYS)
        self._reverse_ports = ReversePorts(self._topology)
        self.faults = faults_of(algorithm, faults)
        self._begun = [each.start for each in faults]
        detects = spec.knowledge is FaultKnowledge.DETECT and spec.detection is not None
        self._interval = (
            ceil(spec.detection.interval * self.faults.largest_factor()) if detects and spec.detection else 0
        )
        """The longest time between two signs of life; 0 without any."""
        self._ranks: dict[Rank, EventRank | ForwardingRank] = {}
        self._times: list[int] = []
        self._acting: dict[int, set[Rank]] = {}
        self._arrivals: dict[int, dict[Rank, list[EventArrival]]] = {}
        self._working: set[Rank] = set()
        self._in_flight = 0
        """Packets under way, except signs of life."""
        self._over: int | None = None
        """The time from which nothing was left to do but to watch, or None."""
        self._places: dict[tuple[Rank, Port, Step, int], list[int]] = {}
        """By sender, port, step and end of crossing, the packets that are not received yet, as indices of `packets`."""
        self.packets: list[TimedPacket] = []
        """Every packet so far; those that are not received yet have the end of their crossing."""
        self.altered_copies: list[AlteredCopy] = []
        self.crossings: dict[Rank, array[int]] = {}
        """By rank, the times at which packets have crossed to it, ascending."""
        self.suspicions: list[TimedSuspicion] = []
        self.withheld: list[Withheld] = []
        # Where nothing happens at a node that has received nothing, it is created when it is first needed.
        for rank in self._topology.ranks() if self._interval or spec.asks else algorithm.sources:
            self._note(rank)

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._times)

    @property
    def history(self) -> EventHistory:
        """The record so far, besides packets."""
        return EventHistory(self._run.horizon, self.suspicions, self.withheld)

    def step(self, step: Step) -> bytearray:
        """Do everything up to the end of a step in the virtual time of lock-step; returns journal rows.

        In the last step that is everything.
        """
        rows = bytearray()
        until = self._run.cutoff if step >= self._last else self._run.steps.begins(step + 1)
        while self._times and self._times[0] < until:
            now = heappop(self._times)
            self._end_watch(now)
            arrivals = self._arrivals.pop(now, {})
            for rank in sorted(arrivals.keys() | self._acting.pop(now, set())):
                if rank in arrivals or self._rank(rank).next_time == now:
                    self._act(now, rank, arrivals.get(rank, []), rows)
        return rows

    def _rank(self, rank: Rank) -> EventRank | ForwardingRank:
        found = self._ranks.get(rank)
        if found is None:
            common = (rank, self._algorithm, self._costs, self.faults)
            if self._plans is None:
                found = EventRank(*common, self._run)
            else:
                found = ForwardingRank(*common, self._plans.get(rank, NOTHING_PLANNED), self._last)
            self._ranks[rank] = found
        return found

    def _act(self, now: int, rank: Rank, arrivals: list[EventArrival], rows: bytearray) -> None:
        reverse, neighbours = self._reverse_ports[rank], self._topology.neighbours(rank)
        self._in_flight -= sum(not _is_sign(packet) for _, _, packet in arrivals)
        if arrivals:
            self.crossings.setdefault(rank, array("Q")).extend([now] * len(arrivals))
        actions = self._rank(rank).act(now, arrivals)
        for port, step, crossed in actions.receipts:
            place = self._places[neighbours[port], reverse[port], step, crossed].pop()
            self.packets[place] = self.packets[place]._replace(end=now)
        for step, hops in actions.judged:
            encode_rows(rows, step, rank, neighbours, 0, reverse, hops)
            if self._algorithm.spec.redundancy > 1 and self.faults.payload_altered:
                self.altered_copies += altered_copies(step, rank, hops)
        for lost in actions.losses:
            self._record(rank, lost, neighbours[lost.port], -1)
            encode_losses(rows, lost.step, rank, lost.port, neighbours[lost.port], lost.segments, HopOutcome.LOST)
        for kept in actions.withheld:
            silent = self.faults.is_dead_end(*self._topology.end(rank, kept.port), now)
            self.withheld.append(Withheld(kept.step, rank, kept.port, silent))
            encode_losses(rows, kept.step, rank, kept.port, neighbours[kept.port], kept.segments, HopOutcome.WITHHELD)
        self.suspicions += actions.suspicions
        for sent in actions.departures:
            receiver = neighbours[sent.port]
            self._in_flight += not _is_sign(sent.segments)
            self._places.setdefault((rank, sent.port, sent.step, sent.end), []).append(len(self.packets))
            self._record(rank, sent, receiver, sent.end)
            self._wake(sent.end)
            arrival = (reverse[sent.port], sent.step, sent.segments)
            self._arrivals.setdefault(sent.end, {}).setdefault(receiver, []).append(arrival)
        self._note(rank)

    def _record(self, rank: Rank, packet: Departure, receiver: Rank, end: int) -> None:
        size = packet_size(packet.segments)
        self.packets.append(TimedPacket(packet.step, rank, packet.port, receiver, size, packet.start, end))

    def _wake(self, time: int) -> None:
        if time not in self._acting and time not in self._arrivals:
            heappush(self._times, time)

    def _note(self, rank: Rank) -> None:
        """Note when a rank acts next."""
        found = self._rank(rank)
        (self._working.discard if found.next_work is None else self._working.add)(rank)
        if found.next_time is not None:
            self._wake(found.next_time)
            self._acting.setdefault(found.next_time, set()).add(rank)

    def _end_watch(self, now: int) -> None:
        """End the signs of life some time after the last packet, when every fault until then has had time to be noticed."""
        if not self._interval or self._run.horizon < ALWAYS:
            return
        if self._working or self._in_flight:
            self._over = None
            return
        if self._over is None:
            self._over = now
        patience = max(found.patience for found in self._ranks.values())
        faulty = (start for start in self._begun if start <= self._over)
        noticed = (start + (patience + 1) * self._interval for start in faulty)
        if now > max([self._over, *noticed]):
            self._run.horizon = now


def _is_sign(packet: Packet) -> bool:
    # By the tree: it may have been altered or repeated.
    return packet[0][2] == CONTROL_TREE + ControlKind.KEEP_ALIVE
