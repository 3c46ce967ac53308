"""Slim Fly: the graphs of McKay, Miller and Siran 1998 of diameter 2, as networks by Besta and Hoefler 2014.

For a prime power q = 4w + delta, delta -1, 0 or 1, and a primitive element xi of GF(q): X = the even powers of xi below
q - 1 unless delta = -1, and then the even powers below 2w and the odd powers from 2w - 1 to 4w - 3; X' = xi X. Both are
closed under negation. Node numbers are elements of GF(q) as in `FiniteField`; for a prime q that is arithmetic modulo q.
"""

import re
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import DirectDistances, RegularTopology


def prime_power(number: int) -> tuple[int, int] | None:
    """Return (p, k) if `number` is p^k for a prime p, otherwise None."""
    prime = next((divisor for divisor in range(2, isqrt(number) + 1) if number % divisor == 0), number)
    exponent = 0
    while number > 1 and number % prime == 0:
        number //= prime
        exponent += 1
    return (prime, exponent) if number == 1 and exponent else None


class FiniteField:
    """The field of q = p^k elements, the numbers 0 .. q - 1, with tables of powers of a primitive element and of exponents.

    The base-p digits of a number are the coefficients of a polynomial below degree k. The modulus is the first monic
    polynomial of degree k for which x is primitive. Such a polynomial is irreducible, as all powers of x are units. For
    k = 1 the modulus is x - xi with the smallest primitive root xi, and this is arithmetic modulo p.
    """

    def __init__(self, prime: int, exponent: int) -> None:
        self.prime = prime
        self.order: int = prime**exponent
        self.powers = self._powers_of_root()
        """xi^0 .. xi^(q-2) of the primitive element xi."""
        self._exponents = {power: exponent for exponent, power in enumerate(self.powers)}

    def combination(self, one: int, factor: int, other: int) -> int:
        """Return one + factor other, where `factor` is any whole number."""
        prime = self.prime
        if prime == self.order:
            return (one + factor * other) % prime
        total, place = 0, 1
        while one or other:
            one, digit = divmod(one, prime)
            other, its_digit = divmod(other, prime)
            total += (digit + factor * its_digit) % prime * place
            place *= prime
        return total

    def product(self, one: int, other: int) -> int:
        """Return the product of two elements."""
        if not one or not other:
            return 0
        return self.powers[(self._exponents[one] + self._exponents[other]) % (self.order - 1)]

    def _powers_of_root(self) -> list[int]:
        top = self.order // self.prime
        for remainder in range(1, self.order):  # of x^k
            if not remainder % self.prime:
                continue  # x would divide the modulus
            powers = [1]
            while len(powers) < self.order:
                leading, rest = divmod(powers[-1], top)
                power = self.combination(rest * self.prime, leading, remainder)
                if power == 1:
                    break
                powers.append(power)
            if len(powers) == self.order - 1:
                return powers
        raise ValueError(f"no field has {self.order} elements")


LARGEST_Q: Final = 9973
"""The largest prime below 10,000: X and X' are tables of about q/2 numbers."""


