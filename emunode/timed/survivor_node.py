"""A node that agrees with others on what has failed, and then runs the collective again, under the timed clock.

The node works as in `emunode.engine.survivor_node`, with times in place of steps: a repetition begins at the time of the
decision, and its steps last as long as its longest packet. Ranks of a repetition forward in the order of arrivals, as in
the first run.
"""

from collections.abc import Sequence

from emunode.algorithms.base import Algorithm, Rule
from emunode.engine.step_times import StepTimes
from emunode.engine.survivor_node import Renumbering, apart, follow
from emunode.model import Hop, HopOutcome, Packet, Port, Rank, Segment
from emunode.protocols.agreement import AgreementLayer
from emunode.protocols.base import PortSegment, Protocol
from emunode.timed.protocol_node import TimedProtocolNode


class TimedRepetition:
    """One rank in one repetition that begins at the time `began`. Ports and ranks are named as in the whole network."""

    def __init__(self, names: Renumbering, algorithm: Algorithm, began: int, longest: int) -> None:
        self.names = names
        self._began = began
        rule = algorithm.rule(names.view)
        # A protocol that passes everything through: a repetition has plain links, in steps of one length.
        self._node = TimedProtocolNode(names.view.rank, algorithm, rule, Protocol(), StepTimes([longest]), 0)

    @property
    def alarm(self) -> int | None:
        """The next time when the rank sends without receiving anything first, or None."""
        return None if self._node.alarm is None else self._node.alarm + self._began

    def receive(self, now: int, port: Port, packet: Packet) -> list[Hop]:
        """Read segments that arrive by a port."""
        names, its_port = self.names, self.names.ports.index(port)
        (hops,) = self._node.receive(now - self._began, [(its_port, tuple(map(names.inwards, packet)))])
        return [Hop(port, outcome, names.outwards(segment)) for _, outcome, segment in hops]

    def submit_due(self, now: int) -> None:
        """Make ready the sends of the rule in steps that have begun."""
        self._node.submit_due(now - self._began)

    def skip_to(self, now: int) -> None:
        """Discard sends that the rule has scheduled for steps that began before `now`."""
        self._node.skip_to(now - self._began)

    def ready(self, now: int) -> list[PortSegment]:
        """Return the segments that may leave."""
        names = self.names
        return [(names.ports[port], names.outwards(segment)) for port, segment in self._node.ready(now - self._began)]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        """Note that the transmission of a ready segment begins."""
        self._node.sent(now - self._began, self.names.ports.index(port), self.names.inwards(segment))


class TimedSurvivorNode(TimedProtocolNode):
    """One rank of a network, whose collective runs again after every decision."""

    __slots__ = ("_layer", "_repetition", "_taken")

    def __init__(
        self, rank: Rank, algorithm: Algorithm, rule: Rule, layer: AgreementLayer, steps: StepTimes, starts: int
    ) -> None:
        self._layer = layer
        self._repetition: TimedRepetition | None = None
        self._taken = 0
        """How many decisions have been acted upon."""
        super().__init__(rank, algorithm, rule, layer, steps, starts)

    @property
    def alarm(self) -> int | None:
        times = [super().alarm, None if self._repetition is None else self._repetition.alarm]
        return min((time for time in times if time is not None), default=None)

    def receive(self, now: int, arrivals: Sequence[tuple[Port, Packet]]) -> list[list[Hop]]:
        parts = [(port, *apart(packet)) for port, packet in arrivals]
        judged = super().receive(now, [(port, others) for port, _, others in parts])
        # Before the segments of repetitions are read: a decision of this time begins their repetition.
        self._follow(now)
        for (port, repeated, _), hops in zip(parts, judged, strict=True):
            if repeated:
                hops.extend(self._receive_again(now, port, repeated))
        return judged

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        super().suspects(now, port, suspected)
        self._follow(now)

    def wake(self, now: int) -> None:
        super().wake(now)
        self._follow(now)

    def submit_due(self, now: int) -> None:
        super().submit_due(now)
        if self._repetition is not None:
            with self._naming_failures(self._steps.step_at(now)):
                self._repetition.submit_due(now)

    def skip_to(self, now: int) -> None:
        super().skip_to(now)
        if self._repetition is not None:
            self._repetition.skip_to(now)

    def ready(self, now: int) -> Sequence[PortSegment]:
        again = [] if self._repetition is None else self._repetition.ready(now)
        # The agreement first: it decides whether the repetition is worth sending for.
        return [*super().ready(now), *again]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        repeated, _ = apart((segment,))
        # By the tree of the segment: a repetition has trees of its own.
        if repeated and self._repetition is not None:
            self._repetition.sent(now, port, segment)
        else:
            super().sent(now, port, segment)

    def _follow(self, now: int) -> None:
        """Abandon the collective at the first news; begin the repetition that follows from a decision."""
        layer = self._layer
        if layer.abandoned:
            # Sends of the run that is given up, and the rule's own schedule with them.
            self._agenda.clear()
            self._next = None
            # Otherwise the alarm would be for a step of the first run.
            self._note_due(0)
        if len(layer.decisions) > self._taken:
            self._taken = len(layer.decisions)
            topology, spec = self._algorithm.topology, self._algorithm.spec
            report, names, algorithm = follow(topology, spec, self.rank, layer.decisions[-1])
            self.reports.append(report)
            self._repetition = None
            if names is not None and algorithm is not None and spec.agreement is not None:
                with self._naming_failures(self._steps.step_at(now)):
                    self._repetition = TimedRepetition(names, algorithm, now, spec.agreement.longest)
        if not layer.settled:
            # A decision that has not been taken yet will change the network again.
            self._repetition = None

    def _receive_again(self, now: int, port: Port, packet: Packet) -> list[Hop]:
        """Read segments of repetitions. Segments of another repetition are received, and left unread."""
        current = self._repetition
        ours = () if current is None else tuple(each for each in packet if current.names.expects(port, each))
        hops = [Hop(port, HopOutcome.CONTROL, each) for each in packet if each not in ours]
        if current is not None and ours:
            with self._naming_failures(self._steps.step_at(now)):
                hops += current.receive(now, port, ours)
        return hops
