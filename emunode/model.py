"""The vocabulary of the emulator: what a node, a link and a step are called. No behaviour lives here.

A *segment* is a plain tuple because every hop of every run makes, sends and reads them by the million; the decoder of
`wire` yields exactly this tuple and a node that relays a segment passes the very same object on.
"""

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import NamedTuple

Rank = int
"""Index of a node, 0..order-1."""
Port = int
"""Index of a link at a node, 0..degree-1."""
Step = int
"""One synchronous round, counted from 1; what is sent in step t can be used by its receiver from step t+1."""

ALL_RANKS: Rank = -1
"""The target of a message that is meant for every rank."""

Segment = tuple[Rank, Rank, int, int, bytes]
"""(origin, target, tree, segment, payload): one numbered piece of what `origin` wants delivered to `target`.

`segment` numbers the pieces of everything one origin sends to one target, over all of its messages; copies of one piece
that travel over several trees differ in `tree` only. All three count from 0.
"""

Packet = tuple[Segment, ...]
"""What crosses one link in one direction in one step (a packet), in the order in which it was handed over."""

ScheduledSend = tuple[Step, Port, Segment | Callable[[], Segment]]
"""A rule's decision: hand a segment to `port` in `step`, never earlier than the next step.

A function in place of the segment is called when the step has come: that is how a rule sends what it will have by then.
"""

PortPacket = tuple[Port, Packet]
"""Seen from a node: what leaves on, or came in by, one of its ports in one step."""


class HopOutcome(IntEnum):
    """What became of one segment on one hop (the journal's `outcome` column)."""

    FIRST = 0
    """Intact, at a rank it is meant for, and the first copy there."""
    DUPLICATE = 1
    """Intact, at a rank it is meant for, which had a copy already."""
    RELAY = 2
    """Intact, at a rank that only passes it on."""
    LOST = 3
    """Sent, and never arrived: the link or the receiver was down, or a fault took it."""
    CORRUPT = 4
    """Arrived with other bytes than its origin sent."""


class Hop(NamedTuple):
    """One arrival or loss as the node that saw it tells it: the journal row without the sender's name."""

    port: Port
    outcome: HopOutcome
    segment: Segment


class PortModel(StrEnum):
    """How many ports a node may use in one step."""

    ALL_PORT = "all-port"
    """Every port, both directions (n-port, multiple link availability)."""
    ONE_PORT = "one-port"
    """At most one send and one receive, ports may differ (single link availability)."""
    EXCHANGE = "exchange"
    """One neighbour, both ways (Johnsson and Ho's one-port)."""
    SEND_OR_RECEIVE = "send-or-receive"
    """One port in one direction."""


class Duplex(StrEnum):
    """Whether one link may carry packets both ways in one step."""

    FULL = "full"
    HALF = "half"


class FaultKnowledge(StrEnum):
    """Who knows what is broken."""

    NONE = "none"
    """Nobody, as in the papers."""
    NEIGHBOURS = "neighbours"
    """Every rank knows which of its own links carry nothing and which of its neighbours are silent."""
    ALL = "all"
    """And an algorithm that can use it knows all that is broken in step 1."""


class Collective(StrEnum):
    """The collective operations."""

    BROADCAST = "broadcast"
    SCATTER = "scatter"
    GATHER = "gather"
    REDUCE = "reduce"
    ALLGATHER = "allgather"
    ALLTOALL = "alltoall"


class CollectiveSpec(NamedTuple):
    """Everything about a run that a rank may know; every host of a run is given the same one."""

    topology: str
    """Canonical name of the network, such as `star:5`."""
    collective: Collective
    algorithm: str
    source: Rank
    """The rank of the one-to-all and all-to-one collectives; 0 where every rank is a source."""
    port_model: PortModel = PortModel.ALL_PORT
    duplex: Duplex = Duplex.FULL
    message_bytes: int = 64
    messages: int = 1
    """Messages for each (source, target) pair of the collective."""
    segments: int = 1
    """Pieces of a message on each tree that carries pieces of it."""
    redundancy: int = 1
    """Number of trees that carry each message."""
    seed: int = 0
    packet_limit: int = 0
    """Most bytes that one start-up covers, B of the papers; 0: no limit."""
    knowledge: FaultKnowledge = FaultKnowledge.NONE
    """What ranks know of faults."""
    broken: tuple[tuple[Rank, Port], ...] = ()
    """Where everything is known: (rank, port) of every direction of a link that carries nothing in step 1."""
