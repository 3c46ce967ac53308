"""Broadcast on the hypercube, after Johnsson and Ho (YALEU/DCS/TR-500, 1986), section 4 and tables 2 to 6.

A message consists of P packets; if it is cut into parts for several trees, each part consists of P packets. One-port means
the model of the paper: a node exchanges packets with one neighbour per step, in both directions (`exchange`). Some
schedules need only one send or one receive per step, and some are faster if a node may send to one neighbour and receive
from another (`one-port`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from emunode.algorithms.base import LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import CycleForm, bound_claims, broadcast_rotated, load_claims, packet_claims
from emunode.algorithms.hypercube.schedule import ONE_WAY, CubeDissemination, EdgeDisjointRedundancy
from emunode.algorithms.transforms import backwards
from emunode.algorithms.tree_collective import ForwardRule
from emunode.model import (
    ALL_RANKS,
    Collective,
    CollectiveSpec,
    Duplex,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

ALL, APART = PortModel.ALL_PORT, PortModel.ONE_PORT


class CubeBroadcast(CubeDissemination):
    """Packets follow each other down trees: a P + b steps."""

    collective = Collective.BROADCAST
    splits_across_trees = False
    table: ClassVar[str] = "tables 4 and 5"

    @staticmethod
    @abstractmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        """Return the number of steps for P packets, from the table of the paper."""

    @property
    def _form(self) -> CycleForm:
        return self.form(self.topology.degree, self.spec.port_model)

    @property
    def period(self) -> Step:
        # `a` cycles between packets of one tree: the table's a P + b.
        return self._form.a

    @property
    def busiest_arc(self) -> int:
        """Packets that the most used directed link carries."""
        return self.copies

    def claims(self) -> list[Claim]:
        cited = f"{self.citation}: {self.table}"
        return [
            *super().claims(),
            Claim("max_link_segments", self.busiest_arc, "==", f"{self.citation}: arcs of the trees"),
            *bound_claims(self.spec, self.topology.degree),
            *self.cost_of_packets(cited),
            *self.structure_claims(),
        ]

    def cost_of_packets(self, cited: str) -> list[Claim]:
        """Return the claims on steps, start-ups and bytes."""
        form = self._form
        # The share of the copies that one tree carries, rounded up.
        steps = form.cycles(-(-self.copies // form.share))
        return [Claim("steps", steps, "==", cited), *packet_claims(self.spec, self.segments_per_message, steps, cited)]

    @property
    def fewest_packets(self) -> float:
        """Fewest packets per tree, as a real number.

        This is one per message, or the share of the messages that a tree carries.
        """
        return self.spec.messages if self.splits_across_trees else self.spec.messages / self._form.share

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """Return the claims T, and T_min as a lower bound of this algorithm for any number of packets.

        A tree carries at least one packet of every message if messages are cut into parts for the trees, and otherwise
        at least its share of the messages.
        """
        form, spec = self._form, self.spec
        size = spec.messages * spec.message_bytes / form.share
        # Real-valued P: no whole number of packets takes less time than the real optimum.
        packets = max(self.fewest_packets, form.best_packets(size, startup, per_byte))
        least = form.seconds(packets, size, startup, per_byte)
        bound = Claim("virtual_seconds", least, ">=", f"{self.citation}: T_min of {self.table}")
        return [*super().cost_claims(startup, per_byte), bound]

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the better of the two whole numbers next to M / B_opt."""
        form = cls.form(topology.degree, spec.port_model)
        packets = form.best_segments(spec, startup, per_byte)
        # Packets of uncut messages are dealt to `share` trees, so there are that many times as many.
        return packets if cls.splits_across_trees else min(packets * form.share, spec.most_parts)


@register
class GrayBroadcast(CubeBroadcast):
    """Down the binary-reflected Gray code path, BRG: hop l of packet q in cycle 2q + l, or q + l with separate ports.

    2P + N - 3 steps, and P + N - 2 if a node may send and receive at different ports in one step; (N-1)P
    transmissions. A node knows its relative address. The algorithm survives no fault. Johnsson and Ho, section 4.1.1,
    tables 4 and 5.
    """

    name = "brg"
    citation = "Johnsson-Ho 1986, BRG"
    port_models = (*ONE_WAY, ALL)
    trees_class = GrayPaths

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        # Packets follow each other in every cycle if send and receive may use different ports, else in every second.
        return CycleForm(1, 2**n - 2) if ports in (ALL, APART) else CycleForm(2, 2**n - 3)


