"""Directed Kautz and de Bruijn networks: their breadth-first broadcast is only computed, since links here go both ways."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from emunode.algorithms.any_network.last_hops import least_load


@dataclass(frozen=True)
class DirectedNetwork:
    """By node, the nodes with an arc to it."""

    title: str
    sources: tuple[tuple[int, ...], ...]

    @property
    def order(self) -> int:
        """Number of nodes."""
        return len(self.sources)

    @property
    def degree(self) -> int:
        """The fewest arcs into a node."""
        return min(map(len, self.sources))

    def loads(self) -> list[Fraction]:
        """Return the load of every phase: the most blocks on an arc, with blocks split in the best way, over all
        receivers.
        """
        loads: list[Fraction] = []
        for receiver in range(self.order):
            for phase, classes in enumerate(self._classes(receiver)):
                loads += [Fraction(0)] * (phase + 1 - len(loads))
                loads[phase] = max(loads[phase], least_load(frozenset(classes.items())))
        return loads

    def _classes(self, receiver: int) -> Iterator[Counter[int]]:
        """Yield for distance 1, 2, .. how many origins have the same last arcs, as a bit mask of arcs into `receiver`."""
        seen = {receiver}
        level: dict[int, int] = {}
        for arc, source in enumerate(self.sources[receiver]):
            level[source] = level.get(source, 0) | 1 << arc
        while level:
            yield Counter(level.values())
            seen.update(level)
            farther: dict[int, int] = {}
            for node, mask in level.items():
                for source in self.sources[node]:
                    if source not in seen:
                        farther[source] = farther.get(source, 0) | mask
            level = farther


def directed_networks() -> Iterator[DirectedNetwork]:
    """Yield the Kautz networks K(d, k), and the de Bruijn networks B(2, k) without their loops."""
    for degree, length in ((2, 3), (2, 4), (3, 3), (4, 3)):
        order = degree**length + degree ** (length - 1)
        # Imase and Itoh: from x arcs lead to -d x - 1, .., -d x - d modulo the order.
        arcs = [(x, (-degree * x - step) % order) for x in range(order) for step in range(1, degree + 1)]
        yield _network(f"Kautz K({degree},{length})", order, arcs)
    for length in (3, 4):
        order = 2**length
        arcs = [(x, (2 * x + bit) % order) for x in range(order) for bit in (0, 1)]
        yield _network(f"de Bruijn B(2,{length})", order, arcs)


def _network(title: str, order: int, arcs: list[tuple[int, int]]) -> DirectedNetwork:
    sources: list[list[int]] = [[] for _ in range(order)]
    for one, other in arcs:
        if one != other:
            sources[other].append(one)
    return DirectedNetwork(title, tuple(map(tuple, sources)))
