"""All-to-all broadcasts of Eisenstein-Jacobi networks: the paper's three phases made complete, and faster ones.

All nodes broadcast at once, each down the same translated tree. Messages that need the same link in the same step share
a packet. Over half-duplex links a node must not send and receive on one link in one step. So the moves are sorted into
phases, and no phase uses a port together with its reverse.

*Phases without a clock.* All nodes receive the same number of messages in a phase, and every node can count them: c_1,
c_2, .. by the generating function of the tree. A node goes on to the next phase when it has all that is due to it in
this one. Until then it keeps what it has to send in later ones. A node that has received all messages of a phase
receives no more of its traffic, so no link is used in both directions even between nodes in different phases.

In lock-step all nodes change phase in the same step. For b = a + 1 every phase takes the D steps a dimension that a
clock would give it. For other alphas phases may be shorter. The price: a node that misses one message waits for ever,
and so do all others.

Source: Hussain, "An Improved One-to-All Broadcasting in Higher Dimensional Eisenstein-Jacobi Networks", section 4.2.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import ClassVar

from emunode.algorithms.base import Dependence, LocalView, Need, Rule
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import (
    ALL_RANKS,
    FOLDING,
    Collective,
    CollectiveSpec,
    Duplex,
    Port,
    PortPacket,
    Rank,
    ScheduledSend,
    Segment,
    Step,
)
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES
from emunode.trees.eisenstein_jacobi.phased import (
    ONE_PHASE,
    THREE_PHASES,
    TWO_PHASES,
    TWO_PHASES_BY_DIMENSION,
    PhasedTree,
    PrintedTree,
)

TWO_PHASE_LOAD = "N^(n-1) D^2 messages over the busiest links of dimension 1"

Station = tuple[int, tuple[tuple[int, Port], ...]]
"""The stage when a message reaches a relative address, and (stage, port) of every child there."""


class PhasedAllgather(TreeCollective):
    """The messages of all nodes down one phased tree.

    All segments travel at once, combined in one packet where they meet.
    """

    needs = frozenset({Need.EVERY_NODE})

    family = "ej"
    collective = Collective.ALLGATHER
    link_capacity = None
    trees: PhasedTree
    passes: ClassVar[int]
    """Duration of all phases by a clock, in units of nD steps."""

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        super().__init__(topology, spec)
        if self.collective not in FOLDING:
            # Backwards by the timetable instead.
            self.dependence = Dependence.WAITING
        self.station = lru_cache(CACHE_ENTRIES)(self._station)

    def _station(self, relative: Rank) -> Station:
        return self.trees.place(relative)[0], tuple(self.trees.phase_children(relative))

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> list[Step]:
        """Return the delays that result in lock-step from counting receipts."""
        now = self._receipt(relative)
        # In lock-step all nodes change stage in the same step, so receipts can be given absolute steps.
        return [self._receipt(self.topology.neighbour(relative, port)) - now for port in ports]

    def _receipt(self, relative: Rank) -> Step:
        stage, step = self.trees.place(relative)
        return self.trees.begins[stage] + step

    @cached_property
    def period(self) -> Step:
        """Segments are not pipelined: they share packets."""
        return 0

    @cached_property
    def last_offset(self) -> Step:
        return self.trees.begins[-1]

    def awaited_steps(self, step: Step) -> range:
        """Return the steps of all earlier stages."""
        return range(1, 1 + max((begin for begin in self.trees.begins if begin < step), default=0))

    def rule(self, view: LocalView) -> Rule:
        # Backwards by the timetable: a rank knows from its address when the partial results for it have come.
        return super().rule(view) if self.collective in FOLDING else PhaseRule(self, view)

    @property
    def completeness(self) -> str:
        """The source of the claim about deliveries."""
        return f"{self.citation}: every node receives the messages of all others"

    def claims(self) -> list[Claim]:
        network, load, copies = self.trees.network, self.trees.load, self.copies
        order, ports = network.order, self.trees.segments_per_port()
        allotment = f"{self.citation}: {self.passes if self.passes > 1 else ''}nD steps" + (
            "" if self.passes == 1 else ", fewer only where b != a + 1"
        )
        walked = f"{self.citation}: arcs of the tree by step and port"
        return [
            Claim("intact_deliveries", order * (order - 1) * self.spec.messages, "==", self.completeness),
            Claim("duplicates", 0, "==", f"{self.citation}: nothing comes twice"),
            Claim("steps", self.last_step, "==", f"{self.citation}: a phase ends with its last receipt", derived=True),
            Claim("steps", self.passes * network.diameter, self._relation, allotment),
            Claim("segments", order * copies * sum(self.trees.due), "==", walked, derived=True),
            Claim("packets", order * len(load), "==", walked, derived=True),
            Claim("max_link_segments_per_step", copies * max(load.values()), "==", walked, derived=True),
            Claim("max_link_segments", copies * max(ports.values()), "==", walked, derived=True),
            *self._reach_claims(),
            *self._load_claims(),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{self.citation}: shortest paths")]

    def _reach_claims(self) -> list[Claim]:
        """Return the claims that follow from one receipt of each message at every node.

        The hops are then the pairs of nodes.
        """
        order = self.trees.network.order
        hops = order * self.copies * (order - 1)
        return [Claim("segments", hops, "==", f"{self.citation}: every node receives N^n - 1 messages, each once")]

    def _load_claims(self) -> list[Claim]:
        """Return the load of the busiest links over the run, in closed form for b = a + 1."""
        network = self.trees.network
        if network.b != network.a + 1:
            return []
        # The links of dimension 1 carry the targets of all other dimensions too: N^(n-1) times one dimension.
        busiest = self.copies * self.line_load * network.modulus ** (network.dimensions - 1)
        return [Claim("max_link_segments", busiest, "==", f"{self.citation}: {self.line_load_formula}")]

    @property
    def line_load(self) -> int:
        """Messages that the busiest link carries in one dimension, for b = a + 1.

        Here all links carry the same.
        """
        return (self.trees.network.modulus - 1) // 6

    line_load_formula: ClassVar[str] = "N^(n-1) (N-1)/6 messages over the links of dimension 1"

    @property
    def _relation(self) -> Relation:
        return "==" if self.trees.network.b == self.trees.network.a + 1 else "<="


class PhaseRule(Rule):
    """Forward messages in the current stage, and keep those for later stages.

    The rule goes on to the next stage when all expected messages have arrived. A repeated message counts once. A message
    of a later stage, from a neighbour that is ahead, counts for that stage.
    """

    __slots__ = ("_algorithm", "_due", "_have", "_stage", "_view", "_waiting")

    def __init__(self, algorithm: PhasedAllgather, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._stage = 0
        # The counts are the same at all nodes, so a node knows them without a message.
        self._due = [messages * algorithm.copies for messages in algorithm.trees.due]
        self._waiting: list[list[tuple[Port, Segment]]] = [[] for _ in self._due]
        # Hot path: one byte for each possible message; plain form: a set of (origin, segment).
        self._have = bytearray(algorithm.topology.order * algorithm.copies)

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        _, children = algorithm.station(0)
        for index in range(algorithm.copies):
            segment = (me, ALL_RANKS, 0, index, algorithm.payloads.segment(me, ALL_RANKS, index))
            # Own messages wait like all others: messages of later stages until this node gets there.
            for stage, port in children:
                self._waiting[stage].append((port, segment))
        for port, segment in self._release():
            yield 1, port, segment

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm, relative, have, due, waiting = (
            self._algorithm, self._view.relative, self._have, self._due, self._waiting,
        )  # fmt: skip
        for _, segments in packets:
            for segment in segments:
                # Numbers message (origin, segment) for the byte array.
                number = segment[0] * algorithm.copies + segment[3]
                if not have[number]:
                    have[number] = 1
                    arrived, children = algorithm.station(relative(segment[0]))
                    # `due` of the message's own stage; it may be ahead of this node's stage.
                    due[arrived] -= 1
                    for stage, port in children:
                        waiting[stage].append((port, segment))
        sends = self._release()
        # Several stages may be complete at once if messages came early, or have no message at all.
        while not due[self._stage] and self._stage + 1 < len(due):
            self._stage += 1
            sends += self._release()
        return [(step + 1, port, segment) for port, segment in sends]

    def _release(self) -> list[tuple[Port, Segment]]:
        """Return the sends that wait for the current stage."""
        sends, self._waiting[self._stage] = self._waiting[self._stage], []
        return sends


@register
class ThreePhase(PhasedAllgather):
    """The all-to-all broadcast of Eisenstein-Jacobi networks in three phases (Hussain), made complete.

    All-port, half or full duplex. Sectors 6 and 1, then 2 and 3, then 4 and 5, in every dimension: no phase uses a
    port together with its reverse. A new phase restarts every message that is held, in all dimensions where it has not
    moved; that makes every pair exactly once. 3nD steps where b = a + 1, D = floor((a+2b)/3), N^n (N^n - 1) messages
    moved, N^(n-1) (N-1)/6 of them over the busiest links. A node knows its own relative labels and how many messages
    are due in a phase. It survives no fault: a node that misses a message stays in its phase.

    Source: Hussain, section 4.2, Algorithms 3 and 4. Errata: as printed they restart a phase with every packet that has
    step > nM: the traffic grows by the factor (2M)^n a phase; and only the own message is restarted: the algorithm is
    complete for n = 1 only (see `three-phase-printed`).
    """

    name = "three-phase"
    citation = "Hussain, Algorithms 3 and 4 (corrected)"
    trees_class = staticmethod(partial(PhasedTree, plan=THREE_PHASES))
    passes = 3


@register
class ThreePhasePrinted(PhasedAllgather):
    """The three-phase all-to-all broadcast as the paper describes it: a negative control for n >= 2 dimensions.

    Each node restarts its own message, and nothing else, once in each phase. Only targets whose nonzero components
    all lie in sectors of one phase are reached: 3 (((N+2)/3)^n - 1) of N^n - 1 (b = a + 1), all of them for n = 1
    only. All-port, half or full duplex; 3nD steps.

    Source: Hussain, section 4.2, Algorithms 3 and 4. They claim that every node receives N^n - 1 distinct messages.
    """

    name = "three-phase-printed"
    citation = "Hussain, Algorithms 3 and 4 (as printed)"
    negative_control = True
    passes = 3
    trees_class = PrintedTree

    def _reach_claims(self) -> list[Claim]:
        """Return the number of receipts, in closed form for b = a + 1."""
        network, n = self.trees.network, self.trees.network.dimensions
        if network.b != network.a + 1:
            return []
        # Targets whose nonzero components all lie in one phase: ((N+2)/3)^n - 1 per phase, three phases.
        hops = network.order * self.copies * 3 * (((network.modulus + 2) // 3) ** n - 1)
        formula = "3 (((N+2)/3)^n - 1) messages each"
        return [Claim("segments", hops, "==", f"{self.citation}; erratum: every node receives {formula}")]

    def _load_claims(self) -> list[Claim]:
        """Return the claims about loads in one dimension.

        In more dimensions not all messages arrive.
        """
        return super()._load_claims() if self.trees.network.dimensions == 1 else []

    @property
    def completeness(self) -> str:
        network = self.trees.network
        claim = f"{self.citation}: every node receives N^n - 1 messages"
        missed = network.order - 1 - sum(self.trees.due)
        if not missed:
            return claim
        # rho^0 lies in sector 6 and -1 in sector 3: two phases, so this target is missed.
        example = network.label(network.index(1, 0) + network.modulus * network.index(-1, 0))
        return (
            f"{claim}; erratum: no message gets to the {missed} nodes whose difference from its source has components "
            f"in sectors of different phases, such as {example}"
        )


@register
class TwoPhase(PhasedAllgather):
    """All-to-all broadcast of Eisenstein-Jacobi networks in two phases: a third fewer steps than `three-phase`.

    All-port, half or full duplex. Ports 0, 1, 2 of every dimension, then ports 3, 4, 5. A target in sector 3 or 6 is
    reached by moves of both phases, all others by moves of one. 2nD steps where b = a + 1, D = floor((a+2b)/3);
    exactly once, for every alpha and n. A node knows its own relative labels and how many messages are due in a
    phase. Survives no fault.

    Extension of Hussain, section 4.2.
    """

    name = "two-phase"
    citation = "two phases (after Hussain, section 4.2)"
    trees_class = staticmethod(partial(PhasedTree, plan=TWO_PHASES))
    passes = 2
    line_load_formula = TWO_PHASE_LOAD

    @property
    def line_load(self) -> int:
        # D^2 against D(D+1)/2 in three phases: fewer steps load the busiest links more.
        return (self.trees.network.diameter // self.trees.network.dimensions) ** 2


@register
class DimensionWise(TwoPhase):
    """All-to-all broadcast of Eisenstein-Jacobi networks, dimension by dimension: fewer and larger packets than `two-phase`.

    All-port, half or full duplex. n rounds, the highest dimension first, each the one-dimensional `two-phase` with
    all messages held. 2nD steps where b = a + 1, exactly once, for every alpha and n. A node knows its own relative
    labels and how many messages are due in a phase. Survives no fault.

    Extension of Hussain, section 4.2.
    """

    name = "dimension-wise"
    citation = "two phases a dimension (after Hussain, section 4.2)"
    trees_class = staticmethod(partial(PhasedTree, plan=TWO_PHASES_BY_DIMENSION))


@register
class ImprovedAllgather(PhasedAllgather):
    """The improved one-to-all broadcast from all nodes at once, for links that work both ways at once.

    All-port, full duplex. nD steps, D = floor((a+2b)/3), the least there can be; exactly once. Every link is used both
    ways in the same step, the paper's reason for phases. Survives no fault.

    Source: Hussain, section 4.2 with Algorithms 1 and 2.
    """

    name = "improved"
    citation = "Hussain, Algorithms 1 and 2 (corrected), from all nodes"
    duplexes = (Duplex.FULL,)
    trees_class = staticmethod(partial(PhasedTree, plan=ONE_PHASE))
    passes = 1
