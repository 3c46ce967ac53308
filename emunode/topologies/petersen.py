"""Generalized Petersen graphs, and the hyper-Petersen network: a hypercube of Petersen graphs.

GP(n, k) has an outer ring o0 .. o(n-1), inner nodes i0 .. i(n-1) that are linked k positions on, and a spoke between o
and i of each position. Rotations keep ports, so distances differ at most between outer and inner nodes.

References: Coxeter 1950 and Watkins 1969 (generalized Petersen graphs); Das, Ohring and Banerjee 1995 (hyper-Petersen).
"""

import re
from functools import cached_property
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import (
    MAX_ORDER,
    SEARCH_LIMIT,
    DirectDistances,
    RegularTopology,
    VertexTransitiveTopology,
)
from emunode.topologies.polynomials import polynomial_product


@register
class Petersen(RegularTopology):
    """GP(n, k): port 0 leads 1 or k positions on, port 1 as far back, port 2 is the spoke. Distances are searched.

    >>> network = Petersen.parse("7,2")
    >>> network.order, network.degree, network.diameter
    (14, 3, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("i0"))]
    ['i2', 'i5', 'o0']
    """

    family = "petersen"
    form = "petersen:N,K"
    condition = "N >= 3, 1 <= K < N/2"
    example = "petersen:5,2"
    describe = "generalized Petersen graph: an outer ring of N nodes, N inner nodes linked K positions on; degree 3"
    small_examples = ("petersen:5,2", "petersen:4,1", "petersen:7,2")
    degree = 3

    def __init__(self, n: int, k: int) -> None:
        """Raise ScenarioError (field `topology`) unless n >= 3 and 1 <= k < n/2."""
        self.name = f"petersen:{n},{k}"
        self.require(n >= 3, "a ring of fewer than 3 nodes has parallel links")
        self.require(k >= 1, "k = 0 makes loops")
        self.require(
            2 * k < n, "k must be below n/2: k = n/2 makes parallel links, and a larger k is the same as n - k"
        )
        self.n, self.k = n, k
        self.order = 2 * n
        self.require_order()
        self.title = f"generalized Petersen graph GP({n}, {k})"
        self.bipartite = n % 2 == 0 and k % 2 == 1

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 2))

    def label(self, rank: Rank) -> str:
        """Return `o` or `i` and the position."""
        return f"o{rank}" if rank < self.n else f"i{rank - self.n}"

    def rank(self, label: str) -> Rank:
        match = re.fullmatch("([oi])(0|[1-9][0-9]{0,18})", label)
        if match is None or int(match[2]) >= self.n:
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is o or i and a number below {self.n}, such as {self.label(self.n)}",
            )
        return int(match[2]) + (self.n if match[1] == "i" else 0)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        n = self.n
        if port == 2:
            return (rank + n) % self.order
        step = -1 if port else 1
        return (rank + step) % n if rank < n else n + (rank - n + step * self.k) % n

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return self.neighbour(rank, port), (1, 0, 2)[port]

    @cached_property
    def diameter(self) -> int:
        """The larger of the largest distances from an outer and from an inner node."""
        return max(self.eccentricity(0), self.eccentricity(self.n))

    @property
    def known_diameter(self) -> int | None:
        return self.diameter if self.order <= SEARCH_LIMIT else None


LARGEST_N: Final = 62
"""10 2^59 is the last order below 2^63."""


@register
class HyperPetersen(DirectDistances, VertexTransitiveTopology):
    """HP_n = Q_{n-3} x Petersen: ranks w 10 + r, ports 0 .. 2 as in petersen:5,2, port 3 + d flips bit d of w.

    >>> network = HyperPetersen.parse("4")
    >>> network.order, network.degree, network.diameter
    (20, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1/o0"))]
    ['1/o1', '1/o4', '1/i0', '0/o0']
    """

    family = "hyper-petersen"
    form = "hyper-petersen:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "hyper-petersen:4"
    describe = "hyper-Petersen network: a hypercube of 2^(N-3) Petersen graphs, degree N"
    small_examples = ("hyper-petersen:3", "hyper-petersen:4", "hyper-petersen:5")
    large_examples = ("hyper-petersen:40",)
    bipartite = False

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 3 or 10 2^(n-3) ranks cannot be addressed."""
        self.name = f"hyper-petersen:{n}"
        self.require(n >= 3, "hyper-petersen needs n >= 3: n = 3 is the Petersen graph")
        self.require(n <= LARGEST_N, f"10 2^(n-3) nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_N}")
        self.title = f"hyper-Petersen network HP_{n}"
        self.bits = n - 3
        self.order = 10 << self.bits
        self.degree = n
        self.connectivity = n
        self.diameter = n - 1
        self._petersen = Petersen(5, 2)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        """Return `w/` and the label in the Petersen graph; without the word if it has no bits."""
        word, inner = divmod(rank, 10)
        label = self._petersen.label(inner)
        return f"{word:0{self.bits}b}/{label}" if self.bits else label

    def rank(self, label: str) -> Rank:
        word, inner = label[: self.bits], label[self.bits + 1 :] if self.bits else label
        match = re.fullmatch("[oi][0-4]", inner)
        rank = int(word or "0", 2) * 10 + self._petersen.rank(inner) if match and set(word) <= {"0", "1"} else 0
        if self.label(rank) != label:
            sample = self.label(self.order - 1)
            raise ScenarioError(
                "label", label, f"a node of {self.name} is {self.bits} bits and o0..o4 or i0..i4, such as {sample}"
            )
        return rank

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        word, inner = divmod(rank, 10)
        if port >= 3:
            return (word ^ 1 << port - 3) * 10 + inner
        return rank - inner + self._petersen.neighbour(inner, port)

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return self.neighbour(rank, port), 1 - port if port < 2 else port

    def distance(self, one: Rank, other: Rank) -> int:
        """Return the number of bits that differ, plus the distance in the Petersen graph (at most 2)."""
        (word, inner), (other_word, other_inner) = divmod(one, 10), divmod(other, 10)
        return (word ^ other_word).bit_count() + self._petersen.distance(inner, other_inner)

    def distance_distribution(self) -> tuple[int, ...]:
        return polynomial_product([(1, 3, 6), *[(1, 1)] * self.bits])
