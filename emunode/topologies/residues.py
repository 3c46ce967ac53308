"""Networks of complex integers modulo alpha = a + b w, in one or more dimensions, where a link adds a unit.

The integers x + y w are those of Gauss (w = i) or of Eisenstein and Jacobi (w = rho, the sixth root of unity); in both
cases w^2 = t w - 1 with t = 0 or 1. A residue class is a node of the one-dimensional network, a `Quotient` of the plane
of pairs (x, y). Any alpha can be brought to 0 <= a <= b by a unit and a reflection. The network of several dimensions is
the Cartesian product of equal ones: dimension 1 is the fastest digit of the rank and has the lowest ports.

*Index.* With d = gcd(a, b), e = N/d and s such that s + d w is a multiple of alpha, the index of (x, y) is
(y mod d) e + ((x - floor(y/d) s) mod e): congruent pairs get equal indices, so neighbours and translations are index
arithmetic.

*Canonical representative.* Of all pairs in a class the one of smallest weight; of those the lexicographically largest
(x, y). This tie-break is invariant under translation, so the canonical pairs are closed under geodesic predecessors.
The sector trees of Eisenstein-Jacobi networks depend on that, so the tie-break must not change.

References: Martinez, Beivide, Stafford, Moreto and Gabidulin 2008 (Gaussian networks); Flahive and Bose 2010 (both).
"""

import re
from abc import abstractmethod
from functools import lru_cache
from itertools import product
from math import gcd
from typing import ClassVar, Final, Self

from emunode.errors import ScenarioError
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, MAX_ORDER
from emunode.topologies.lattices import NUMBER, MeasuredQuotient, ProductNetwork

_PARAMETERS: Final = re.compile(r"([0-9]{1,19})\+([0-9]{1,19})(?:\^([0-9]{1,9}))?")
_PAIR: Final = re.compile(f"{NUMBER},{NUMBER}")

Pair = tuple[int, int]
"""(x, y) for x + y w."""


class Residues(MeasuredQuotient):
    """One dimension: the integers x + y w modulo alpha = a + b w."""

    trace: ClassVar[int]
    """t in w^2 = t w - 1."""
    units: ClassVar[tuple[Pair, ...]]
    """The units as (x, y), by port."""
    number_of_units: ClassVar[str]
    """In words."""

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b
        rows = gcd(a, b)
        columns = self.norm(a, b) // rows
        super().__init__(columns, rows, self._find_shift() % columns, self.units)
        self.coordinates = lru_cache(CACHE_ENTRIES)(self._find_coordinates)
        """The canonical pair (x, y) of an index."""

    @classmethod
    def norm(cls, a: int, b: int) -> int:
        """Return N, the number of classes modulo a + b w."""
        return a * a + cls.trace * a * b + b * b

    @staticmethod
    @abstractmethod
    def length(x: int, y: int) -> int:
        """Return the fewest units that add up to x + y w."""

    def _find_shift(self) -> int:
        """Return s such that s + d w is a multiple of alpha: extended Euclid gives u b + v (a + t b) = d; s = u a - v b."""
        r, u, v = self.b, 1, 0
        next_r, next_u, next_v = self.a + self.trace * self.b, 0, 1
        while next_r:
            quotient = r // next_r
            r, next_r = next_r, r - quotient * next_r
            u, next_u = next_u, u - quotient * next_u
            v, next_v = next_v, v - quotient * next_v
        return u * self.a - v * self.b

    def canon(self, x: int, y: int) -> Pair:
        """Return the canonical pair of the class of x + y w: smallest weight, then lexicographically largest."""
        # 1. Subtract the multiple (u + v w) alpha nearest to x + y w, found by rounding the quotient.
        u = (2 * (x * (self.a + self.trace * self.b) + y * self.b) + self.size) // (2 * self.size)
        v = (2 * (y * self.a - x * self.b) + self.size) // (2 * self.size)
        x, y = self._minus_multiple(x, y, u, v)
        # 2. The remainder is the best pair, or a neighbouring multiple of alpha away from it.
        candidates = [self._minus_multiple(x, y, u, v) for u, v in product((-1, 0, 1), repeat=2)]
        return max(candidates, key=lambda pair: (-self.length(*pair), pair))

    def _minus_multiple(self, x: int, y: int, u: int, v: int) -> Pair:
        """Return x + y w - (u + v w) alpha."""
        a, b = self.a, self.b
        return x - u * a + v * b, y - v * a - u * b - self.trace * v * b

    def _find_coordinates(self, index: int) -> Pair:
        y, x = divmod(index, self.columns)
        return self.canon(x, y)

    def weight(self, index: int) -> int:
        return self.length(*self.coordinates(index))

    def label(self, index: int) -> str:
        """Return the canonical pair as `x,y`."""
        return "{},{}".format(*self.coordinates(index))

    def parse(self, label: str) -> int | None:
        match = _PAIR.fullmatch(label)
        return self.index(int(match[1]), int(match[2])) if match else None


