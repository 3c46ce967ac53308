"""The in-memory engine: all nodes of a network in one loop, no sockets, the same journal.

It is a product (large networks, campaigns) and the oracle against which the sockets are held. A node exists from the
moment something happens at it, and a packet is handed over as the very tuple its sender made: so it must be plain numbers
and bytes, through which nobody can reach into anybody else.
"""

from collections.abc import Sequence

from emunode.algorithms.base import Algorithm
from emunode.engine.rank_set import AlteredCopy, RankSet
from emunode.errors import RuleError
from emunode.faults.kinds import Fault
from emunode.model import HopOutcome, Port, PortPacket, Rank, Step
from emunode.net.wire import encode_losses, encode_rows

Arrived = dict[Rank, tuple[list[PortPacket], dict[Port, Rank]]]
"""What came to each rank: its packets, and by port who sent them."""
NOTHING: tuple[list[PortPacket], dict[Port, Rank]] = ([], {})


class MemoryEngine:
    """The nodes of one run. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(self, algorithm: Algorithm, lives: RankSet | None = None) -> None:
        self._topology = algorithm.topology
        self._reverse = [self._topology.reverse_port(port) for port in range(self._topology.degree)]
        self._lives = lives or RankSet(algorithm, self._topology.ranks())
        self._faults = self._lives.faults
        self._troubled = False
        self._arrived: Arrived = {}
        self._due: dict[Step, list[Rank]] = {}
        self._abandoned = False
        self.altered_copies: list[AlteredCopy] = []
        """Altered copies that arrived since the owner last emptied it."""
        for rank in algorithm.sources:
            self._note_due(rank, self._lives.node(rank).due)

    @property
    def busy(self) -> bool:
        """Whether anything was sent that is not read yet, or will be sent later."""
        return bool(self._arrived or self._due)

    def abandon(self) -> None:
        """Leave the step that another thread is in; what it returns is not whole, and there must be no other."""
        self._abandoned = True

    def step(self, step: Step, faults: Sequence[Fault] = ()) -> bytearray:
        """Open `step` with these new faults; journal rows of the arrivals of step - 1 and of the losses of `step`."""
        rows = bytearray()
        arrived, self._arrived = self._arrived, {}
        waking = arrived.keys() | self._due.pop(step, ())
        self._troubled |= bool(faults)
        if self._troubled:
            waking, falling = self._lives.apply_faults(step, faults, waking)
            for rank, reads in falling:
                if reads:
                    self._run(rows, step, [rank], arrived, mute=True)
                self._note_due(rank, self._lives.deactivate(rank))
        self._run(rows, step, sorted(waking), arrived)
        return rows

    def _run(self, rows: bytearray, step: Step, ranks: Sequence[Rank], arrived: Arrived, *, mute: bool = False) -> None:
        """One step of these ranks: what they read is written down, and what they send is sent unless they are `mute`."""
        nodes, reverse, due = self._lives.nodes, self._reverse, self._due
        send = self._send_despite if self._faults.needs_filter else self._send
        payload_altered = self._faults.payload_altered
        for rank in ranks:
            if self._abandoned:
                break
            inbox, senders = arrived.get(rank, NOTHING)
            node = nodes.get(rank) or self._lives.node(rank)
            outbox, hops = node.step(step, inbox)
            if hops:
                encode_rows(rows, step - 1, rank, senders, 0, reverse, hops)
                if payload_altered:
                    self.altered_copies += self._lives.altered_copies(step - 1, rank, hops)
            for _, segments in outbox:
                for segment in segments:
                    if segment.__class__ is not tuple or segment[4].__class__ is not bytes:
                        raise RuleError(f"rank {rank}, step {step}: {segment!r} is no plain tuple of numbers and bytes")
            if node.due is not None:
                due.setdefault(node.due, []).append(rank)
            if not mute:
                send(rows, step, rank, outbox)

    def _send(self, rows: bytearray, step: Step, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """Hand packets to their receivers; what is for the crashed is lost."""
        crashed, boxes, reverse, neighbour = (
            self._faults.crashed,
            self._arrived,
            self._reverse,
            self._topology.neighbour,
        )
        for port, segments in outbox:
            receiver = neighbour(rank, port)
            if crashed and receiver in crashed:
                encode_losses(rows, step, rank, port, receiver, segments, HopOutcome.LOST)
                continue
            box = boxes.get(receiver)
            if box is None:
                box = boxes[receiver] = ([], {})
            there = reverse[port]
            box[0].append((there, segments))
            box[1][there] = rank

    def _send_despite(self, rows: bytearray, step: Step, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """The same through faults of any kind."""
        crossings = self._faults.crossings(step, rank, outbox)
        for port, segments, arrives in crossings:
            if not arrives:
                encode_losses(rows, step, rank, port, self._topology.neighbour(rank, port), segments, HopOutcome.LOST)
        self._send(rows, step, rank, [(port, segments) for port, segments, arrives in crossings if arrives])
        self._note_due(rank, self._faults.next_crossing(rank))

    def _note_due(self, rank: Rank, due: Step | None) -> None:
        if due is not None:
            self._due.setdefault(due, []).append(rank)
