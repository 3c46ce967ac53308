"""Tseng and Sheu's algorithms for the star graph over n-1 trees at once, and the single greedy tree that they improve on.

Y.-C. Tseng and J.-P. Sheu, "Toward optimal broadcast in a star graph using multiple spanning trees", IEEE Trans.
Computers 46(5), 1997. Ts is the time of a start-up, Tc that of a byte, m the bytes of a message, D_n =
floor(3(n-1)/2) the diameter. Packets may hold several segments.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from math import ceil, floor, sqrt

from emunode.algorithms.base import byte_relation
from emunode.algorithms.breadth_first import TreeBroadcast
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.star.bounds import MULTIPLE, TimeBounded, least_time, time_bounds
from emunode.algorithms.transforms import backwards
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, CollectiveSpec, Duplex, Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.base import Trees
from emunode.trees.star.greedy import CongestionTwoTrees, GreedyTree
from emunode.trees.star.rotation import RotatedTrees


def best_segments(time: Callable[[int], float], optimum: float, most: int) -> int:
    """Return the better of the whole numbers around a real `optimum`, within 1..most; the smaller one if they are
    equally good.
    """
    # T(p) is convex in p, so the best whole number is next to the real optimum.
    candidates = {min(max(1, count), most) for count in (floor(min(optimum, most)), ceil(min(optimum, most)))}
    return min(sorted(candidates), key=time)


@register
class GreedyBroadcast(TreeBroadcast):
    """Down the greedy tree L(r): the parent of a node is where its first symbol reaches its own position. All-port or
    one-port; half-duplex links suffice.

    A node knows its own relative label only. All-port D_n + p - 1 steps for p segments: T = (D_n + p - 1)(Ts + m/p
    Tc), best with p = sqrt((D_n - 1) m Tc / Ts); with p = 1, D_n (Ts + m Tc), the algorithms that the paper
    compares itself with (section 6.1). n! - 1 transmissions a segment. Over one port a node serves its children one
    after the other. One faulty node or link cuts off its subtree. Tseng and Sheu 1997, definition 1.
    """

    family = "star"
    name = "greedy-tree"
    citation = f"{MULTIPLE}, tree L(r)"
    shortest_paths = "lemma 3, a greedy spanning tree"
    trees_class = GreedyTree

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        height, size = topology.diameter, spec.message_bytes
        # Free start-ups: the smaller the segments the better, down to one element.
        optimum = sqrt((height - 1) * size * per_byte / startup) if startup else size
        return best_segments(lambda p: (height + p - 1) * (startup + per_byte * size / p), optimum, spec.most_parts)

    def one_port_height(self) -> tuple[int, Relation, str]:
        """Return the height over one port, children served by ascending port: found by enumeration of S_3 to S_9."""
        return -(-3 * self.topology.degree**2 // 4), "==", "ceil(3(n-1)^2/4)"

    def claims(self) -> list[Claim]:
        claims = [*super().claims(), *time_bounds(self.topology, self.spec)]
        if self.spec.port_model is PortModel.ALL_PORT:
            source = f"{MULTIPLE}, section 6.1: h + p - 1 slots of m/p bytes"
            claims.append(
                Claim("transfer_bytes", self.last_step * self.largest_segment_bytes, byte_relation(self), source)
            )
            if not self.spec.packet_limit:
                claims.append(Claim("startups", self.last_step, "==", source))
        return claims

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        bound = least_time(self.topology, self.spec, startup, per_byte)
        # Without a closed form the general lower bound is all there is.
        if self.spec.port_model is not PortModel.ALL_PORT or self.spec.packet_limit:
            return [bound]
        seconds = self.last_step * (startup + per_byte * self.largest_segment_bytes)
        source = f"{MULTIPLE}, section 6.1: T = (h + p - 1)(Ts + m/p Tc)"
        return [Claim("virtual_seconds", seconds, byte_relation(self), source), bound]


class OnePortSimulation(TreeCollective):
    """An all-port schedule of slots that a one-port node can follow too: slot s becomes sub-steps (s-1)(n-1)+1 ..
    s(n-1), and in its k-th sub-step all nodes use only link type k+1. Segments that arrive in a slot leave in the next
    slot (sections 4.2, 5.2).
    """

    family = "star"
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    duplexes = (Duplex.FULL,)

    @property
    def slot(self) -> Step:
        """Number of steps of one slot: 1 all-port, n - 1 one-port."""
        return 1 if self.spec.port_model is PortModel.ALL_PORT else self.topology.degree

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        # Slots are steps: forward in the next one.
        if self.spec.port_model is PortModel.ALL_PORT:
            return [1] * len(ports)
        if not relative:
            # The root sends on type k + 1 in sub-step k of the first slot.
            return [port + 1 for port in ports]
        came_by = self.trees.parent(relative, tree)
        # From sub-step came_by + 1 of one slot to sub-step port + 1 of the next, whatever the order of the two types.
        return [self.slot + port - came_by for port in ports]


@register
class CongestionTwoBroadcast(OnePortSimulation):
    """Algorithm 1: p segments down each of the n-1 trees Lhat; at most two of the trees share a directed link. All-port
    or one-port.

    A node knows its own relative label only; a segment carries its tree. Over all ports a segment is forwarded in the
    step after its arrival: with h the largest height (D_n + n + gcd(n, i) - 2), T = (h + p - 1)(Ts + 2m / (p(n-1)) Tc),
    p(n-1)(n!-1) transmissions, best with p = sqrt(2m(h-1)Tc / ((n-1)Ts)), when T = O(n Ts + sqrt(m Ts Tc) + m/n
    Tc), optimal in both parts. Over one port by n-1 sub-steps a slot: (n-1) times that. The algorithm survives no
    fault, because the trees carry different segments. Sections 4.1 and 4.2, theorems 1 and 2, lemmas 5 and 6, table 1.
    Errata: section 4.1 prints n for h in its bounds; Algorithm 1 means the trees Lhat, not L; for n = 3, i = 2 the height is
    one less than lemma 5 says.
    """

    name = "congestion2-trees"
    collective = Collective.BROADCAST
    citation = f"{MULTIPLE}, algorithm 1"
    link_capacity = 2
    trees_class = CongestionTwoTrees

    @cached_property
    def period(self) -> Step:
        return self.slot

    @cached_property
    def height(self) -> int:
        """h, the largest height of the trees."""
        # Lemma 5: h = max over i; the trees are pipelined side by side, so the highest decides.
        return max(self.trees.height(tree) for tree in range(self.trees.count))

    @cached_property
    def last_offset(self) -> Step:
        return self.height if self.slot == 1 else super().last_offset

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        trees = CongestionTwoTrees(topology)
        # Each tree carries m/(n-1) bytes, in p segments.
        height, share = max(map(trees.height, range(trees.count))), spec.message_bytes / trees.count
        most = max(1, spec.most_parts // trees.count)
        # Eq. (5): the derivative of T(p) vanishes at p*, with two segments per packet.
        optimum = sqrt(2 * share * (height - 1) * per_byte / startup) if startup else most
        return best_segments(lambda p: (height + p - 1) * (startup + 2 * share * per_byte / p), optimum, most)

    def claims(self) -> list[Claim]:
        spec, slots = self.spec, self.height + self.numbers - 1
        steps = Claim("steps", slots, "==", f"{MULTIPLE}, section 4.1: h + p - 1")
        if spec.port_model is PortModel.ONE_PORT:
            # Not every last sub-step carries data, hence at most.
            steps = Claim("steps", self.slot * slots, "<=", f"{MULTIPLE}, section 4.2: n - 1 sub-steps a slot")
        source = f"{MULTIPLE}, lemma 6: congestion 2"
        packet = 2 * self.largest_segment_bytes
        return [
            *super().claims(),
            steps,
            # Lemma 6: no directed link is in more than two trees.
            Claim("max_link_segments_per_step", 2, "<=", source),
            Claim("max_link_segments", 2 * self.numbers, "<=", source),
            Claim("transfer_bytes", self.slot * slots * packet, "<=", f"{MULTIPLE}, section 4.1: 2m/(p(n-1)) a slot"),
            *time_bounds(self.topology, spec),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        segments = self.trees.count * self.spec.segments
        return [
            Claim("trees_per_arc", 2, "<=", f"{MULTIPLE}, lemma 6: congestion 2"),
            Claim("segments_per_message", segments, "==", f"{MULTIPLE}, algorithm 1: p(n-1) segments"),
        ]

    def cost_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """Return the claim T(p), an upper bound since not every slot has a packet of two segments, and the larger of
        each lower bound.
        """
        if self.spec.packet_limit:
            return []
        packet = 2 * self.largest_segment_bytes
        # An upper bound: a slot without two segments on a link is shorter.
        most = self.slot * (self.height + self.numbers - 1) * (startup + per_byte * packet)
        section = "4.1: T = " if self.slot == 1 else "4.2: T = (n-1)"
        return [
            Claim("virtual_seconds", most, "<=", f"{MULTIPLE}, section {section}(h + p - 1)(Ts + 2m/(p(n-1)) Tc)"),
            least_time(self.topology, self.spec, startup, per_byte),
            *self._best_segment_claims(startup, per_byte),
        ]

    def _best_segment_claims(self, startup: float, per_byte: float) -> list[Claim]:
        """Return the claims about a message of the best segments: p per tree, a whole number next to the p of eq. (5)."""
        spec, trees = self.spec, self.trees.count
        # Only a message that was cut by this very formula can be held against theorem 1.
        if spec.messages > 1 or spec.segments != self.auto_segments(self.topology, spec, startup, per_byte):
            return []
        most = max(1, spec.most_parts // trees)
        best = sqrt(2 * spec.message_bytes * (self.height - 1) * per_byte / (trees * startup)) if startup else most
        least, largest = (max(1, min(most, bound)) for bound in (floor(best), ceil(best)))
        source = f"{MULTIPLE}, theorem {1 if self.slot == 1 else 2}: p = sqrt(2m(h-1)Tc/((n-1)Ts))"
        return [
            Claim("segments_per_message", trees * least, ">=", source),
            Claim("segments_per_message", trees * largest, "<=", source),
        ]


@register
class RotatedTreesAllgather(TimeBounded, OnePortSimulation):
    """Algorithm 2: every node broadcasts the n-1 parts of its message down the n-1 rotations of one tree. All-port
    or one-port.

    A node knows its own relative label only; a segment carries its tree. In step t all links of level t are used, and
    every directed link carries the same: one segment of m/(n-1) bytes for each of the |D_t| nodes at distance t.
    D_n steps, (n-1) n! (n!-1) transmissions, T = D_n Ts + (n!-1) m/(n-1) Tc, optimal in both parts (lemma 2,
    theorem 3, table 2). Over one port by n-1 sub-steps a step: (n-1) D_n Ts + (n!-1) m Tc. Any spanning tree would
    work; this is the greedy tree. M messages travel together. The algorithm survives no fault, because the trees carry
    different parts. Errata: the printed bandwidth m(n!-1)/(m-1) has n-1 below, and section 6.2 means (n!-1) m/(n-1) Tc
    by its optimal transmission cost.
    """

    name = "rotated-trees"
    collective = Collective.ALLGATHER
    citation = f"{MULTIPLE}, algorithm 2"
    link_capacity = None
    period = 0

    def make_trees(self, topology: Topology) -> Trees:
        return RotatedTrees(GreedyTree(topology).star, GreedyTree(topology))

    @cached_property
    def last_offset(self) -> Step:
        return self.topology.diameter * self.slot

    def claims(self) -> list[Claim]:
        topology, spec = self.topology, self.spec
        links = topology.order * topology.degree
        theorem = f"{MULTIPLE}, theorem 3 and table 2"
        # Level t of every rotated tree is used in step t, and R maps types around: every link carries |D_t| segments.
        level = [self.numbers * nodes for nodes in topology.distribution_from(0)[1:]]
        per_link = self.numbers * (topology.order - 1)
        transferred = self.slot * per_link * self.largest_segment_bytes
        claims = [
            *super().claims(),
            Claim("steps", self.slot * topology.diameter, "==", f"{theorem}: D_n, over one port (n-1) D_n"),
            Claim("packets", links * topology.diameter, "==", f"{MULTIPLE}, section 5.1: every link in every step"),
            Claim("max_link_segments", per_link, "==", f"{MULTIPLE}, section 5.1: all links carry the same"),
            Claim(
                "heaviest_link_segments_per_step",
                # One-port: each of the n-1 sub-steps of a slot carries the same load on its own type.
                tuple(load for load in level for _ in range(self.slot)),
                "==",
                f"{MULTIPLE}, section 5.1: |D_t| segments on every link in step t",
            ),
            Claim("transfer_bytes", transferred, byte_relation(self), f"{theorem}: (n!-1) m/(n-1)"),
            *time_bounds(topology, spec),
        ]
        if not spec.packet_limit:
            claims.append(Claim("startups", self.slot * topology.diameter, "==", theorem))
        return [*claims, *self.structure_claims()]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{MULTIPLE}, lemma 3: rotations of a greedy spanning tree")]


register(backwards(GreedyBroadcast, "A faulty node takes what its subtree has sent with it."))
register(
    backwards(
        CongestionTwoBroadcast, "The paper has the broadcast only.", citation=f"{MULTIPLE}, algorithm 1 backwards"
    )
)
