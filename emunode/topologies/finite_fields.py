"""Finite fields: the arithmetic of GF(q) for a prime power q, on the numbers 0 .. q - 1.

The base-p digits of a number are the coefficients of a polynomial below degree k, q = p^k. The modulus is the first
monic polynomial of degree k for which x is primitive. Such a polynomial is irreducible, as all powers of x are units.
For k = 1 the modulus is x - xi with the smallest primitive root xi, and this is arithmetic modulo p.
"""

from math import isqrt


def prime_power(number: int) -> tuple[int, int] | None:
    """Return (p, k) if `number` is p^k for a prime p, otherwise None."""
    prime = next((divisor for divisor in range(2, isqrt(number) + 1) if number % divisor == 0), number)
    exponent = 0
    while number > 1 and number % prime == 0:
        number //= prime
        exponent += 1
    return (prime, exponent) if number == 1 and exponent else None


class FiniteField:
    """The field of p^k elements, with tables of the powers of a primitive element and of their exponents."""

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
