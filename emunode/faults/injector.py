"""Faults as frozen records, and the one question about them: what becomes of this packet, in this step?

Faults take effect at the beginning of a step, when nothing is in flight, and last to the end of their last step. `Faults`
holds those in force. The engine of the sender asks it for every packet that leaves, so both engines lose, alter, double and
delay the same packets; what is physical (closing connections, stopping or killing a process) is the engine's business and
never changes an answer. Chance is a pure function of (seed, step, rank, port, fault): one packet at most leaves a port in
a step, so that names the packet. Rates 0 and 1 mean never and always.

A new kind of fault is a record in this file: a `NodeFault` or a `LinkFault`, a line in `KINDS`, and for a link what it
does to a `LinkTransit`. Headers are not altered, only payloads: who a piece is from and on which tree it travels is the
emulator's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from hashlib import blake2b, shake_128
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from emunode.errors import FrameError
from emunode.model import Packet, Port, PortPacket, Rank, Segment, Step
from emunode.topologies.base import Topology

FOREVER: Step = 2**31 - 1
"""The last step of what does not end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken from the beginning of `step` on."""

    step: Step

    form: ClassVar[str]
    """How it is written."""
    affects_timing: ClassVar[bool] = True
    """Whether it can make packets late or early for others, so that what its port model forbids has to wait."""
    alters_payload: ClassVar[bool] = False
    """Whether it alters payloads."""
    evidence: ClassVar[tuple[str, ...]]
    """Outcomes of hops by which it is seen."""

    @property
    def end(self) -> Step:
        """The last step in which it is in force."""
        return getattr(self, "last", FOREVER)

    @property
    def breaks(self) -> bool:
        """Whether it breaks anything; what mends, or happens at a rate of 0, does not."""
        return True


@dataclass(frozen=True, slots=True)
class NodeFault(Fault):
    """What is wrong with one rank."""

    rank: Rank

    state: ClassVar[str]
    """What it makes of its rank, in nodes.parquet."""


@dataclass(frozen=True, slots=True)
class Crash(NodeFault):
    """From the beginning of `step` on, `rank` is gone: its connections are reset, its state is lost."""

    form = "crash:LABEL@STEP"
    state = "crashed"
    affects_timing = False
    evidence = ("lost",)


@dataclass(frozen=True, slots=True)
class Hang(NodeFault):
    """From `step` to `last`, `rank` neither reads nor sends; it keeps its state and goes on afterwards."""

    last: Step = FOREVER

    form = "hang:LABEL@STEP[-STEP]"
    state = "hung"
    evidence = ("lost",)


@dataclass(frozen=True, slots=True)
class Recover(NodeFault):
    """At the beginning of `step`, a crashed `rank` is there again, with fresh state and its links up."""

    form = "recover:LABEL@STEP"
    state = "recovered"
    evidence = ("first", "duplicate", "relay", "corrupt")


@dataclass(frozen=True, slots=True)
class Byzantine(NodeFault):
    """From `step` to `last`, `rank` alters what it passes on; all who alter a piece make the same of it."""

    last: Step = FOREVER

    form = "byzantine:LABEL[@STEP[-STEP]]"
    state = "byzantine"
    affects_timing = False
    alters_payload = True
    evidence = ("corrupt",)


class LinkTransit:
    """One packet on its way out of `rank` by `port` in `step`, and what the faults of its link make of it."""

    __slots__ = ("_chance", "_counts", "altered", "copies", "delay", "lost", "segments")

    def __init__(self, segments: Packet, chance: "FaultRandom", counts: dict[str, int]) -> None:
        self.segments = segments
        self._chance = chance
        self._counts = counts
        self.lost = False
        self.copies = 1
        self.delay = 0
        self.altered = False

    def occurs(self, rate: float) -> bool:
        """Whether what has this rate happens to this packet."""
        return self._chance.draw() < rate

    def alter(self) -> None:
        """Alter one byte of every payload, so that it is never what it was."""
        self.altered = True
        self.segments = tuple(self._chance.damaged(segment) for segment in self.segments)

    def number(self) -> int:
        """Which packet this is, counted from 1, of those that left while the fault that acts now was in force."""
        count = self._counts[self._chance.name] = self._counts.get(self._chance.name, 0) + 1
        return count


@dataclass(frozen=True, slots=True)
class LinkFault(Fault):
    """What is wrong with one direction of a link: that in which `sender` sends by `port`."""

    sender: Rank
    port: Port

    def act(self, passage: LinkTransit) -> None:
        """Do to a packet what the fault does; nothing, for those that concern the connection."""


@dataclass(frozen=True, slots=True)
class Down(LinkFault):
    """From `step` to `last`, nothing crosses; a link that is down both ways is closed."""

    last: Step = FOREVER

    form = "down:A~B@STEP[-STEP]"
    evidence = ("lost",)


@dataclass(frozen=True, slots=True)
class Up(LinkFault):
    """At the beginning of `step`, what was down is up again."""

    form = "up:A~B@STEP"
    evidence = ("first", "duplicate", "relay", "corrupt")

    @property
    def breaks(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class RatedFault(LinkFault):
    """What happens to a packet with a probability of `rate`."""

    rate: float
    last: Step = FOREVER

    @property
    def breaks(self) -> bool:
        return self.rate > 0

    def act(self, passage: LinkTransit) -> None:
        if passage.occurs(self.rate):
            self.apply(passage)

    def apply(self, passage: LinkTransit) -> None:
        """Do it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Loss(RatedFault):
    """A packet is lost with a probability of `rate`."""

    form = "loss:A~B:RATE[@STEP[-STEP]]"
    evidence = ("lost",)

    def apply(self, passage: LinkTransit) -> None:
        passage.lost = True


