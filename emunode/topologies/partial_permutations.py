"""Networks of k-permutations of 1..n: the (n,k)-star and the arrangement graph.

Nodes are the k-permutations x_1 .. x_k in lexicographic order. A port replaces a symbol *cyclically*: let C be the n-k+1
symbols that are not in the other positions, ascending; the port of offset j puts the symbol that is j further on in C,
after the last one the first. The port of offset n-k+1-j leads back.

All ranks see the same distances: relabel symbols so that the root becomes 1 2 .. k. But that changes the cyclic order
of C, hence ports, so no translation keeps them.

References: Chiang and Chen 1995 ((n,k)-star); Day and Tripathi 1992 (arrangement graph).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import perm
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, DirectDistances, VertexTransitiveTopology
from emunode.topologies.permutations import FIRST_DOTTED_N

Symbols = tuple[int, ...]
"""x_1 .. x_k."""


class PartialPermutationNetwork(DirectDistances, VertexTransitiveTopology):
    """n!/(n-k)! ranks; a family names the ports that replace symbols and the ports that exchange symbols."""

    def __init__(self, n: int, k: int) -> None:
        """Raise ScenarioError (field `topology`) unless 1 <= k < n, n >= 3, and the ranks can be addressed."""
        self.name = f"{self.family}:{n},{k}"
        self.require(n >= 3, "fewer than 3 symbols make a single link")
        self.require(1 <= k < n, "k is 1 .. n-1: with n of n symbols none is left to replace another")
        self.n, self.k = n, k
        self.require(k <= 63, "more than 63 positions make too many nodes to be addressed")
        self.order = perm(n, k)
        self.require_order()
        self.symbols: Callable[[Rank], Symbols] = lru_cache(CACHE_ENTRIES)(self._find_symbols)
        """x_1 .. x_k of a rank."""
        self.bipartite = k == n - 1  # the network is then the star graph; else C has three symbols, a triangle
        self._places = [perm(n - 1 - position, k - 1 - position) for position in range(k)]

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 2))

    # Ranks and labels.

    def _find_symbols(self, rank: Rank) -> Symbols:
        used: list[int] = []
        symbols = []
        for place in self._places:
            smaller, rank = divmod(rank, place)
            symbol = _unused(used, smaller)
            symbols.append(symbol)
            insort(used, symbol)
        return tuple(symbols)

    def rank_of(self, symbols: Sequence[int]) -> Rank:
        """Return the rank of x_1 .. x_k."""
        used: list[int] = []
        rank = 0
        for symbol, place in zip(symbols, self._places, strict=True):
            rank += (symbol - 1 - bisect_left(used, symbol)) * place
            insort(used, symbol)
        return rank

    def label(self, rank: Rank) -> str:
        """Return the symbols, separated by dots from n = 10 on."""
        return self._separator.join(map(str, self.symbols(rank)))

    @property
    def _separator(self) -> str:
        return "." if self.n >= FIRST_DOTTED_N else ""

    def rank(self, label: str) -> Rank:
        words = label.split(".") if self._separator else list(label)
        numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 20]
        distinct = {number for number in numbers if 1 <= number <= self.n}
        if not len(words) == len(numbers) == len(distinct) == self.k or label != self._separator.join(
            map(str, numbers)
        ):
            raise ScenarioError("label", label, self._label_form())
        return self.rank_of(numbers)

    def _label_form(self) -> str:
        dots = " separated by dots" if self._separator else ""
        sample = self.label(self.order - 1)
        return f"a node of {self.name} is {self.k} different numbers of 1..{self.n}{dots}, such as {sample}"

    # Links.

    def replaced(self, symbols: Symbols, position: int, offset: int) -> Symbols:
        """Return the symbols with the one at `position` (from 0) replaced by the one `offset` further on in C."""
        others = sorted(symbols[:position] + symbols[position + 1 :])
        symbol = symbols[position]
        index = symbol - 1 - bisect_left(others, symbol)
        replacement = _unused(others, (index + offset) % (self.n - self.k + 1))
        return (*symbols[:position], replacement, *symbols[position + 1 :])

    def seen_by(self, rank: Rank, root: Rank) -> Symbols:
        """Return x_1 .. x_k with every symbol replaced by its position in the root's, or by 0 if it is not there."""
        positions = {symbol: position for position, symbol in enumerate(self.symbols(root), 1)}
        return tuple([positions.get(symbol, 0) for symbol in self.symbols(rank)])


