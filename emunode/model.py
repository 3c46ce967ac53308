"""The data types that all layers share: ranks, ports, steps, segments, collectives.

A *segment* is a plain tuple because runs create, send and read segments by the million. The decoder of `wire` yields
exactly this tuple, and a node that relays a segment passes on the same object.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, Final, NamedTuple

Rank = int
"""Index of a node, 0..order-1."""
Port = int
"""Index of a link at a node, 0..degree-1."""
Step = int
"""One synchronous round, counted from 1.

A packet that is sent in step t can be used by its receiver from step t+1 on.
"""

ALL_RANKS: Rank = -1
"""The target of a message that is meant for every rank."""

ANY_HOST = -1
"""The index of a host that takes any free place."""

OWN_CAPACITY, UNLIMITED, AUTOMATIC = 0, -1, -2
"""Values of `CollectiveSpec.link_capacity` besides numbers: the algorithm's own, no bound, and what its model allows."""

Segment = tuple[Rank, Rank, int, int, bytes]
"""(origin, target, tree, segment, payload): one numbered part of the messages from `origin` to `target`.

`segment` numbers all parts of all messages from one origin to one target. Copies of a segment that travel over several
trees differ in `tree` only. Ranks, trees and segments count from 0.
"""


class Bounds(NamedTuple):
    """The integers that a field of a record may have when it comes over the wire; part of the annotation."""

    least: int = 0
    most: int = 2**31 - 1


Positive = Annotated[int, Bounds(1)]
Nanoseconds = Annotated[int, Bounds(1, 2**63 - 1)]
"""A time, or a number of steps in lock-step; at least 1."""

CONTROL_TREE: Final = 2**15 - 256
"""The first of the trees that stand for control segments between neighbours.

The tree of a control segment is this number plus the number of its kind. Control segments belong to no message.
"""
AGAIN_TREE: Final = 2**14
"""The first of the trees of collectives that survivors run again.

The trees of other runs have lower numbers.
"""

Packet = tuple[Segment, ...]
"""The segments that cross one link in one direction in one step, in the order of the rule."""

ScheduledSend = tuple[Step, Port, Segment | Callable[[], Segment]]
"""A rule's decision to send a segment over `port` in `step`, the next step or a later one.

A function in place of the segment is called in that step, so that a rule can announce data that it does not have yet.
"""

PortPacket = tuple[Port, Packet]
"""A packet that leaves or arrives by one port of a node in one step."""
StepPort = tuple[Step, Port]
"""When and where a packet leaves its node."""


class HopOutcome(IntEnum):
    """The outcome of one segment on one hop (the journal's `outcome` column)."""

    FIRST = 0
    """Intact, at a target, and the first copy there."""
    DUPLICATE = 1
    """Intact, at a target that already had a copy."""
    RELAY = 2
    """Intact, at a rank that only forwards it."""
    LOST = 3
    """Sent but not received: the link or the receiver was down, or a fault dropped it."""
    CORRUPT = 4
    """Received with different bytes than its origin sent."""
    CONTROL = 5
    """A control segment of a protocol, such as an acknowledgement; received."""
    WITHHELD = 6
    """Not sent, since the sender suspects the neighbour behind the port."""
    REPORT = 7
    """Not sent: a decision of a node. Its receiver is the node itself."""


class Hop(NamedTuple):
    """One arrival or loss as its observer reports it.

    It is a journal row without the sender.
    """

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
    """How much the nodes know about faults."""

    NONE = "none"
    """Nothing, as in the papers."""
    NEIGHBOURS = "neighbours"
    """Every rank knows its own links that are down and its silent neighbours."""
    DETECT = "detect"
    """Every rank suspects neighbours that it has not heard for some steps."""
    ALL = "all"
    """In addition, algorithms that can use it know every fault in force in step 1."""


class Collective(StrEnum):
    """The collective operations."""

    BROADCAST = "broadcast"
    SCATTER = "scatter"
    GATHER = "gather"
    REDUCE = "reduce"
    ALLGATHER = "allgather"
    ALLTOALL = "alltoall"
    ALLREDUCE = "allreduce"
    """Every rank receives the fold of all contributions. It comes in one block for each rank, or in one for all."""
    REDUCE_SCATTER = "reduce-scatter"
    """Every rank receives the fold of all contributions to its block."""
    UNICAST = "unicast"
    """One message from the source to one target, or one from every rank to its target under a permutation."""
    MESSAGES = "messages"
    """Messages between neighbours from a schedule file, each with a size of its own."""


