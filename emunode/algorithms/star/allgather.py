"""Multinode broadcast (allgather) on the star graph with one tree per source (Fragopoulou and Akl).

P. Fragopoulou and S. G. Akl, "Optimal communication algorithms on star graphs using spanning tree constructions",
TR 93-346, Queen's University 1993 (J. Parallel Distrib. Comput. 24, 1995). At most one message
crosses a directed link per step.

Theorem 2 makes a schedule of one source a schedule of all sources: if the links used in one step are of different types,
their translations never collide. The condition is sufficient, as proved, and also necessary, as printed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import factorial

from emunode.algorithms.base import Dependence, LocalView, Need, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.star.bounds import MULTIPLE, REPORT, TimeBounded, time_bounds, unit_bounds
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, Duplex, Port, PortModel, PortPacket, Rank, ScheduledSend, Step
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, require
from emunode.trees.star.hamiltonian import RotatedPaths, hamiltonian_cycle
from emunode.trees.star.necklace import NecklaceTree

MOST_TREES = 2**15
"""Most trees that a journal can number."""


@register
class HamiltonianCycle(TimeBounded):
    """Around a Hamiltonian cycle: in every step each node forwards to its successor its receipts of the step before.
    One-port.

    A node knows only its successor, from a table of n! entries. The paper takes a cycle for granted; ours is recursive. M
    messages, one after the other, take M(n!-1) steps and M n!(n!-1) transmissions; both are optimal. Half-duplex links
    suffice. The algorithm survives no fault. TR 93-346, section 4 and table 1; its T = (n!-1)(Ts + m Tc) is that
    of the one-port rows of table 2 of Tseng and Sheu.
    """

    name = "hamiltonian-cycle"
    collective = Collective.ALLGATHER
    dependence = Dependence.FIXED
    needs = frozenset({Need.TABLE})
    port_models = (PortModel.ONE_PORT,)
    link_capacity = 1
    citation = f"{REPORT}, section 4"

    def validate(self) -> None:
        super().validate()
        self.cut()

    @cached_property
    def successor(self) -> dict[Rank, Port]:
        """The port of every node that leads on along the cycle."""
        star = require(self.topology, StarGraph, self.name)
        here, ports = 0, {}
        # Walk the cycle once; every node is left exactly once.
        for port in hamiltonian_cycle(star):
            ports[here] = port
            here = star.neighbour(here, port)
        return ports

    @property
    def rounds(self) -> int:
        """Number of own segments that every node sends."""
        return self.spec.messages * self.segments_per_message

    def rule(self, view: LocalView) -> Rule:
        return PassOn(self, view)

    def claims(self) -> list[Claim]:
        spec, order, others = self.spec, self.topology.order, self.topology.order - 1
        source = f"{REPORT}, section 4 and table 1"
        time = []
        if not spec.packet_limit and not spec.cut(self.segments_per_message).longer:
            table = f"{MULTIPLE}, table 2: (n!-1)(Ts + m Tc), as of Misic"
            moved = spec.messages * others * spec.message_bytes
            time = [Claim("startups", self.rounds * others, "==", table), Claim("transfer_bytes", moved, "==", table)]
        return [
            *time,
            Claim("steps", self.rounds * others, "==", f"{source}: M(n!-1)"),
            Claim("segments", self.rounds * order * others, "==", f"{source}: M n!(n!-1)"),
            Claim(
                "intact_deliveries", spec.messages * order * others, "==", f"{source}: every rank receives all messages"
            ),
            Claim("links_used", order, "==", f"{source}: a cycle"),
            *unit_bounds(self.topology, spec, self.rounds),
            *time_bounds(self.topology, spec),
        ]


class PassOn(Rule):
    """Forward to the successor the segments of the predecessor, unless the successor is its origin; every n!-1 steps
    start an own message.
    """

    __slots__ = ("_algorithm", "_next", "_port", "_rank")

    def __init__(self, algorithm: HamiltonianCycle, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._port = algorithm.successor[view.rank]
        self._next = algorithm.topology.neighbour(view.rank, self._port)

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        for index in range(algorithm.rounds):
            own = (me, ALL_RANKS, 0, index, algorithm.payloads.segment(me, ALL_RANKS, index))
            # n! - 1 steps are one round: the previous own message has then reached all ranks.
            yield index * (algorithm.topology.order - 1) + 1, self._port, own

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        following, port = self._next, self._port
        # A message stops before it would return to its origin.
        return [(step + 1, port, segment) for _, segments in packets for segment in segments if segment[0] != following]


@register
class RotatedHamiltonian(TimeBounded, TreeCollective):
    """Down rotated Hamiltonian paths of the substars, then to the remaining nodes. All-port, every link busy in
    every step.

    Phase 1, (n-1)! steps a message: in step s each node forwards over type W_j(s), j = 2..n, what arrived over type
    W_j(s-1), where W_j is the word of link types of the path through S^j; W_3 .. W_n are rotations of W_2. The nodes
    with x_1 = 1, relative to the source, remain. Phase 2, (n-2)! steps, rule 1: node y sends over link t the messages of the
    sources q with q_1 = y_t and q_n = y_1; seen from the source, c = y has c_1 = n and c_t = 1. We take them in
    order of c's label. In all (n-1)! + (n-2)! = ceil((n!-1)/(n-1)) steps and n!(n!-1) transmissions, both optimal.

    M messages: ceil(M(n!-1)/(n-1)) steps. Erratum: "M times" the algorithm (table 1) takes floor(M/(n-1)) steps
    more. First all phases 1, and in phase 2 message c goes by symbol p_c = n - (c mod (n-1)) in place of n:
    every link is spared once in n-1 messages. Tree c of the journal is the tree of message c.

    A node knows its own relative label and the word W_2, a table of (n-1)! entries. The algorithm survives no fault. TR
    93-346, sections 3.1 and 3.1.2 (whose count n!(n-1) means n!(n!-1)), theorem 4 (whose start node has 1 at
    position j) and table 1.
    """

    name = "rotated-hamiltonian"
    collective = Collective.ALLGATHER
    citation = f"{REPORT}, section 3.1"
    duplexes = (Duplex.FULL,)
    splits_across_trees = False

    def make_trees(self, topology: Topology) -> Trees:
        self.paths = RotatedPaths(topology, self.spec.messages * self.spec.segments)
        # Set here, not in `validate`, because the base class needs the trees to cut the messages.
        self.star = self.paths.star
        return self.paths

    def validate(self) -> None:
        super().validate()
        if self.trees.count > MOST_TREES:
            raise ScenarioError(
                "messages",
                self.spec.messages,
                f"{self.name} sends at most {MOST_TREES} messages or segments of messages",
            )

    @property
    def max_redundancy(self) -> int:
        return 1

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        """Return the delays of the children: none along a path; to a leaf, behind the last port of a node, in phase 2.

        The root starts message c in phase 1 of c.
        """
        # (n-1)! steps of phase 1 for every message, one after the other.
        phase = factorial(self.star.n - 1)
        if not relative:
            return [tree * phase + 1] * len(ports)
        if not ports:
            return ()
        symbols = self.star.permutation(relative)
        path = symbols.index(1) - 1
        # The path of S^j takes one step per node, so the position on it is the step of receipt.
        arrival = tree * phase + self.paths.step(relative)
        # In phase 1 to the next node of the path; over the path's own link (it would leave S^j) in phase 2.
        return [self._leaf_step(symbols, tree) - arrival if port == path else 1 for port in ports]

    def _leaf_step(self, symbols: bytes, tree: int) -> Step:
        """Return the step when c = `symbols`, with c_1 = p of its tree, sends to its leaf over link t, where c_t = 1."""
        n, t = self.star.n, symbols.index(1) + 1
        # Rule 1 skips a message whose receiver is its source, which happens only at p = t; that gap is closed here.
        spared = len(range(n - t, tree, n - 1))  # messages before this one with p = t: over t is their source
        before = tree * factorial(n - 2) - spared
        # Phase 2 begins after all phases 1; sends over link t are numbered consecutively over all messages.
        return self.trees.count * factorial(n - 1) + before + self._places[symbols]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """Labels c with c_1 != 1, numbered from 1 for each c_1 and position of symbol 1, without neighbours of the root."""
        numbers: Counter[tuple[int, int]] = Counter()
        places: dict[bytes, int] = {}
        for symbols in sorted(map(self.star.permutation, self.star.ranks())):
            t = symbols.index(1)
            # A neighbour of the root over link t has no leaf there, because the root is the source.
            if t and self.star.neighbour(self.star.rank_of(symbols), t - 1):
                numbers[symbols[0], t] += 1
                places[symbols] = numbers[symbols[0], t]
        return places

    @cached_property
    def last_offset(self) -> Step:
        # Every link is busy in every step, so the lower bound is the number of steps.
        return -(-self.copies * (self.topology.order - 1) // self.topology.degree)

    def claims(self) -> list[Claim]:
        source = f"{REPORT}, section 3.1 and table 1: ceil(M(n!-1)/(n-1))"
        if self.copies > 1:
            source += "; erratum: needs another symbol in phase 2 of every message"
        return [
            *super().claims(),
            Claim("steps", self.last_offset, "==", source),
            *unit_bounds(self.topology, self.spec, self.copies),
            *time_bounds(self.topology, self.spec),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("same_type_per_step", 1, "==", f"{REPORT}, theorem 2: links of a step are of different types")]


@register
class NecklaceAllgather(TimeBounded, TreeCollective):
    """Down the tree MBST, an order of the nodes by necklaces. All-port, every link busy in every step but the last.

    Relative to its source, the node of number m in the order of MBST receives in step ceil(m/(n-1)), over links of
    different types within a step. ceil((n!-1)/(n-1)) steps and n!(n!-1) transmissions, both optimal; M messages one
    after the other, M times that, floor(M/(n-1)) steps more than the lower bound. Every node must
    compute the same table of n! entries. It survives no fault. TR 93-346, section 3.2, theorem 8 and table 1.
    Erratum: condition 3 of theorem 8, m(x) - m(parent) >= n-1, fails for one node, harmlessly (see the tree).
    """

    name = "mbst"
    collective = Collective.ALLGATHER
    needs = frozenset({Need.TABLE})
    citation = f"{REPORT}, section 3.2"
    duplexes = (Duplex.FULL,)
    splits_across_trees = False
    trees: NecklaceTree
    trees_class = NecklaceTree

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        here = self.trees.step(relative)
        # The step is global, so the delay is the difference of the two nodes' steps of receipt.
        return [self.trees.step(self.topology.neighbour(relative, port)) - here for port in ports]

    @cached_property
    def period(self) -> Step:
        return self.last_offset

    @cached_property
    def last_offset(self) -> Step:
        return -(-(self.topology.order - 1) // self.topology.degree)

    def claims(self) -> list[Claim]:
        return [
            *super().claims(),
            Claim(
                "steps", self.copies * self.last_offset, "==", f"{REPORT}, theorem 8 and table 1: ceil((n!-1)/(n-1))"
            ),
            *unit_bounds(self.topology, self.spec, self.copies),
            *time_bounds(self.topology, self.spec),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return [
            Claim("same_type_per_step", 1, "==", f"{REPORT}, theorem 8.1: links of a step are of different types"),
            Claim("longest_detour", 0, "==", f"{REPORT}, theorem 8.2: paths of minimum length"),
        ]
