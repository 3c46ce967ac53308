"""A node with a protocol between its rule and its ports, in lock-step.

Arrivals go through the protocol to the rule, and sends of the rule go through the protocol to the ports. Packets then leave
when the protocol says so. Hence a send of the rule is never too late, and a send that the port model or the link capacity
does not allow waits its turn. A port model limits the sends of a node in a step. Its receipts depend on its neighbours:
neighbours send when their own time-outs come. So receipts are not checked, as for packets that faults make late.
"""

from emunode.algorithms.base import Algorithm, Rule
from emunode.engine.node import Node, failure, make_segment, port_of
from emunode.errors import RuleError, RunError
from emunode.model import Hop, HopOutcome, Port, PortModel, PortPacket, Rank, Segment, Step
from emunode.protocols.base import Protocol, is_control


class ProtocolNode(Node):
    """One rank of a network with its rule, and with a protocol that begins in step `now`."""

    __slots__ = ("protocol",)

    def __init__(self, rank: Rank, algorithm: Algorithm, rule: Rule, protocol: Protocol, now: Step) -> None:
        super().__init__(rank, algorithm, rule)
        self.enable_queueing()
        self.protocol = protocol
        protocol.start(now)
        self._note_due(now)

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        """Read the packets that arrived in step - 1; return the packets that leave in `step`, by ascending port, and
        the hops.
        """
        hops: list[Hop] = []
        try:
            if inbox:
                inbox.sort(key=port_of)
                self._read_apart(inbox, hops)
                passed = [(port, self.protocol.receive(step, port, packet)) for port, packet in inbox]
                self._decide(step, [(port, packet) for port, packet in passed if packet])
            outbox = self._through_protocol(step)
        except (RuleError, RunError, MemoryError):
            raise
        except Exception as error:
            raise failure(self._algorithm, self.rank, step, error) from error
        return outbox, hops

    def suspects(self, step: Step, port: Port, suspected: bool) -> None:
        """Tell the protocol about a port at the beginning of `step`, before the node reads."""
        self.protocol.suspects(step, port, suspected)
        self._note_due(step, ready=bool(self.protocol.ready(step)))

    @property
    def reports(self) -> list[Segment]:
        """Decisions of the node that the engine has not taken yet."""
        return self.protocol.reports

    def resume(self, step: Step) -> None:
        """Skip to `step`: sends of the rule for the missed steps are discarded, time-outs of these steps come in `step`."""
        super().resume(step)
        self.protocol.resume(step)
        self._note_due(step, ready=bool(self.protocol.ready(step)))

    def _read_apart(self, inbox: list[PortPacket], hops: list[Hop]) -> None:
        """Classify every arrival. Control segments are recorded, and left to the protocol."""
        data = []
        for port, packet in inbox:
            hops += [Hop(port, HopOutcome.CONTROL, segment) for segment in packet if is_control(segment)]
            # Control segments never become FIRST or DUPLICATE: deliveries are counted from data alone.
            data.append((port, tuple(segment for segment in packet if not is_control(segment))))
        self._read(data, hops)

    def _decide(self, step: Step, passed: list[PortPacket]) -> None:
        """Let the rule decide on the segments that have passed the protocol."""
        for when, port, segment in self._rule.receive(step - 1, passed) if passed else ():
            # A rule that plans by steps may get its packets late: then it sends now.
            self._agenda.setdefault(max(when, step), []).append((port, segment))

    def _through_protocol(self, step: Step) -> list[PortPacket]:
        """Hand over the sends of the rule in `step`; return the packets that the protocol and the port model allow."""
        protocol = self.protocol
        if protocol.alarm is not None and protocol.alarm <= step:
            # Before new sends: a segment that has timed out is older than they are, and leaves ahead of them.
            protocol.wake(step)
        self._submit(step, step)
        ready = tuple(protocol.ready(step))
        packets = self._allowed(ready)
        for port, packet in packets:
            for segment in packet:
                protocol.sent(step, port, segment)
        # Segments that had to stay are ready again in the next step.
        self._note_due(step + 1, ready=bool(protocol.ready(step)))
        return packets

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

    def _allowed(self, ready: tuple[tuple[Port, Segment], ...]) -> list[PortPacket]:
        """Return the packets that may leave in one step, by ascending port. Control segments do not count against the
        capacity.
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

    def _note_due(self, least: Step, *, ready: bool = False) -> None:
        """Set the next step, `least` or later, when this node acts without receiving anything first."""
        alarm = self.protocol.alarm
        if ready or (alarm is not None and alarm < least):
            # A time-out of a step that is over, or was missed, is acted upon in the next step that runs.
            alarm = least
        own = [self._next[0]] if self._next is not None else []
        self.due = min([*own, *self._agenda, *([alarm] if alarm is not None else [])], default=None)