ROOTLESS: Final = frozenset(
    {
        Collective.ALLGATHER, Collective.ALLTOALL, Collective.ALLREDUCE, Collective.REDUCE_SCATTER, Collective.MESSAGES,
    }
)  # fmt: skip
"""The collectives without a root: every rank is a source."""
PERSONALISED: Final = frozenset(
    {Collective.SCATTER, Collective.GATHER, Collective.ALLTOALL, Collective.UNICAST, Collective.MESSAGES}
)
"""The collectives whose messages have one origin and one target each."""
VECTOR: Final = frozenset({Collective.ALLREDUCE, Collective.REDUCE_SCATTER})
"""Collectives with a vector from every rank; algorithms may cut the vector into one block for each rank."""
FOLDING: Final = frozenset({Collective.REDUCE, Collective.REDUCE_SCATTER, Collective.ALLREDUCE})
"""The collectives that fold contributions of all ranks.

A segment with a target is then a *partial result*: its origin is the rank that folded it, and its target receives the
result. A segment for all ranks is a finished result, and its origin is the rank that owns it. What `rank` contributes to
segment number `segment` of the block of `target` is the payload of (rank, target, segment).
"""


class Detection(NamedTuple):
    """How ranks detect faults with `FaultKnowledge.DETECT`."""

    after: Positive
    """Intervals of silence before a port is suspected."""
    doubling: bool = False
    """Whether a port that was suspected wrongly is suspected after twice as many intervals from then on."""
    interval: Nanoseconds = 1
    """The time between two signs of life. In lock-step it is one step, under the timed clock nanoseconds."""


class Agreement(NamedTuple):
    """How ranks agree on the links and neighbours that they suspect."""

    steps: Positive
    """Rounds until the news of a suspicion are at every rank that can be reached. In lock-step a round is a step."""
    shrink: bool = False
    """Whether ranks abandon the collective at the first news, and run it again on the rest of the network."""
    round: Nanoseconds = 1
    """The time that news take to cross a link: one step, or nanoseconds under the timed clock."""
    longest: Nanoseconds = 1
    """The longest packet of a repetition: one step, or nanoseconds under the timed clock."""


class ReliableLinks(NamedTuple):
    """How links acknowledge and send again.

    Times are in steps, and under the timed clock in nanoseconds.
    """

    retransmit_after: Nanoseconds
    """How long the sender waits for an acknowledgement."""
    attempts: Positive
    """How often it sends a segment at most."""
    window: Positive = 1
    """How many segments of a port may be unacknowledged."""
    back_off: bool = False
    """Whether each time-out of a segment is twice the one before."""


class Repair(NamedTuple):
    """How nodes get segments that faults have kept from them."""

    rule: str
    """The name of the rule."""
    after: int = 1
    """Steps from the expected arrival of a packet to the first request for it. 0 if nodes never ask."""
    heal_step: Step = 0
    """The step from which on nothing is broken; 0 if it is not known.

    Nodes ask in rounds until a round has begun in that step or later.
    """
    heal_time: int = 0
    """The same as `heal_step`, as a time in nanoseconds under the timed clock."""

    @property
    def heals(self) -> bool:
        """Whether nodes know when nothing is broken any more."""
        return bool(self.heal_step or self.heal_time)


class OptionValue(NamedTuple):
    """The value of an option that a feature or a plug-in adds to scenarios."""

    name: str
    value: int | float | bool | str


class NumberType(StrEnum):
    """The types of real numbers that ranks contribute."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


MOST_ELEMENTS: Final = 2**24
"""The most real numbers of one rank. The generator numbers elements with 24 bits."""
MOST_LEAVES: Final = 4096
"""The most contributions of all ranks together, where ranks have several."""
MOST_DATA: Final = 2**36
"""The most bytes of the numbers that a user gives, of all ranks together.

