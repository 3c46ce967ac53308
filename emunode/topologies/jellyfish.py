"""Jellyfish: a random regular graph, by Singla, Hong, Popa and Godfrey 2012.

The procedure is written out here down to its random numbers, so that a name means the same network with every version of
Python. It is not uniform over all regular graphs; neither is the paper's.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import RegularTopology

LARGEST_ORDER: Final = 4096
LARGEST_LINKS: Final = 1 << 16
"""The links are a table that every process draws for itself: a few seconds for this many."""
MASK: Final = 2**64 - 1

PortLists = tuple[tuple[Rank, ...], ...]
"""The neighbours of every rank, ascending."""


@register
class Jellyfish(RegularTopology):
    """N ranks of R links each, random by a seed; port p leads to the p-th neighbour by rank. Distances are searched.

    >>> network = Jellyfish.parse("20,4,1")
    >>> network.order, network.degree, network.diameter
    (20, 4, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10"))]
    ['3', '11', '13', '17']
    """

    family = "jellyfish"
    form = "jellyfish:N,R,SEED"
    condition = f"2 <= R < N <= {LARGEST_ORDER}, N R even and at most {2 * LARGEST_LINKS}, 0 <= SEED < 2^64"
    example = "jellyfish:20,4,1"
    describe = "Jellyfish: a random connected network of N nodes, all of degree R; equal seeds give equal networks"
    small_examples = ("jellyfish:10,3,0", "jellyfish:8,6,3", "jellyfish:20,4,1")

    def __init__(self, order: int, degree: int, seed: int) -> None:
        """Raise ScenarioError (field `topology`) if there is no such regular graph, or it is too large to be made."""
        self.name = f"jellyfish:{order},{degree},{seed}"
        self.require(degree >= 2, "networks of degree 0 or 1 are not connected")
        self.require(degree < order, "a node has at most N - 1 neighbours, so R must be below N")
        self.require(order * degree % 2 == 0, "N R must be even: it counts both ends of every link")
        self.require(order <= LARGEST_ORDER, f"links are drawn for at most {LARGEST_ORDER} nodes")
        self.require(order * degree // 2 <= LARGEST_LINKS, f"at most {LARGEST_LINKS} links are drawn")
        self.require(seed <= MASK, "the seed must be below 2^64")
        self.order, self.degree, self.seed = order, degree, seed
        self.title = f"Jellyfish network of {order} nodes and degree {degree}, seed {seed}"
        self._links = random_regular_graph(order, degree, seed)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 3))

    def label(self, rank: Rank) -> str:
        return str(rank)

    def rank(self, label: str) -> Rank:
        rank = int(label) if label.isascii() and label.isdigit() and len(label) < 5 else self.order
        if rank >= self.order or str(rank) != label:
            raise ScenarioError("label", label, f"a node of {self.name} is a number below {self.order}")
        return rank

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return self._links[rank][port]

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        return self._links[rank]

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        neighbour = self._links[rank][port]
        return neighbour, bisect_left(self._links[neighbour], rank)


class SplitMix64:
    """The 64-bit random number generator SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        """Return the next number below 2^64."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
        return mixed ^ mixed >> 31

    def below(self, bound: int) -> int:
        """Return a number below `bound`, all with equal chances: numbers of an incomplete last round are drawn again."""
        limit = 2**64 // bound * bound
        while (number := self.next()) >= limit:
            pass
        return number % bound


@lru_cache(8)
def random_regular_graph(order: int, degree: int, seed: int) -> PortLists:
    """Return the first connected network that the generator draws."""
    random = SplitMix64(seed)
    while True:
        graph = _Draft(order, degree)
        if graph.draw(random) and graph.is_connected():
            return tuple(map(tuple, graph.neighbours))


class _PrefixSums:
    """Numbers by index whose sums from the start are found, and changed, in logarithmic time (a Fenwick tree)."""

    def __init__(self, size: int) -> None:
        self._tree = [0] * (size + 1)

    def add(self, index: int, amount: int) -> None:
        """Change the number at `index`."""
        place = index + 1
        while place < len(self._tree):
            self._tree[place] += amount
            place += place & -place

    def below(self, index: int) -> int:
        """Return the sum of the numbers before `index`."""
        total, place = 0, index
        while place:
            total += self._tree[place]
            place &= place - 1
        return total


class _Draft:
    """A graph that gets links until every rank has `degree` of them.

    A rank with fewer is free. The free pairs are the pairs u < v of free ranks without a link between them, in
    lexicographic order. They are counted instead of listed: the free rank at place i has all later ones as partners,
    less the free ranks that are linked to it already.
    """

    def __init__(self, order: int, degree: int) -> None:
        self.degree = degree
        self.neighbours: list[list[Rank]] = [[] for _ in range(order)]
        """Ascending."""
        self.links: list[tuple[Rank, Rank]] = []
        """In the order of making."""
        self.free = list(range(order))
        """Ascending."""
        self.is_free = bytearray([1]) * order
        self.linked_above = _PrefixSums(order)
        """By free rank: the number of higher free ranks that it is linked to."""

    def draw(self, random: SplitMix64) -> bool:
        """Add random links to the end; False if the graph cannot be completed."""
        wanted = len(self.neighbours) * self.degree // 2
        while len(self.links) < wanted:
            pairs = len(self.free) * (len(self.free) - 1) // 2 - self.linked_above.below(len(self.neighbours))
            if pairs:
                self.link(*self._free_pair(random.below(pairs)))
                continue
            # Free ranks are all linked to each other: break a link (s, t) and link its ends to free ranks p and q.
            one = self.free[0]
            other = one if self.degree - len(self.neighbours[one]) >= 2 else self.free[1]
            candidates = list(self._replaceable(one, other))
            if not candidates:
                return False
            index, near, far = candidates[random.below(len(candidates))]
            self._unlink(index)
            self.link(one, near)
            self.link(other, far)
        return True

    def _free_pair(self, index: int) -> tuple[Rank, Rank]:
        """Return the free pair at `index`."""
        place = bisect_right(range(len(self.free)), index, key=self._pairs_before) - 1
        rank = self.free[place]
        partner = place + 1 + index - self._pairs_before(place)
        for neighbour in self.neighbours[rank]:
            if neighbour > rank and self.is_free[neighbour]:
                partner += bisect_left(self.free, neighbour) <= partner
        return rank, self.free[partner]

    def _pairs_before(self, place: int) -> int:
        """Return the number of free pairs whose lower rank stands before `place` in `free`."""
        later = place * len(self.free) - place * (place + 1) // 2
        return later - self.linked_above.below(self.free[place])

    def _replaceable(self, one: Rank, other: Rank) -> Iterator[tuple[int, Rank, Rank]]:
        """Yield (index of the link s-t, s, t) for links that can become one-s and other-t, in either sense."""
        excluded_near = {*self.neighbours[one], one, other}
        excluded_far = {*self.neighbours[other], one, other}
        for index, link in enumerate(self.links):
            for near, far in (link, link[::-1]):
                if near not in excluded_near and far not in excluded_far:
                    yield index, near, far

    def link(self, one: Rank, other: Rank) -> None:
        """Add a link between two ranks that have none."""
        lower, upper = min(one, other), max(one, other)
        self.links.append((lower, upper))
        insort(self.neighbours[lower], upper)
        insort(self.neighbours[upper], lower)
        if self.is_free[lower] and self.is_free[upper]:
            self.linked_above.add(lower, 1)
        for rank in (lower, upper):
            if self.is_free[rank] and len(self.neighbours[rank]) == self.degree:
                self._occupy(rank)

    def _occupy(self, rank: Rank) -> None:
        """Take a rank off the free ones: no free pair contains it any more."""
        for neighbour in self.neighbours[rank]:
            if self.is_free[neighbour]:
                self.linked_above.add(min(rank, neighbour), -1)
        self.is_free[rank] = False
        del self.free[bisect_left(self.free, rank)]

    def _unlink(self, index: int) -> None:
        """Remove a link, whose place the last link takes. Its ends do not become free: each gets another link at once."""
        one, other = self.links[index]
        self.links[index] = self.links[-1]
        self.links.pop()
        self.neighbours[one].remove(other)
        self.neighbours[other].remove(one)

    def is_connected(self) -> bool:
        """Return whether every rank can be reached from rank 0."""
        reached, queue = {0}, [0]
        for rank in queue:
            new = [neighbour for neighbour in self.neighbours[rank] if neighbour not in reached]
            reached.update(new)
            queue += new
        return len(reached) == len(self.neighbours)
