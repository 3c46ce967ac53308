"""The policy of a rank that forwards packets as soon as they arrive, under the timed clock with faults.

Model. A rank reads a packet on arrival, whatever comes before it in the timetable. So a slow neighbour on one tree holds
up nothing on the others. The packets that follow leave as soon as their port is free. The rank's own messages leave at
the times of the timetable. Nothing is read, and nothing leaves, before its time in the fault-free timetable:

    start = max(port free, receipt of the forwarded packet, fault-free start)

So faults make no packet earlier, and if every packet is in time the history is the fault-free history. Of the packets
that could leave by a port, the packet of the earliest step goes first. Packets of one time are read by ascending port.

Steps only name packets. A packet that is passed on is of the step that the rule gives it, as in lock-step, or of the
next step that its port has not used yet. A rank that lacks a packet of the timetable, or has recovered, reads the times
of its own messages off its own clock, which may drift. No clock, no socket.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.engine.node import Leaving, Node
from emunode.engine.rank_set import make_rule
from emunode.errors import RuleError
from emunode.faults.effects import Interval
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, Packet, Port, Rank, ScheduledSend, Step
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.rank import Actions, Arrival, EventPolicy, Incarnation
from emunode.timed.send_queue import Send, SendQueue
from emunode.timed.transmission import RankTimetable, packet_size, transmit


class ForwardingNode(Node):
    """One rank of a network, whose rule reads packets in any order of steps."""

    __slots__ = ("_arrived",)

    def __init__(self, rank: Rank, algorithm: Algorithm, rule: Rule) -> None:
        super().__init__(rank, algorithm, rule)
        self._arrived: dict[tuple[Rank, Rank, int], Step] = {}
        """The step when each segment was read first."""

    @property
    def own(self) -> Step | None:
        """The next step when the node sends without receiving anything first.

        None if there is none.
        """
        return None if self._next is None else self._next[0]

    def take_own(self) -> tuple[Step, Leaving]:
        """Return the next of the rule's own steps, and its sends."""
        assert self._next is not None
        step = self._next[0]
        with self._naming_failures(step):
            return step, self._leaving(step)

    def read(self, arrivals: Sequence[Arrival]) -> tuple[list[list[Hop]], list[ScheduledSend]]:
        """Read the packets that are received at one time.

        Returns the hops of each packet, and the sends that follow.
        """
        judged: list[list[Hop]] = []
        by_step: dict[Step, dict[Port, Packet]] = {}
        for port, step, packet in arrivals:
            judged.append([])
            self._read([(port, packet)], judged[-1])
            for origin, target, _, index, _ in packet:
                # The first copy: later ones are duplicates, and nothing depends on them.
                self._arrived.setdefault((origin, target, index), step)
            inbox = by_step.setdefault(step, {})
            # Arrivals by one port in one step are one packet for the rule, as in lock-step.
            inbox[port] = inbox.get(port, ()) + packet
        # Ascending, as a rule would read them in lock-step, where steps come one after the other.
        sends = [send for step in sorted(by_step) for send in self._decide(step, by_step[step])]
        return judged, sends

    def _decide(self, step: Step, inbox: dict[Port, Packet]) -> Iterable[ScheduledSend]:
        with self._naming_failures(step):
            for when, port, item in self._rule.receive(step, sorted(inbox.items())):
                # A rule may have kept a segment of a later step until a late packet came.
                read = step if callable(item) else self._arrived.get((item[0], item[1], item[3]), step)
                # An effect is of a later step than its cause, whatever the time: steps name packets, and the journal is
                # sorted by them.
                yield max(when, step + 1, read + 1), port, item


class _Incarnation(Incarnation):
    """A node between its creation and its crash."""

    def __init__(
        self, node: ForwardingNode, view: LocalView, starts: int, crashes: int, hangs: Iterable[Interval]
    ) -> None:
        super().__init__(view, starts, crashes, hangs)
        self.node = node
        self.crossed: list[tuple[int, int, Port, Step, int, int, Packet]] = []
        """Unread packets, ordered by the time when they may be read.

        A row is (this time, the fault-free time, port, step, number, end of the crossing, segments). The two differ before a
        fault of the node: packets that have crossed are read before it, even ahead of their fault-free time.
        """
        self.receiving: list[tuple[int, int, Port, Step, int, Packet]] = []
        """Over one port, packets that are being received.

        A row is (end of receiving, number, port, step, end of the crossing, segments).
        """
        self.own: list[tuple[int, Send]] = []
        """Sends of its own that are not due yet, with their times in the fault-free timetable."""
        self.waiting: list[tuple[int, Send]] = []
        """A heap of sends that are passed on, by the earliest time when they may leave."""
        self.ready: dict[Port, SendQueue] = {}
        """The sends that may leave when their port is free.

        Over one port there is one queue for all ports.
        """


