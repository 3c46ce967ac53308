"""One packet on its way over a link, and the random numbers that faults draw for it.

A rank sends at most one packet by a port in a step, so (step, rank, port) identifies the packet. Every draw is a pure
function of (seed, step, rank, port, fault). So both engines lose, alter and repeat the same packets, and a test can ask
about any packet without running the steps before it. A rate of 0 means never, a rate of 1 always.
"""

from collections.abc import Callable
from hashlib import blake2b, shake_128

from emunode.errors import EmulatorError, FaultError
from emunode.model import Packet, Port, Rank, Segment, Step


class FaultRandom:
    """Deterministic random numbers for one packet, keyed by (seed, step, rank, port, fault).

    `name` identifies the fault and is set by `start` before the fault acts: its kind, and its number among the faults of
    this kind on the link.
    """

    __slots__ = ("_drawn", "_packet", "name")

    def __init__(self, seed: int, step: Step, rank: Rank, port: Port) -> None:
        # The text of the key is part of what makes runs repeatable: another one would change every draw.
        self._packet = f"{seed}/{step}/{rank}/{port}"
        self._drawn = 0
        self.name = ""

    def _digest(self) -> int:
        # Counted, so that a fault that draws twice for one packet gets two independent numbers.
        self._drawn += 1
        return int.from_bytes(blake2b(f"{self._packet}/{self.name}/{self._drawn}".encode(), digest_size=8).digest())

    def start(self, name: str) -> None:
        """Begin the sequence of the fault with this name."""
        self.name, self._drawn = name, 0

    @property
    def place(self) -> tuple[Step, Rank, Port]:
        """The step, the rank and the port of the packet."""
        _, step, rank, port = map(int, self._packet.split("/"))
        return step, rank, port

    def draw(self) -> float:
        """Return the next number in [0, 1)."""
        return (self._digest() >> 11) / 2**53  # 53 bits: every value is exact as a float

    def damaged(self, segment: Segment) -> Segment:
        """Return a segment with one byte of its payload changed; an empty payload stays empty."""
        *header, payload = segment
        if not payload:
            return segment
        digest = self._digest()
        damaged = bytearray(payload)
        # The low bits choose the byte and the high bits the change, which is never 0: the byte always differs.
        damaged[digest % len(damaged)] ^= 1 + (digest >> 40) % 255
        return (*header, bytes(damaged))  # type: ignore[return-value]


class LinkTransit:
    """One packet that leaves a rank by a port, as the faults of the link change it."""

    __slots__ = ("_counts", "_random", "altered", "copies", "delay", "lost", "segments")

    def __init__(self, segments: Packet, random: FaultRandom, counts: dict[str, int]) -> None:
        self.segments = segments
        self._random = random
        self._counts = counts
        self.lost = False
        self.copies = 1
        self.delay = 0
        self.altered = False

    @property
    def step(self) -> Step:
        """The step that the packet is scheduled for, under either clock."""
        return self._random.place[0]

    @property
    def rank(self) -> Rank:
        """The sender of the packet."""
        return self._random.place[1]

    @property
    def port(self) -> Port:
        """The port of the sender."""
        return self._random.place[2]

    def carry_out(self, name: str, act: Callable[["LinkTransit"], None]) -> None:
        """Let the fault with this name act on the packet; FaultError if the code of the fault (maybe of a plug-in) fails."""
        self._random.start(name)
        try:
            act(self)
        except (EmulatorError, MemoryError):
            raise
        except Exception as error:
            raise failure(name.partition(" ")[0], *self._random.place, error) from error

    def occurs(self, rate: float) -> bool:
        """Return whether a fault with this rate affects this packet."""
        # Draws are below 1 and never negative, so rates 1 and 0 mean always and never.
        return self._random.draw() < rate

    def alter(self) -> None:
        """Change one byte of every payload; the result always differs from the original."""
        self.altered = True
        self.segments = tuple(self._random.damaged(segment) for segment in self.segments)

    def number(self) -> int:
        """Return the number of this packet, from 1, among the packets that left while the current fault was in force."""
        # Counted per fault: two faults on one link each count the packets that they were in force for.
        count = self._counts[self._random.name] = self._counts.get(self._random.name, 0) + 1
        return count


def failure(kind: str, step: Step, rank: Rank, port: Port, error: Exception) -> FaultError:
    """Return the FaultError for an exception in the code of a kind of fault."""
    return FaultError(f"fault {kind} at rank {rank}, port {port}, step {step}: {type(error).__name__}: {error}")


def forge_segment(seed: int, segment: Segment, right: bytes | None = None) -> Segment:
    """Return a segment with the payload that all byzantine nodes agree on: other bytes of the same length.

    `right` is the payload that the origin sent, as far as it is known: the forgery differs from it. Where it is not known,
    the forgery differs from what was received.
    """
    # Without the step and the rank: byzantine nodes agree on the forged copy, the worst case for a vote.
    origin, target, _, index, _ = segment
    return _with_payload(segment, f"{seed}/lie/{origin}/{target}/{index}", right)


def forge_apart(seed: int, segment: Segment, rank: Rank, port: Port, right: bytes | None = None) -> Segment:
    """Return a segment with a payload of its own for each rank, port and tree; two of eight bytes agree once in 2^64."""
    origin, target, tree, index, _ = segment
    return _with_payload(segment, f"{seed}/lie/{origin}/{target}/{index}/{rank}/{port}/{tree}", right)


def _with_payload(segment: Segment, key: str, right: bytes | None) -> Segment:
    """Return the segment with bytes from `key` that differ from `right`, or from the present bytes."""
    *header, payload = segment
    if not payload:
        return segment
    forged = shake_128(key.encode(), usedforsecurity=False).digest(len(payload))
    if forged == (payload if right is None else right):
        # By chance, or because another byzantine node has forged it already.
        forged = forged[:-1] + bytes([forged[-1] ^ 1])
    return (*header, forged)  # type: ignore[return-value]
