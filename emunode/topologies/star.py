"""The permutation star graph S_n (Akers, Harel and Krishnamurthy): nodes are the permutations x_1 x_2 .. x_n of 1..n.

Link type t = 2..n swaps the symbols at positions 1 and t and has the same type at both ends; port p is link
type p + 2. Internally a permutation is a `bytes` object of its symbols, because composition of permutations is then one
`bytes.translate`. The translation F_q(x) = q_{x_1} q_{x_2} .. q_{x_n} relabels symbols and leaves positions alone, so
it keeps link types (Fragopoulou and Akl, TR 93-346, section 2; LC of Tseng and Sheu).

Ranks read a permutation from its last position: rank(x) = sum over i of #{j < i : x_j > x_i} (i-1)!, which is the
lexicographic rank of y with y_i = n+1 - x_{n+1-i}. Hence rank 0 is the identity, the ranks with one symbol in
position n are a contiguous block (a substar S_{n-1}), and S_{n-1} is the first (n-1)! ranks of S_n with unchanged
rank numbers.

All caches are bounded and filled on demand: nothing here grows with n!.
"""

from collections.abc import Callable
from functools import lru_cache
from math import factorial
from typing import ClassVar, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import MAX_ORDER, Topology

CACHE_ENTRIES = 1 << 16
LARGEST_N = 20
"""20! is the last factorial below 2^63."""
FIRST_DOTTED_N = 10
"""From here on a symbol may have two digits, and labels separate symbols by dots."""


