"""Scatter on the hypercube over one port in packets of one block, after Johnsson and Ho (1986), section 5.1.

The root sends one packet in every cycle in a published order, and inner nodes forward each in the next cycle when they
may. A block of k segments (or k messages) takes k rounds, except along the BRG, where segments follow each other. A
link carries one packet per cycle, as the nodes enforce. All schedules are legal with one send or one receive per step.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import CycleLoads
from emunode.algorithms.hypercube.scatter import CubeScatter
from emunode.algorithms.hypercube.schedule import ONE_WAY
from emunode.algorithms.routed_collective import Route
from emunode.algorithms.transforms import backwards
from emunode.model import Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths


class OrderedScatter(CubeScatter):
    """One segment on the heaviest link in every cycle."""

    link_capacity = 1
    port_models = ONE_WAY
    tables = ("section 5.1", "")

    @property
    def cycles(self) -> int:
        """Number of cycles, by the paper; here N - 1 per round."""
        return (self.topology.order - 1) * self.copies

    def forward_loads(self) -> CycleLoads:
        return [Fraction(1, self.copies)] * self.cycles

    def claims(self) -> list[Claim]:
        return [*super().claims(), Claim("steps", self.cycles, "==", f"{self.citation}: {self.tables[0]}")]


@register
class GrayScatter(OrderedScatter):
    """Along the Gray code path, BRG, the farthest first.

    A packet leaves in every second cycle, those of the nearest node, at the end, in every cycle: max(2(N-1)k - k, 2N - 3)
    steps for blocks of k packets, even with one send or one receive; max((N-1)k, N - 1) if the ports of send and receive may
    differ. Johnsson and Ho, section 5.1.1, tables 7 and 8.
    """

    name = "brg"
    citation = "Johnsson-Ho 1986, BRG"
    tables = ("tables 7 and 8", "")
    trees_class = GrayPaths

    @property
    def cycles(self) -> int:
        others = (self.topology.order - 1) * self.copies
        # Every second cycle, except for the nearest node, whose k packets leave in every cycle.
        return others if self._apart else 2 * others - self.copies

    @property
    def _apart(self) -> bool:
        """True if a packet may leave in every cycle."""
        return self.spec.port_model is PortModel.ONE_PORT

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        ports = self.trees.route(target, route_index)
        before = (self.topology.order - 1 - len(ports)) * self.copies
        # The nearest node's packets are not forwarded, so they need no cycle in between.
        first = before + number if self._apart else 2 * before + number * (2 if len(ports) > 1 else 1)
        return [(port, first + hop) for hop, port in enumerate(ports, 1)]


@register
class BinomialGrayScatter(OrderedScatter):
    """Down the spanning binomial tree in the port order of the binary-reflected Gray code: descending relative address.

    In cycle t every node uses port ctz(t + 1) only. For packets of B = 2^b M (b = 0 without a packet limit) the root
    sends in cycle t the blocks of all relative targets congruent to 2^(n-b) - 1 - t modulo 2^(n-b), and they are passed
    on in the next slot; b cycles of halving over ports n-b .. n-1 end it: 2^(n-b) - 1 + b steps, (N-1)M in all.
    Johnsson and Ho, section 5.1.2.
    """

    name = "sbt-gray"
    citation = "Johnsson-Ho 1986, SBT in Gray code port order"
    trees_class = BinomialTree

    def validate(self) -> None:
        super().validate()
        if self.doublings:
            # A packet of 2^b blocks holds all segments of these blocks.
            self.link_capacity = self.copies << self.doublings

    @cached_property
    def doublings(self) -> int:
        """b of B = 2^b M."""
        blocks = self.spec.packet_limit // (self.spec.messages * self.spec.message_bytes)
        # Rounded down to a power of two: `bit_length` - 1.
        return max(0, min(self.topology.degree - 1, blocks.bit_length() - 1))

    @property
    def cycles(self) -> int:
        if not self.doublings:
            return super().cycles
        return (1 << self.topology.degree - self.doublings) - 1 + self.doublings

    def forward_loads(self) -> CycleLoads:
        b = self.doublings
        if not b:
            return super().forward_loads()
        # Full packets of 2^b blocks, then b cycles of halving: 2^(b-1), .., 2, 1 blocks.
        return [Fraction(1 << b)] * (self.cycles - b) + [Fraction(1 << halving) for halving in reversed(range(b))]

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        low_bits = self.topology.degree - self.doublings
        round_start = 0 if self.doublings else number * (self.topology.order - 1)
        # Descending relative address: the block of the target with the largest low bits leaves first.
        place = (1 << low_bits) - target % (1 << low_bits)
        route = []
        for port in self.trees.route(target, route_index):
            if port < low_bits:
                route.append((port, round_start + place))
                # With m = N - c for b = 0: the hops are in cycles m - 1, m + lowbit(m) - 1, and so on.
                place += 1 << port
            else:
                # The b highest ports are used once each, at the end.
                route.append((port, (1 << low_bits) + port - low_bits))
        return route


@register
class BinomialPostorderScatter(OrderedScatter):
    """Down the spanning binomial tree, the subtree of each port in postorder, ports in Gray code order as in `sbt-gray`.

    The largest subtree comes first, and inner nodes pass on in the next cycle. N - 1 steps for packets of one block.
    Johnsson and Ho, section 5.1.2.
    """

    name = "sbt-postorder"
    citation = "Johnsson-Ho 1986, SBT in postorder"
    trees_class = BinomialTree

    @cached_property
    def _first_cycles(self) -> dict[Rank, int]:
        """The cycle when a target's block leaves the root."""
        return {
            # Port d is used in cycles 2^d - 1 + k 2^(d+1), as in `sbt-gray`.
            rank: (2 * place + 1 << port) - 1
            for port in range(self.topology.degree)
            for place, rank in enumerate(postorder(self.trees, 1 << port))
        }

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        first = self._first_cycles[target] + 1 + number * (self.topology.order - 1)
        return [(port, first + hop) for hop, port in enumerate(self.trees.route(target, route_index))]