class OnArrival(EventPolicy[_Incarnation]):
    """The policy of a rank that reads each packet as soon as it has received it."""

    def __init__(
        self,
        rank: Rank,
        algorithm: Algorithm,
        costs: LinearCostModel,
        faults: FaultsInTime,
        timetable: RankTimetable,
        last: Step,
    ) -> None:
        """Take the part of the rank in the fault-free timetable; nothing of a step after `last` is sent."""
        self._planned = timetable.starts
        self._missing = dict(timetable.receipts)
        # Ascending, with the running maximum of their ends: `_due` finds a step by bisection.
        self._steps = sorted(timetable.ends)
        self._complete = list(accumulate((timetable.ends[step] for step in self._steps), max))
        # A running minimum from the last departure back. Of the entries of one step the last one stays: it covers all
        # of its ports and all later steps.
        departures = sorted(timetable.starts.items(), reverse=True)
        self._from_step = dict(
            zip((step for (step, _), _ in departures), accumulate((start for _, start in departures), min), strict=True)
        )
        self._last = last
        self._used: dict[Port, set[Step]] = {}
        self._number = 0
        super().__init__(rank, algorithm, costs, faults)

    def _begin(self, starts: int, crashes: int) -> _Incarnation:
        view = self._view(starts)
        node = ForwardingNode(self.rank, self._algorithm, make_rule(self._algorithm, view, 1))
        return _Incarnation(node, view, starts, crashes, self._faults.hangs(self.rank))

    def _read(self, incarnation: _Incarnation, now: int, arrivals: Sequence[Arrival], actions: Actions) -> None:
        came = self._received(incarnation, now, arrivals, actions)
        if self._faults.knows:
            incarnation.view.live_ports = self._faults.live_ports(self.rank, now)
        judged, sends = incarnation.node.read(came)
        actions.judged.extend((step, hops) for (_, step, _), hops in zip(came, judged, strict=True))
        for step, port, item in sends:
            # A later step does not belong to the run: no row could name it.
            if step <= self._last:
                # Not before its time in the fault-free timetable; a packet that only faults have made has none.
                time = max(now, self._planned.get((step, port), 0))
                heappush(incarnation.waiting, (time, Send(step, True, self._next_number(), port, item)))

    def _next_number(self) -> int:
        # Numbers put sends and receipts of one time in order, and keep comparisons from reaching payloads.
        self._number += 1
        return self._number

    # --- receipts --------------------------------------------------------------------------------------------------

    def _received(
        self, incarnation: _Incarnation, now: int, arrivals: Sequence[Arrival], actions: Actions
    ) -> list[Arrival]:
        """Return the packets that are read at `now`.

        Over one port they are received in turn.
        """
        for port, step, packet in arrivals:
            # Below 0 for a packet beyond the timetable, as a delayed one; only counts above 0 mean a lack.
            self._missing[step] = self._missing.get(step, 0) - 1
            if not self._one_port:
                actions.receipts.append((now, port, step, now))
            time = max(now, self._due(step))
            # A packet that has crossed is read before the next fault of the node, even ahead of its time. At one time
            # packets are read by ascending port, as in lock-step.
            place = (incarnation.before_fault(now, time), time, port, step, self._next_number(), now, packet)
            heappush(incarnation.crossed, place)
        came: list[Arrival] = []
        while incarnation.crossed and incarnation.crossed[0][0] <= now:
            _, _, port, step, number, crossed, packet = heappop(incarnation.crossed)
            if not self._one_port:
                came.append((port, step, packet))
                continue
            # One packet after the other: each takes its whole duration, even if several cross at the same time.
            incarnation.received = max(now, incarnation.received + self._costs.nanoseconds(packet_size(packet)))
            heappush(
                incarnation.receiving,
                (incarnation.before_fault(now, incarnation.received), number, port, step, crossed, packet),
            )
        while incarnation.receiving and incarnation.receiving[0][0] <= now:
            _, _, port, step, crossed, packet = heappop(incarnation.receiving)
            actions.receipts.append((now, port, step, crossed))
            came.append((port, step, packet))
        return came

    def _due(self, step: Step) -> int:
        """Return the time when, without faults, everything of the steps up to `step` has been received."""
        place = bisect_right(self._steps, step)
        return self._complete[place - 1] if place else 0

    # --- sends -----------------------------------------------------------------------------------------------------

    def _own_time(self, incarnation: _Incarnation, step: Step, intended: int) -> int:
        """Return the earliest time when one of the rank's own sends may leave."""
        own_clock = self._faults.clock(self.rank, intended)
        if incarnation.starts or own_clock == intended:
            return own_clock
        # A rank that has everything so far knows the time from its arrivals, whatever its clock shows.
        lacks = any(count > 0 and before < step for before, count in self._missing.items())
        return max(intended, own_clock) if lacks else intended

    def _soonest(self, step: Step) -> int:
        """Return the fault-free time of the first send of `step` or later.

        Over several ports, a later step may come first.
        """
        return self._from_step.get(step, 0)

    def _draw(self, incarnation: _Incarnation, now: int) -> None:
        """Let the rule make its own sends.

        These are the sends that are due by `now`, or else the sends of the next step.
        """
        while (own := incarnation.node.own) is not None and own <= self._last:
            # Not all at once: a source of a million segments would make them all.
            if incarnation.own and self._soonest(own) > now:
                return
            step, leaving = incarnation.node.take_own()
            for port, item in leaving:
                intended = self._planned.get((step, port), 0)
                # A node that recovers has missed earlier sends.
                if intended >= incarnation.starts:
                    incarnation.own.append((intended, Send(step, False, self._next_number(), port, item)))

    def _come_up(self, incarnation: _Incarnation, now: int) -> None:
        """Let sends that have become due wait for their ports."""
        # First: own sends of the same step go ahead of forwarded ones.
        self._draw(incarnation, now)
        pending = []
        for intended, send in incarnation.own:
            if self._own_time(incarnation, send.step, intended) <= now:
                self._queue(incarnation, send.port).push(send)
            else:
                pending.append((intended, send))
        incarnation.own = pending
        while incarnation.waiting and incarnation.waiting[0][0] <= now:
            send = heappop(incarnation.waiting)[1]
            self._queue(incarnation, send.port).push(send)

    def _queue(self, incarnation: _Incarnation, port: Port) -> SendQueue:
        unit = self._unit(port)
        if unit not in incarnation.ready:
            # Steps that an earlier incarnation has used stay used.
            incarnation.ready[unit] = SendQueue(self._capacity, self._used.setdefault(unit, set()))
        return incarnation.ready[unit]

    def _wake_up(self, incarnation: _Incarnation, end: int) -> None:
        # Sends that would have started during the hang are drawn first, or they would come up after it.
        self._draw(incarnation, end - 1)
        idle = {self._unit(port) for port in self._topology.ports(self.rank)}
        # A port that was busy during the whole hang would have started nothing: its sends are late, not missed.
        idle = {unit for unit in idle if incarnation.free.get(unit, 0) < end}
        incarnation.ready = {unit: queue for unit, queue in incarnation.ready.items() if unit not in idle}
        incarnation.waiting = [
            each for each in incarnation.waiting if each[0] >= end or self._unit(each[1].port) not in idle
        ]
        # Taking sends out of the middle breaks the order of a heap.
        heapify(incarnation.waiting)
        incarnation.own = [
            (intended, send)
            for intended, send in incarnation.own
            if self._own_time(incarnation, send.step, intended) >= end or self._unit(send.port) not in idle
        ]

    def _send(self, incarnation: _Incarnation, now: int, actions: Actions) -> None:
        # Again and again, since a packet that is withheld, or goes to a dead end, leaves its port free.
        while units := self._free_units(incarnation, now):
            for unit in units:
                self._start(incarnation, now, unit, actions)

    def _free_units(self, incarnation: _Incarnation, now: int) -> list[Port]:
        """Return the units that are free and have something to send, ascending."""
        self._come_up(incarnation, now)
        return sorted(
            unit for unit, queue in incarnation.ready.items() if queue and incarnation.free.get(unit, 0) <= now
        )

    def _start(self, incarnation: _Incarnation, now: int, unit: Port, actions: Actions) -> None:
        """Begin to transmit a packet, unless the rank knows that nothing arrives."""
        step, port, segments = incarnation.ready[unit].pop()
        if port not in self._topology.ports(self.rank):
            raise RuleError(f"{self._algorithm.name} at rank {self.rank}, step {step}: port {port} does not exist")
        if step > self._last or (self._faults.knows and self._faults.is_dead(self.rank, port, now)):
            return
        sent, lost, free = transmit(self._faults, self._costs, self.rank, step, port, segments, now)
        if free is not None:
            incarnation.free[unit] = free
        actions.losses.extend(each for each in lost if each.step <= self._last)
        if sent is not None and sent.step <= self._last:
            actions.departures.append(sent)

    # --- what comes next -------------------------------------------------------------------------------------------

    def _plan(self, now: int) -> None:
        wake_times = []
        for incarnation in self._incarnations:
            if incarnation.crashes < now:
                continue
            # Time -1 draws the sends of a step only if no own send is waiting, which is enough to know the next time.
            self._draw(incarnation, -1)
            times = [heap[0][0] for heap in (incarnation.crossed, incarnation.receiving, incarnation.waiting) if heap]
            times += [incarnation.free.get(unit, 0) for unit, queue in incarnation.ready.items() if queue]
            times += [self._own_time(incarnation, send.step, intended) for intended, send in incarnation.own]
            if incarnation.node.own is not None and incarnation.node.own <= self._last:
                times.append(self._soonest(incarnation.node.own))
            wake_times.append(self._awake(incarnation, times, now))
        self.next_time = self.next_work = min((time for time in wake_times if time is not None), default=None)
