"""A node with a protocol between its rule and its ports, under either clock. No clock, no socket.

Arrivals go through the protocol to the rule, and sends of the rule go through the protocol to the ports. Packets then leave
when the protocol says so. Hence a send of the rule is never too late, and a send that the port model or the link capacity
does not allow waits its turn.

All times are readings of the node's own clock, and `StepTimes` tells the step of the rule that contains a time. Under the
timed clock `ThroughProtocol` is the driver: it hands over packets on arrival, so a tree forwards in the order of arrivals,
and sends that the rule schedules for a later step go to the protocol when that step begins. In lock-step a step is its own
time, and `step` is the driver. There a port model limits the sends of a node in a step. Its receipts depend on its
neighbours, which send when their own time-outs come; so receipts are not checked, as for packets that faults make late.
"""

from collections.abc import Sequence
from itertools import chain, filterfalse

from emunode.algorithms.base import Algorithm, Rule
from emunode.annexes import AGREEING_NODE, from_annex
from emunode.engine.node import Node, make_segment, port_of
from emunode.engine.step_times import LOCK_STEP_TIMES, StepTimes
from emunode.errors import RuleError
from emunode.model import Hop, HopOutcome, Packet, Port, PortModel, PortPacket, Rank, Segment, Step
from emunode.protocols.base import PortSegment, Protocol, is_control, is_sign_of_life


