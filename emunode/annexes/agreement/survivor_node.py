"""A node that agrees with others on what has failed, and then runs the collective again with the nodes that are left.

The rule of the first run is silent from the first news of a suspicion on. At a decision the node builds the rest of the
network, as every other node does, and runs a second node on it: one with a new rank, new ports and an algorithm for any
network. Segments of a repetition cross links with the ranks of the whole network and on trees of their own, so that nothing
that is still under way from an earlier run is taken for it. A repetition begins at the time of the decision, and its steps
last as long as its longest packet: one step in lock-step.
"""

from collections.abc import Sequence

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.annexes.agreement.layer import AgreementLayer, Decision
from emunode.annexes.agreement.survivors import TREES, NetworkPart, RunEnd, largest_part
from emunode.engine.node import Node, port_of
from emunode.engine.protocol_node import ProtocolNode
from emunode.engine.step_times import LOCK_STEP_TIMES, StepTimes
from emunode.model import (
    AGAIN_TREE,
    ALL_RANKS,
    CONTROL_TREE,
    CollectiveSpec,
    Hop,
    HopOutcome,
    Packet,
    Port,
    PortPacket,
    Rank,
    Segment,
    Step,
)
from emunode.protocols.base import ControlKind, PortSegment, Protocol, control_segment
from emunode.topologies.base import Topology


class SurvivorNode(ProtocolNode):
    """One rank of a network, whose collective runs again after every decision."""

    __slots__ = ("_layer", "_repetition", "_taken")

    def __init__(
        self,
        rank: Rank,
        algorithm: Algorithm,
        rule: Rule,
        layer: AgreementLayer,
        now: int,
        times: StepTimes = LOCK_STEP_TIMES,
    ) -> None:
        self._layer = layer
        self._repetition: RepeatedRank | None = None
        self._taken = 0
        """How many decisions have been acted upon."""
        super().__init__(rank, algorithm, rule, layer, now, times)

    @property
    def alarm(self) -> int | None:
        times = [super().alarm, None if self._repetition is None else self._repetition.alarm]
        return min((time for time in times if time is not None), default=None)

    def receive(self, now: int, arrivals: Sequence[PortPacket]) -> list[list[Hop]]:
        # The layer of the agreement has abandoned the first run, and drops data: segments of a repetition go past it.
        parts = [(port, *apart(packet)) for port, packet in arrivals]
        judged = super().receive(now, [(port, others) for port, _, others in parts])
        # Before the segments of repetitions are read: a decision of this time begins their repetition.
        self._follow(now)
        for (port, repeated, _), hops in zip(parts, judged, strict=True):
            ours, stale = self._sorted_out(port, repeated)
            hops.extend(stale)
            if self._repetition is not None and ours:
                hops.extend(*self._repetition.receive(now, [(port, ours)]))
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
            self._repetition.submit_due(now)

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

    def skip_to(self, now: int) -> None:
        super().skip_to(now)
        if self._repetition is not None:
            self._repetition.skip_to(now)

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        parts = [(port, *apart(packet)) for port, packet in inbox]
        # The port model limits each of the two runs by itself. A decision of this step comes before the repeated segments
        # are read: a rank that hung decides as late as this.
        outbox, hops = super().step(step, [(port, others) for port, _, others in parts if others])
        arrived = []
        for port, repeated, _ in parts:
            ours, stale = self._sorted_out(port, repeated)
            hops += stale
            arrived += [(port, ours)] if ours else []
        if self._repetition is not None:
            sent, read = self._repetition.step(step, arrived)
            outbox, hops = _merged(outbox, sent), hops + read
            self.note_due(step, step + 1)
        return outbox, hops

    def _sorted_out(self, port: Port, repeated: Packet) -> tuple[Packet, list[Hop]]:
        """Return the segments of the running repetition; segments of another one are received, and left unread."""
        current = self._repetition
        ours = () if current is None else tuple(each for each in repeated if current.names.expects(port, each))
        return ours, [Hop(port, HopOutcome.CONTROL, each) for each in repeated if each not in ours]

    def _follow(self, now: int) -> None:
        """Abandon the collective at the first news; begin the repetition that follows from a decision."""
        layer = self._layer
        if layer.abandoned:
            # Drop the sends of the abandoned run. The rule's own schedule goes too, or the node would wake for sends that
            # are not wanted any more.
            self._agenda.clear()
            self._next = None
        if len(layer.decisions) > self._taken:
            self._taken = len(layer.decisions)
            topology, spec = self._algorithm.topology, self._algorithm.spec
            report, names, algorithm = follow(topology, spec, self.rank, layer.decisions[-1])
            self.reports.append(report)
            self._repetition = None
            if names is not None and algorithm is not None and spec.agreement is not None:
                with self._naming_failures(self._times.step_at(now)):
                    self._repetition = RepeatedRank(names, algorithm, StepTimes([spec.agreement.longest], now))
        if not layer.settled:
            # A decision that has not been taken yet will change the network again.
            self._repetition = None


def make_agreeing_node(
    rank: Rank, algorithm: Algorithm, rule: Rule, protocol: Protocol, now: int, times: StepTimes = LOCK_STEP_TIMES
) -> ProtocolNode:
    """Return the node of a rank that takes part in an agreement."""
    # An agreement that shrinks the network starts further runs at a rank: that takes a node that can hold two of them.
    if isinstance(protocol, AgreementLayer) and protocol.shrinks:
        return SurvivorNode(rank, algorithm, rule, protocol, now, times)
    return ProtocolNode(rank, algorithm, rule, protocol, now, times)