@dataclass(frozen=True, slots=True)
class Corrupt(RatedFault):
    """A packet arrives with other bytes than were sent, with a probability of `rate`."""

    form = "corrupt:A~B:RATE[@STEP[-STEP]]"
    affects_timing = False
    alters_payload = True
    evidence = ("corrupt",)

    def apply(self, passage: LinkTransit) -> None:
        passage.alter()


@dataclass(frozen=True, slots=True)
class Duplicate(RatedFault):
    """A packet arrives twice in its step, with a probability of `rate`."""

    form = "duplicate:A~B:RATE[@STEP[-STEP]]"
    evidence = ("duplicate", "relay", "corrupt")

    def apply(self, passage: LinkTransit) -> None:
        passage.copies *= 2


@dataclass(frozen=True, slots=True)
class Delay(LinkFault):
    """A packet crosses `steps` steps after the one in which it left."""

    steps: int
    last: Step = FOREVER

    form = "delay:A~B:STEPS[@STEP[-STEP]]"
    evidence = ("first", "duplicate", "relay", "corrupt")

    def act(self, passage: LinkTransit) -> None:
        passage.delay += self.steps


@dataclass(frozen=True, slots=True)
class Drop(LinkFault):
    """The packet number `packet` of those that leave from `step` on is lost."""

    packet: int
    last: Step = FOREVER

    form = "drop:A~B:NUMBER[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, passage: LinkTransit) -> None:
        if passage.number() == self.packet:
            passage.lost = True


KINDS: Mapping[str, type[Fault]] = {
    "crash": Crash,
    "hang": Hang,
    "recover": Recover,
    "byzantine": Byzantine,
    "down": Down,
    "up": Up,
    "loss": Loss,
    "corrupt": Corrupt,
    "duplicate": Duplicate,
    "delay": Delay,
    "drop": Drop,
}
"""Every kind of fault, by the name it has in scenarios, journals and on the wire."""
_NAMES: Mapping[type[Fault], str] = {record: kind for kind, record in KINDS.items()}
_ORDER: Mapping[type[Fault], int] = {record: number for number, record in enumerate(KINDS.values())}


