"""Bruck's alltoall: blocks move by the binary digits of their distance."""

from collections.abc import Iterator
from functools import cached_property

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.classical.allgather import ONE_WAY, logarithm
from emunode.algorithms.classical.places import natural_places
from emunode.algorithms.routed_collective import Route, RoutedCollective
from emunode.model import Collective, Duplex, Rank, Step
from emunode.registry import register


@register
class BruckExchange(RoutedCollective):
    """Bruck's alltoall of radix 2: in step k a block for the rank at distance i moves over distance 2^k if i has bit k.

    ceil(log2 p) steps, the fewest over one port; a rank sends as many blocks as the numbers 1 .. p-1 have binary ones, (p/2)
    log2 p for a power of two. It needs links at the distances 2^k: circulant networks with these jumps, and complete ones. A
    node knows its own rank. It survives no fault. Bruck et al. 1997, section 3.
    """

    needs = frozenset({Need.EVERY_NODE, Need.SPECIAL_LINKS})
    family = "any"
    name = "bruck"
    collective = Collective.ALLTOALL
    port_models = ONE_WAY
    link_capacity = None
    citation = "Bruck et al. 1997, section 3"

    def validate(self) -> None:
        topology, count = self.topology, self.topology.order
        self.places = natural_places(topology)
        distances = [1 << k for k in range(logarithm(count))]
        links = ((rank, (rank + distance) % count) for rank in topology.ranks() for distance in distances)
        self.places.require(links, self.name)
        topology.require(
            all(topology.relative(rank, 1) == (rank - 1) % count for rank in topology.ranks()),
            f"{self.name} needs a network whose translations add to the rank",
        )
        if count == 2 * distances[-1]:
            # The last distance leads to the opposite rank, from both sides.
            self.duplexes = (Duplex.FULL,)
        super().validate()

    def route(self, target: Rank, route_index: int, number: int) -> Route:
        return list(self._hops_to(target))

    def _hops_to(self, target: Rank) -> Iterator[tuple[int, Step]]:
        here = 0
        for k in range(target.bit_length()):
            if target >> k & 1:
                there = here + (1 << k)
                yield self.places.port(here, there), k + 1
                here = there

    @cached_property
    def last_step(self) -> Step:
        return logarithm(self.topology.order)

    def claims(self) -> list[Claim]:
        count = self.topology.order
        ones = sum(distance.bit_count() for distance in range(count))
        return [
            *super().claims(),
            Claim("steps", logarithm(count), "==", f"{self.citation}: ceil(log2 p) steps"),
            Claim("segments", count * self.copies * ones, "==", f"{self.citation}: the binary ones of 1 .. p-1"),
        ]