@register
class RotatedGrayBroadcast(CubeBroadcast):
    """Down n rotated Gray code paths, nRBRG, one part of the message per path: position l in cycle l, packet after packet.

    (N-1)P steps for P packets of each part, n(N-1)P transmissions, over all ports. The paths of n > 2 share arcs, so
    they are not pipelined. A node knows its relative address. Johnsson and Ho, section 4.1.1, table 5.
    """

    name = "nrbrg"
    citation = "Johnsson-Ho 1986, nRBRG"
    table = "table 5"
    splits_across_trees = True
    trees_class = GrayPaths
    tree_per_dimension = True

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        del ports
        # N - 1 cycles a packet, no overlap: rotated paths share arcs, so the next packet waits.
        return CycleForm(2**n - 1, 0, n)

    @property
    def busiest_arc(self) -> int:
        """An arc e_j -> e_j + e_(j+1) lies on n - 1 paths."""
        return (self.topology.degree - 1) * self.numbers


@register
class BinomialBroadcast(CubeBroadcast):
    """Down the spanning binomial tree, SBT.

    nP steps over one port, dimension d of packet q in cycle qn + d, even with one send or one receive; P + n - 1 over
    all ports; (N-1)P transmissions. The best for a single packet. A node knows its relative address. A fault cuts off
    the subtree behind it. Johnsson and Ho, section 4.1.2, tables 4 and 5.
    """

    name = "sbt"
    citation = "Johnsson-Ho 1986, SBT"
    port_models = (ALL, *ONE_WAY)
    trees_class = BinomialTree

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        # All-port: one level per cycle. One-port: packet q uses dimension d in cycle qn + d, so n cycles a packet.
        return CycleForm(1, n - 1) if ports is ALL else CycleForm(n, 0)


@register
class TwoRootedBroadcast(CubeBroadcast):
    """Down the two-rooted complete binary tree, TCBT: no node has more than two children.

    Packet q enters node v in cycle 3q + off(v) over one port, even with one send or one receive: 3P + 2n - 5 steps; 2q
    + off(v) where send and receive may differ: 2P + 2n - 4; q + level over all ports: P + n - 1. (N-1)P transmissions.
    A node knows its relative address. Survives no fault. Johnsson and Ho, section 4.1.3, tables 4 and 5. In Q_2, where
    2P steps are enough, every third step stays empty over one port.
    """

    name = "tcbt"
    citation = "Johnsson-Ho 1986, TCBT"
    port_models = (*ONE_WAY, ALL)
    trees_class = TwoRootedTree

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        if ports is ALL:
            return CycleForm(1, n - 1)
        # A node with two children needs a cycle to receive and two to send: three, or two if both at once.
        return CycleForm(2, 2 * n - 4) if ports is APART else CycleForm(3, 2 * n - 5)

    @property
    def _spare_steps(self) -> bool:
        """Whether every third step stays empty.

        That is so in Q_2, where only the root has children, and no inner node has two.
        """
        return self.topology.degree == 2 and self.spec.port_model in (PortModel.EXCHANGE, PortModel.SEND_OR_RECEIVE)

    def cost_of_packets(self, cited: str) -> list[Claim]:
        if not self._spare_steps:
            return super().cost_of_packets(cited)
        used = f"{cited}; in Q_2 two of three steps carry a packet"
        steps = Claim("steps", self._form.cycles(self.copies), "==", cited)
        # 2P cycles carry a packet; the empty ones cost no start-up.
        return [steps, *packet_claims(self.spec, self.segments_per_message, 2 * self.copies, used)]

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """Return the cost claims.

        In Q_2 the lower bound is the time of the 2P steps that carry a packet.
        """
        claims = super().cost_claims(startup, per_byte)
        if not self._spare_steps:
            return claims
        size = self.spec.messages * self.spec.message_bytes
        least = CycleForm(2, 0).seconds(self.spec.messages, size, startup, per_byte)
        return [
            *claims[:-1],
            Claim("virtual_seconds", least, ">=", f"{self.citation}: T_min of 2P cycles in Q_2"),
        ]