class Renumbering:
    """The names of ranks, ports and trees of the whole network in one repetition, at one rank."""

    def __init__(self, whole: Topology, part: NetworkPart, algorithm: Algorithm, rank: Rank, number: int) -> None:
        self._ranks = part.ranks
        self._new = {old: new for new, old in enumerate(part.ranks)}
        self._first_tree = AGAIN_TREE + TREES * number
        self.view = LocalView(algorithm.topology, self._new[rank])
        """The view of the rank on the rest of the network."""
        ports = {peer: port for port, peer in whole.adjacent(rank)}
        self.ports: list[Port] = [ports[part.ranks[peer]] for _, peer in algorithm.topology.adjacent(self.view.rank)]
        """By new port, the old one."""

    def expects(self, port: Port, segment: Segment) -> bool:
        """Report whether a segment that arrives by a port can belong to this repetition.

        Segments of ranks that decided differently may not: one of the two decisions will be revised.
        """
        origin, target, tree, _, _ = segment
        mine = self._first_tree <= tree < self._first_tree + TREES and port in self.ports
        return mine and origin in self._new and (target == ALL_RANKS or target in self._new)

    def inwards(self, segment: Segment) -> Segment:
        """Return a segment of the whole network with the names of the repetition."""
        origin, target, tree, number, payload = segment
        new = self._new
        return new[origin], target if target == ALL_RANKS else new[target], tree - self._first_tree, number, payload

    def outwards(self, segment: Segment) -> Segment:
        """Return a segment of the repetition with the names of the whole network."""
        origin, target, tree, number, payload = segment
        old = self._ranks
        return old[origin], target if target == ALL_RANKS else old[target], tree + self._first_tree, number, payload


class RepeatedRank(ProtocolNode):
    """One rank in one repetition, whose ports and ranks are named as in the whole network."""

    __slots__ = ("names",)

    def __init__(self, names: Renumbering, algorithm: Algorithm, times: StepTimes) -> None:
        self.names = names
        # A protocol that passes everything through: a repetition has plain links. Faults go on, and a rank that hung
        # decides later than others, so packets may be late although no rule is wrong.
        super().__init__(names.view.rank, algorithm, algorithm.rule(names.view), Protocol(), times.begins(1), times)

    def receive(self, now: int, arrivals: Sequence[PortPacket]) -> list[list[Hop]]:
        return [self._outwards(hops) for hops in super().receive(now, self._inwards(arrivals))]

    def ready(self, now: int) -> list[PortSegment]:
        names = self.names
        return [(names.ports[port], names.outwards(segment)) for port, segment in super().ready(now)]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        super().sent(now, self.names.ports.index(port), self.names.inwards(segment))

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        # As without a protocol, where sends that wait for their port follow the rule's own sends of the next step.
        outbox, hops = Node.step(self, self._times.step_at(step), self._inwards(inbox))
        names = self.names
        leaving = [(names.ports[port], tuple(map(names.outwards, packet))) for port, packet in outbox]
        return leaving, self._outwards(hops)

    def _inwards(self, arrivals: Sequence[PortPacket]) -> list[PortPacket]:
        names = self.names
        return [(names.ports.index(port), tuple(map(names.inwards, packet))) for port, packet in arrivals]

    def _outwards(self, hops: Sequence[Hop]) -> list[Hop]:
        names = self.names
        return [Hop(names.ports[port], outcome, names.outwards(segment)) for port, outcome, segment in hops]


def follow(
    topology: Topology, spec: CollectiveSpec, rank: Rank, decision: Decision
) -> tuple[Segment, Renumbering | None, Algorithm | None]:
    """Return the consequences of a decision for one rank: its report, and its names and the algorithm of a repetition."""
    # By the cuts that the news lie in, not by the decisions of this rank: a rank that hung takes the last decision
    # only, and has to choose the same trees as all others.
    number = len({news.seen for news in decision.news}) - 1
    part = largest_part(topology, spec, decision.links, number)
    included = rank in part.ranks
    end = part.end if included else RunEnd.EXCLUDED
    report = control_segment(ControlKind.END, rank, ALL_RANKS, end)
    if part.algorithm is None or not included:
        return report, None, None
    return report, Renumbering(topology, part, part.algorithm, rank, number), part.algorithm


def apart(packet: Packet) -> tuple[Packet, Packet]:
    """Return the segments of repetitions in a packet, and all other segments."""
    repeated = tuple(segment for segment in packet if AGAIN_TREE <= segment[2] < CONTROL_TREE)
    return repeated, tuple(segment for segment in packet if segment not in repeated) if repeated else packet


def _merged(outbox: Sequence[PortPacket], more: Sequence[PortPacket]) -> list[PortPacket]:
    """Return one packet for each port, by ascending port."""
    packets = dict(outbox)
    for port, packet in more:
        # One packet per port and step, as everywhere: the segments of the repetition follow the segments of the agreement.
        packets[port] = packets.get(port, ()) + packet
    return sorted(packets.items(), key=port_of)
