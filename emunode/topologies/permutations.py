"""Arithmetic on permutations of 1..n: ranks, labels, relabellings and cycles, for every family whose nodes are permutations.

A permutation x_1 x_2 .. x_n is a `bytes` object of its symbols, because composition of permutations is then a single
`bytes.translate`. Positions count from 1.

Ranks read a permutation from its last position: rank(x) = sum over i of #{j < i : x_j > x_i} (i-1)!, the lexicographic
rank of y with y_i = n+1 - x_{n+1-i}. Hence rank 0 is the identity, the ranks with one symbol in position n are a
contiguous block, and the permutations of 1..n-1 are the first (n-1)! ranks with unchanged numbers.

All caches are bounded and filled on demand: nothing here grows with n!.
"""

from collections.abc import Callable
from functools import lru_cache
from math import factorial
from typing import Final

from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import CACHE_ENTRIES

LARGEST_N: Final = 20
"""20! is the last factorial below 2^63."""
FIRST_DOTTED_N: Final = 10
"""From here on a symbol may have two digits, and labels separate symbols by dots."""


class Permutations:
    """The n! permutations of 1..n by rank; `network` is the name of their network, for messages."""

    def __init__(self, n: int, network: str) -> None:
        self.n = n
        self.network = network
        self.order = factorial(n)
        self.identity = bytes(range(1, n + 1))
        self._radix = tuple((position, factorial(position)) for position in range(n - 1, 0, -1))
        # Bound caches instead of methods that call caches: nodes unrank on every hop, and this saves one call each time.
        self.unrank: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._unrank)
        """The n symbols of a rank, each 1..n; raises ValueError if there is no such rank."""
        self.rank: Callable[[bytes], Rank] = lru_cache(CACHE_ENTRIES)(self._rank)
        """The rank of n symbols; raises ValueError if they are not a permutation of 1..n."""
        self.relabelling: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._relabelling)
        """A table for `bytes.translate` that replaces every symbol s by the symbol at position s of a rank's permutation."""
        self.inverse_relabelling: Callable[[Rank], bytes] = lru_cache(CACHE_ENTRIES)(self._inverse_relabelling)
        """A table for `bytes.translate` that replaces every symbol by its position in a rank's permutation."""

    def _unrank(self, rank: Rank) -> bytes:
        if not 0 <= rank < self.order:
            raise ValueError(f"{self.network} has no rank {rank}")
        free = bytearray(self.identity)
        symbols = bytearray(self.n)
        for position, weight in self._radix:
            larger, rank = divmod(rank, weight)
            symbols[position] = free.pop(position - larger)
        symbols[0] = free[0]
        return bytes(symbols)

    def _rank(self, symbols: bytes) -> Rank:
        if len(symbols) != self.n:
            raise ValueError(f"expected {self.n} symbols, got {symbols!r}")
        free = bytearray(self.identity)
        rank = 0
        for position, weight in self._radix:
            smaller = free.find(symbols[position])
            if smaller < 0:
                break
            rank += (position - smaller) * weight
            del free[smaller]
        if bytes(free) != symbols[:1]:
            raise ValueError(f"{symbols!r} is not a permutation of 1..{self.n}")
        return rank

    def _relabelling(self, rank: Rank) -> bytes:
        return bytes.maketrans(self.identity, self.unrank(rank))

    def _inverse_relabelling(self, rank: Rank) -> bytes:
        return bytes.maketrans(self.unrank(rank), self.identity)

    def label(self, rank: Rank) -> str:
        """Return the symbols from position 1 to n, such as `3142`; separated by dots from n = 10 on."""
        separator = "." if self.n >= FIRST_DOTTED_N else ""
        return separator.join(map(str, self.unrank(rank)))

    def parse_label(self, label: str) -> Rank:
        """Return the rank of a label in the form that `label` writes; raises ScenarioError (field `label`)."""
        symbols = label.split(".") if self.n >= FIRST_DOTTED_N else list(label)
        wanted = [str(symbol) for symbol in self.identity]
        if sorted(symbols) != sorted(wanted):
            dots = " separated by dots" if self.n >= FIRST_DOTTED_N else ""
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.network} is a permutation of 1..{self.n}{dots} such as {self._sample()}",
            )
        return self.rank(bytes(map(int, symbols)))

    def _sample(self) -> str:
        """Return a label that is not the identity: the permutation 3142 (312 of three symbols), the rest in place."""
        start = bytes((3, 1, 4, 2)) if self.n > 3 else bytes((3, 1, 2))
        return self.label(self.rank(start + self.identity[len(start) :]))


def swap_first(symbols: bytes, position: int) -> bytes:
    """Return the permutation with the symbols at positions 1 and `position` exchanged."""
    return symbols[position - 1 : position] + symbols[1 : position - 1] + symbols[:1] + symbols[position:]


def is_odd(symbols: bytes) -> bool:
    """Return the parity of a permutation, counted by its inversions."""
    return sum(one > other for i, one in enumerate(symbols) for other in symbols[i + 1 :]) % 2 == 1


def cycle_through(symbols: bytes, first: int) -> tuple[int, ...]:
    """Return the cycle of s -> x_s through the symbol `first`, written from it; one element if `first` is a fixed
    point.
    """
    cycle = [first]
    while (following := symbols[cycle[-1] - 1]) != first:
        cycle.append(following)
    return tuple(cycle)
