"""The permutation star graph S_n (Akers, Harel and Krishnamurthy): nodes are the permutations x_1 x_2 .. x_n of 1..n.

Link type t = 2..n swaps the symbols at positions 1 and t and has the same type at both ends; port p is link
type p + 2. The translation F_q(x) = q_{x_1} q_{x_2} .. q_{x_n} relabels symbols and leaves positions alone, so it keeps
link types (Fragopoulou and Akl, TR 93-346, section 2; LC of Tseng and Sheu).

Ranks and labels are as in `permutations`: rank 0 is the identity, the ranks with one symbol in position n are a
contiguous block (a substar S_{n-1}), and S_{n-1} is the first (n-1)! ranks of S_n with unchanged rank numbers.
"""

from collections.abc import Callable
from functools import lru_cache
from math import factorial
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, MAX_ORDER, CayleyTopology
from emunode.topologies.permutations import LARGEST_N, Permutations, cycle_through


@register
class StarGraph(CayleyTopology):
    """S_n with n >= 3: n! ranks, degree n-1, diameter floor(3(n-1)/2), bipartite by parity of the permutation.

    The methods do not validate ranks and ports, except that an impossible rank raises ValueError.

    >>> network = StarGraph.parse("4")
    >>> network.order, network.degree, network.diameter
    (24, 3, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1342"))]
    ['3142', '4312', '2341']
    """

    family = "star"
    form = "star:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "star:5"
    describe = "permutation star graph S_N: N! nodes, degree N-1; a link swaps the first symbol with another one"
    small_examples = ("star:3", "star:4", "star:5")
    large_examples = ("star:9", "star:12", "star:20")

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 3 or n! ranks cannot be addressed."""
        self.name = f"star:{n}"
        if n < 3:
            raise ScenarioError("topology", self.name, "the permutation star graph S_n needs n >= 3")
        if n > LARGEST_N:
            raise ScenarioError(
                "topology", self.name, f"n! nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_N}"
            )
        self.n = n
        self.title = f"permutation star graph S_{n}"
        self.order = factorial(n)
        self.degree = n - 1
        self.connectivity = self.degree
        self.diameter = 3 * (n - 1) // 2
        self.bipartite = True
        self._permutations = Permutations(n, self.name)
        self.identity = self._permutations.identity
        self.permutation = self._permutations.unrank
        """The n symbols of a rank, each 1..n; raises ValueError if there is no such rank."""
        self.rank_of = self._permutations.rank
        """The rank of n symbols; raises ValueError if they are not a permutation of 1..n."""
        self._weight: Callable[[Rank], int] = lru_cache(CACHE_ENTRIES)(self._find_weight)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        """Return the symbols from position 1 to n, such as `3142`; separated by dots from n = 10 on."""
        return self._permutations.label(rank)

    def rank(self, label: str) -> Rank:
        return self._permutations.parse_label(label)

    # Links and translations.

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """Return the rank with positions 1 and port + 2 swapped."""
        symbols = self.permutation(rank)
        position = port + 1
        # Hot path; plain form: self.rank_of(swap_first(symbols, port + 2)).
        return self.rank_of(
            symbols[position : position + 1] + symbols[1:position] + symbols[:1] + symbols[position + 1 :]
        )

    def reverse_port(self, port: Port) -> Port:
        """Return the same link type at both ends."""
        return port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return F_root^-1: every symbol becomes its position in the label of `root`."""
        if not root:
            return rank
        return self.rank_of(self.permutation(rank).translate(self._permutations.inverse_relabelling(root)))

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return F_root: every symbol s becomes the symbol at position s of the label of `root`."""
        if not root:
            return relative
        return self.rank_of(self.permutation(relative).translate(self._permutations.relabelling(root)))

    # Distances.

    def weight(self, relative: Rank) -> int:
        """Return c + s if x_1 = 1, else c + s - 2, for c cycles of two or more symbols holding s symbols altogether."""
        return self._weight(relative)

    def _find_weight(self, relative: Rank) -> int:
        # A cycle of s symbols costs s + 1: one swap fetches one of its symbols to position 1, s more send all of them home.
        # The cycle that already holds position 1 needs no fetch, and its last swap sends two symbols home.
        symbols = self.permutation(relative)
        misplaced = {symbol for position, symbol in enumerate(symbols, 1) if symbol != position}
        weight = 0 if symbols[0] == 1 else -2
        while misplaced:
            cycle = cycle_through(symbols, misplaced.pop())
            misplaced.difference_update(cycle)
            weight += len(cycle) + 1
        return weight

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the ranks at distance 0..diameter, counted by the cycle that holds symbol 1.

        Let A_m(z) count the permutations of m symbols by z^(c+s). By the cycle of the last symbol, A_m = A_{m-1} +
        sum over its length l = 2..m of (m-1)!/(m-l)! z^(l+1) A_{m-l}. Symbol 1 is at home (A_{n-1}) or in a cycle of l
        symbols, at the cost of l - 1 instead of l + 1.
        """
        counts = [[1]]
        for m in range(1, self.n):
            counts.append(_by_last_cycle(counts, m, 1))
        return tuple(_by_last_cycle(counts, self.n, -1))


def _by_last_cycle(counts: list[list[int]], m: int, extra: int) -> list[int]:
    """Return A_{m-1} + sum over l = 2..m of (m-1)!/(m-l)! z^(l+extra) A_{m-l}, coefficients by ascending power of z.

    (m-1)!/(m-l)! is the number of cycles of l out of m symbols through one given symbol.
    """
    polynomial = list(counts[m - 1])
    for length in range(2, m + 1):
        cycles, summand, shift = factorial(m - 1) // factorial(m - length), counts[m - length], length + extra
        polynomial.extend([0] * (len(summand) + shift - len(polynomial)))
        for power, coefficient in enumerate(summand, shift):
            polynomial[power] += cycles * coefficient
    return polynomial