@register
class RotatedBinomialBroadcast(CubeBroadcast):
    """Down n rotated spanning binomial trees, nRSBT, one part of the message per tree.

    Over one port part j crosses dimension (j + i) mod n in cycle j + i and parts that share a link travel together: 2n - 1
    steps, M n bytes on the heaviest links, even with one send or one receive. Over all ports part j crosses dimension
    (j + i) mod n in the i-th of n rounds of P steps: nP steps, the best for M <= n. n(N-1) transmissions a packet. A
    node knows its relative address. Johnsson and Ho, section 4.1.4, tables 4 and 5.
    """

    name = "nrsbt"
    citation = "Johnsson-Ho 1986, nRSBT"
    port_models = (ALL, *ONE_WAY)
    splits_across_trees = True
    trees: RotatedBinomialTrees
    trees_class = RotatedBinomialTrees

    def validate(self) -> None:
        # Over one port parts that share a link travel in one packet, so capacity is unbounded there.
        self.link_capacity = 1 if self.spec.port_model is ALL else None
        super().validate()

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        # nP cycles: rounds of P steps, one dimension of each tree per round.
        del ports
        return CycleForm(n, 0, n)

    @property
    def period(self) -> Step:
        return 1 if self.spec.port_model is ALL else 0

    def offset(self, relative: Rank, tree: int) -> Step:
        if self.spec.port_model is ALL and relative:
            # Round i begins after i rounds of `numbers` steps each.
            return self.trees.place(relative, tree) * self.numbers + 1
        return super().offset(relative, tree)

    def tree_last_offset(self, tree: int) -> Step:
        if self.spec.port_model is ALL:
            return (self.topology.degree - 1) * self.numbers + 1
        return super().tree_last_offset(tree)

    def cost_of_packets(self, cited: str) -> list[Claim]:
        if self.spec.port_model is ALL:
            return super().cost_of_packets(cited)
        loads = broadcast_rotated(self.topology.degree)
        if self.collective is Collective.REDUCE:
            # A reduce meets the same loads in reverse order.
            loads.reverse()
        return [
            Claim("steps", len(loads), "==", cited),
            *load_claims(self.spec, self.segments_per_message, loads, cited),
        ]

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        claims = super().cost_claims(startup, per_byte)
        # Merged over one port: T_min of the pipelined form does not apply.
        return claims if self.spec.port_model is ALL else claims[:-1]

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the best number of segments.

        Over one port it is 1: parts that share a link travel together, however they are cut.
        """
        # A merged packet is as long as everything on the link, however it is cut.
        return super().auto_segments(topology, spec, startup, per_byte) if spec.port_model is ALL else 1


@register
class EdgeDisjointBroadcast(EdgeDisjointRedundancy, CubeBroadcast):
    """Down n arc-disjoint spanning binomial trees, nESBT: packet q on tree q mod n, never more than one on a link.

    Over one port packet q enters node v in cycle f(v, q mod n) + n floor(q/n), with the labels f of the trees: P + n
    steps, one more than the lower bound; with one send or one receive per step, the P - 1 cycles with links used in
    both directions are split: 2P + n - 1. Over all ports ceil(P/n) + n. (N-1)P transmissions. `segments` is P. The
    source need not know the faults: with redundancy x every packet travels over x trees, xP packets in all, and because
    the n paths to a node share no inner node, x - 1 faulty nodes or links leave every healthy node served, x <= n. A
    node knows its relative address and the tree, from the header or from the port of arrival. Johnsson and Ho, sections
    3.5 and 4.1.5, theorems 4.1 to 4.3, tables 4 and 5.
    """

    name = "nesbt"
    citation = "Johnsson-Ho 1986, nESBT"
    table = "theorems 4.1 to 4.3, tables 4 and 5"
    port_models: tuple[PortModel, ...] = (ALL, *ONE_WAY)
    trees: EdgeDisjointBinomialTrees
    trees_class = EdgeDisjointBinomialTrees

    def validate(self) -> None:
        if not self._split:
            # Unless they are split, cycles n .. n + P - 2 use links in both directions at once.
            self.duplexes = (Duplex.FULL,)
        super().validate()

    @property
    def _split(self) -> bool:
        """True if two-way cycles take two steps."""
        return self.spec.port_model is PortModel.SEND_OR_RECEIVE

    @staticmethod
    def form(n: int, ports: PortModel) -> CycleForm:
        if ports is ALL:
            return CycleForm(1, n, n)
        # 2P + n - 1 with one send or one receive (theorem 4.3), P + n by exchange.
        return CycleForm(2, n - 1) if ports is PortModel.SEND_OR_RECEIVE else CycleForm(1, n)

    @property
    def period(self) -> Step:
        # Tree j gets every n-th packet, so its packets are n cycles apart.
        return 1 if self.spec.port_model is ALL else self.topology.degree

    @property
    def busiest_arc(self) -> int:
        return self.numbers

    @property
    def last_step(self) -> Step:
        return self._form.cycles(-(-self.copies // self._form.share))

    def arrival(self, relative: Rank, tree: int, number: int) -> Step:
        """Return the step when copy `number` of `tree` reaches a rank, if two-way cycles take two steps.

        These are cycles n .. n + P - 2. The node with a 0-bit in the dimension of the cycle sends first.
        """
        n, packets = self.topology.degree, self.copies
        # Label of the paper plus n cycles for every round of packets.
        cycle = self.trees.label(relative, tree) + n * number
        if cycle < n:
            # Cycles 0 .. n - 1: the first packets spread out, and no link is used both ways yet.
            return cycle + 1
        if cycle >= n + packets - 1:
            # The last packets: P - 1 two-way cycles came before, and each took one step more.
            return cycle + packets
        # Two-way cycle: two steps. In cycle c all traffic is in dimension c mod n, so this bit tells the two ends
        # apart.
        return 2 * cycle - n + (1 if relative >> cycle % n & 1 else 2)

    def rule(self, view: LocalView) -> Rule:
        if not self._split:
            return super().rule(view)
        # Contributions are folded by the timetable of `crossing_step`, as in every reduce.
        return self.fold_rule(view) if self.collective is Collective.REDUCE else SplitForwardRule(self, view)

    def number(self, tree: int, segment: int) -> int:
        """Return the inverse of `copies_on_tree`: the number of a segment's copy on a tree."""
        first, count = segment * self.spec.redundancy, self.trees.count
        # The segment's copy on this tree is the first one from `first` on that is congruent to the tree.
        return (first + (tree - first) % count) // count

    def crossing_step(self, child: Rank, tree: int, number: int) -> Step:
        return self.arrival(child, tree, number) if self._split else super().crossing_step(child, tree, number)


