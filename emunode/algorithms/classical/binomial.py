"""The binomial broadcast by ranks: in step k + 1 the first 2^k places send over distance 2^k."""

from collections.abc import Iterator

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.classical.allgather import ONE_WAY, logarithm
from emunode.algorithms.classical.places import natural_places
from emunode.algorithms.scheduled_collective import ScheduledCollective, TimetableRow
from emunode.model import Collective, Rank, Step
from emunode.registry import register


@register
class BinomialByRank(ScheduledCollective):
    """The binomial tree over distances 2^k: in step k + 1 place r < 2^k, counted from the source, sends to r + 2^k.

    ceil(log2 p) steps, the optimum over one port for one packet; p - 1 transmissions per segment, and all segments
    travel together. It needs links at the distances 2^k from some of the ranks: circulant networks with these jumps,
    and complete ones. A node knows its own rank. A fault cuts off the subtree behind it. Thakur, Rabenseifner and Gropp
    2005, section 4.2.
    """

    needs = frozenset({Need.EVERY_NODE, Need.SPECIAL_LINKS})
    family = "any"
    name = "binomial"
    collective = Collective.BROADCAST
    port_models = ONE_WAY
    citation = "Thakur-Rabenseifner-Gropp 2005, binomial tree"

    def validate(self) -> None:
        self.places = natural_places(self.topology)
        count, root = self.places.count, self.places.place(self.spec.source)
        needed = (((root + place) % count, (root + peer) % count) for _, place, peer in self._hops())
        self.places.require(needed, self.name)
        super().validate()

    def _hops(self) -> Iterator[tuple[Step, int, int]]:
        """Yield (step, sender, receiver) of the tree, counted from the source."""
        for peer in range(1, self.places.count):
            step = peer.bit_length()
            yield step, peer - (1 << step - 1), peer

    @property
    def last_step(self) -> Step:
        return logarithm(self.places.count)

    def _relative(self, rank: Rank) -> int:
        return (self.places.place(rank) - self.places.place(self.roots[0])) % self.places.count

    def _row(self, rank: Rank, other: int, step: Step) -> Iterator[TimetableRow]:
        """Yield the rows of all segments over the link to the place `other`, counted from the source."""
        there = (other + self.places.place(self.roots[0])) % self.places.count
        port = self.places.port(self.places.place(rank), there)
        for segment in self.numbers:
            yield step, port, self.roots[0], segment

    def sends(self, rank: Rank) -> Iterator[TimetableRow]:
        relative = self._relative(rank)
        for k in range(relative.bit_length(), self.last_step):
            if relative + (1 << k) < self.places.count:
                yield from self._row(rank, relative + (1 << k), k + 1)

    def receipts(self, rank: Rank) -> Iterator[TimetableRow]:
        relative = self._relative(rank)
        if relative:
            step = relative.bit_length()
            yield from self._row(rank, relative - (1 << step - 1), step)

    def claims(self) -> list[Claim]:
        return [
            *super().claims(),
            Claim("steps", self.last_step, "==", f"{self.citation}: ceil(log2 p) steps"),
            Claim("max_link_segments", len(self.numbers), "==", f"{self.citation}: a tree"),
        ]