@register
class SlimFly(DirectDistances, RegularTopology):
    """Nodes (0, x, y) of rank x q + y and (1, m, c) of rank q^2 + m q + c, all elements of GF(q).

    (0, x, y) - (0, x, y + s) for s in X, (1, m, c) - (1, m, c + s) for s in X', (0, x, y) - (1, m, c) if y = m x + c. The
    first ports add the s in ascending order; a further port j leads from x to m = x + j, and back.

    >>> network = SlimFly.parse("3")
    >>> network.order, network.degree, network.diameter
    (18, 5, 2)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1,0,0"))]
    ['1,0,1', '1,0,2', '0,0,0', '0,2,0', '0,1,0']
    """

    family = "slimfly"
    form = "slimfly:Q"
    condition = f"Q the power of a prime, 3 <= Q <= {LARGEST_Q}"
    example = "slimfly:5"
    describe = "Slim Fly of a prime power Q: 2 Q^2 nodes, degree about 3Q/2, diameter 2; Q = 5 is Hoffman-Singleton"
    small_examples = ("slimfly:3", "slimfly:4", "slimfly:5")
    large_examples = ("slimfly:101",)
    bipartite = False

    def __init__(self, q: int) -> None:
        """Raise ScenarioError (field `topology`) unless q is the power of a prime and at most LARGEST_Q."""
        self.name = f"slimfly:{q}"
        self.require(3 <= q <= LARGEST_Q, f"q is 3 .. {LARGEST_Q}: the differences are kept in tables of q/2 numbers")
        power = prime_power(q)
        if power is None:
            below = next(number for number in range(q, 2, -1) if prime_power(number))
            above = next(number for number in range(q, 2 * q) if prime_power(number))
            reason = f"q must be the power of one prime: the next ones are {below} and {above}"
            raise ScenarioError("topology", self.name, reason)
        self.q = q
        self.order = 2 * q * q
        self._field = FiniteField(*power)
        half = (q + 1) // 2  # 2w
        exponents = [*range(0, half, 2), *range(half - 1, q - 1, 2)] if q % 4 == 3 else range(0, q - 1, 2)
        powers = self._field.powers
        self._differences = [sorted(powers[(exponent + side) % (q - 1)] for exponent in exponents) for side in range(2)]
        self._reverse = [
            [differences.index(self._field.combination(0, -1, each)) for each in differences]
            for differences in self._differences
        ]
        self._inside = len(self._differences[0])
        self.degree = self._inside + q
        self.diameter = 2
        self.title = f"Slim Fly of q = {q}"

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def _parts(self, rank: Rank) -> tuple[int, int, int]:
        """Return (0, x, y) or (1, m, c)."""
        rest, last = divmod(rank, self.q)
        return *divmod(rest, self.q), last

    def _rank(self, side: int, column: int, row: int) -> Rank:
        return (side * self.q + column) * self.q + row

    def label(self, rank: Rank) -> str:
        return ",".join(map(str, self._parts(rank)))

    def rank(self, label: str) -> Rank:
        match = re.fullmatch("([01]),(0|[1-9][0-9]{0,3}),(0|[1-9][0-9]{0,3})", label)
        if match is None or max(int(match[2]), int(match[3])) >= self.q:
            sample = self.label(self.order - 1)
            raise ScenarioError(
                "label", label, f"a node of {self.name} is 0 or 1 and two numbers below {self.q}, such as {sample}"
            )
        return self._rank(int(match[1]), int(match[2]), int(match[3]))

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        side, column, row = self._parts(rank)
        if port < self._inside:
            return self._rank(side, column, self._field.combination(row, 1, self._differences[side][port]))
        turn = port - self._inside
        if side:
            x = self._field.combination(column, -1, turn)
            return self._rank(0, x, self._on_line(x, column, row))
        m = self._field.combination(column, 1, turn)
        return self._rank(1, m, self._field.combination(row, -1, self._field.product(m, column)))

    def _on_line(self, x: int, m: int, c: int) -> int:
        """Return y = m x + c."""
        return self._field.combination(c, 1, self._field.product(m, x))

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        side = rank >= self.order // 2
        return self.neighbour(rank, port), self._reverse[side][port] if port < self._inside else port

    def distance(self, one: Rank, other: Rank) -> int:
        """Return 1 if there is a link, else 2."""
        if one == other:
            return 0
        side, column, row = self._parts(min(one, other))
        other_side, other_column, other_row = self._parts(max(one, other))
        if side != other_side:
            return 1 if row == self._on_line(column, other_column, other_row) else 2
        difference = self._field.combination(other_row, -1, row)
        linked = column == other_column and difference in self._difference_sets[side]
        return 1 if linked else 2

    @cached_property
    def _difference_sets(self) -> tuple[frozenset[int], ...]:
        return tuple(map(frozenset, self._differences))

    def distribution_from(self, root: Rank) -> tuple[int, ...]:
        return 1, self.degree, self.order - 1 - self.degree

    def eccentricity(self, root: Rank) -> int:
        return 2

    @cached_property
    def average_distance(self) -> Fraction:
        return 2 - Fraction(self.degree, self.order - 1)
