"""Classical allgathers as windows: in each round every rank sends a run of blocks that it holds over one distance.

The places of the ranks form a group: places modulo p, or the words of q bits under exclusive or. In a round of distance d
the rank at place r sends to place r - d the blocks of r + j for `first` <= j < `last`; so a rank that holds a window of
blocks from its own on extends it by what comes from r + d. All algorithms here differ only in their rounds:

| algorithm | rounds (distance: window) |
|---|---|
| ring | 1: [s-1, s) for s = 1 .. p-1 |
| recursive doubling | 2^k: [0, 2^k), exclusive or |
| Bruck | 2^k: [0, min(2^k, p - 2^k)) |
| circulant halving | s_k: [0, s_(k+1) - s_k), where s_q = p and s_k = ceil(s_(k+1) / 2) |

Every rank receives p - 1 blocks, each once. All segments of a block travel together.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple

from emunode.algorithms.base import Algorithm, Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.classical.places import Places, natural_places, ring_places
from emunode.algorithms.scheduled_collective import ScheduledCollective, TimetableRow
from emunode.errors import ScenarioError
from emunode.model import Collective, Duplex, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.base import Topology

ONE_WAY: Final = (PortModel.ONE_PORT, PortModel.ALL_PORT)
"""Port models of a schedule with one send and one receipt in a step, at different ports."""


class WindowRound(NamedTuple):
    """One step: the distance, and the window of blocks that crosses it."""

    distance: int
    first: int
    last: int


class WindowAllgather(ScheduledCollective):
    """An allgather of rounds."""

    needs = frozenset({Need.EVERY_NODE, Need.SPECIAL_LINKS})
    family = "any"
    collective = Collective.ALLGATHER
    port_models: tuple[PortModel, ...] = ONE_WAY
    formula: ClassVar[str]
    """The number of steps as text."""

    def validate(self) -> None:
        self.places = self.make_places(self.topology)
        self.require_size()
        self.places.require(self.links(), self.name)
        # A link at distance p/2, or under exclusive or, is used both ways in one step.
        if any(self.at(0, each.distance) == self.at(0, -each.distance) for each in self.rounds):
            self.duplexes = (Duplex.FULL,)
        super().validate()

    def make_places(self, topology: Topology) -> Places:
        """Return the order of the ranks."""
        return natural_places(topology)

    def require_size(self) -> None:
        """Refuse networks whose number of nodes does not suit."""

    @abstractmethod
    def make_rounds(self, count: int) -> Iterator[WindowRound]:
        """Return the rounds for `count` ranks."""

    @cached_property
    def rounds(self) -> list[WindowRound]:
        """The rounds, one per step."""
        return list(self.make_rounds(self.places.count))

    def at(self, place: int, distance: int) -> int:
        """Return the place at a distance from another."""
        return (place + distance) % self.places.count

    def links(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of places that need a link."""
        distances = sorted({each.distance for each in self.rounds})
        for place in range(self.places.count):
            for distance in distances:
                yield place, self.at(place, distance)

    @property
    def last_step(self) -> Step:
        return len(self.rounds)

    def sends(self, rank: Rank) -> Iterator[TimetableRow]:
        place = self.places.place(rank)
        for step, each in enumerate(self.rounds, 1):
            port = self.places.port(place, self.at(place, -each.distance))
            yield from self._blocks(step, port, place, each)

    def receipts(self, rank: Rank) -> Iterator[TimetableRow]:
        place = self.places.place(rank)
        for step, each in enumerate(self.rounds, 1):
            sender = self.at(place, each.distance)
            yield from self._blocks(step, self.places.port(place, sender), sender, each)

    def _blocks(self, step: Step, port: int, sender: int, each: WindowRound) -> Iterator[TimetableRow]:
        for distance in range(each.first, each.last):
            root = self.places.ranks[self.at(sender, distance)]
            for segment in self.numbers:
                yield step, port, root, segment

    def claims(self) -> list[Claim]:
        count, steps, spec = self.places.count, self.steps_of(self.places.count), self.spec
        moved = (count - 1) * spec.messages * spec.message_bytes
        claims = [
            *super().claims(),
            Claim("steps", steps, "==", f"{self.citation}: {self.formula} steps"),
            Claim("packets", count * steps, "==", f"{self.citation}: every rank sends one packet per step"),
            Claim("transfer_bytes", moved, "==", f"{self.citation}: p - 1 blocks, the least that a rank can receive"),
        ]
        if not spec.packet_limit:
            claims.append(Claim("startups", steps, "==", f"{self.citation}: {self.formula} start-ups"))
        return claims

    @staticmethod
    @abstractmethod
    def steps_of(count: int) -> Step:
        """Return the number of steps by the formula of the literature."""


