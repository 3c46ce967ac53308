"""Allgather around a Hamiltonian circuit of the hypercube, one way or both ways, after Johnsson and Ho (1986).

The circuit is the binary-reflected Gray code path, closed over dimension n - 1; all ranks use the same
circuit; unlike the trees of the other algorithms, it is not translated to the source.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from emunode.algorithms.base import Dependence, LocalView, Need, Rule, Timing
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.costs import bound_claims, load_claims
from emunode.algorithms.hypercube.schedule import Uncut
from emunode.model import (
    ALL_RANKS,
    Collective,
    Duplex,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.registry import register
from emunode.trees.hypercube.gray import gray_position, transition

ONWARD, BACK = 0, 1
"""The two directions, as the `tree` of a segment."""


@register
class RingAllgather(Uncut):
    """Around the Gray code circuit: every node forwards to one neighbour the packets of the other.

    N - 1 steps of one block in one direction, if a node may send and receive at different ports; N/2 steps in both
    directions over all ports, with half of the ranks on either side. N(N-1) transmissions. A node knows its own
    address. One fault cuts the circuit. Johnsson and Ho, sections 6.1 and 8.4 (figure 19).
    """

    needs = frozenset({Need.EVERY_NODE})

    family = "hypercube"
    name = "brg-ring"
    collective = Collective.ALLGATHER
    dependence = Dependence.FIXED
    timing = Timing.FIXED
    citation = "Johnsson-Ho 1986, Hamiltonian circuit"
    port_models = (PortModel.ONE_PORT, PortModel.ALL_PORT)

    def validate(self) -> None:
        if self.spec.port_model is PortModel.ALL_PORT:  # blocks travel in both directions at once
            self.duplexes = (Duplex.FULL,)
        super().validate()
        self.cut()

    @property
    def reach(self) -> tuple[int, int]:
        """Hops of a block onward and back."""
        order = self.topology.order
        if self.spec.port_model is PortModel.ONE_PORT:
            return order - 1, 0
        # Half of the ring onward, the rest back, so that both directions end within a step of each other.
        return order // 2, order // 2 - 1

    def ports(self, rank: Rank) -> tuple[Port, Port]:
        """Return the ports of a rank that lead onward and back."""
        last = self.topology.degree - 1
        position = gray_position(rank)
        # The last position closes the circuit over dimension n - 1.
        onward = last if position == self.topology.order - 1 else transition(position)
        return onward, transition(position - 1) if position else last

    def rule(self, view: LocalView) -> Rule:
        return RingRule(self, view)

    def claims(self) -> list[Claim]:
        order, spec = self.topology.order, self.spec
        cited = f"{self.citation}: section 6.1"
        steps = max(self.reach)
        return [
            Claim("steps", steps, "==", cited),
            Claim("segments", order * (order - 1) * self.segments_per_message * spec.messages, "==", cited),
            Claim("intact_deliveries", order * (order - 1) * spec.messages, "==", cited),
            *bound_claims(spec, self.topology.degree),
            # The heaviest link carries one block in every step.
            *load_claims(spec, self.segments_per_message, [Fraction(1)] * steps, cited),
        ]


class RingRule(Rule):
    """Forward a block in its direction until it has made all its hops."""

    __slots__ = ("_algorithm", "_ports", "_rank")

    def __init__(self, algorithm: RingAllgather, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._ports = algorithm.ports(view.rank)

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        for direction, hops in enumerate(algorithm.reach):
            for index in range(algorithm.segments_per_message * algorithm.spec.messages if hops else 0):
                payload = algorithm.payloads.segment(me, ALL_RANKS, index)
                yield 1, self._ports[direction], (me, ALL_RANKS, direction, index, payload)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        reach = self._algorithm.reach
        return [
            (step + 1, self._ports[segment[2]], segment)
            for _, segments in packets
            for segment in segments
            # All blocks start in step 1, so the step is the number of hops made.
            if step < reach[segment[2]]
        ]