@register
class BalancedCyclicScatter(OrderedScatter):
    """Down the spanning balanced n-tree, the root's ports in turn, in each subtree the farthest first.

    N - 1 steps for packets of one block: ports that are done are left out, inner nodes pass on in the next cycle.
    Johnsson and Ho, section 5.1.5.
    """

    name = "sbnt-cyclic"
    needs = frozenset({Need.TABLE, Need.EVERY_NODE})
    citation = "Johnsson-Ho 1986, SBnT in cyclic order, reverse breadth first"
    trees_class = BalancedTrees

    def order_of(self, port: Port) -> list[Rank]:
        """Return the targets behind a port of the root in the order of service."""
        return sorted(postorder(self.trees, 1 << port), key=lambda rank: -self.trees.level(rank, 0))

    @cached_property
    def _first_steps(self) -> dict[Rank, Step]:
        """The step when a target's block leaves the root."""
        queues = [self.order_of(port) for port in range(self.topology.degree)]
        # One target per port and round; ports whose queue is empty are skipped by the sort.
        turns = sorted((place, port) for port, queue in enumerate(queues) for place in range(len(queue)))
        return {queues[port][place]: step for step, (place, port) in enumerate(turns, 1)}

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        first = self._first_steps[target] + number * (self.topology.order - 1)
        return [(port, first + hop) for hop, port in enumerate(self.trees.route(target, route_index))]


@register
class BalancedPostorderScatter(BalancedCyclicScatter):
    """`sbnt-cyclic` with the targets of each subtree in postorder."""

    name = "sbnt-postorder"
    citation = "Johnsson-Ho 1986, SBnT in cyclic order, postorder"

    def order_of(self, port: Port) -> list[Rank]:
        return list(postorder(self.trees, 1 << port))


def postorder(trees: Trees, rank: Rank) -> Iterator[Rank]:
    """Yield the subtree of `rank` in tree 0, every node after its children, and children in the order of service."""
    for port in trees.children(rank, 0):
        yield from postorder(trees, trees.topology.neighbour(rank, port))
    yield rank


register(backwards(GrayScatter))
register(backwards(BinomialGrayScatter))
register(backwards(BinomialPostorderScatter))
register(backwards(BalancedCyclicScatter))
register(backwards(BalancedPostorderScatter))
