"""The closed forms of Tseng and Sheu 1997, sections 4 to 6: Ts per start-up, Tc per byte, m bytes per message.

D_n is the diameter, and h the largest height of the trees Lhat.
"""

from collections.abc import Callable
from math import ceil, factorial, gcd, log2, sqrt

from coordinator.annexes.papers.formulas import Cost
from emunode.algorithms.star.multiple_trees import best_segments
from emunode.topologies.star import StarGraph

STARTUP = 1e-3
"""Ts in seconds."""
PER_BYTE = 1e-6
"""Tc in seconds."""


def seconds(cost: Cost) -> float:
    """Return startups Ts + bytes Tc."""
    return cost.time(STARTUP, PER_BYTE)


def height(n: int) -> int:
    """Return h: the largest of D_n + n + gcd(n, i) - 2."""
    return StarGraph(n).diameter + n + max(gcd(n, i) for i in range(1, n)) - 2


def phases(n: int) -> int:
    """Return the sum over i = 2..n of ceil(log2 i)."""
    return sum(ceil(log2(i)) for i in range(2, n + 1))


def algorithm_1(n: int, m: int, p: int) -> Cost:
    """Return (h + p - 1)(Ts + 2m/(p(n-1)) Tc), with segments rounded up to whole bytes."""
    slots = height(n) + p - 1
    return Cost(slots, slots * 2 * ceil(m / (p * (n - 1))))


def recursion(n: int, m: int) -> Cost:
    """Return the cost of the way down through the substars S_n, .., S_3 and up again: i - 1 packets of m (i-1)!/n!
    bytes at each level; one at S_2.

    A segment, 2m/n!, is rounded up to whole bytes.
    """
    segments = [factorial(i) // 2 for i in range(2, n)]  # of a block of S_2, .., S_{n-1}
    moved = 1 + sum(2 * i * count for i, count in enumerate(segments, 2))
    return Cost(1 + sum(2 * i for i in range(2, n)), moved * ceil(2 * m / factorial(n)))


def pipelined(height: int, m: int, p: int) -> Cost:
    """Return (h + p - 1)(Ts + m/p Tc) on one tree of this height."""
    slots = height + p - 1
    return Cost(slots, slots * ceil(m / p))


def best_pipeline(height: int, m: int) -> Cost:
    """Return `pipelined` with the best p."""
    return _best(lambda p: pipelined(height, m, p), sqrt((height - 1) * m * PER_BYTE / STARTUP), m)


def stepped_pipeline(n: int, m: int) -> Cost:
    """Return ((p - 1) ceil(log2 n) + sum ceil(log2 i))(Ts + m/p Tc) with the best p: one packet per ceil(log2 n)
    phases.
    """
    every, first = ceil(log2(n)), phases(n)

    def cost(p: int) -> Cost:
        steps = (p - 1) * every + first
        return Cost(steps, steps * ceil(m / p))

    return _best(cost, sqrt((first - every) * m * PER_BYTE / (every * STARTUP)), m)


def _best(cost: Callable[[int], Cost], real_optimum: float, m: int) -> Cost:
    return cost(best_segments(lambda p: seconds(cost(p)), real_optimum, m))