def logarithm(count: int) -> int:
    """Return the logarithm to base 2, rounded up."""
    return (count - 1).bit_length()


@register
class CycleAllgather(WindowAllgather):
    """Around a ring: in every step each rank passes on the block that came in the step before. One-port.

    p - 1 steps of one block: both bounds of one port are met in blocks, at p - 1 start-ups. The ring is a Hamiltonian cycle:
    the order of the ranks, a cycle known for the family (star, hypercube, Eisenstein-Jacobi), or one that a bounded search
    finds. A node knows its neighbours on the ring. It survives no fault. Patarasuk and Yuan 2009.
    """

    name = "ring"
    citation = "Patarasuk-Yuan 2009 (ring)"
    formula = "p - 1"

    def make_places(self, topology: Topology) -> Places:
        return ring_places(topology)

    def make_rounds(self, count: int) -> Iterator[WindowRound]:
        return (WindowRound(1, step - 1, step) for step in range(1, count))

    @staticmethod
    def steps_of(count: int) -> Step:
        return count - 1


@register
class DoublingAllgather(WindowAllgather):
    """Recursive doubling: in step k neighbours over bit k exchange all that they hold. One neighbour per step, both ways.

    log2 p steps and p - 1 blocks, both optimal; p a power of two, with a link between ranks that differ in one bit:
    hypercubes and networks that contain them. A node knows its own rank. It survives no fault. Thakur, Rabenseifner and
    Gropp 2005, section 4.1.
    """

    name = "recursive-doubling"
    citation = "Thakur-Rabenseifner-Gropp 2005, recursive doubling"
    formula = "log2 p"
    port_models = (PortModel.EXCHANGE, *ONE_WAY)

    def require_size(self) -> None:
        require_power_of_two(self, self.places.count)

    def at(self, place: int, distance: int) -> int:
        return place ^ abs(distance)

    def make_rounds(self, count: int) -> Iterator[WindowRound]:
        return (WindowRound(1 << k, 0, 1 << k) for k in range(logarithm(count)))

    @staticmethod
    def steps_of(count: int) -> Step:
        return logarithm(count)


def require_power_of_two(algorithm: Algorithm, count: int) -> None:
    """Refuse a number of ranks that is not a power of two."""
    if count.bit_count() != 1:
        reason = f"{algorithm.name} needs a power of two as the number of nodes, not {count}"
        raise ScenarioError("topology", algorithm.topology.name, reason)


@register
class BruckAllgather(WindowAllgather):
    """Bruck's allgather: in step k every rank sends min(2^k, p - 2^k) blocks over distance 2^k. One-port, any p.

    ceil(log2 p) steps and p - 1 blocks, both optimal. It needs links at the distances 2^k: circulant networks with these
    jumps, and complete ones. A node knows its own rank. It survives no fault. Bruck et al. 1997, section 4.
    """

    name = "bruck"
    citation = "Bruck et al. 1997, section 4"
    formula = "ceil(log2 p)"

    def make_rounds(self, count: int) -> Iterator[WindowRound]:
        return (WindowRound(1 << k, 0, min(1 << k, count - (1 << k))) for k in range(logarithm(count)))

    @staticmethod
    def steps_of(count: int) -> Step:
        return logarithm(count)


@register
class HalvingAllgather(WindowAllgather):
    """Over halved distances: rounds of the distances s_k, where s_q = p and s_k = ceil(s_(k+1) / 2). One-port, any p.

    ceil(log2 p) steps and p - 1 blocks, both optimal. Backwards it is the reduce-scatter that halves the number of partial
    results in every round. It needs links at the distances s_k. A node knows its own rank. It survives no fault. Traeff
    2023, circulant graphs.
    """

    name = "circulant-halving"
    citation = "Traeff 2023 (circulant halving)"
    formula = "ceil(log2 p)"

    def make_rounds(self, count: int) -> Iterator[WindowRound]:
        sizes = [count]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // 2))
        sizes.reverse()
        return (WindowRound(small, 0, large - small) for small, large in pairwise(sizes))

    @staticmethod
    def steps_of(count: int) -> Step:
        return logarithm(count)