def kind_of(fault: Fault) -> str:
    """The name of a fault's kind."""
    return _NAMES[type(fault)]


def to_record(fault: Fault) -> tuple[object, ...]:
    """A fault as plain values: its kind, then its fields."""
    return (kind_of(fault), *astuple(fault))


def from_record(record: object, topology: Topology) -> Fault:
    """Inverse of `to_record`; FrameError unless it is a fault of a rank or link of `topology`."""
    if not isinstance(record, list | tuple) or not record or record[0] not in KINDS:
        raise FrameError(f"malformed fault {record!r:.200}")
    kind = KINDS[record[0]]
    values = dict(zip(field_names(kind), record[1:], strict=False))
    most = {"rank": topology.order - 1, "sender": topology.order - 1, "port": topology.degree - 1, "rate": 1}
    for name, value in values.items():
        if type(value) is not (float if name == "rate" else int) or not 0 <= value <= most.get(name, FOREVER):
            raise FrameError(f"malformed fault {record!r:.200}: {name} is {value!r:.80}")
    if len(record) != 1 + len(field_names(kind)):
        raise FrameError(f"malformed fault {record!r:.200}: {len(field_names(kind))} fields belong to {record[0]}")
    return kind(**values)


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Faults in the order in which they take effect."""
    return tuple(sorted(faults, key=lambda fault: (fault.step, _ORDER[type(fault)], astuple(fault))))


def field_names(kind: type[Fault]) -> tuple[str, ...]:
    """The fields of a kind of fault, in order."""
    return tuple(field.name for field in fields(kind))


class FaultRandom:
    """What chance does to one packet: draws that depend on nothing but these arguments and the fault that draws.

    `name` is the fault's, set before it acts: a kind, and which of that kind on this link.
    """

    __slots__ = ("_drawn", "_packet", "name")

    def __init__(self, seed: int, step: Step, rank: Rank, port: Port) -> None:
        self._packet = f"{seed}/{step}/{rank}/{port}"
        self._drawn = 0
        self.name = ""

    def _digest(self) -> int:
        self._drawn += 1
        return int.from_bytes(blake2b(f"{self._packet}/{self.name}/{self._drawn}".encode(), digest_size=8).digest())

    def start(self, name: str) -> None:
        """Draw for the fault of this name from now on."""
        self.name, self._drawn = name, 0

    def draw(self) -> float:
        """The next number in [0, 1)."""
        return (self._digest() >> 11) / 2**53

    def damaged(self, segment: Segment) -> Segment:
        """A segment with one byte of its payload changed; an empty payload stays empty."""
        *header, payload = segment
        if not payload:
            return segment
        digest = self._digest()
        damaged = bytearray(payload)
        damaged[digest % len(damaged)] ^= 1 + (digest >> 40) % 255
        return (*header, bytes(damaged))  # type: ignore[return-value]


def forge_segment(seed: int, segment: Segment) -> Segment:
    """A piece as a liar passes it on: other bytes than it got, and as far as can be the same that all liars agreed on."""
    origin, target, tree, index, payload = segment
    if not payload:
        return segment
    name = f"{seed}/lie/{origin}/{target}/{index}".encode()
    other = shake_128(name, usedforsecurity=False).digest(len(payload))
    if other == payload:
        other = other[:-1] + bytes([other[-1] ^ 1])
    return origin, target, tree, index, other


Crossing = tuple[Port, Packet, bool]
"""What crosses a port in a step, and whether it arrives; if it does not, it is lost."""


class Faults:
    """The faults in force, told step by step: call `apply` with those that are due at the beginning of each step.

    `origin_is_author` says whether what a rank sends under its own name is only its own (in a reduce it is a fold of
    others, and a byzantine rank alters it too); `knows` whether ranks know what is broken beside them, and send nothing
    there. Packets that a delay holds back are kept here, by sender.
    """

    def __init__(self, topology: Topology, seed: int, *, origin_is_author: bool = True, knows: bool = False) -> None:
        self.crashed: set[Rank] = set()
        self.needs_filter = False
        """Whether the engine is to ask for `crossings`: once anything but a crash was in force."""
        self.timing_affected = False
        """Whether anything in force now or before may have made a packet late."""
        self.payload_altered = False
        """Whether payloads may have been altered."""
        self.ends: set[Step] = set()
        """The first steps after the last ones of faults."""
        self._topology = topology
        self._seed = seed
        self._origin_is_author = origin_is_author
        self._knows = knows
        self._hung: dict[Rank, Step] = {}
        self._byzantine: dict[Rank, Step] = {}
        self._down: dict[tuple[Rank, Port], Step] = {}
        self._links: dict[tuple[Rank, Port], list[tuple[str, LinkFault]]] = {}
        self._counts: dict[tuple[Rank, Port], dict[str, int]] = {}
        self._held: dict[Rank, dict[Step, list[PortPacket]]] = {}

    def apply(self, faults: Iterable[Fault]) -> None:
        """Put faults that are due into force."""
        for fault in faults:
            if isinstance(fault, RatedFault) and not fault.breaks:
                continue
            self.needs_filter |= self._knows or not isinstance(fault, Crash)
            self.timing_affected |= fault.affects_timing
            self.payload_altered |= fault.alters_payload
            self.ends.add(fault.end + 1)
            match fault:
                case Crash(rank=rank):
                    self.crashed.add(rank)
                    self._hung.pop(rank, None)
                    self._held.pop(rank, None)
                case Recover(rank=rank):
                    self.crashed.discard(rank)
                case Hang(rank=rank, last=last):
                    self._hung[rank] = max(last, self._hung.get(rank, 0))
                case Byzantine(rank=rank, last=last):
                    self._byzantine[rank] = max(last, self._byzantine.get(rank, 0))
                case Down(sender=sender, port=port, last=last):
                    self._down[sender, port] = max(last, self._down.get((sender, port), 0))
                case Up(sender=sender, port=port):
                    self._down.pop((sender, port), None)
                case LinkFault(sender=sender, port=port):
                    there = self._links.setdefault((sender, port), [])
                    there.append((f"{kind_of(fault)} {sum(type(fault) is type(other) for _, other in there)}", fault))

    # --- who and what is there -------------------------------------------------------------------------------------

    def silent(self, rank: Rank, step: Step) -> bool:
        """Whether `rank` neither reads nor sends in `step`."""
        return rank in self.crashed or self._hung.get(rank, 0) >= step

    def hung_until(self, rank: Rank) -> Step:
        """The last step for which a rank that hangs does; 0 for others."""
        return self._hung.get(rank, 0)

    def loses(self, sender: Rank, receiver: Rank) -> bool:
        """Whether a packet that leaves now is lost for a crash."""
        return receiver in self.crashed or sender in self.crashed

    def down(self, step: Step, sender: Rank, port: Port) -> bool:
        """Whether nothing crosses that direction of a link in `step`."""
        return self._down.get((sender, port), 0) >= step

    def parted(self, step: Step, rank: Rank, port: Port) -> bool:
        """Whether the connection of a link is closed in `step`: an end has crashed, or both directions are down."""
        peer = self._topology.neighbour(rank, port)
        if self.loses(rank, peer):
            return True
        return self.down(step, rank, port) and self.down(step, peer, self._topology.reverse_port(port))

    def dead(self, step: Step, sender: Rank, port: Port) -> bool:
        """Whether nothing that `sender` sends by `port` in `step` can arrive."""
        return self.silent(self._topology.neighbour(sender, port), step) or self.down(step, sender, port)

    def live_ports(self, step: Step, rank: Rank) -> tuple[Port, ...]:
        """The ports by which a rank that knows the state of its own links and neighbours would send."""
        return tuple(port for port in range(self._topology.degree) if not self.dead(step, rank, port))

    # --- the question ----------------------------------------------------------------------------------------------

    def crossings(self, step: Step, rank: Rank, outbox: Iterable[PortPacket]) -> list[Crossing]:
        """What of that which `rank` sends in `step`, and of that which was held back for it, crosses; by ascending port.

        A packet that was held back shares the packet of its port and step, and goes first.
        """
        held = self._held.get(rank)
        crossing: list[PortPacket] = held.pop(step, []) if held else []
        if held:  # what should have crossed while the rank was silent never does
            for missed in [due for due in held if due < step]:
                del held[missed]
        lost: list[Crossing] = []
        liar = self.lies(step, rank)
        for port, segments in outbox:
            if self._knows and self.dead(step, rank, port):
                continue
            if liar:
                segments = tuple(self._altered(rank, segment) for segment in segments)  # noqa: PLW2901
            passage = self.passage(step, rank, port, segments)
            if passage.lost or (passage.delay and self.dead(step, rank, port)):
                lost.append((port, segments, False))
                continue
            there = passage.segments * passage.copies
            if passage.delay:
                self._held.setdefault(rank, {}).setdefault(step + passage.delay, []).append((port, there))
            else:
                crossing.append((port, there))
        crossing.sort(key=itemgetter(0))
        arriving = [
            (port, tuple(segment for _, segments in packets for segment in segments), not self.dead(step, rank, port))
            for port, packets in groupby(crossing, itemgetter(0))
        ]
        return sorted([*lost, *arriving], key=itemgetter(0, 2)) if lost else arriving

    def passage(self, step: Step, rank: Rank, port: Port, segments: Packet) -> LinkTransit:
        """What the faults of its link make of a packet that leaves `rank` by `port` in `step`."""
        chance = FaultRandom(self._seed, step, rank, port)
        there = self._links.get((rank, port))
        passage = LinkTransit(segments, chance, self._counts.setdefault((rank, port), {}) if there else {})
        for name, fault in there or ():
            if fault.step <= step <= fault.end:
                chance.start(name)
                fault.act(passage)
        return passage

    def next_crossing(self, rank: Rank) -> Step | None:
        """The next step in which something that was held back for `rank` crosses, or None."""
        held = self._held.get(rank)
        return min(held) if held else None

    def lies(self, step: Step, rank: Rank) -> bool:
        """Whether `rank` alters what it passes on in `step`."""
        return self._byzantine.get(rank, 0) >= step

    def _altered(self, rank: Rank, segment: Segment) -> Segment:
        return segment if segment[0] == rank and self._origin_is_author else forge_segment(self._seed, segment)


Link = tuple[Rank, Port]
"""A link by its lower rank, and the port there."""


class Connections:
    """Which links are closed; told of every step with faults, and of every later one, after `Faults`."""

    def __init__(self, topology: Topology, faults: Faults) -> None:
        self._topology = topology
        self._faults = faults
        self.concerned: set[Link] = set()
        """Links that faults have closed, or may have."""
        self.closed: set[Link] = set()

    def link(self, rank: Rank, port: Port) -> Link:
        """The name of a link that has this end."""
        peer = self._topology.neighbour(rank, port)
        return (rank, port) if rank < peer else (peer, self._topology.reverse_port(port))

    def update(self, step: Step, faults: Iterable[Fault]) -> tuple[set[Link], set[Link]]:
        """Take note of what is due in `step`; the links that close now, and those that open again."""
        for fault in faults:
            match fault:
                case Crash(rank=rank):
                    self.concerned.update(self.link(rank, port) for port in range(self._topology.degree))
                case Down(sender=sender, port=port):
                    self.concerned.add(self.link(sender, port))
        before, self.closed = self.closed, {link for link in self.concerned if self._faults.parted(step, *link)}
        return self.closed - before, before - self.closed
