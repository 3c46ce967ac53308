"""Counting how faults of several kinds can be placed on links."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import factorial, perm, prod

from coordinator.scenario.fault_sets import FaultSetTerm
from coordinator.theory.threats import Number


def quotient(numerator: Number, denominator: Number) -> Number:
    """Return a quotient; exact if both numbers are."""
    # A float is rounded already; a fraction would only pretend to be exact.
    if isinstance(numerator, float) or isinstance(denominator, float):
        return numerator / denominator
    return Fraction(numerator, denominator)


def share_whole(parts: Sequence[FaultSetTerm], weights: Sequence[Number]) -> Number:
    """Return the probability that a link passes its packets. Each part strikes it if no part before it did."""
    # In floating point: shares are given as decimals, and the result is a probability.
    whole, left = 0.0, 1.0
    for part, weight in zip(parts, weights, strict=True):
        whole += left * part.share * weight
        left *= 1 - part.share
    # `left` is the probability that no part strikes the link.
    return whole + left


def placements(groups: Sequence[tuple[int, Sequence[Number]]], counts: tuple[int, ...]) -> Number:
    """Return the sum of weights over all ways to place parts with these counts at different places.

    A group is a number of places and the weight of each part at any of them.
    """
    # Dynamic programming over groups: how many faults of each part have been placed so far, and their weight.
    totals: dict[tuple[int, ...], Number] = {tuple(0 for _ in counts): 1}
    for size, weights in groups:
        extended: dict[tuple[int, ...], Number] = {}
        for placed, total in totals.items():
            # How many faults of each part this group gets.
            for added in product(*(range(count - done + 1) for count, done in zip(counts, placed, strict=True))):
                if sum(added) > size:
                    continue
                # Ordered choices of places, divided by the orders of equal faults: a multinomial coefficient.
                ways = perm(size, sum(added)) // prod(map(factorial, added))
                factor = prod(weight**faults for weight, faults in zip(weights, added, strict=True))
                # A weight of 0 rules the placement out; dropping it early keeps the table small.
                if factor:
                    key = tuple(done + faults for done, faults in zip(placed, added, strict=True))
                    extended[key] = extended.get(key, 0) + total * ways * factor
        totals = extended
    return totals.get(counts, 0)
