"""Eisenstein-Jacobi networks EJ_alpha^(n): the residues of Z[rho] modulo alpha = a + b rho, in n dimensions.

rho = (1 + i sqrt 3)/2, rho^2 = rho - 1, rho^6 = 1. Port 6 (d-1) + k adds the unit rho^k in dimension d (Hussain, "An
Improved One-to-All Broadcasting in Higher Dimensional Eisenstein-Jacobi Networks", section 2; Flahive and Bose). Indices
and canonical pairs are as in `residues`. N = a^2 + ab + b^2 >= 7 is required, because for N in {1, 3, 4} two of the six
units are congruent and the graph is not simple.

*Erratum.* The paper calls M = (a + 2b)/3 the diameter; it is floor(M). Its distance distribution, eq. (10), holds
with T and M as exact fractions and with the line s = T before the line s = M; it fails if they are floored first.
"""

from collections.abc import Callable
from functools import lru_cache

from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES
from emunode.topologies.residues import ResidueNetwork, Residues

UNITS = ((1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1))
"""The units rho^0 .. rho^5 as (x, y), by port."""

Position = tuple[int, int, int]
"""(j, p, q) for p rho^j + q rho^(j-1), with sector j = 1..6, p >= 1, q >= 0."""


def hexw(x: int, y: int) -> int:
    """Return the hexagonal weight of x + y rho: the smallest |x'| + |y'| + |z'| with x' + y' rho + z' rho^2 = x + y rho."""
    return max(abs(x), abs(y), abs(x + y))


def sector_of(x: int, y: int) -> Position:
    """Return (j, p, q) of a nonzero x + y rho = p rho^j + q rho^(j-1) in sector j; the axis rho^j belongs to sector j."""
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


class EisensteinJacobiResidues(Residues):
    """Z[rho] modulo a + b rho: hexagonal weight; not bipartite, since 0, 1, rho is a triangle."""

    trace = 1
    units = UNITS
    number_of_units = "six"
    bipartite = False

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)
        self.diameter = (a + 2 * b) // 3

    @staticmethod
    def length(x: int, y: int) -> int:
        return hexw(x, y)

    def distribution(self) -> list[int]:
        """Return the distribution by eq. (10) of the paper (see the erratum above), with T = (a+b)/2 and M = (a+2b)/3
        compared exactly.

        W(T) is the remainder.
        """
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
            counts[twice_t // 2] = self.size - sum(counts)
        return counts


@register
class EisensteinJacobi(ResidueNetwork):
    """EJ_{a+b rho}^(n): N^n ranks, degree 6n, diameter n floor((a+2b)/3).

    The methods do not validate ranks, indices and ports.

    >>> network = EisensteinJacobi.parse("2+2")
    >>> network.order, network.degree, network.diameter
    (12, 6, 2)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("0,1"))]
    ['1,1', '2,-2', '1,-2', '-1,1', '0,0', '1,0']
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
    residues = EisensteinJacobiResidues
    letter = "rho"
    norm_formula = "a^2+ab+b^2"
    least_norm = 7

    def __init__(self, a: int, b: int, dimensions: int = 1) -> None:
        super().__init__(a, b, dimensions)
        self.connectivity = self.degree
        self.title = f"Eisenstein-Jacobi network EJ_{{{a}+{b}rho}}" + (f"^({dimensions})" if dimensions > 1 else "")
        self.sector: Callable[[int], Position] = lru_cache(CACHE_ENTRIES)(self._find_sector)
        """(j, p, q) of the canonical pair of a nonzero one-dimensional index; raises ValueError for index 0."""

    def _find_sector(self, index: int) -> Position:
        return sector_of(*self.coordinates(index))
