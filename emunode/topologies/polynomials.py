"""Products of polynomials: distances in a Cartesian product add, so numbers of nodes by distance multiply."""

from collections.abc import Iterable, Sequence
from math import prod


def polynomial_product(factors: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the coefficients of a product by ascending power; none may be negative, nor may their sum reach 2^64.

    It is one product of big integers with 64 bits per coefficient.
    """
    known = list(factors)
    packed = [b"".join(coefficient.to_bytes(8, "little") for coefficient in factor) for factor in known]
    length = sum(len(factor) - 1 for factor in known) + 1
    product = prod(int.from_bytes(line, "little") for line in packed).to_bytes(8 * length, "little")
    return tuple(int.from_bytes(product[at : at + 8], "little") for at in range(0, len(product), 8))