class SplitForwardRule(ForwardRule):
    """Forward packets by the timetable of arrivals.

    The timetable differs between the packets of a tree.
    """

    __slots__ = ()
    _algorithm: EdgeDisjointBroadcast

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if me not in algorithm.sources:
            return
        sends = []
        for tree in range(algorithm.trees.count):
            for number, segment in algorithm.copies_on_tree(tree):
                payload = algorithm.payloads.segment(me, ALL_RANKS, segment)
                sends += self._to_children(0, number, (me, ALL_RANKS, tree, segment, payload))
        # Split cycles are not in order of trees, so the sends have to be sorted by step.
        yield from sorted(sends, key=lambda send: send[0])

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm = self._algorithm
        return [
            send
            for _, segments in packets
            for segment in segments
            for send in self._to_children(
                self._view.relative(segment[0]), algorithm.number(segment[2], segment[3]), segment
            )
        ]

    def _to_children(
        self, relative: Rank, number: int, segment: tuple[Rank, Rank, int, int, bytes]
    ) -> list[ScheduledSend]:
        algorithm, tree = self._algorithm, segment[2]
        return [
            (algorithm.arrival(algorithm.topology.neighbour(relative, port), tree, number), port, segment)
            for port in algorithm.trees.children(relative, tree)
        ]


register(backwards(GrayBroadcast))
register(backwards(RotatedGrayBroadcast))
register(backwards(BinomialBroadcast))
register(backwards(TwoRootedBroadcast))
register(backwards(RotatedBinomialBroadcast))
register(backwards(EdgeDisjointBroadcast, "It has no redundancy."))