class ResidueNetwork(ProductNetwork):
    """The product of n equal residue networks: N^n ranks."""

    residues: ClassVar[type[Residues]]
    letter: ClassVar[str]
    """How w is written."""
    norm_formula: ClassVar[str]
    least_norm: ClassVar[int]
    """From here on the units are pairwise incongruent, so that the network is simple."""
    separator = "/"

    def __init__(self, a: int, b: int, dimensions: int = 1) -> None:
        """Raise ScenarioError (field `topology`) unless 0 <= a <= b, the units are distinct and N^n < 2^63."""
        self.name = f"{self.family}:{a}+{b}" if dimensions == 1 else f"{self.family}:{a}+{b}^{dimensions}"
        self.a, self.b, self.dimensions = a, b, dimensions
        self.modulus = self.residues.norm(a, b)
        self._refuse_impossible()
        one_dimension = self.residues(a, b)
        self.index = one_dimension.index
        """The index 0..N-1 of the residue class of x + y w."""
        self.coordinates = one_dimension.coordinates
        """The canonical pair (x, y) of a one-dimensional index."""
        self.canon = one_dimension.canon
        """The canonical pair of the class of x + y w: smallest weight, then lexicographically largest."""
        self.set_measured_factors([one_dimension] * dimensions)

    def _refuse_impossible(self) -> None:
        a, b = self.a, self.b
        self.require(a >= 0 and b >= 0, f"alpha = a + b {self.letter} needs 0 <= a <= b")
        self.require(
            a <= b, f"alpha = a + b {self.letter} needs 0 <= a <= b; {self.family}:{b}+{a} is the same network"
        )
        self.require(
            self.modulus >= self.least_norm,
            f"N = {self.norm_formula} is {self.modulus}; below {self.least_norm} the {self.residues.number_of_units} links "
            "are not distinct",
        )
        self.require(
            1 <= self.dimensions <= self.largest_dimensions(),
            f"the number of dimensions is 1..{self.largest_dimensions()}",
        )

    @classmethod
    def largest_dimensions(cls) -> int:
        """Return the largest n whose smallest N^n can be addressed."""
        return max(n for n in range(1, 64) if cls.least_norm**n <= MAX_ORDER)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        match = _PARAMETERS.fullmatch(parameters)
        if match is None:
            raise ScenarioError("topology", f"{cls.family}:{parameters}", f"write {cls.form} with {cls.condition}")
        a, b, dimensions = match.groups()
        return cls(int(a), int(b), int(dimensions or 1))

    @property
    def node_form(self) -> str:  # type: ignore[override]  # depends on the number of dimensions
        """The form of a label, for messages."""
        if self.dimensions == 1:
            return f"x,y for x + y {self.letter}"
        return (
            f"{self.dimensions} pairs x,y for x + y {self.letter}, separated by slashes, "
            f"dimension {self.dimensions} first"
        )


class GaussianResidues(Residues):
    """Z[i] modulo a + b i: units 1, i, -1, -i, weight |x| + |y|."""

    trace = 0
    units = ((1, 0), (0, 1), (-1, 0), (0, -1))
    number_of_units = "four"

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)
        self.bipartite = (a + b) % 2 == 0
        self.diameter = b if self.bipartite else b - 1

    @staticmethod
    def length(x: int, y: int) -> int:
        return abs(x) + abs(y)

    def distribution(self) -> list[int]:
        """Return 4s classes at distance s < T = (a + b)/2, 4(b - s) beyond, 2(b - 1) at s = T < b, and the rest at s =
        b.
        """
        twice_t = self.a + self.b
        counts = [1]
        for s in range(1, self.b):
            if 2 * s == twice_t:
                counts.append(2 * (self.b - 1))
            else:
                counts.append(4 * s if 2 * s < twice_t else 4 * (self.b - s))
        if self.bipartite:
            counts.append(self.size - sum(counts))
        return counts


@register
class Gaussian(ResidueNetwork):
    """G_{a+bi}^(n): N^n ranks, degree 4n. Port 4 (d-1) + k adds i^k in dimension d.

    >>> network = Gaussian.parse("3+4")
    >>> network.order, network.degree, network.diameter
    (25, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1,2"))]
    ['-1,-2', '-2,-1', '0,2', '1,1']
    """

    family = "gaussian"
    form = "gaussian:A+B or gaussian:A+B^DIMENSIONS"
    condition = "0 <= A <= B, N = A^2+B^2 >= 5, N^DIMENSIONS < 2^63"
    example = "gaussian:3+4"
    describe = "Gaussian network of alpha = A+B i in one or more dimensions of degree 4; a link adds 1, i, -1 or -i"
    small_examples = ("gaussian:3+4", "gaussian:4+4", "gaussian:1+2^2")
    large_examples = ("gaussian:3+4^5", "gaussian:1000+1001")
    residues = GaussianResidues
    letter = "i"
    norm_formula = "a^2+b^2"
    least_norm = 5

    def __init__(self, a: int, b: int, dimensions: int = 1) -> None:
        super().__init__(a, b, dimensions)
        self.connectivity = self.degree
        self.title = f"Gaussian network G_{{{a}+{b}i}}" + (f"^({dimensions})" if dimensions > 1 else "")
