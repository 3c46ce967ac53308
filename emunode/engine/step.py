"""The common part of both engines: in a step faults take effect, ranks read and decide, and rows are written.

Engines differ only in how a packet gets from one rank to another.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from emunode.algorithms.base import Algorithm
from emunode.engine.protocol_node import ProtocolNode
from emunode.engine.rank_set import AlteredCopy, RankSet
from emunode.faults.detection import StepDetection
from emunode.faults.kinds import Fault
from emunode.model import HopOutcome, Port, PortPacket, Rank, Step
from emunode.net.wire import encode_losses, encode_rows
from emunode.protocols.base import is_news
from emunode.topologies.base import Topology


class ReversePorts(dict[Rank, Sequence[Port]]):
    """The port at the other end of every port, by rank; looked up in the topology once per rank."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology

    def __missing__(self, rank: Rank) -> Sequence[Port]:
        found = self[rank] = self._topology.reverse_ports(rank)
        return found


# Kept between runs: a campaign has many on one network.
reverse_ports_of = lru_cache(maxsize=1)(ReversePorts)


class StepRunner:
    """The steps of the ranks of one engine, and the records of these steps that the engine has not taken yet."""

    def __init__(self, algorithm: Algorithm, rank_set: RankSet, ranks: Sequence[Rank]) -> None:
        self.rank_set = rank_set
        self.faults = rank_set.faults
        self.rows = bytearray()
        """Journal rows that the engine has not taken yet."""
        self.altered_copies: list[AlteredCopy] = []
        """Altered copies that the engine has not taken yet."""
        self.due: dict[Step, set[Rank]] = {}
        """By step, ranks that send in it without receiving anything first; a rank may no longer be due."""
        self._topology = algorithm.topology
        self.reverse_ports = reverse_ports_of(self._topology)
        self._has_protocol = rank_set.has_protocol
        self._noted: dict[Rank, Step] = {}
        """With a protocol: the step that is noted for each rank, so that a time-out that is called off is forgotten."""
        # Other ranks are created by their first packet, so a broadcast over a million ranks begins with one node. A
        # protocol that waits acts at ranks that have received nothing, and these have to exist.
        for rank in ranks if rank_set.protocol_waits else algorithm.sources:
            if rank in ranks:
                self._note_node(rank, rank_set.node(rank).due)

    def note_due(self, rank: Rank, due: Step | None) -> None:
        """Wake a rank in step `due`, if there is one."""
        if due is not None:
            # Plain form: `self.due.setdefault(due, set()).add(rank)` on a dict of sets.
            if due in self.due:
                self.due[due].add(rank)
            else:
                self.due[due] = {rank}

    def _note_node(self, rank: Rank, due: Step | None) -> None:
        """Wake a rank in the step when its node acts next, and no longer in the step that was noted before."""
        if not self._has_protocol:
            self.note_due(rank, due)
            return
        before = self._noted.pop(rank, None)
        # Unless a delayed packet of the rank crosses in that step: it needs the same call.
        if before is not None and before in self.due and before != self.faults.next_crossing(rank):
            self.due[before].discard(rank)
            if not self.due[before]:
                del self.due[before]
        if due is not None:
            self._noted[rank] = due
            self.note_due(rank, due)

    def forget_due(self, last: Step) -> None:
        """Discard the sends that are scheduled for steps up to `last`."""
        self.due = {step: ranks for step, ranks in self.due.items() if step > last}

    def apply_faults(
        self, step: Step, faults: Sequence[Fault], waking: AbstractSet[Rank], read: Callable[[Rank], object]
    ) -> set[Rank]:
        """Put faults into force and return the ranks that wake. `read` runs the step of a rank that only reads in it."""
        awake, deactivated = self.rank_set.apply_faults(step, faults, waking)
        for rank, reads in deactivated:
            if reads:  # earlier arrivals are still received; the decisions on them are not sent
                read(rank)
            # After the read, because it removes the node of a crashed rank.
            self._note_node(rank, self.rank_set.deactivate(rank))
        for rank in self.rank_set.notified - awake:
            self._note_node(rank, self.rank_set.node(rank).due)
        return awake

    def run(
        self, step: Step, rank: Rank, inbox: list[PortPacket], peers: Sequence[Rank] | Mapping[int, Rank], base: int
    ) -> list[PortPacket]:
        """Let a rank read its inbox and decide; return its packets. `peers[base + port]` is the rank behind a port."""
        # Hot path, once per active rank and step.
        # `or`: creating nodes is rare, and a look-up is cheaper than the call of `node`.
        node = self.rank_set.nodes.get(rank) or self.rank_set.node(rank)
        outbox, hops = node.step(step, inbox)
        if hops:
            # A row has one step, in which its packet is sent and arrives; the packet is read in the next one.
            encode_rows(self.rows, step - 1, rank, peers, base, self.reverse_ports[rank], hops)
            if self.faults.payload_altered:
                self.altered_copies += self.rank_set.altered_copies(step - 1, rank, hops)
        if self._has_protocol:
            assert isinstance(node, ProtocolNode)
            if node.reports:
                # Rows of a packet from the node to itself: no link carries it.
                encode_losses(self.rows, step, rank, 0, rank, tuple(node.reports), HopOutcome.REPORT)
                node.reports.clear()
            self._note_node(rank, node.due)
        elif node.due is not None:
            self.note_due(rank, node.due)
        return outbox

    def look(
        self,
        step: Step,
        inboxes: Mapping[Rank, list[PortPacket]],
        peers: Sequence[Rank] | Mapping[int, Rank],
        base: Callable[[Rank], int],
    ) -> tuple[bytearray, list[AlteredCopy]]:
        """Return the rows and the altered copies of arrivals in `step`, before ranks read them; nothing changes.

        Faults of later steps do not matter to them: a rank that falls silent reads first. A rank that hangs is left out: it
        reads when it runs again.
        """
        rows, altered = bytearray(), []
        for rank in sorted(inboxes):
            if self.faults.silent(rank, step):
                continue
            hops = self.rank_set.look(rank, inboxes[rank])
            encode_rows(rows, step, rank, peers, base(rank), self.reverse_ports[rank], hops)
            if self.faults.payload_altered:
                altered += self.rank_set.altered_copies(step, rank, hops)
        return rows, altered

    def through_faults(self, step: Step, rank: Rank, outbox: Sequence[PortPacket]) -> list[PortPacket]:
        """Return the packets of a rank that cross its ports in a step under the faults in force; losses are recorded."""
        if self.rank_set.detection is not None:
            # Before the faults: a packet that is withheld never reaches its link, so a fault that counts packets does
            # not count it.
            outbox = self._unsuspected(step, rank, outbox, self.rank_set.detection)
        crossings = self.faults.crossings(step, rank, outbox)
        for port, packet, arrives in crossings:
            if not arrives:
                receiver = self._topology.neighbour(rank, port)
                encode_losses(self.rows, step, rank, port, receiver, packet, HopOutcome.LOST)
        # A delayed packet has to wake its sender, or it would never cross.
        self.note_due(rank, self.faults.next_crossing(rank))
        return [(port, packet) for port, packet, arrives in crossings if arrives]

    def _unsuspected(
        self, step: Step, rank: Rank, outbox: Sequence[PortPacket], detection: StepDetection
    ) -> list[PortPacket]:
        """Return the packets that leave by ports that the rank does not suspect; the others are recorded as withheld."""
        leaving = []
        for port, packet in outbox:
            kept = packet
            if detection.suspects(rank, port):
                receiver = self._topology.neighbour(rank, port)
                # A neighbour that only seems dead has to learn that it is given up.
                kept = tuple(filter(is_news, packet))
                withheld = tuple(segment for segment in packet if segment not in kept)
                encode_losses(self.rows, step, rank, port, receiver, withheld, HopOutcome.WITHHELD)
            if kept:
                leaving.append((port, kept))
        return leaving
