"""Orders of growth, judged by closed forms: the ratio of a form to its order stays within a constant over large sizes.

Three small networks say nothing about an order. A form that differs from its order by a factor log n changes the ratio by
4 from n = 10 to n = 10,000.
"""

from math import lgamma, log

from coordinator.annexes.papers.formulas import evaluate
from coordinator.annexes.papers.tables import EVALUATED
from coordinator.results.claims import Verdict

SIZES = (10, 100, 1_000, 10_000)
MOST = 2.0
"""The largest spread of a form that has its order."""


def names(n: int) -> dict[str, float]:
    """Return n, log n, k = log2 n!, the average distance of S_n, its diameter, and x = n - 1."""
    average = n + 2 / n + sum(1 / i for i in range(1, n + 1)) - 4
    about = {"log_n": log(n), "k": lgamma(n + 1) / log(2), "average": average}
    return {"n": float(n), "x": n - 1.0, "diameter": float(3 * (n - 1) // 2), **about}


def ratios(form: str, order: str) -> list[float]:
    """Return the ratio of a form to its order at `SIZES`; both are formulas in `names`."""
    return [float(evaluate(form, **names(n))) / float(evaluate(order, **names(n))) for n in SIZES]


def spread(form: str, order: str) -> float:
    """Return the largest over the smallest ratio; 1 if they differ by a constant."""
    found = ratios(form, order)
    return max(found) / min(found)


def status(*spreads: float) -> str:
    """Return `evaluated` if every form has its order, else `violated`."""
    return EVALUATED if max(spreads) <= MOST else Verdict.VIOLATED
