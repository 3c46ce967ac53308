"""The diameter of containers of disjoint paths."""

from collections.abc import Iterator

from coordinator.annexes.invariants.base import (
    Budget,
    ClosedForm,
    Invariant,
    InvariantNetwork,
    InvariantValue,
    OverBudgetError,
)
from coordinator.annexes.invariants.fault_diameter import kappa, partial
from emunode.model import Rank
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph


class WideDiameter(Invariant):
    """D_w (Hsu and Lyuu 1994) for w = 1 .. kappa; "the" wide diameter is the last value."""

    name = "wide_diameter"
    meaning = "least L so that any two nodes have w = 1 .. kappa inner-disjoint paths of at most L links"
    closed_forms = (
        ClosedForm(StarGraph, lambda star, _: {4: 6, 5: 7}.get(star.n), "w = n-1: enumerated for n = 4, 5"),
        ClosedForm(Hypercube, lambda cube, _: cube.n + 1 if cube.n >= 3 else None, "w = n: n+1 for n >= 3"),
    )

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        lengths: list[int] = []
        try:
            for width in range(1, kappa(network, budget) + 1):
                lengths.append(self._length(network, width, max(lengths, default=1), budget))
        except OverBudgetError as error:
            raise partial(lengths, "w", 1, error) from None
        return tuple(lengths)

    def _length(self, network: InvariantNetwork, width: int, least: int, budget: Budget) -> int:
        # Further paths never make the longest one shorter, so the search continues at the length of one path less.
        length = least
        for source in network.roots:
            for target in range(network.order):
                if target != source:
                    search = DisjointPaths(network, source, target, budget)
                    while not search.exist(width, length):
                        length += 1
        return length


class DisjointPaths:
    """A search for inner-disjoint paths of bounded length between two nodes.

    Only induced paths are tried: a chord makes a path shorter, through fewer nodes. So a path visits no other neighbour of
    its earlier nodes, and in particular only one neighbour of the source.
    """

    def __init__(self, network: InvariantNetwork, source: Rank, target: Rank, budget: Budget) -> None:
        self._network = network
        self._source, self._target = source, target
        self._distance = network.keep(("distances", target), budget, lambda: network.topology.distances_from(target))
        self._budget = budget
        self._first = sorted(network.adjacency[source], key=self._distance.__getitem__)

    def exist(self, width: int, length: int) -> bool:
        """Return whether there are `width` paths of at most `length` links."""
        return self._place(0, width, length, 0)

    def _place(self, first: int, missing: int, length: int, used: int) -> bool:
        """Return whether `missing` more paths begin at neighbours of the source from number `first` on; `used` are
        taken nodes.
        """
        if not missing:
            return True
        # First neighbours in ascending order, so that every choice of them is tried once.
        for number in range(first, len(self._first) - missing + 1):
            start = self._first[number]
            closed = used | self._network.masks[self._source] | 1 << self._source
            for inner in self._paths(start, length - 1, closed, 0):
                if self._place(number + 1, missing - 1, length, used | inner):
                    return True
        return False

    def _paths(self, node: Rank, length: int, closed: int, inner: int) -> Iterator[int]:
        """Yield the inner nodes of paths from `node` to the target that avoid `closed` nodes."""
        stack = [(node, length, closed, inner)]
        while stack:
            node, length, closed, inner = stack.pop()
            self._budget.spend(2)
            if node == self._target:
                yield inner
                continue
            inner |= 1 << node
            peers = self._network.masks[node]
            if peers >> self._target & 1:
                if length:
                    yield inner
                continue
            stack += [  # reversed, since the last one is tried first
                (peer, length - 1, closed | peers, inner)
                for peer in reversed(self._network.adjacency[node])
                # A path cannot be shorter than the distance without taken nodes, so a peer that is too far away is not
                # tried.
                if self._distance[peer] < length and not closed >> peer & 1
            ]