class StarGraph(Topology):
    """S_n with n >= 3: n! ranks, degree n-1, diameter floor(3(n-1)/2), bipartite by parity of the permutation.

    Ranks and ports given to methods are taken to be valid, except that an impossible rank raises ValueError.
    """

    family = "star"
    form: ClassVar[str] = "star:N"
    condition: ClassVar[str] = f"3 <= N <= {LARGEST_N}"
    example: ClassVar[str] = "star:5"

    def __init__(self, n: int) -> None:
        """Raises ScenarioError (field `topology`) if n < 3 or n! ranks cannot be addressed."""
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
        self.diameter = 3 * (n - 1) // 2
        self.bipartite = True
        self.identity = bytes(range(1, n + 1))
        self._radix = tuple((position, factorial(position)) for position in range(n - 1, 0, -1))
        self._permutation: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._unrank)
        self._rank_of: Callable[[bytes], Rank] = lru_cache(CACHE_ENTRIES)(self._find_rank)
        self._relabelling: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._find_relabelling)
        self._inverse: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._find_inverse)
        self._weight: Callable[[Rank], int] = lru_cache(CACHE_ENTRIES)(self._find_weight)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        """The network named `star:<parameters>`; raises ScenarioError (field `topology`)."""
        if not (parameters.isascii() and parameters.isdigit() and len(parameters) < 10):
            raise ScenarioError("topology", f"star:{parameters}", f"write {cls.form} with {cls.condition}")
        return cls(int(parameters))

    # Ranks and permutations.

    def permutation(self, rank: Rank) -> bytes:
        """The n symbols of `rank`, each 1..n; raises ValueError if there is no such rank."""
        return self._permutation(rank)

    def rank_of(self, permutation: bytes) -> Rank:
        """The rank of n symbols; raises ValueError if they are no permutation of 1..n."""
        return self._rank_of(permutation)

    def _unrank(self, rank: Rank) -> bytes:
        if not 0 <= rank < self.order:
            raise ValueError(f"{self.name} has no rank {rank}")
        free = bytearray(self.identity)
        symbols = bytearray(self.n)
        for position, weight in self._radix:
            larger, rank = divmod(rank, weight)
            symbols[position] = free.pop(position - larger)
        symbols[0] = free[0]
        return bytes(symbols)

    def _find_rank(self, permutation: bytes) -> Rank:
        if len(permutation) != self.n:
            raise ValueError(f"{permutation!r} has not {self.n} symbols")
        free = bytearray(self.identity)
        rank = 0
        for position, weight in self._radix:
            smaller = free.find(permutation[position])
            if smaller < 0:
                break
            rank += (position - smaller) * weight
            del free[smaller]
        if bytes(free) != permutation[:1]:
            raise ValueError(f"{permutation!r} is no permutation of 1..{self.n}")
        return rank

    # Labels.

    def label(self, rank: Rank) -> str:
        """The symbols from position 1 to n, such as `3142`; separated by dots from n = 10 on."""
        separator = "." if self.n >= FIRST_DOTTED_N else ""
        return separator.join(map(str, self.permutation(rank)))

    def rank(self, label: str) -> Rank:
        """The rank of a label in the form `label` writes; raises ScenarioError (field `label`)."""
        symbols = label.split(".") if self.n >= FIRST_DOTTED_N else list(label)
        wanted = [str(symbol) for symbol in self.identity]
        if sorted(symbols) != sorted(wanted):
            dots = " separated by dots" if self.n >= FIRST_DOTTED_N else ""
            raise ScenarioError(
                "label", label, f"a node of {self.name} is a permutation of 1..{self.n}{dots} such as {self._sample()}"
            )
        return self.rank_of(bytes(map(int, symbols)))

    def _sample(self) -> str:
        """A label that is not the identity: the permutation 3142 (312 in S_3), the rest in place."""
        start = bytes((3, 1, 4, 2)) if self.n > 3 else bytes((3, 1, 2))
        return self.label(self.rank_of(start + self.identity[len(start) :]))

    # Links and translations.

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """Swaps positions 1 and port + 2."""
        symbols = self._permutation(rank)
        position = port + 1
        return self._rank_of(
            symbols[position : position + 1] + symbols[1:position] + symbols[:1] + symbols[position + 1 :]
        )

    def reverse_port(self, port: Port) -> Port:
        """The same link type at both ends."""
        return port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """F_root^-1: every symbol becomes its position in the label of `root`."""
        return self._rank_of(self._permutation(rank).translate(self._inverse(root))) if root else rank

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """F_root: every symbol s becomes the symbol at position s of the label of `root`."""
        return self._rank_of(self._permutation(relative).translate(self._relabelling(root))) if root else relative

    def _find_relabelling(self, root: Rank) -> bytes:
        """Translation table of 256 bytes: s -> root_s."""
        return bytes.maketrans(self.identity, self.permutation(root))

    def _find_inverse(self, root: Rank) -> bytes:
        """Translation table of 256 bytes: root_s -> s."""
        return bytes.maketrans(self.permutation(root), self.identity)

    # Distances.

    def weight(self, relative: Rank) -> int:
        """c + s if x_1 = 1, else c + s - 2, for c cycles of two or more symbols holding s symbols altogether."""
        return self._weight(relative)

    def _find_weight(self, relative: Rank) -> int:
        symbols = self.permutation(relative)
        seen = bytearray(self.n + 1)
        weight = 0 if symbols[0] == 1 else -2
        for first, symbol in enumerate(symbols, 1):
            if symbol == first or seen[first]:
                continue
            weight += 1
            position = first
            while not seen[position]:
                seen[position] = 1
                weight += 1
                position = symbols[position - 1]
        return weight

    def distance_distribution(self) -> tuple[int, ...]:
        """Ranks at distance 0..diameter, counted by the cycle that holds symbol 1.

        Let A_m(z) count the permutations of m symbols by z^(c+s). By the cycle of the last symbol, A_m = A_{m-1} +
        sum over its length l = 2..m of (m-1)!/(m-l)! z^(l+1) A_{m-l}. Symbol 1 is at home (A_{n-1}) or in a cycle of l
        symbols, which costs l - 1 instead of l + 1.
        """
        counts = [[1]]
        for m in range(1, self.n):
            polynomial = list(counts[m - 1])
            for length in range(2, m + 1):
                _add_shifted(polynomial, counts[m - length], _cycles(m, length), length + 1)
            counts.append(polynomial)
        total = list(counts[self.n - 1])
        for length in range(2, self.n + 1):
            _add_shifted(total, counts[self.n - length], _cycles(self.n, length), length - 1)
        return tuple(total)


def _cycles(m: int, length: int) -> int:
    """Number of cycles of `length` out of m symbols through one given symbol: (m-1)!/(m-length)!."""
    return factorial(m - 1) // factorial(m - length)


def _add_shifted(polynomial: list[int], summand: list[int], factor: int, shift: int) -> None:
    """polynomial += factor z^shift summand, coefficients by ascending power."""
    polynomial.extend([0] * (len(summand) + shift - len(polynomial)))
    for power, coefficient in enumerate(summand, shift):
        polynomial[power] += factor * coefficient