def _unused(used: Sequence[int], index: int) -> int:
    """Return the number 1, 2, .. at `index` (from 0) among the numbers not in `used` (ascending)."""
    number = index + 1
    for taken in used:
        if taken > number:
            break
        number += 1
    return number


@register
class NkStar(PartialPermutationNetwork):
    """S_{n,k}: ports 0 .. k-2 exchange positions 1 and p+2; port k-2+j replaces position 1 with offset j.

    >>> network = NkStar.parse("4,2")
    >>> network.order, network.degree, network.diameter
    (12, 3, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("31"))]
    ['13', '41', '21']
    """

    family = "nk-star"
    form = "nk-star:N,K"
    condition = "N >= 3, 1 <= K <= N-1, N!/(N-K)! < 2^63"
    example = "nk-star:5,3"
    describe = (
        "(n,k)-star: K of N symbols; a link exchanges the first symbol with another one, or replaces it; degree N-1"
    )
    small_examples = ("nk-star:4,2", "nk-star:5,3", "nk-star:4,3")
    large_examples = ("nk-star:20,10",)

    def __init__(self, n: int, k: int) -> None:
        super().__init__(n, k)
        self.title = f"({n},{k})-star"
        self.degree = n - 1
        self.connectivity = n - 1
        self.diameter = 2 * k - 1 if k <= n // 2 else k + (n - 1) // 2

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        symbols = self.symbols(rank)
        position = port + 1
        if position < self.k:
            exchanged = (symbols[position], *symbols[1:position], symbols[0], *symbols[position + 1 :])
            return self.rank_of(exchanged)
        return self.rank_of(self.replaced(symbols, 0, port - self.k + 2))

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        offset = port - self.k + 2
        reverse = port if offset < 1 else self.k - 2 + (self.n - self.k + 1 - offset)
        return self.neighbour(rank, port), reverse

    def distance(self, one: Rank, other: Rank) -> int:
        return nk_star_weight(self.seen_by(one, other))


@register
class Arrangement(PartialPermutationNetwork):
    """A_{n,k}: port (i-1)(n-k) + j-1 replaces position i with offset j.

    >>> network = Arrangement.parse("4,2")
    >>> network.order, network.degree, network.diameter
    (12, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("31"))]
    ['41', '21', '32', '34']
    """

    family = "arrangement"
    form = "arrangement:N,K"
    condition = "N >= 3, 1 <= K <= N-1, N!/(N-K)! < 2^63"
    example = "arrangement:5,3"
    describe = "arrangement graph: K of N symbols; a link replaces one symbol; degree K(N-K)"
    small_examples = ("arrangement:4,2", "arrangement:5,3", "arrangement:4,3")
    large_examples = ("arrangement:14,8",)

    def __init__(self, n: int, k: int) -> None:
        super().__init__(n, k)
        self.title = f"arrangement graph A_{{{n},{k}}}"
        self.degree = k * (n - k)
        self.connectivity = self.degree
        self.diameter = 3 * k // 2

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        position, offset = divmod(port, self.n - self.k)
        return self.rank_of(self.replaced(self.symbols(rank), position, offset + 1))

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        replacements = self.n - self.k
        position, offset = divmod(port, replacements)
        return self.neighbour(rank, port), position * replacements + replacements - 1 - offset

    def distance(self, one: Rank, other: Rank) -> int:
        return arrangement_weight(self.seen_by(one, other))


# Distances from 1 2 .. k. Symbols outside 1..k are external.


def arrangement_weight(symbols: Sequence[int]) -> int:
    """Return one link for every misplaced symbol, one more for every closed cycle: an external symbol has to open it."""
    return _misplaced(symbols) + _closed_cycles(symbols)


def nk_star_weight(symbols: Sequence[int]) -> int:
    """Return the weight as in the star graph, with the external symbols in one more cycle through a position outside."""
    size = len(symbols)
    external = sum(not 1 <= symbol <= size for symbol in symbols)
    weight = _closed_cycles(symbols) + (external > 0) + _misplaced(symbols) + external
    return weight if symbols[0] == 1 else weight - 2


def _misplaced(symbols: Sequence[int]) -> int:
    return sum(symbol != position for position, symbol in enumerate(symbols, 1))


def _closed_cycles(symbols: Sequence[int]) -> int:
    """Return the number of cycles of two or more positions: position i leads to position x_i."""
    unseen = {position for position, symbol in enumerate(symbols, 1) if symbol != position}
    cycles = 0
    while unseen:
        first = position = unseen.pop()
        while (position := symbols[position - 1]) in unseen:
            unseen.remove(position)
        cycles += position == first
    return cycles
