"""Hussain's algorithms exactly as printed, with their misprints: negative controls that violate their claims.

The packet SECTOR(major, minor, dimension, x, y, step) of the paper is carried by a segment: its sector and counters are
numbered, and the number travels as the segment's tree. `step` and `phase` follow from the step of the run. alpha must
be a + (a+1) rho: the counters are written for such numbers.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from emunode.algorithms.base import Algorithm, LocalView, Rule, Timing
from emunode.algorithms.claims import Claim
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, Port, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.registry import register
from emunode.terminal import plural
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.trees.base import CACHE_ENTRIES, require

LARGEST_STATE = 2**15
"""Numbers of sectors and counters are below this, as trees are on the wire."""


class SectorArguments(NamedTuple):
    """The arguments of SECTOR without its step: units as exponents of rho."""

    major: int
    minor: int
    dimension: int
    x: int
    y: int


Sends = Iterator[tuple[int, SectorArguments]]
"""(unit of the port, packet)."""


class LiteralAlgorithm(Algorithm):
    """The common part of the printed algorithms: procedures that send packets with counters."""

    family = "ej"
    citation = "Hussain"
    negative_control = True
    timing = Timing.FIXED
    copies_keep_trees = False

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        self.network = require(topology, EisensteinJacobi, "the printed algorithms")
        self.length = self.network.diameter // self.network.dimensions
        """M of the paper: the diameter of one dimension."""
        super().__init__(topology, spec)
        self.passed_numbers = lru_cache(CACHE_ENTRIES)(self._passed_numbers)

    def validate(self) -> None:
        super().validate()
        network = self.network
        # The counters D - 1 of the paper are right for these alphas only.
        if network.b != network.a + 1:
            raise ScenarioError("topology", network.name, f"{self.name} is printed for alpha = a + (a+1) rho")
        if self.spec.segments > 1:
            raise ScenarioError(
                "segments", self.spec.segments, f"{self.name} sends whole messages; the only value is 1"
            )
        # The number of a sector travels as the tree of a segment, which has 15 bits.
        if network.dimensions * 36 * self.length**2 >= LARGEST_STATE:
            raise ScenarioError(
                "topology",
                network.name,
                f"{self.name} sends its counters as the number of a tree, and on this network they are too large",
            )

    def encode(self, sector: SectorArguments) -> int:
        """Return the number of a sector and its counters."""
        # Mixed radix: dimension, major, minor, x, y.
        base = ((sector.dimension - 1) * 6 + sector.major) * 6 + sector.minor
        return (base * self.length + sector.x) * self.length + sector.y

    def decode(self, number: int) -> SectorArguments:
        """Return the inverse of `encode`."""
        number, y = divmod(number, self.length)
        number, x = divmod(number, self.length)
        number, minor = divmod(number, 6)
        dimension, major = divmod(number, 6)
        return SectorArguments(major, minor, dimension + 1, x, y)

    def numbered(self, sends: Sends) -> list[tuple[Port, int]]:
        """Return (port, number) of these packets, the number standing for sector and counters."""
        return [(6 * (sector.dimension - 1) + unit, self.encode(sector)) for unit, sector in sends]

    def all_dimensions(self, dimension: int, phase: int) -> Sends:
        """Yield the recursion of ONE-TO-ALL and ALL-TO-ALL over this dimension and all lower ones."""
        # Lines "if d > 1" of Algorithms 1 and 3, as a loop.
        for lower in range(dimension, 0, -1):
            for unit, major, minor in self.sector_starts(phase):
                # Counters start at D - 1: one of the D moves sends this packet.
                yield unit, SectorArguments(major, minor, lower, self.length - 1, self.length - 1)

    @abstractmethod
    def sector_starts(self, phase: int) -> Sequence[tuple[int, int, int]]:
        """Return (port, major, minor) of the packets that start the sectors of a phase in one dimension."""

    def _passed_numbers(self, number: int, phase: int) -> list[tuple[Port, int]]:
        """Return (port, number) of forwarded packets, by the lines of algorithms 2 and 4 that pass a packet on."""
        return self.numbered(self._passed_on(self.decode(number), phase))

    def _passed_on(self, sector: SectorArguments, phase: int) -> Sends:
        # Algorithm 2: by minor with (x - 1, 0).
        if sector.x > 0:
            yield sector.minor, sector._replace(x=sector.x - 1, y=0)
        # By major with (x - 1, y - 1), on the axis only.
        if sector.y > 0:
            yield sector.major, sector._replace(x=sector.x - 1, y=sector.y - 1)
        # The lower dimensions, in the same step.
        yield from self.all_dimensions(sector.dimension - 1, phase)

    def started(self, phase: int) -> list[tuple[Port, int]]:
        """Return the packets of a node that begins a phase: (port, number)."""
        return self.numbered(self.all_dimensions(self.network.dimensions, phase))

    def restarted(self, segment: Segment, me: Rank) -> Sequence[Segment]:
        """Return the messages that Algorithm 4, line 6 sends again; a broadcast has no phases."""
        del segment, me
        return ()

    @property
    def phases(self) -> int:
        """Number of phases, each of n M steps."""
        return 1

    def rule(self, view: LocalView) -> Rule:
        return LiteralRule(self, view)


class LiteralRule(Rule):
    """Execute the procedure SECTOR for every packet, even if its message is not new."""

    __slots__ = ("_algorithm", "_me")

    def __init__(self, algorithm: LiteralAlgorithm, view: LocalView) -> None:
        self._algorithm = algorithm
        self._me = view.rank

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._me
        if me not in algorithm.sources:
            return
        for message in range(algorithm.spec.messages):
            payload = algorithm.payloads.segment(me, ALL_RANKS, message)
            for port, number in algorithm.started(1):
                yield 1, port, (me, ALL_RANKS, number, message, payload)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm = self._algorithm
        # A phase has nM steps; a packet that arrives in its last one has step > nM in the paper's count.
        phase, rest = divmod(step, algorithm.network.diameter)
        if rest:
            return [
                # The message keeps its identity and gets the number of its new counters.
                (step + 1, port, (*segment[:2], number, *segment[3:]))
                for _, segments in packets
                for segment in segments
                for port, number in algorithm.passed_numbers(segment[2], phase + 1)
            ]
        # step > nM in the paper, whose packets carry the step when they are handled
        if phase >= algorithm.phases:
            return []
        return [
            (step + 1, port, (*again[:2], number, *again[3:]))
            for _, segments in packets
            for segment in segments
            for again in algorithm.restarted(segment, self._me)
            for port, number in algorithm.started(phase + 1)
        ]


@register
class PrintedBroadcast(LiteralAlgorithm):
    """The improved one-to-all broadcast with the misprint of Algorithm 1, line 6: a negative control.

    All-port. Line 6 sends SECTOR(-rho2, -1, ..) over port -rho, where major must be -rho: the axis of sector 4 turns into
    sector 5. Only (N - floor(D^2/4))^n of N^n nodes receive the message (b = a + 1), and as many packets
    reach nodes that already have it. Harmless for D = 1 only.

    Source: Hussain, Algorithms 1 and 2, as printed; `improved` is right.
    """

    name = "improved-printed"
    collective = Collective.BROADCAST
    citation = "Hussain, Algorithms 1 and 2 (as printed)"

    def sector_starts(self, phase: int) -> Sequence[tuple[int, int, int]]:
        del phase
        # lines 3 to 8; line 6 is the fourth
        return (1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 5, 3), (5, 5, 4), (0, 0, 5)

    def claims(self) -> list[Claim]:
        network, messages = self.network, self.spec.messages
        # Line 6 turns the axis of sector 4 into sector 5, and misses floor(D^2/4) nodes of each dimension.
        missed = network.order - (network.modulus - self.length**2 // 4) ** network.dimensions
        erratum = f"; erratum: line 6 of Algorithm 1 misses {plural(missed, 'node')}" if missed else ""
        source = f"{self.citation}: every node receives the message{erratum}"
        return [
            Claim("intact_deliveries", (network.order - 1) * messages, "==", source),
            Claim("duplicates", 0, "==", f"{self.citation}: no node receives it twice"),
            Claim("steps", network.diameter, "==", f"{self.citation}, section 4.1: nM steps"),
        ]


@register
class RestartAllgather(LiteralAlgorithm):
    """The all-to-all broadcast with the restart of Algorithm 4, line 6, as printed: a negative control.

    All-port. Every packet with step > nM starts the next phase, and a node gets (2D)^n of them: phase 2 carries (2D)^n
    times the traffic of phase 1, phase 3 (2D)^(2n) times. Here the message that the packet carries is started again.
    All pairs are covered, many times, and nodes get their own message back.

    Source: Hussain, Algorithms 3 and 4, as printed; `three-phase` starts a phase once.
    """

    name = "three-phase-restart"
    collective = Collective.ALLGATHER
    citation = "Hussain, Algorithms 3 and 4 (as printed)"

    def sector_starts(self, phase: int) -> Sequence[tuple[int, int, int]]:
        # lines 4 and 5, 7 and 8, 10 and 11 of Algorithm 3
        return (((0, 0, 5), (1, 1, 0)), ((2, 2, 1), (3, 3, 2)), ((4, 4, 3), (5, 5, 4)))[phase - 1]

    @property
    def phases(self) -> int:
        return 3

    @property
    def least_hops(self) -> int:
        """Phase 1 reaches a third of the nodes of each dimension; each further phase has (2D)^n times as many."""
        network = self.network
        first: int = (1 + (network.modulus - 1) // 3) ** network.dimensions - 1
        again: int = (2 * self.length) ** network.dimensions
        return network.order * first * (1 + again + again**2) * self.spec.messages

    def restarted(self, segment: Segment, me: Rank) -> Sequence[Segment]:
        del me
        return (segment,)

    def claims(self) -> list[Claim]:
        order, messages = self.network.order, self.spec.messages
        pairs = order * (order - 1) * messages
        source = f"{self.citation}: every node receives the messages of all others"
        return [
            Claim("intact_deliveries", pairs, "==", source),
            Claim("segments", pairs, "==", f"{self.citation}: once each; erratum: a phase restarts with every packet"),
            Claim("steps", 3 * self.network.diameter, "==", f"{self.citation}: 3nM steps"),
        ]


@register
class RestartOwnAllgather(RestartAllgather):
    """The all-to-all broadcast with the restart of Algorithm 4, line 6, of the node's own message: a negative control.

    All-port. As `three-phase-restart`, but every packet with step > nM makes its receiver start its own message again.
    That multiplies the traffic alike and, from two dimensions on, misses the targets that `three-phase-printed` misses.

    Source: Hussain, Algorithms 3 and 4, as printed; `three-phase` starts a phase once.
    """

    name = "three-phase-restart-own"

    def restarted(self, segment: Segment, me: Rank) -> Sequence[Segment]:
        # Once per packet of message 0: several messages in one run must not each restart all of them.
        again = range(self.spec.messages) if segment[3] == 0 else ()
        return [(me, ALL_RANKS, 0, message, self.payloads.segment(me, ALL_RANKS, message)) for message in again]
