"""Eisenstein-Jacobi networks EJ_alpha^(n): the residues of Z[rho] modulo alpha = a + b rho, in n dimensions.

rho = (1 + i sqrt 3)/2, rho^2 = rho - 1, rho^6 = 1. An element x + y rho is the pair (x, y); its residue class is a
node of the one-dimensional network, and port k adds the unit rho^k. EJ_alpha^(n) is the Cartesian product of n copies
(Hussain, "An Improved One-to-All Broadcasting in Higher Dimensional Eisenstein-Jacobi Networks", section 2; Flahive
and Bose). Any alpha can be brought to 0 <= a <= b by a unit and a reflection. N = a^2 + ab + b^2 residues; N >= 7 is
required, because for N in {1, 3, 4} two of the six units are congruent and the graph is not simple.

*Index.* With d = gcd(a, b), e = N/d and s such that s + d rho is a multiple of alpha, the index of (x, y) is
(y mod d) e + ((x - floor(y/d) s) mod e): congruent pairs get equal indices, so neighbours and translations are index
arithmetic. Rank = sum of index(c_dim) N^(dim-1), port = 6 (dim-1) + k, dimensions counted from 1.

*Canonical representative.* Of all pairs in a class the one of smallest hexagonal weight; of those the lexicographically
largest (x, y). This tie-break is invariant under translation, which makes the canonical pairs closed under geodesic
predecessors. The sector trees depend on that, so the tie-break must not change.

*Erratum.* The paper calls M = (a + 2b)/3 the diameter; it is floor(M). Its distance distribution, eq. (10), holds
with T and M as exact fractions and with the line s = T before the line s = M; it fails if they are floored first.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from math import gcd
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.base import CACHE_ENTRIES, CayleyTopology

LARGEST_DIMENSIONS = 22
"""7^22 is the largest power of the smallest N below 2^63."""

UNITS = ((1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1))
"""The units rho^0 .. rho^5 as (x, y), by port."""

_PARAMETERS = re.compile(r"([0-9]{1,19})\+([0-9]{1,19})(?:\^([0-9]{1,9}))?")
_PAIR = re.compile(r"(0|-?[1-9][0-9]{0,18}),(0|-?[1-9][0-9]{0,18})")

Pair = tuple[int, int]
"""(x, y) for x + y rho."""
Position = tuple[int, int, int]
"""(j, p, q) for p rho^j + q rho^(j-1), with sector j = 1..6, p >= 1, q >= 0."""


def hexw(x: int, y: int) -> int:
    """Hexagonal weight of x + y rho: the smallest |x'| + |y'| + |z'| with x' + y' rho + z' rho^2 = x + y rho."""
    return max(abs(x), abs(y), abs(x + y))


def sector_of(x: int, y: int) -> Position:
    """(j, p, q) of a nonzero x + y rho = p rho^j + q rho^(j-1) in sector j; the axis rho^j belongs to sector j."""
    if y >= 1 and x >= 0:
        return 1, y, x
    if x <= -1 and x + y >= 0:
        return 2, -x, x + y
    if x + y <= -1 and y >= 0:
        return 3, -x - y, y
    if y <= -1 and x <= 0:
        return 4, -y, -x
    if x >= 1 and x + y <= 0:
        return 5, x, -x - y
    if x + y >= 1 and y <= 0:
        return 6, x + y, -y
    raise ValueError("zero lies in no sector")


class EisensteinJacobi(CayleyTopology):
    """EJ_{a+b rho}^(n): N^n ranks, degree 6n, diameter n floor((a+2b)/3); not bipartite (0, 1, rho is a triangle).

    The methods do not validate ranks, indices and ports.
    """

    family = "ej"
    form = "ej:A+B or ej:A+B^DIMENSIONS"
    condition = "0 <= A <= B, N = A^2+AB+B^2 >= 7, N^DIMENSIONS < 2^63"
    example = "ej:3+4^3"
    describe = "Eisenstein-Jacobi network of alpha = A+B rho in one or more dimensions of degree 6; a link adds a unit"
    # every residue of a and b that the constructions treat differently: a = 0, a = b, a = 2 = b, b = a + 1, gcd(a, b) > 1
    small_examples = (
        *(f"ej:{a}+{b}" for b in range(1, 7) for a in range(b + 1) if a * a + a * b + b * b >= 7),
        *("ej:1+2^2", "ej:0+3^2", "ej:2+2^2", "ej:1+3^2"),
    )
    large_examples = ("ej:3+4^4", "ej:2+4^6", "ej:1000+1001")

    def __init__(self, a: int, b: int, dimensions: int = 1) -> None:
        """Raises ScenarioError (field `topology`) unless 0 <= a <= b, N >= 7, dimensions >= 1 and N^n < 2^63."""
        self.name = f"ej:{a}+{b}" if dimensions == 1 else f"ej:{a}+{b}^{dimensions}"
        self.a, self.b, self.dimensions = a, b, dimensions
        self.modulus = a * a + a * b + b * b
        self._refuse_impossible()
        self.title = f"Eisenstein-Jacobi network EJ_{{{a}+{b}rho}}" + (f"^({dimensions})" if dimensions > 1 else "")
        self.order = self.modulus**dimensions
        self.require_order()
        self.degree = 6 * dimensions
        self.connectivity = self.degree
        self.diameter = dimensions * ((a + 2 * b) // 3)
        self.bipartite = False
        self._rows = gcd(a, b)
        self._columns = self.modulus // self._rows
        self._shift = self._find_shift()
        self._places: tuple[int, ...] = tuple(self.modulus**power for power in range(dimensions))
        units = tuple(self.index(x, y) for x, y in UNITS)
        self._steps = tuple((place, unit) for place in self._places for unit in units)
        self._coordinates: Callable[[int], Pair] = lru_cache(CACHE_ENTRIES)(self._find_coordinates)
        self._sector: Callable[[int], Position] = lru_cache(CACHE_ENTRIES)(self._find_sector)

    def _refuse_impossible(self) -> None:
        a, b = self.a, self.b
        if a < 0 or b < 0:
            raise ScenarioError("topology", self.name, "alpha = a + b rho needs 0 <= a <= b")
        if a > b:
            raise ScenarioError(
                "topology", self.name, f"alpha = a + b rho needs 0 <= a <= b; ej:{b}+{a} is the same network"
            )
        if self.modulus < 7:
            raise ScenarioError(
                "topology", self.name, f"N = a^2+ab+b^2 is {self.modulus}; below 7 the six links are not distinct"
            )
        if not 1 <= self.dimensions <= LARGEST_DIMENSIONS:
            raise ScenarioError("topology", self.name, f"the number of dimensions is 1..{LARGEST_DIMENSIONS}")

    @classmethod
    def parse(cls, parameters: str) -> Self:
        match = _PARAMETERS.fullmatch(parameters)
        if match is None:
            raise ScenarioError("topology", f"ej:{parameters}", f"write {cls.form} with {cls.condition}")
        a, b, dimensions = match.groups()
        return cls(int(a), int(b), int(dimensions or 1))

    # One dimension: indices and pairs.

    def index(self, x: int, y: int) -> int:
        """The index 0..N-1 of the residue class of x + y rho."""
        wraps, row = divmod(y, self._rows)
        return row * self._columns + (x - wraps * self._shift) % self._columns

    def coordinates(self, index: int) -> Pair:
        """The canonical pair (x, y) of a one-dimensional index."""
        return self._coordinates(index)

    def sector(self, index: int) -> Position:
        """(j, p, q) of the canonical pair of a nonzero one-dimensional index; raises ValueError for index 0."""
        return self._sector(index)

    def canon(self, x: int, y: int) -> Pair:
        """The canonical pair of the class of x + y rho: smallest hexagonal weight, then lexicographically largest."""
        # 1. Subtract the multiple (u + v rho) alpha nearest to x + y rho, found by rounding the quotient.
        a, b, modulus = self.a, self.b, self.modulus
        u = (2 * (x * (a + b) + y * b) + modulus) // (2 * modulus)
        v = (2 * (y * a - x * b) + modulus) // (2 * modulus)
        x, y = x - (u * a - v * b), y - (v * a + u * b + v * b)
        # 2. The remainder is the best pair, or differs from it by alpha times a unit.
        candidates = [(x, y)] + [(x - u * a + v * b, y - v * a - u * b - v * b) for u, v in UNITS]
        return max(candidates, key=lambda pair: (-hexw(*pair), pair))

    def _find_coordinates(self, index: int) -> Pair:
        y, x = divmod(index, self._columns)
        return self.canon(x, y)

    def _find_sector(self, index: int) -> Position:
        return sector_of(*self._coordinates(index))

    def _find_shift(self) -> int:
        """s such that s + d rho is a multiple of alpha: extended Euclid gives u b + v (a+b) = d; s = u a - v b mod e."""
        r, u, v = self.b, 1, 0
        next_r, next_u, next_v = self.a + self.b, 0, 1
        while next_r:
            quotient = r // next_r
            r, next_r = next_r, r - quotient * next_r
            u, next_u = next_u, u - quotient * next_u
            v, next_v = next_v, v - quotient * next_v
        return (u * self.a - v * self.b) % self._columns

    def _add(self, one: int, other: int) -> int:
        """Index of the sum."""
        if self._rows == 1:  # gcd(a, b) = 1: the indices are the integers modulo N
            return (one + other) % self.modulus
        row, column = divmod(one, self._columns)
        other_row, other_column = divmod(other, self._columns)
        return self.index(column + other_column, row + other_row)

    def _subtract(self, one: int, other: int) -> int:
        """Index of the difference."""
        if self._rows == 1:
            return (one - other) % self.modulus
        row, column = divmod(one, self._columns)
        other_row, other_column = divmod(other, self._columns)
        return self.index(column - other_column, row - other_row)

    # All dimensions.

    def digits(self, rank: Rank) -> tuple[int, ...]:
        """The one-dimensional indices of `rank`, dimension 1 first."""
        return tuple(rank // place % self.modulus for place in self._places)

    def label(self, rank: Rank) -> str:
        """`x,y` for x + y rho, several dimensions as `1,-2/0,3`, dimension n first."""
        pairs = (self._coordinates(index) for index in reversed(self.digits(rank)))
        return "/".join(f"{x},{y}" for x, y in pairs)

    def rank(self, label: str) -> Rank:
        """The rank of a label in the form that `label` writes; raises ScenarioError (field `label`).

        For a pair that is congruent to the canonical one but not equal to it, the message names the canonical one.
        """
        matches = [_PAIR.fullmatch(pair) for pair in label.split("/")]
        rank = 0
        for match in matches:
            if match is None or len(matches) != self.dimensions:
                raise ScenarioError("label", label, self._label_form())
            rank = rank * self.modulus + self.index(int(match[1]), int(match[2]))
        if self.label(rank) != label:
            raise ScenarioError("label", label, f"that node of {self.name} is called {self.label(rank)}")
        return rank

    def _label_form(self) -> str:
        sample = self.label(self.order - 1)
        if self.dimensions == 1:
            return f"a node of {self.name} is x,y for x + y rho, such as {sample}"
        return (
            f"a node of {self.name} is {self.dimensions} pairs x,y for x + y rho, separated by slashes, "
            f"dimension {self.dimensions} first, such as {sample}"
        )

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """Adds rho^k in dimension dim, where port = 6 (dim-1) + k."""
        place, unit = self._steps[port]
        index = rank // place % self.modulus
        return rank + (self._add(index, unit) - index) * place

    def reverse_port(self, port: Port) -> Port:
        """The opposite unit of the same dimension."""
        return port + 3 if port % 6 < 3 else port - 3

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """The difference, dimension by dimension."""
        if not root:
            return rank
        modulus = self.modulus
        relative = 0
        for place in self._places:
            relative += place * self._subtract(rank // place % modulus, root // place % modulus)
        return relative

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """The sum, dimension by dimension."""
        if not root:
            return relative
        modulus = self.modulus
        rank = 0
        for place in self._places:
            rank += place * self._add(relative // place % modulus, root // place % modulus)
        return rank

    def weight(self, relative: Rank) -> int:
        """Sum of the hexagonal weights of the canonical pairs."""
        return sum(hexw(*self._coordinates(index)) for index in self.digits(relative))

    def distance_distribution(self) -> tuple[int, ...]:
        """Eq. (10) of the paper in one dimension (see the erratum above); its n-fold convolution in n.

        The convolution is one power of a big integer with 64 bits per coefficient: no coefficient exceeds N^n < 2^63.
        """
        line = b"".join(count.to_bytes(8, "little") for count in self._distribution_of_one_dimension())
        power = int.from_bytes(line, "little") ** self.dimensions
        packed = power.to_bytes(8 * (self.diameter + 1), "little")
        return tuple(int.from_bytes(packed[at : at + 8], "little") for at in range(0, len(packed), 8))

    def _distribution_of_one_dimension(self) -> list[int]:
        """W(s) for s = 0..floor(M), with T = (a+b)/2 and M = (a+2b)/3 compared exactly; W(T) is the remainder."""
        twice_t, thrice_m = self.a + self.b, self.a + 2 * self.b
        counts = [1]
        for s in range(1, thrice_m // 3 + 1):
            if 2 * s < twice_t:
                counts.append(6 * s)
            elif 3 * s < thrice_m:
                counts.append(6 * (thrice_m - 3 * s))
            else:
                counts.append(2)
        if twice_t % 2 == 0:
            counts[twice_t // 2] = 0
            counts[twice_t // 2] = self.modulus - sum(counts)
        return counts
