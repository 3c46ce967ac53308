"""Algorithms on the hypercube without a clock: nodes keep queues, first come, first served, after Johnsson and Ho (1986).

No node knows a timetable. Packets that a port or a node cannot send yet wait in a queue, in order of arrival.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, gcd

from emunode.algorithms.base import Dependence, LocalView, Rule, Timing
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.broadcast import EdgeDisjointBroadcast
from emunode.algorithms.hypercube.costs import CycleLoads
from emunode.algorithms.hypercube.scatter import CubeScatter
from emunode.algorithms.hypercube.schedule import EXCHANGES
from emunode.model import ALL_RANKS, Port, PortModel, PortPacket, Rank, ScheduledSend, Step
from emunode.registry import register
from emunode.trees.base import CACHE_ENTRIES
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.rotated import RotatedBinomialTrees


@register
class QueuedBroadcast(EdgeDisjointBroadcast):
    """nESBT over one port without a clock and without a header: first come, first served.

    A node that receives a packet on port p finds the tree j from its own address and p, and queues the packet for ports
    p+1, .., j-1, j. P + n steps as with the labels, and legal under the same port models. Johnsson and Ho, section 4.1.5;
    measured for n = 2..6.
    """

    name = "nesbt-fifo"
    citation = "Johnsson-Ho 1986, nESBT first come, first served"
    timing = Timing.ADAPTIVE
    dependence = Dependence.QUEUED
    port_models: tuple[PortModel, ...] = EXCHANGES

    def rule(self, view: LocalView) -> Rule:
        return QueuedForwardRule(self, view)


class QueuedForwardRule(Rule):
    """Send one packet per step, in order of arrival, each on all its ports one after the other."""

    __slots__ = ("_algorithm", "_busy_until", "_relative", "_view")

    def __init__(self, algorithm: QueuedBroadcast, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._relative = view.relative(algorithm.spec.source)
        self._busy_until: Step = 0

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if self._relative:
            return
        count = algorithm.trees.count
        for copy in range(algorithm.copies):
            tree, segment = copy % count, copy // algorithm.spec.redundancy
            # One packet per step, on port j = copy mod n: the order of the labels f without knowing them.
            yield copy + 1, tree, (me, ALL_RANKS, tree, segment, algorithm.payloads.segment(me, ALL_RANKS, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        trees, sends = self._algorithm.trees, []
        for port, segments in packets:
            # The tree follows from the port, so packets need no header.
            tree = trees.tree_of_arrival(self._relative, port)
            for segment in segments:
                for child_port in trees.children(self._relative, tree):
                    # One send per step over all ports: a packet waits until the node is free, first come, first
                    # served.
                    self._busy_until = max(self._busy_until, step) + 1
                    sends.append((self._busy_until, child_port, segment))
        return sends


class QueuedScatter(CubeScatter):
    """Scatter over all ports in packets of B bytes, the farthest first, with one queue per port.

    A packet holds one segment of a part of a block.
    """

    link_capacity = 1
    port_models = (PortModel.ALL_PORT,)
    tables = ("", "section 5.1")
    timing = Timing.ADAPTIVE
    dependence = Dependence.QUEUED

    def validate(self) -> None:
        super().validate()
        self.path = lru_cache(CACHE_ENTRIES)(self.trees.route)

    @property
    def blocks(self) -> Fraction:
        """The blocks that the fullest port of the root sends, according to the paper; here all ports send the same."""
        return Fraction(self.topology.order - 1, self.topology.degree)

    def claims(self) -> list[Claim]:
        # The farthest leave first, so the run ends when the fullest port of the root is done.
        steps = ceil(self.blocks * self.copies / (self.link_capacity or 1))
        return [*super().claims(), Claim("steps", steps, "==", f"{self.citation}: section 5.1, the fullest port")]

    def queues(self) -> list[list[tuple[Rank, int, int]]]:
        """Return (target, way, segment) of all sends of each port of the root, in order."""
        queues: list[list[tuple[Rank, int, int]]] = [[] for _ in range(self.topology.degree)]
        for target in range(1, self.topology.order):
            for route_index, _, segment in self.copies_of(target):
                queues[self.path(target, route_index)[0]].append((target, route_index, segment))
        for queue in queues:
            # Stable sort: the farthest first, and among equals in order of ranks.
            queue.sort(key=lambda entry: -self.trees.level(entry[0], entry[1]))
        return queues

    def forward_loads(self) -> CycleLoads:
        self.walked = True
        capacity = self.link_capacity or 1
        fullest = max(len(queue) for queue in self.queues())
        # Full packets and a last one with the rest.
        sizes = [min(capacity, fullest - sent) for sent in range(0, fullest, capacity)]
        return [Fraction(size, self.copies) for size in sizes]

    def rule(self, view: LocalView) -> Rule:
        return QueueRule(self, view)


class QueueRule(Rule):
    """Forward segments for others, on every port in order of arrival, as many at once as a packet holds."""

    __slots__ = ("_algorithm", "_queued", "_relative", "_view")

    def __init__(self, algorithm: QueuedScatter, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._relative = view.relative(algorithm.spec.source)
        self._queued: dict[Port, tuple[Step, int]] = {}

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if self._relative:
            return
        capacity = algorithm.link_capacity or 1
        sends = sorted(
            # `place // capacity`: as many entries as a packet holds leave together.
            (place // capacity + 1, port, place, entry)
            for port, queue in enumerate(algorithm.queues())
            for place, entry in enumerate(queue)
        )
        for step, port, _, (goal, route_index, segment) in sends:
            target = algorithm.topology.absolute(goal, me)
            yield step, port, (me, target, route_index, segment, algorithm.payloads.segment(me, target, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm, sends = self._algorithm, []
        for _, segments in packets:
            for segment in segments:
                origin, target, route_index, _, _ = segment
                if target != self._view.rank:
                    path = algorithm.path(algorithm.topology.relative(target, origin), route_index)
                    # The node's own level is the index of its outgoing link on the path.
                    port = path[algorithm.trees.level(self._relative, route_index)]
                    sends.append((self._turn(port, step + 1), port, segment))
        return sends

    def _turn(self, port: Port, earliest: Step) -> Step:
        """Return the first step when a port has room for another packet."""
        step, held = self._queued.get(port, (0, 0))
        # The port was idle: the packet leaves at once.
        if step < earliest:
            step, held = earliest, 0
        # The packet of that step is full: this entry opens the next one.
        elif held == self._algorithm.link_capacity:
            step, held = step + 1, 0
        self._queued[port] = (step, held + 1)
        return step


@register
class BinomialQueuedScatter(QueuedScatter):
    """Down the spanning binomial tree, SBT: N/2 steps for packets of one block. Johnsson and Ho, section 5.1.2."""

    name = "sbt-fifo"
    citation = "Johnsson-Ho 1986, SBT first come, first served"

    @property
    def blocks(self) -> Fraction:
        return Fraction(self.topology.order, 2)

    trees_class = BinomialTree


@register
class RotatedBinomialQueuedScatter(QueuedScatter):
    """Down n rotated spanning binomial trees, nRSBT: N - 1 steps for packets of a part, M/n.

    Johnsson and Ho, section 5.1.4.
    """

    name = "nrsbt-fifo"
    citation = "Johnsson-Ho 1986, nRSBT first come, first served"
    trees_class = RotatedBinomialTrees


@register
class BalancedQueuedScatter(QueuedScatter):
    """Down the spanning balanced n-tree, SBnT, with one path to a node: as many steps as there are necklaces but one.

    For packets of one block. ceil((N-1)/n) for n = 2, 3, 5, 7 only (erratum: the text prints it for all n);
    `sbntc-fifo` has that. Johnsson and Ho, section 5.1.5.
    """

    name = "sbnt-fifo"
    citation = "Johnsson-Ho 1986, SBnT with one path to a node, first come, first served"

    @property
    def blocks(self) -> Fraction:
        """The binary necklaces of n beads but one (Burnside)."""
        # Burnside for n beads of two colours; the necklace of all zeros is the root's own.
        n = self.topology.degree
        return Fraction(sum(2 ** gcd(turns, n) for turns in range(n)), n) - 1

    trees_class = BalancedTrees


@register
class BalancedPathsQueuedScatter(QueuedScatter):
    """Down the spanning balanced n-tree with several paths to cyclic nodes, SBnTc.

    N - 1 steps for packets of a part, M/n. Where the packet limit allows for M bytes, packets of one block (n parts of
    any): ceil((N-1)/n) steps. Johnsson and Ho, section 5.1.5.
    """

    name = "sbntc-fifo"
    citation = "Johnsson-Ho 1986, SBnT with several paths to cyclic nodes, first come, first served"
    trees_class = BalancedTrees
    tree_per_dimension = True

    def validate(self) -> None:
        super().validate()
        if self.spec.packet_limit >= self.spec.message_bytes:
            # A packet may hold a whole message, so n parts of any blocks fit.
            self.link_capacity = self.segments_per_message