The bound holds however much memory there is.
"""
PART_NAME_BYTES: Final = 4
"""Bytes that name a part of a partial result in the fixed order."""
NUMBER_BYTES: Final = {
    NumberType.FLOAT64: 8,
    NumberType.FLOAT32: 4,
    NumberType.BFLOAT16: 2,
    NumberType.FLOAT16: 2,
}
"""Bytes of one number of each type."""


class Rounding(StrEnum):
    """When a sum is rounded to the type of the contributions."""

    EACH = "each"
    """After every addition; partial results travel in the type."""
    END = "end"
    """Once, at the end: all additions are float32, and partial results travel as float32."""


class EvenParts(NamedTuple):
    """Elements cut into parts that differ by at most one element.

    The longer parts come first.
    """

    elements: int
    parts: int
    element_bytes: int = 1

    @property
    def longer(self) -> int:
        """How many parts are one element longer than the others.

        0 if all are equal.
        """
        return self.elements % self.parts

    @property
    def longest(self) -> int:
        """Bytes of the longest part."""
        return -(-self.elements // self.parts) * self.element_bytes

    @property
    def shortest(self) -> int:
        """Bytes of the shortest part."""
        return self.elements // self.parts * self.element_bytes

    def size(self, place: int) -> int:
        """Return the bytes of the part at `place`."""
        return self.longest if place < self.longer else self.shortest

    def start(self, place: int) -> int:
        """Return the elements before the part at `place`."""
        return place * (self.elements // self.parts) + min(place, self.longer)


class NumberSource(StrEnum):
    """The origin of the real numbers that ranks contribute."""

    GENERATED = "generated"
    """A generator by seed, rank and element."""
    PROBE = "probe"
    """Numbers whose sums reveal the order of the additions."""
    DATA = "data"
    """Numbers that the user gives."""


class RealNumbers(NamedTuple):
    """The real numbers that ranks contribute where payloads are not plain bytes."""

    type: NumberType
    rounding: Rounding = Rounding.EACH
    source: NumberSource = NumberSource.GENERATED
    data: bytes = b""
    """The user's numbers in little-endian storage.

    All elements of the first rank that owns data come first, then all of the next one. A process that holds them as an
    array has a view of it here.
    """
    fixed_order: bool = False
    """Whether one fold tree serves all chunks, and partial results travel in parts, by `annexes.numbers.fixed_order`."""
    leaves: int = 0
    """The number of contributions, or 0 if each rank that owns data has one.

    Contributions are shared out to these ranks in runs of neighbours. With 0, they are numbered by rank.
    """

    @property
    def option(self) -> str:
        """The value of the option `values`."""
        if self.source is not NumberSource.PROBE:
            return str(self.type)
        return "probe" if self.type is NumberType.FLOAT32 else f"probe-{self.type}"

    def contributions(self, ranks: Sequence[Rank]) -> Sequence[int]:
        """Return the contributions by name, ascending, if these ranks own data."""
        return range(self.leaves) if self.leaves else ranks

    def contributions_of(self, rank: Rank, ranks: Sequence[Rank]) -> Sequence[int]:
        """Return the names of the contributions of a rank.

        Of L contributions on P ranks, each of the first L mod P ranks has one more than the others.
        """
        if not self.leaves:
            return (rank,)
        place, shared = ranks.index(rank), EvenParts(self.leaves, len(ranks))
        return range(shared.start(place), shared.start(place + 1))

    @property
    def sent_bytes(self) -> int:
        """Bytes of one number in a message."""
        return NUMBER_BYTES[NumberType.FLOAT32 if self.rounding is Rounding.END else self.type]


class CollectiveSpec(NamedTuple):
    """All parameters of a run that a rank may know.

    Every host of a run receives the same ones. A field with the name of an option of a scenario takes its value, unless
    the plan computes another one.
    """

    topology: str
    """Canonical name of the network, such as `star:5`."""
    collective: Collective
    algorithm: str
    source: Rank
    """The rank of the one-to-all and all-to-one collectives. 0 where every rank is a source."""
    port_model: PortModel = PortModel.ALL_PORT
    duplex: Duplex = Duplex.FULL
    message_bytes: int = 64
    """Size of one message. Where the vector of each rank is cut into blocks, size of the longest block."""
    messages: Positive = 1
    """Messages for each (source, target) pair of the collective."""
    segments: Positive = 1
    """Segments per message on each tree that carries a part of it."""
    redundancy: Positive = 1
    """Number of trees that carry each message."""
    seed: Annotated[int, Bounds(-(2**63), 2**63 - 1)] = 0
    packet_limit: int = 0
    """The most bytes per start-up, B of the papers. 0 for no limit."""
    knowledge: FaultKnowledge = FaultKnowledge.NONE
    broken: tuple[tuple[Rank, Port], ...] = ()
    """With `FaultKnowledge.ALL`: (rank, port) of every direction of a link that is down in step 1."""
    target: Annotated[Rank, Bounds(ALL_RANKS)] = ALL_RANKS
    """The target of a unicast. ALL_RANKS in other collectives, and with a permutation."""
    permutation: tuple[Rank, ...] = ()
    """Of a unicast by permutation: the target of each rank's message, by rank.

    A rank that sends nothing has itself as target. Empty if only one rank sends.
    """
    program: str = ""
    """The command line of the program that plays each rank. Empty unless the algorithm is `program`."""
    schedule: str | None = None
    """The hops of a schedule file as text. None unless the algorithm is `schedule`."""
    trees: str | None = None
    """Spanning trees of a file as text. None unless the algorithm is `trees`."""
    program_deadline: float = 5.0
    """How long the program may take to answer a line, in seconds."""
    reliable: ReliableLinks | None = None
    """How links are made reliable; None if they are not."""
    link_capacity: Annotated[int, Bounds(AUTOMATIC)] = OWN_CAPACITY
    """Most segments in one packet, or OWN_CAPACITY, UNLIMITED, AUTOMATIC."""
    detection: Detection | None = None
    """How ranks detect faults; None if they do not."""
    repair: Repair | None = None
    """How ranks repair the collective; None if they do not."""
    agreement: Agreement | None = None
    """How ranks agree on their suspicions; None if they do not."""
    blocks: Positive = 1
    """Blocks of the vector of each rank: one for each rank that owns data, or 1 if it stays whole."""
    short_blocks: int = 0
    """How many of the last blocks are one element shorter than `message_bytes`."""
    settings: tuple[OptionValue, ...] = ()
    """The values of added options that are for hosts."""
    numbers: RealNumbers | None = None
    """The real numbers that ranks contribute; None for bytes that are folded by exclusive or."""

    def setting(self, name: str) -> int | float | bool | str | None:
        """Return the value of an added option.

        None if it has no value, or is not for hosts.
        """
        return next((value for each, value in self.settings if each == name), None)

    @property
    def element_bytes(self) -> int:
        """Bytes that are never cut apart: the size of one number, else 1."""
        return 1 if self.numbers is None else self.numbers.sent_bytes

    @property
    def own_data(self) -> bytes:
        """The numbers that the user gives, of all ranks; empty for other contributions."""
        return b"" if self.numbers is None else self.numbers.data

    @property
    def lacks_data(self) -> bool:
        """Whether the numbers that the user gives are missing here.

        They cross the wire by themselves.
        """
        return self.numbers is not None and self.numbers.source is NumberSource.DATA and not self.numbers.data

    def with_data(self, data: bytes) -> "CollectiveSpec":
        """Return the parameters of the same run with these numbers of the user, or without any."""
        return self if self.numbers is None else self._replace(numbers=self.numbers._replace(data=data))

    @property
    def contributed_bytes(self) -> int:
        """Size of one contribution of a rank to the collective: the vector, the block or the message."""
        return self.blocks * self.message_bytes - self.short_blocks * self.element_bytes

    @property
    def least_message_bytes(self) -> int:
        """Size of the shortest message, in bytes."""
        return self.message_bytes - (self.short_blocks > 0) * self.element_bytes

    @property
    def most_parts(self) -> int:
        """The largest number of parts that every message can be cut into.

        That is the number of elements of the shortest message.
        """
        return self.least_message_bytes // self.element_bytes

    def cut(self, parts: int) -> EvenParts:
        """Return how a message is cut into parts.

        Where blocks differ, this is about one of the longest blocks.
        """
        return EvenParts(self.message_bytes // self.element_bytes, parts, self.element_bytes)

    def least(self, size: int, lanes: int) -> int:
        """Return the fewest bytes of the fullest of some lanes that share `size` bytes of whole elements."""
        return EvenParts(size // self.element_bytes, lanes, self.element_bytes).longest

    @property
    def keeps_results(self) -> bool:
        """Whether ranks keep their results to the end.

        They do so for numbers. Bytes are judged on arrival.
        """
        return self.numbers is not None

    @property
    def common_target(self) -> Rank:
        """The target of every message in a broadcast, allgather, gather or reduce.

        It is one rank, or all ranks.
        """
        return self.source if self.collective in (Collective.GATHER, Collective.REDUCE) else ALL_RANKS

    def destination(self, origin: Rank) -> Rank:
        """Return the target of the messages of `origin` in a unicast."""
        return self.permutation[origin] if self.permutation else self.target

    def sources_live(self, crashed: Collection[Rank]) -> bool:
        """Report whether the collective has no root, or a root that does not crash."""
        if self.collective in ROOTLESS or self.permutation:
            return True
        # The target of a unicast, ALL_RANKS in other collectives.
        return self.source not in crashed and self.target not in crashed

    @property
    def knows_neighbours(self) -> bool:
        """Whether a node knows from the beginning its neighbours and links that fail."""
        return self.knowledge in (FaultKnowledge.NEIGHBOURS, FaultKnowledge.ALL)

    @property
    def asks(self) -> bool:
        """Whether nodes ask their neighbours for overdue segments."""
        return self.repair is not None and self.repair.after > 0

    @property
    def has_control(self) -> bool:
        """Whether the journal has rows that carry no data.

        These are control segments and withheld packets.
        """
        return self.reliable is not None or self.detection is not None or self.asks

    def without_protocols(self) -> "CollectiveSpec":
        """Return the parameters of the same run without protocols of the nodes.

        Trees that a repair has planned stay.
        """
        planned = None if self.asks else self.repair
        return self._replace(reliable=None, detection=None, repair=planned, agreement=None)


class Plugin(NamedTuple):
    """A plug-in as it is sent to hosts.

    It is the text of a file, or the name of an installed module.
    """

    name: str
    """The name of the file, such as `mine.py`, or of the module, such as `package.module`."""
    sha256: str
    """Digest of the file, or of all source files of the module's top-level package."""
    text: str = ""
    """The text of the file; empty for an installed module, since it is not sent."""