class ProtocolNode(Node):
    """One rank of a network with its rule, and with a protocol that begins at the time `now`."""

    __slots__ = ("_times", "protocol")

    def __init__(
        self,
        rank: Rank,
        algorithm: Algorithm,
        rule: Rule,
        protocol: Protocol,
        now: int,
        times: StepTimes = LOCK_STEP_TIMES,
    ) -> None:
        super().__init__(rank, algorithm, rule)
        self.enable_queueing()
        self._times = times
        self.protocol = protocol
        protocol.start(now)
        self.note_due(now, times.step_at(now))

    # --- under either clock ----------------------------------------------------------------------------------------

    @property
    def alarm(self) -> int | None:
        """The next time when the node acts without receiving anything first, or None."""
        planned, alarm = self._planned(), self.protocol.alarm
        if planned is None:
            return alarm
        # The alarm of the protocol is a time already, where the rule's schedule has steps.
        begins = self._times.begins(planned)
        return begins if alarm is None else min(begins, alarm)

    @property
    def reports(self) -> list[Segment]:
        """Decisions of the node that the engine has not taken yet."""
        return self.protocol.reports

    def receive(self, now: int, arrivals: Sequence[PortPacket]) -> list[list[Hop]]:
        """Read packets that arrive at one time, by ascending port; return the hops of each."""
        judged: list[list[Hop]] = []
        passed = []
        step = self._times.step_at(now)
        with self._naming_failures(step):
            for port, packet in arrivals:
                judged.append(self._judge(port, packet))
                # The detector has noted a sign of life already.
                if not packet or is_sign_of_life(packet):
                    continue
                # A control segment that no layer has taken, such as an altered one, is no data for the rule.
                data = tuple(filterfalse(is_control, self.protocol.receive(now, port, packet)))
                if data:
                    passed.append((port, data))
            for when, port, segment in self._rule.receive(step - 1, passed) if passed else ():
                # A rule that plans by steps may get its packets late: then it sends now.
                self._agenda.setdefault(max(when, step), []).append((port, segment))
        return judged

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        """Tell the protocol that a detector suspects a port, or does so no longer."""
        self.protocol.suspects(now, port, suspected)

    def wake(self, now: int) -> None:
        """Act on the time-outs that are due."""
        alarm = self.protocol.alarm
        if alarm is not None and alarm <= now:
            with self._naming_failures(self._times.step_at(now)):
                self.protocol.wake(now)

    def submit_due(self, now: int) -> None:
        """Hand over to the protocol the sends of the rule in steps that have begun."""
        step = self._times.step_at(now)
        with self._naming_failures(step):
            # Step by step, since a rule's own schedule is drawn one step at a time.
            while (planned := self._planned()) is not None and planned <= step:
                self._submit(planned, now)

    def ready(self, now: int) -> Sequence[PortSegment]:
        """Return the segments that may leave, the most urgent first."""
        return self.protocol.ready(now)

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        """Note that the transmission of a ready segment begins."""
        self.protocol.sent(now, port, segment)

    def skip_to(self, now: int) -> None:
        """Discard sends that the rule has scheduled for steps that began before `now`; missed time-outs come at `now`."""
        step = self._times.step_at(now)
        # A step that has begun before `now` is missed; a step that begins at it is not.
        Node.resume(self, step if self._times.begins(step) == now else step + 1)
        self.protocol.resume(now)

    # --- in lock-step ----------------------------------------------------------------------------------------------

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        inbox.sort(key=port_of)
        hops = list(chain.from_iterable(self.receive(step, inbox)))
        # Before new sends: a segment that has timed out is older than they are, and leaves ahead of them.
        self.wake(step)
        with self._naming_failures(step):
            self._submit(step, step)
            outbox = self._allowed(self.protocol.ready(step))
            for port, packet in outbox:
                for segment in packet:
                    self.protocol.sent(step, port, segment)
            self.note_due(step, step + 1)
        return outbox, hops

    def resume(self, step: Step) -> None:
        self.skip_to(step)
        self.note_due(step, step)

    def note_due(self, now: int, least: Step) -> None:
        """Set the next step, `least` or later, when this node acts without receiving anything first."""
        # Segments that had to stay are ready again in the next step.
        if self.ready(now):
            self.due = least
        else:
            # A time-out of a step that is over, or was missed, is acted upon in the next step that runs.
            alarm = self.alarm
            self.due = None if alarm is None else max(least, self._times.step_at(alarm))

    # --- the way from the ports to the rule and back ---------------------------------------------------------------

    def _judge(self, port: Port, packet: Packet) -> list[Hop]:
        """Classify the segments of an arrival. Control segments are recorded, and left to the protocol."""
        hops, data = [], []
        for segment in packet:
            # Control segments never become FIRST or DUPLICATE: deliveries are counted from data alone.
            if is_control(segment):
                hops.append(Hop(port, HopOutcome.CONTROL, segment))
            else:
                data.append(segment)
        if data:
            self._read([(port, tuple(data))], hops)
        return hops

    def _planned(self) -> Step | None:
        """Return the next step with sends of the rule."""
        own = [] if self._next is None else [self._next[0]]
        return min([*own, *self._agenda], default=None)

    def _submit(self, step: Step, now: int) -> None:
        """Hand the sends of the rule in `step` over to the protocol."""
        for port, item in self._leaving(step):
            segment = make_segment(item)
            # The neighbour would take a tree of the reserved range for a control segment, and its rule would never see
            # the data.
            if is_control(segment) or port not in self._ports:
                reason = f"tree {segment[2]} is reserved" if port in self._ports else f"port {port} does not exist"
                raise RuleError(f"{self._algorithm.name} at rank {self.rank}, step {step}: {reason}")
            self.protocol.submit(now, port, segment)

    def _allowed(self, ready: Sequence[PortSegment]) -> list[PortPacket]:
        """Return the packets that may leave in one step, by ascending port.

        Control segments do not count against the capacity.
        """
        capacity = self._algorithm.link_capacity
        one_port = self._algorithm.spec.port_model is not PortModel.ALL_PORT
        packets: dict[Port, list[Segment]] = {}
        loads: dict[Port, int] = {}
        for port, segment in ready:
            # The first segment decides about the port, since `ready` has the most urgent one first.
            if one_port and packets and port not in packets:
                continue
            # If control segments counted, an acknowledgement would move the data of a link of capacity 1 to the next
            # step, and a run without faults would not keep the steps of its schedule.
            if not is_control(segment):
                if loads.get(port, 0) == capacity:
                    continue
                loads[port] = loads.get(port, 0) + 1
            packets.setdefault(port, []).append(segment)
        return [(port, tuple(packets[port])) for port in sorted(packets)]


def make_node(
    rank: Rank, algorithm: Algorithm, rule: Rule, protocol: Protocol, now: int, times: StepTimes = LOCK_STEP_TIMES
) -> ProtocolNode:
    """Return the node of a rank with a protocol that begins at `now`."""
    if algorithm.spec.agreement is None:
        return ProtocolNode(rank, algorithm, rule, protocol, now, times)
    node: ProtocolNode = from_annex(*AGREEING_NODE)(rank, algorithm, rule, protocol, now, times)
    return node
