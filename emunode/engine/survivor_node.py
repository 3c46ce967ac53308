"""A node that agrees with others on what has failed, and then runs the collective again with the nodes that are left.

The rule of the first run is silent from the first news of a suspicion on. At a decision the node builds the rest of the
network, as every other node does, and runs a second node on it: one with a new rank, new ports and an algorithm for any
network. Segments of a repetition cross links with the ranks of the whole network and on trees of their own, so that nothing
that is still under way from an earlier run is taken for it.
"""

from collections.abc import Sequence

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.engine.node import Node, port_of
from emunode.engine.protocol_node import ProtocolNode
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
from emunode.protocols.agreement import AgreementLayer, Decision
from emunode.protocols.base import ControlKind, control_segment
from emunode.protocols.survivors import TREES, NetworkPart, RunEnd, largest_part
from emunode.topologies.base import Topology


class SurvivorNode(ProtocolNode):
    """One rank of a network, whose collective runs again after every decision."""

    __slots__ = ("_layer", "_repetition", "_taken")

    def __init__(self, rank: Rank, algorithm: Algorithm, rule: Rule, layer: AgreementLayer, now: Step) -> None:
        self._layer = layer
        self._repetition: RepeatedRank | None = None
        self._taken = 0
        """How many decisions have been acted upon."""
        super().__init__(rank, algorithm, rule, layer, now)

    def step(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        # The layer of the agreement has abandoned the first run, and drops data: segments of a repetition go past it.
        repeated, others = _split(inbox)
        outbox, hops = super().step(step, others)
        layer = self._layer
        if layer.abandoned:
            self._agenda.clear()
            # The rule's own schedule too, or `due` would wake the node for sends that are not wanted any more.
            self._next = None
        if len(layer.decisions) > self._taken:
            self._taken = len(layer.decisions)
            self._repetition = self._repeat(layer.decisions[-1])
        if not layer.settled:
            # A decision that has not been taken yet will change the network again.
            self._repetition = None
        sent, read = self._step_again(step, repeated)
        # Again: `super().step` has noted a step before the repetition began or ran.
        self._note_due(step + 1, ready=bool(layer.ready(step)))
        return _merged(outbox, sent), hops + read

    def resume(self, step: Step) -> None:
        if self._repetition is not None:
            self._repetition.resume(step)
        super().resume(step)

    def _repeat(self, decision: Decision) -> "RepeatedRank | None":
        """Begin the repetition that follows from a decision, and report it."""
        report, names, algorithm = follow(self._algorithm.topology, self._algorithm.spec, self.rank, decision)
        self.reports.append(report)
        return None if names is None or algorithm is None else RepeatedRank(names, algorithm, decision.step)

    def _step_again(self, step: Step, inbox: list[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        """Return the packets and hops of a step of the repetition. Segments of another repetition are received, and
        left unread.
        """
        current = self._repetition
        stale, arrived = [], []
        for port, packet in inbox:
            ours = (
                () if current is None else tuple(segment for segment in packet if current.names.expects(port, segment))
            )
            stale += [Hop(port, HopOutcome.CONTROL, segment) for segment in packet if segment not in ours]
            if ours:
                arrived.append((port, ours))
        if current is None:
            return [], stale
        outbox, hops = current.step(step, arrived)
        return outbox, stale + hops

    def _note_due(self, least: Step, *, ready: bool = False) -> None:
        super()._note_due(least, ready=ready)
        due = None if self._repetition is None else self._repetition.due
        if due is not None and (self.due is None or due < self.due):
            self.due = max(due, least)


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


class RepeatedRank:
    """One rank in one repetition that begins in step `began`. Its ports and ranks are named as in the whole network."""

    def __init__(self, names: Renumbering, algorithm: Algorithm, began: Step) -> None:
        self.names = names
        # Step `began` of the run is step 1 of the repetition.
        self._before = began - 1
        self._node = Node(names.view.rank, algorithm, algorithm.rule(names.view))
        # Faults go on, and a rank that hung decides later than others: packets of a repetition may be late although no
        # rule is wrong.
        self._node.enable_queueing()

    @property
    def due(self) -> Step | None:
        """The next step when it sends without receiving anything first."""
        return None if self._node.due is None else self._node.due + self._before

    def step(self, step: Step, inbox: Sequence[PortPacket]) -> tuple[list[PortPacket], list[Hop]]:
        """Read the packets that arrived in step - 1; return the packets that leave in `step`, and the hops."""
        names, ports = self.names, self.names.ports
        arrived = [(ports.index(port), tuple(map(names.inwards, packet))) for port, packet in inbox]
        outbox, hops = self._node.step(step - self._before, arrived)
        return (
            [(ports[port], tuple(map(names.outwards, packet))) for port, packet in outbox],
            [Hop(ports[port], outcome, names.outwards(segment)) for port, outcome, segment in hops],
        )

    def resume(self, step: Step) -> None:
        """Skip to a step; sends that were due before it are discarded."""
        self._node.resume(step - self._before)


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


def _split(inbox: Sequence[PortPacket]) -> tuple[list[PortPacket], list[PortPacket]]:
    """Return the segments of repetitions in an inbox, and all other segments."""
    kinds: tuple[list[PortPacket], list[PortPacket]] = ([], [])
    for port, packet in inbox:
        for kind, segments in zip(kinds, apart(packet), strict=True):
            if segments:
                kind.append((port, segments))
    return kinds


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
