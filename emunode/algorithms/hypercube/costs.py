"""Costs of algorithms on the hypercube, in the model of Johnsson and Ho (YALEU/DCS/TR-500, 1986).

A step with x bytes on its heaviest directed link costs tau ceil(x/B) + x t_c: `startups` and `transfer_bytes` of a run
are the sums of ceil(x/B) and of x over its steps, and T = tau startups + t_c transfer_bytes is its virtual time.
Elements are bytes; M is the size of one message (of one block in the personalised collectives); n the dimension, N =
2^n. Loads are in units of M, cycle by cycle, and exact where the parts of a message are equal.

Two kinds of schedule. *Pipelined*: packets follow each other, a P + b cycles for P packets of a tree; `CycleForm` holds a
and b and knows the best P. *Merged*: everything that waits for a link crosses it at once, and `loads` gives the
amounts; the best B is the largest load, so nothing is gained by cutting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, comb, sqrt

from emunode.algorithms.claims import Claim, Relation, lower_bound
from emunode.model import Collective, CollectiveSpec, PortModel

CycleLoads = Sequence[Fraction]
"""Largest load of a directed link in every cycle, in messages."""

BOUNDS = "Johnsson-Ho 1986, lower bound of"


@dataclass(frozen=True, slots=True)
class CycleForm:
    """a P + b cycles for P packets in each of `share` parts of a message."""

    a: int
    b: int
    share: int = 1

    def cycles(self, packets: int) -> int:
        """Return the cycles for P packets of a tree."""
        return self.a * packets + self.b

    def best_packets(self, size: float, startup: float, per_byte: float) -> float:
        """Return P = M/B_opt = sqrt(b M t_c / (a tau)) for a part of `size` bytes, as a real number of at least 1.

        Infinite if a start-up costs nothing and the pipeline is longer than its packets.
        """
        # b = 0: the cost grows with P, so one packet is best. Free bytes: so is one packet.
        if self.b <= 0 or per_byte <= 0:
            return 1.0
        if startup <= 0:
            return float("inf")
        # P = sqrt(b M t_c / (a tau)), from the derivative of (a P + b)(tau + (M/P) t_c).
        return max(1.0, sqrt(self.b * size * per_byte / (self.a * startup)))

    def seconds(self, packets: float, size: float, startup: float, per_byte: float) -> float:
        """Return T for a part of `size` bytes in real-valued packets."""
        if packets == float("inf"):
            # The limit of T for P to infinity without start-ups.
            return self.a * size * per_byte
        return (self.a * packets + self.b) * (startup + size / packets * per_byte)

    def best_segments(self, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the number of packets of each part with the least T: B_opt, or the packet limit where it is smaller."""
        most = max(1, spec.most_parts // self.share)
        best = self.best_packets(spec.messages * spec.message_bytes / self.share, startup, per_byte) / spec.messages
        if spec.packet_limit:
            # Packets above the limit would be cut again at every link, each with its own start-up.
            best = max(best, spec.message_bytes / self.share / spec.packet_limit)
        if best >= most:
            return most

        def cost(per_message: int) -> float:
            size = spec.cut(self.share * per_message).longest
            each = startup * start_ups(size, spec.packet_limit) + per_byte * size
            return self.cycles(spec.messages * per_message) * each

        # T is convex in P, so the best whole number is next to the real optimum.
        return min((max(1, int(best)), max(1, ceil(best))), key=cost)


def start_ups(size: int, limit: int) -> int:
    """Return ceil(x/B), or 1 for any amount if there is no limit."""
    return -(-size // limit) if limit else min(size, 1)


def packet_claims(spec: CollectiveSpec, per_message: int, steps: int, source: str) -> list[Claim]:
    """Return the cost of a pipelined schedule that uses links in `steps` steps, with one segment on the heaviest link
    in each.

    The claims are upper bounds if the segments of a message differ by an element.
    """
    # The longest segment; shorter ones on the same link cost less.
    size = spec.cut(per_message).longest
    relation, source = _exactness(spec, per_message, source)
    return [
        Claim("max_link_segments_per_step", 1, "==", source),
        Claim("startups", steps * start_ups(size, spec.packet_limit), relation, source),
        Claim("transfer_bytes", steps * size, relation, source),
    ]


def load_claims(
    spec: CollectiveSpec, per_message: int, loads: CycleLoads, source: str, *, derived: bool = False
) -> list[Claim]:
    """Return the cost of a merged schedule whose heaviest links carry `loads` (maybe `derived` from its routes)."""
    size = per_message * spec.cut(per_message).longest
    relation, cited = _exactness(spec, per_message, source)
    # A load is a whole number of parts, so the product is a whole number of segments.
    segments = tuple(int(load * per_message * spec.messages) for load in loads)
    carried = [int(load * size * spec.messages) for load in loads]
    return [
        # The best packet B_opt is the largest load: everything in one start-up per cycle.
        Claim("heaviest_link_segments_per_step", segments, "==", source, derived),
        Claim("max_link_segments_per_step", max(segments), "==", f"{source}: B_opt", derived),
        Claim("startups", sum(start_ups(load, spec.packet_limit) for load in carried), relation, cited, derived),
        Claim("transfer_bytes", sum(carried), relation, cited, derived),
    ]


def _exactness(spec: CollectiveSpec, per_message: int, source: str) -> tuple[Relation, str]:
    """Return the relation of claims about bytes, and their source with the reason for it."""
    cut = spec.cut(per_message)
    # Equal segments: the prediction is exact.
    if not cut.longer:
        return "==", source
    divided = f"{spec.message_bytes} bytes" if cut.element_bytes == 1 else f"{cut.elements} numbers"
    parts = f"{per_message} parts of {cut.shortest} or {cut.longest} bytes"
    return "<=", f"{source}; {parts}, as {per_message} does not divide {divided}"


def bound_claims(spec: CollectiveSpec, n: int) -> list[Claim]:
    """Return the lower bounds of the paper, for every algorithm."""
    size, order = spec.messages * spec.message_bytes * spec.redundancy, 1 << n
    ports = n if spec.port_model is PortModel.ALL_PORT else 1
    match spec.collective:
        case Collective.BROADCAST | Collective.REDUCE:
            # The message must leave over n ports, and the last element has n - 1 more links to cross.
            where, least = "section 4", spec.least(size, ports) + (n - 1) * spec.element_bytes
        case Collective.SCATTER | Collective.GATHER:
            # The source sends N - 1 blocks; in a gather the target receives them.
            where, least = "section 5", spec.least((order - 1) * size, ports)
        case Collective.ALLGATHER | Collective.REDUCE_SCATTER:
            where, least = "theorem 6.1", spec.least((order - 1) * size, ports)
        case Collective.ALLTOALL:
            # N blocks per node at the average distance n/2, over one or all of its ports.
            where, least = "theorems 7.1 and 7.2", n * order * size // (2 * ports)
        case Collective.ALLREDUCE | Collective.UNICAST:
            return []
    return [
        lower_bound("startups", n, f"{BOUNDS} {where}"),
        lower_bound("transfer_bytes", least, f"{BOUNDS} {where}"),
    ]


# --- loads in closed form ------------------------------------------------------------------------------------------------


def ones(cycles: int, share: int = 1) -> list[Fraction]:
    """Return a part of a message in every cycle."""
    return [Fraction(1, share)] * cycles


def broadcast_rotated(n: int) -> list[Fraction]:
    """Return the broadcast by nRSBT over one port: cycle c carries min(c + 1, 2n - 1 - c) parts."""
    return [Fraction(min(cycle + 1, 2 * n - 1 - cycle), n) for cycle in range(2 * n - 1)]


def scatter_halving(n: int) -> list[Fraction]:
    """Return the scatter by SBT over one port: everything behind port d."""
    return [Fraction(1 << n - 1 - d) for d in range(n)]


def scatter_rotated(n: int) -> list[Fraction]:
    """Return the scatter by nRSBT over one port: the sends of the root in cycle i (erratum: 5.1.4 prints 2^(n+1-n) for
    2^(i+1-n)).
    """
    order = 1 << n
    # Cycles 0 .. n - 1: subtrees of all n trees start one after the other.
    rising = [Fraction(order, n) * (1 - Fraction(1, 2 << i)) for i in range(n)]
    # Cycles n .. 2n - 2: the trees finish in turn.
    falling = [Fraction(order, n) * (Fraction(1, 1 << i + 1 - n) - Fraction(1, order)) for i in range(n, 2 * n - 1)]
    return rising + falling


def scatter_tworooted(n: int) -> list[Fraction]:
    """Return the scatter by TCBT over one port: half of everything to either child, then both halves of a half, and so
    on.
    """
    halves = [Fraction(size) for i in range(n - 2, 0, -1) for size in [(1 << i) - 1] * 2]
    # The two children of the root head halves of N/2 and N/2 - 1 nodes; below, complete binary trees.
    return [Fraction(1 << n - 1), Fraction((1 << n - 1) - 1), *halves]


def scatter_by_level(sizes: Sequence[int], share: int = 1) -> list[Fraction]:
    """Return the scatter in reverse breadth-first order: the nodes of every level behind the fullest port, farthest
    first.
    """
    # Farthest first: the levels in reverse.
    return [Fraction(size, share) for size in reversed(sizes)]


def binomial_levels(n: int) -> list[int]:
    """Return the nodes on levels 1, 2, .. behind port 0 of an SBT."""
    return [comb(n - 1, level) for level in range(n)]


def cube_levels(n: int) -> list[int]:
    """Return the nodes on levels 1, 2, .. of a shortest-path tree."""
    return [comb(n, level) for level in range(1, n + 1)]


def edge_disjoint_levels(n: int) -> list[int]:
    """Return the nodes on levels 1, 2, .. of one tree of nESBT (lemma 3.23)."""
    # Level 1 is the root's only child, level 2 its n - 1 children; from level 3 on C(n, i - 1) (lemma 3.23).
    return [1, n - 1, *(comb(n, level - 1) for level in range(3, n + 2))]


def allgather_binomial(n: int) -> list[Fraction]:
    """Return the allgather by SBT over one port: the holdings of a node double."""
    return [Fraction(1 << d) for d in range(n)]


def allgather_rotated(n: int) -> list[Fraction]:
    """Return the allgather by nRSBT over one port: arcs of label i."""
    rising = [Fraction((2 << i) - 1, n) for i in range(n)]
    return rising + [Fraction((1 << n) - (2 << i - n), n) for i in range(n, 2 * n - 1)]


def allgather_edge_disjoint(n: int) -> list[Fraction]:
    """Return the allgather by nESBT over one port: arcs of label i."""
    rising = [Fraction(1 << i, n) for i in range(n)]
    return rising + [Fraction((1 << n) - 1 - (1 << i - n), n) for i in range(n, 2 * n)]


def alltoall_rotated(n: int) -> list[Fraction]:
    """Return the alltoall by nRSBT over one port: N(i+1)/(2n) up to cycle n - 1, then falling again (table 15)."""
    return [Fraction(min(i + 1, 2 * n - 1 - i) << n, 2 * n) for i in range(2 * n - 1)]


def alltoall_edge_disjoint(n: int) -> list[Fraction]:
    """Return the alltoall by nESBT over one port: ((i+2)N/2 - 1)/n rising, (iN/2 - 1)/n falling (table 15, corrected)."""
    half = Fraction(1 << n, 2)
    rising = [((i + 2) * half - 1) / n for i in range(n)]
    return rising + [(i * half - 1) / n for i in range(n, 0, -1)]


def alltoall_binomial(n: int) -> list[Fraction]:
    """Return the alltoall by SBT over all ports: the largest of C(d, l) 2^(n-d-1), at d = min(2l, n-1)."""
    # C(d, l) 2^(n-d-1) is largest at d = 2l, or at the last dimension if that is smaller.
    largest = [min(2 * level, n - 1) for level in range(n)]
    return [Fraction(comb(d, level) << n - d - 1) for level, d in enumerate(largest)]


def below(sizes: Sequence[int], share: int) -> list[Fraction]:
    """Return the alltoall over all ports by rotated trees: the nodes beyond every level, given the nodes on levels 1,
    2, ...
    """
    # A block for level L crosses its l-th link in cycle l if L > l: the load is the number of nodes beyond.
    return [Fraction(sum(sizes[level:]), share) for level in range(len(sizes))]
