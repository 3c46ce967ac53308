"""The policy of a rank with a protocol or a failure detector under the timed clock.

At one instant a rank first receives, then acts on time-outs, then suffers faults, then sends. A port sends one packet after
the other: signs of life first, though not two in a row, then other control segments, each a packet of its own, then data up
to the link capacity. Time-outs, signs of life and the rule's own schedule follow the clock of the node, which may drift.

A packet has a step as its name in journals. The step is at least the step of the packet's start in the virtual time of
lock-step, later than the steps of everything that its sender has received, and later than the step of the packet before
it on the same port. So a step names one packet of a port, causes come in earlier steps than effects, and where all
packets take one time and nothing is sent again, the steps equal the steps of lock-step. No clock, no socket.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from math import ceil

from emunode.algorithms.base import Algorithm, LocalView
from emunode.engine.protocol_node import ProtocolNode, make_node
from emunode.engine.rank_set import make_rule
from emunode.engine.step_times import StepTimes
from emunode.faults.detection import PortDetector
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime
from emunode.model import FaultKnowledge, Packet, Port, Rank, Segment, Step
from emunode.protocols.base import (
    CONTROL_BYTES,
    ControlKind,
    Durations,
    Protocol,
    control_segment,
    is_control,
    is_news,
)
from emunode.protocols.registry import make_protocol
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.rank import Actions, Arrival, EventPolicy, Incarnation, TimedSuspicion
from emunode.timed.transmission import Departure, packet_size, transmit


class RunTimes:
    """The times that all ranks of a run have in common: the beginnings of the steps, and the end.

    Nothing happens from `cutoff` on, the end of the last step; signs of life and suspicions end at `horizon`.
    """

    def __init__(self, steps: StepTimes, cutoff: int, horizon: int = ALWAYS) -> None:
        self.steps = steps
        self.cutoff = cutoff
        self.horizon = horizon


def timing_of(steps: StepTimes, costs: LinearCostModel) -> Durations:
    """Return how long things take in a run, as its protocols see it."""
    return Durations(steps.begins, steps.longest, costs.nanoseconds(CONTROL_BYTES))


class _Incarnation(Incarnation):
    """A node between its creation and its crash."""

    def __init__(
        self, node: ProtocolNode, view: LocalView, starts: int, crashes: int, hangs: Iterable[Interval]
    ) -> None:
        super().__init__(view, starts, crashes, hangs)
        self.node = node
        self.queue: list[tuple[int, Port, Step, int, Packet]] = []
        """Over one port, packets that are being received: end of the receipt, port, step, end of the crossing."""
        self.detectors: dict[Port, PortDetector] = {}
        self.tick = 0
        """The time of the next sign of life, on the node's own clock."""
        self.signed: set[Port] = set()
        """Ports whose last packet was a sign of life; over one port, port 0 stands for all."""
        self.owing: set[Port] = set()
        """Ports that still have to send a sign of life."""


