"""The memory engine of the timed clock with faults or protocols: all ranks of a network, event by event.

The engine computes the history that hosts have to obtain, with the times of every packet. Under event-driven policies every
packet takes a nanosecond at least. So the actions of ranks at one time depend on earlier actions only, and the ranks may act
in any order.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.engine.known_paths import faults_in_time
from emunode.engine.rank_set import AlteredCopy, altered_copies
from emunode.engine.step import reverse_ports_of
from emunode.engine.step_times import StepTimes
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import NodeFault
from emunode.model import FaultKnowledge, HopOutcome, Port, Rank, Step
from emunode.net.wire import encode_losses, encode_rows
from emunode.protocols.base import is_sign_of_life
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.policies import RunSettings
from emunode.timed.rank import Actions, Arrival, Notice, TimedRank, TimedSuspicion
from emunode.timed.through_protocol import RunTimes
from emunode.timed.transmission import NOTHING_PLANNED, Departure, RankTimetable, TimedPacket, packet_size


class Withheld(NamedTuple):
    """Segments that did not leave, since their sender suspects the neighbour; `silent`: whether with reason."""

    step: Step
    sender: Rank
    port: Port
    silent: bool


class EventHistory(NamedTuple):
    """The record of a run with protocols, besides its packets."""

    horizon: int
    """The time when signs of life and suspicions ended."""
    suspicions: list[TimedSuspicion]
    withheld: list[Withheld]
    reports: dict[tuple[Rank, Step], int]
    """By rank and step, the times when nodes reported decisions on failures."""


class TimedMemoryEngine:
    """The ranks of one run. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(
        self,
        algorithm: Algorithm,
        faults: Iterable[TimedFault],
        costs: LinearCostModel,
        steps: StepTimes,
        last: Step,
        plans: Mapping[Rank, RankTimetable] | None = None,
    ) -> None:
        """Prepare all ranks; nothing happens after step `last`.

        Ranks without protocols follow `plans`, the fault-free timetable.
        """
        faults = tuple(faults)
        spec = algorithm.spec
        self._plans = plans or {}
        self._last = last
        self._algorithm = algorithm
        self._topology = algorithm.topology
        # Packets that faults make late may leave long after the step that names them.
        self._times_of_run = RunTimes(steps, steps.begins(last + 1) if plans is None else ALWAYS)
        self._reverse_ports = reverse_ports_of(self._topology)
        self.faults = faults_in_time(algorithm, faults)
        times = self._times_of_run if plans is None else None
        self._settings = RunSettings(algorithm, costs, self.faults, last, times)
        self._begun = [each.start for each in faults]
        # Where nodes agree, a neighbour that is heard again has to learn that it is given up.
        self._begun += [each.end for each in faults if each.end < ALWAYS and spec.agreement is not None]
        detects = spec.knowledge is FaultKnowledge.DETECT and spec.detection is not None
        self._interval = (
            ceil(spec.detection.interval * self.faults.largest_factor()) if detects and spec.detection else 0
        )
        """The longest time between two signs of life; 0 without any."""
        self._neighbours: dict[Rank, Sequence[Rank]] = {}
        """The neighbours of each rank that has acted: a rank acts for every packet."""
        self._ranks: dict[Rank, TimedRank] = {}
        self._times: list[int] = []
        self._acting: dict[int, set[Rank]] = {}
        self._arrivals: dict[int, dict[Rank, list[Arrival]]] = {}
        self._missing: dict[int, dict[Rank, list[Step]]] = {}
        """By time and rank, the steps of packets that do not come, as the rank learns at that time."""
        self._working: set[Rank] = set()
        self._in_flight = 0
        """Packets under way, except signs of life."""
        self._over: int | None = None
        """The time when nothing but watching was left to do, or None."""
        self._places: dict[tuple[Rank, Port, Step, int], list[int]] = {}
        """By sender, port, step and end of crossing, the packets that are not received yet, as indices of `packets`."""
        self.packets: list[TimedPacket] = []
        """Every packet so far; packets that are not received yet have the end of their crossing."""
        self.altered_copies: list[AlteredCopy] = []
        self.crossings: dict[Rank, array[int]] = {}
        """By rank, the times when packets have crossed to it, ascending."""
        self.notices: dict[Rank, list[tuple[int, Step]]] = {}
        """By rank with the policy `BySteps`, the times when it learns of packets that do not come, and their steps."""
        self.suspicions: list[TimedSuspicion] = []
        self.withheld: list[Withheld] = []
        self.reports: dict[tuple[Rank, Step], int] = {}
        # Where nothing happens at a node that has received nothing, it is created when it is first needed.
        everywhere = self._interval or spec.asks
        # A node that fails gives notice of packets that it will not send, even if it has received nothing.
        failing = () if plans is None else {each.fault.rank for each in faults if isinstance(each.fault, NodeFault)}
        for rank in self._topology.ranks() if everywhere else sorted({*algorithm.sources, *failing}):
            self._note(rank)

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._times)

    @property
    def history(self) -> EventHistory:
        """The record so far, besides packets."""
        return EventHistory(self._times_of_run.horizon, self.suspicions, self.withheld, self.reports)

    def step(self, step: Step) -> bytearray:
        """Do everything up to the end of a step in the virtual time of lock-step; return journal rows.

        The last step has no end: everything that is left is done.
        """
        rows = bytearray()
        until = self._times_of_run.cutoff if step >= self._last else self._times_of_run.steps.begins(step + 1)
        while self._times and self._times[0] < until:
            now = heappop(self._times)
            self._end_watch(now)
            # Taken out before any rank acts: a packet that costs nothing arrives at this very time, and the time then
            # comes once more.
            arrivals, missing = self._arrivals.pop(now, {}), self._missing.pop(now, {})
            for rank in self.in_order(now, arrivals.keys() | missing.keys() | self._acting.pop(now, set())):
                # A rank that planned to act now may have changed its plan since; its old time is not taken back.
                if rank in arrivals or rank in missing or self._rank(rank).next_time == now:
                    self._act(now, rank, arrivals.get(rank, []), missing.get(rank, []), rows)
        return rows

    def in_order(self, _now: int, ranks: set[Rank]) -> Sequence[Rank]:
        """Return the ranks that act at one time, in the order of their actions."""
        # Ascending: rows and suspicions of one time are recorded in one order on every machine.
        return sorted(ranks)

    def _neighbours_of(self, rank: Rank) -> Sequence[Rank]:
        neighbours = self._neighbours.get(rank)
        if neighbours is None:
            neighbours = self._neighbours[rank] = self._topology.neighbours(rank)
        return neighbours

    def _rank(self, rank: Rank) -> TimedRank:
        timed = self._ranks.get(rank)
        if timed is None:
            # On first use, as nodes in lock-step: most ranks of a large network wait for their first packet.
            timed = self._ranks[rank] = self._settings.make_rank(rank, self._plans.get(rank, NOTHING_PLANNED))
        return timed

    def _act(self, now: int, rank: Rank, arrivals: list[Arrival], missing: list[Step], rows: bytearray) -> None:
        reverse, neighbours = self._reverse_ports[rank], self._neighbours_of(rank)
        if self._interval:
            self._in_flight -= sum(not is_sign_of_life(packet) for _, _, packet in arrivals)
        if arrivals:
            # Eight bytes each: hosts are sent this list, and a run may have millions of crossings.
            self.crossings.setdefault(rank, array("Q")).extend([now] * len(arrivals))
        if missing:
            self.notices.setdefault(rank, []).extend((now, step) for step in missing)
        actions = self._rank(rank).act(now, arrivals, missing)
        for received, port, step, crossed in actions.receipts:
            place = self._places[neighbours[port], reverse[port], step, crossed].pop()
            # Most packets are received when they have crossed.
            if received != crossed:
                self.packets[place] = self.packets[place]._replace(end=received)
        for step, hops in actions.judged:
            # Base 0: `neighbours` holds this rank alone, where a host has one array for all of its ranks.
            encode_rows(rows, step, rank, neighbours, 0, reverse, hops)
            if self._algorithm.spec.redundancy > 1 and self.faults.payload_altered:
                self.altered_copies += altered_copies(step, rank, hops)
        if actions.losses or actions.withheld or actions.suspicions or actions.reports:
            self._record_losses(now, rank, actions, rows)
        for sent in actions.departures:
            self._send(rank, sent, neighbours[sent.port], reverse[sent.port])
        for notice in actions.notices:
            self._notify(now, notice, neighbours)
        self._note(rank)

    def _record_losses(self, now: int, rank: Rank, actions: Actions, rows: bytearray) -> None:
        neighbours = self._neighbours_of(rank)
        for lost in actions.losses:
            # It started and occupied its port, so it is a packet of the run; it has no end.
            self._record(rank, lost, neighbours[lost.port], -1)
            encode_losses(rows, lost.step, rank, lost.port, neighbours[lost.port], lost.segments, HopOutcome.LOST)
        for kept in actions.withheld:
            # Judged now: the suspicion may have been right at first, and wrong when it held something back.
            silent = self.faults.is_dead_end(*self._topology.end(rank, kept.port), now)
            self.withheld.append(Withheld(kept.step, rank, kept.port, silent))
            encode_losses(rows, kept.step, rank, kept.port, neighbours[kept.port], kept.segments, HopOutcome.WITHHELD)
        for report in actions.reports:
            self.reports[rank, report.step] = now
            encode_losses(rows, report.step, rank, 0, rank, report.segments, HopOutcome.REPORT)
        self.suspicions += actions.suspicions

    def _send(self, rank: Rank, sent: Departure, receiver: Rank, its_port: Port) -> None:
        if self._interval:
            # Signs of life do not count, or they would keep each other going for ever.
            self._in_flight += not is_sign_of_life(sent.segments)
        self._places.setdefault((rank, sent.port, sent.step, sent.end), []).append(len(self.packets))
        # With the end of its crossing; over one port the receipt may end later, and `_act` corrects it.
        self._record(rank, sent, receiver, sent.end)
        self._wake(sent.end)
        arrival = (its_port, sent.step, sent.segments)
        self._arrivals.setdefault(sent.end, {}).setdefault(receiver, []).append(arrival)

    def _notify(self, now: int, notice: Notice, neighbours: Sequence[Rank]) -> None:
        """Let a rank learn of a packet that does not come, unless it waits for none."""
        time, port, step = notice
        receiver = neighbours[port]
        if step in self._plans.get(receiver, NOTHING_PLANNED).receipts:
            # A cause comes first: a packet that was to start long ago is given up now.
            time = max(now, time)
            self._wake(time)
            self._missing.setdefault(time, {}).setdefault(receiver, []).append(step)

    def _record(self, rank: Rank, packet: Departure, receiver: Rank, end: int) -> None:
        size = packet_size(packet.segments)
        self.packets.append(TimedPacket(packet.step, rank, packet.port, receiver, size, packet.start, end))

    def _wake(self, time: int) -> None:
        # Each time is in the heap once: the ranks that act at it are in these dictionaries.
        if time not in self._acting and time not in self._arrivals and time not in self._missing:
            heappush(self._times, time)

    def _note(self, rank: Rank) -> None:
        """Note when a rank acts next."""
        timed = self._rank(rank)
        (self._working.discard if timed.next_work is None else self._working.add)(rank)
        time = timed.next_time
        if time is not None:
            self._wake(time)
            # A set, because a rank may plan the same time again after every action.
            self._acting.setdefault(time, set()).add(rank)

    def _end_watch(self, now: int) -> None:
        """End the signs of life some time after the last packet, when every fault until then has had time to be noticed."""
        if not self._interval or self._times_of_run.horizon < ALWAYS:
            return
        # A suspicion may have caused new work, for example: then the watch goes on.
        if self._working or self._in_flight:
            self._over = None
            return
        if self._over is None:
            self._over = now
        # Suspicions of faults so far have to come first: the run is judged by them. Each takes `patience` intervals
        # from the last sign; one more is to spare.
        patience = max(timed.patience for timed in self._ranks.values())
        faulty = (start for start in self._begun if start <= self._over)
        noticed = (start + (patience + 1) * self._interval for start in faulty)
        if now > max([self._over, *noticed]):
            self._times_of_run.horizon = now
