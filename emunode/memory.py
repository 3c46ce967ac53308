"""The in-memory engine: all nodes of a network in one loop, no sockets, the same journal.

It is a product (large networks, campaigns) and the oracle against which the sockets are held. A node exists from the
moment something happens at it, and a packet is handed over as the very tuple its sender made: so it must be plain numbers
and bytes, through which nobody can reach into anybody else.
"""

from collections.abc import Iterable

from emunode.collective.base import Algorithm, LocalView
from emunode.errors import RuleError
from emunode.fault import Fault, Faults
from emunode.model import Outcome, Packet, Port, Rank, Step
from emunode.node import Node
from emunode.wire import encode_losses, encode_rows


class MemoryNetwork:
    """The nodes of one run. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._topology = algorithm.topology
        self._reverse = [self._topology.reverse_port(port) for port in range(self._topology.degree)]
        self._faults = Faults()
        self._nodes: dict[Rank, Node] = {}
        self._arrived: dict[Rank, tuple[list[Packet], dict[Port, Rank]]] = {}
        self._due: dict[Step, list[Rank]] = {}
        self._abandoned = False
        for rank in algorithm.sources:
            self._remember(self._node(rank))

    @property
    def busy(self) -> bool:
        """Whether anything was sent that is not read yet, or will be sent later."""
        return bool(self._arrived or self._due)

    def abandon(self) -> None:
        """Leave the step that another thread is in; what it returns is not whole, and there must be no other."""
        self._abandoned = True

    def step(self, step: Step, faults: Iterable[Fault] = ()) -> bytearray:
        """Open `step` with these new faults; journal rows of the arrivals of step - 1 and of the losses of `step`."""
        rows = bytearray()
        self._faults.apply(faults)
        crashed = self._faults.crashed
        arrived, self._arrived = self._arrived, {}
        waking = sorted(arrived.keys() | self._due.pop(step, ()))
        for rank in waking:
            if self._abandoned:
                break
            inbox, senders = arrived.get(rank, ([], {}))
            node = self._node(rank)
            outbox, hops = node.step(step, inbox)
            encode_rows(rows, step - 1, rank, senders, 0, self._reverse, hops)
            if rank in crashed:
                self._nodes[rank].due = None
                continue
            self._remember(node)
            for port, segments in outbox:
                for segment in segments:
                    if segment.__class__ is not tuple or segment[4].__class__ is not bytes:
                        raise RuleError(f"rank {rank}, step {step}: {segment!r} is no plain tuple of numbers and bytes")
                receiver = self._topology.neighbour(rank, port)
                if crashed and self._faults.loses(rank, receiver):
                    encode_losses(rows, step, rank, port, receiver, segments, Outcome.LOST)
                    continue
                box = self._arrived.get(receiver)
                if box is None:
                    box = self._arrived[receiver] = ([], {})
                there = self._reverse[port]
                box[0].append((there, segments))
                box[1][there] = rank
        return rows

    def _node(self, rank: Rank) -> Node:
        node = self._nodes.get(rank)
        if node is None:
            node = self._nodes[rank] = Node(
                rank, self._algorithm, self._algorithm.rule(LocalView(self._topology, rank))
            )
        return node

    def _remember(self, node: Node) -> None:
        if node.due is not None:
            self._due.setdefault(node.due, []).append(node.rank)