class ThroughProtocol(EventPolicy[_Incarnation]):
    """The policy of a rank whose node has a protocol or detects faults."""

    def __init__(
        self, rank: Rank, algorithm: Algorithm, costs: LinearCostModel, faults: FaultsInTime, times: RunTimes
    ) -> None:
        spec = algorithm.spec
        self._times = times
        self._detection = spec.detection if spec.knowledge is FaultKnowledge.DETECT else None
        self._ports = tuple(algorithm.topology.ports(rank))
        # For all incarnations of the node: journals name a packet by rank, port and step, whichever of them sent it.
        self._last_step: dict[Port, Step] = {}
        self._read_step: Step = 0
        super().__init__(rank, algorithm, costs, faults)

    def _begin(self, starts: int, crashes: int) -> _Incarnation:
        algorithm, faults, shown = self._algorithm, self._faults, self._faults.shown(self.rank, starts)
        view = self._view(starts)
        # By its own clock, as everything that a node decides.
        rule = make_rule(algorithm, view, self._times.steps.step_at(shown))
        protocol = make_protocol(algorithm, view, timing_of(self._times.steps, self._costs)) or Protocol()
        node = make_node(self.rank, algorithm, rule, protocol, shown, self._times.steps)
        if shown:
            # A node that recovers has missed the sends of earlier times.
            node.skip_to(shown)
        incarnation = _Incarnation(node, view, starts, crashes, faults.hangs(self.rank))
        if self._detection is not None:
            # A detector trusts every neighbour at first, and so does a rank that recovers.
            view.live_ports = self._ports
            incarnation.tick = shown
            incarnation.detectors = {port: PortDetector(self._detection, shown) for port in self._ports}
        return incarnation

    @property
    def patience(self) -> int:
        return max(
            (each.intervals for incarnation in self._incarnations for each in incarnation.detectors.values()), default=0
        )

    def _read(self, incarnation: _Incarnation, now: int, arrivals: Sequence[Arrival], actions: Actions) -> None:
        shown = self._faults.shown(self.rank, now)
        came = self._received(incarnation, now, arrivals)
        before = {port for port, each in incarnation.detectors.items() if each.suspected}
        if self._detects(now):
            for port, *_ in came:
                incarnation.detectors[port].heard(shown)
        self._look_around(incarnation, now)
        # After the detectors: a packet of a neighbour is a sign of its life, and the rule sees the ports as they are
        # now.
        judged = incarnation.node.receive(shown, [(port, packet) for port, _, _, packet in came])
        for (port, step, crossed, _), hops in zip(came, judged, strict=True):
            actions.receipts.append((now, port, step, crossed))
            actions.judged.append((step, hops))
            self._read_step = max(self._read_step, step)
        if self._detects(now):
            # After the receipts: a sign that arrives at the deadline itself is in time.
            self._check(incarnation, now, shown, before, actions)
        incarnation.node.wake(shown)
        if incarnation.node.reports:
            step = self._times.steps.step_at(now)
            actions.reports.append(Departure(now, now, 0, step, tuple(incarnation.node.reports)))
            incarnation.node.reports.clear()

    # --- receipts --------------------------------------------------------------------------------------------------

    def _received(
        self, incarnation: _Incarnation, now: int, arrivals: Sequence[Arrival]
    ) -> list[tuple[Port, Step, int, Packet]]:
        """Return the packets that are received at `now`, in order of ports.

        An entry is (port, step, end of the crossing, segments). Over one port packets are received in turn.
        """
        if not self._one_port:
            return [(port, step, now, packet) for port, step, packet in sorted(arrivals)]
        for port, step, packet in sorted(arrivals):
            # One packet after the other: each takes its whole duration, even if several cross at the same time.
            incarnation.received = max(now, incarnation.received + self._costs.nanoseconds(packet_size(packet)))
            heappush(incarnation.queue, (incarnation.before_fault(now, incarnation.received), port, step, now, packet))
        came = []
        while incarnation.queue and incarnation.queue[0][0] <= now:
            _, port, step, crossed, packet = heappop(incarnation.queue)
            came.append((port, step, crossed, packet))
        return came

    # --- detection -------------------------------------------------------------------------------------------------

    def _detects(self, now: int) -> bool:
        return self._detection is not None and now < self._times.horizon

    def _interval(self, now: int) -> int:
        """Return the time until the next sign of life: a slow node takes longer for everything."""
        assert self._detection is not None
        return ceil(self._detection.interval * self._faults.slowness(self.rank, now))

    def _check(self, incarnation: _Incarnation, now: int, shown: int, before: set[Port], actions: Actions) -> None:
        """Suspect the ports whose deadlines have come; tell the protocol of every change."""
        assert self._detection is not None
        changed = []
        for port, detector in incarnation.detectors.items():
            detector.check(shown, self._detection.interval)
            if detector.suspected is not (port in before):
                changed.append(port)
        if changed:
            self._look_around(incarnation, now)
        for port in changed:
            suspected, (peer, its_port) = incarnation.detectors[port].suspected, self._topology.end(self.rank, port)
            # A neighbour that is down from `now` on has still been heard until now.
            silent = self._faults.is_dead_end(peer, its_port, now)
            actions.suspicions.append(TimedSuspicion(now, self.rank, port, suspected, silent))
            incarnation.node.suspects(shown, port, suspected)

    def _look_around(self, incarnation: _Incarnation, now: int) -> None:
        """Update the ports that the rule believes to work."""
        if self._faults.knows:
            incarnation.view.live_ports = self._faults.live_ports(self.rank, now)
        elif self._detection is not None:
            incarnation.view.live_ports = tuple(
                port for port, each in incarnation.detectors.items() if not each.suspected
            )

    def _wake_up(self, incarnation: _Incarnation, end: int) -> None:
        shown = self._faults.shown(self.rank, end)
        incarnation.node.skip_to(shown)
        for detector in incarnation.detectors.values():
            # A suspicion stays until something is heard; silence that the rank could not notice starts none.
            if not detector.suspected:
                detector.heard(shown)
        if self._detection is not None and incarnation.tick < shown:
            # The signs keep their rhythm: the next one is the first that is not over.
            interval = self._interval(end)
            incarnation.tick += -(-(shown - incarnation.tick) // interval) * interval

    # --- sends -----------------------------------------------------------------------------------------------------

    def _ready(self, incarnation: _Incarnation, shown: int) -> list[tuple[Port, Segment | None]]:
        """Return the segments that could leave, the most urgent first; None stands for a sign of life."""
        waiting = incarnation.node.ready(shown)
        signs: list[tuple[Port, Segment | None]] = [(port, None) for port in sorted(incarnation.owing)]
        # A sort is stable: in their own order otherwise.
        others: list[tuple[Port, Segment | None]] = [*sorted(waiting, key=lambda each: not is_control(each[1]))]
        # After a sign of life everything else comes first, so that a port that is busy with signs still sends data.
        first = [each for each in signs if self._unit(each[0]) not in incarnation.signed]
        return [*first, *others, *(each for each in signs if self._unit(each[0]) in incarnation.signed)]

    def _send(self, incarnation: _Incarnation, now: int, actions: Actions) -> None:
        shown = self._faults.shown(self.rank, now)
        incarnation.node.submit_due(shown)
        if self._detects(now) and incarnation.tick <= shown:
            # By suspected ports too: the suspicion may be wrong, and the sign ends the suspicion of the neighbour.
            incarnation.owing.update(self._ports)
            incarnation.tick += self._interval(now)
        # Again and again, since a packet that is withheld, or goes to a dead end, leaves its port free.
        while chosen := self._chosen(incarnation, now, shown):
            # By port: the engine records departures in this order.
            for port, packet in sorted(chosen, key=lambda each: each[0]):
                self._start(incarnation, now, shown, port, packet, actions)

    def _chosen(self, incarnation: _Incarnation, now: int, shown: int) -> Collection[tuple[Port, list[Segment | None]]]:
        """Return a packet for every port that is free and has something to send."""
        if now >= self._times.horizon:
            # The detectors have stopped, and nothing waits for these signs.
            incarnation.owing.clear()
        # By unit: a port that is free sends one packet, and asks again when it is free.
        chosen: dict[Port, tuple[Port, list[Segment | None]]] = {}
        for port, segment in self._ready(incarnation, shown):
            unit = self._unit(port)
            if incarnation.free.get(unit, 0) > now:
                continue
            # The most urgent segment of a unit decides about the port.
            first, packet = chosen.setdefault(unit, (port, []))
            room = self._capacity is None or len(packet) < self._capacity
            # Data shares a packet with data for the same port, up to the capacity, and news with news without limit. All
            # else goes alone.
            if not packet or (port == first and _share_a_packet(packet[0], segment, room=room)):
                packet.append(segment)
        return chosen.values()

    def _start(
        self,
        incarnation: _Incarnation,
        now: int,
        shown: int,
        port: Port,
        packet: Sequence[Segment | None],
        actions: Actions,
    ) -> None:
        """Begin to transmit a packet, unless the rank knows or suspects that nothing arrives."""
        segments = []
        for segment in packet:
            if segment is None:
                incarnation.owing.discard(port)
                peer = self._topology.neighbour(self.rank, port)
                segments.append(control_segment(ControlKind.KEEP_ALIVE, self.rank, peer, 0))
            else:
                # Even if it is then withheld: otherwise the protocol would offer it again at once, for ever.
                incarnation.node.sent(shown, port, segment)
                segments.append(segment)
        if self._faults.knows and self._faults.is_dead(self.rank, port, now):
            return
        unit = self._unit(port)
        # Later than its causes, and than the packet before it on the port: see the module's docstring.
        step = max(self._times.steps.step_at(now), self._last_step.get(unit, 0) + 1, self._read_step + 1)
        self._last_step[unit] = step
        # A neighbour that only seems dead has to learn that it is given up.
        kept = packet[0] is not None and not is_news(packet[0])
        if kept and self._detection is not None and incarnation.detectors[port].suspected:
            actions.withheld.append(Departure(now, now, port, step, tuple(segments)))
            return
        sent, lost, free = transmit(self._faults, self._costs, self.rank, step, port, tuple(segments), now)
        if free is not None:
            incarnation.free[unit] = free
            # Signs of life alternate with other packets, or a port that is slow enough would send nothing but signs.
            (incarnation.signed.add if packet[0] is None else incarnation.signed.discard)(unit)
        # A delay is in the end of a packet; its step need not tell it.
        actions.losses.extend(each._replace(step=step) for each in lost)
        if sent is not None:
            actions.departures.append(sent._replace(step=step))

    # --- what comes next -------------------------------------------------------------------------------------------

    def _plan(self, now: int) -> None:
        """Set the times when this rank acts next."""
        works, signs = [], []
        for incarnation in self._incarnations:
            # This incarnation is over, with everything that waited in it.
            if incarnation.crashes < now:
                continue
            work: list[int] = [incarnation.queue[0][0]] if incarnation.queue else []
            sign: list[int] = []
            if incarnation.node.alarm is not None:
                # The node's alarm is a reading of its own clock, and this may drift; ports are free by virtual time.
                work.append(self._faults.clock(self.rank, incarnation.node.alarm))
            shown = self._faults.shown(self.rank, max(now, 0))
            # Whatever is ready could not leave yet, so it waits for its port.
            busy = {self._unit(port) for port, _ in incarnation.node.ready(shown)}
            work += [incarnation.free.get(unit, 0) for unit in busy]
            if self._detection is not None:
                sign += [incarnation.free.get(self._unit(port), 0) for port in incarnation.owing]
                deadlines = [
                    each.deadline(self._detection.interval)
                    for each in incarnation.detectors.values()
                    if not each.suspected
                ]
                sign.append(self._faults.clock(self.rank, min([incarnation.tick, *deadlines])))
            # Apart from signs of life: a run is over when no rank has work, and signs go on until then.
            works.append(self._awake(incarnation, work, now))
            signs.append(self._awake(incarnation, sign, now))
        self.next_work = min((time for time in works if time is not None), default=None)
        # Signs that would start at the end of the watch or later are not sent, so no rank wakes for them.
        soonest = min((time for time in signs if time is not None and time < self._times.horizon), default=None)
        self.next_time = min((time for time in (self.next_work, soonest) if time is not None), default=None)


def _share_a_packet(one: Segment | None, other: Segment | None, *, room: bool) -> bool:
    if one is None or other is None:
        return False
    return (is_news(one) and is_news(other)) or (room and not is_control(one) and not is_control(other))
