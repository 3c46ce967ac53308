"""Confidence intervals for the figures of a campaign."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, fsum, inf, log, sqrt


def half_width(outcomes: Iterable[bool | None]) -> float:
    """Half the width of the interval of the share of trials in which all were served."""
    counted = [outcome for outcome in outcomes if outcome is not None]
    low, high = wilson(sum(counted), len(counted))
    return (high - low) / 2


def wilson(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of a share (Wilson 1927), 95% unless `z` says otherwise; (0, 1) of no trials."""
    if not trials:
        return 0.0, 1.0
    share, square = successes / trials, z * z / trials
    centre = (share + square / 2) / (1 + square)
    margin = z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, centre - margin), min(1.0, centre + margin)


def mean_interval(shares: Sequence[float], z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of the mean of numbers from 0 to 1: Wilson's formula with the mean in place of the share.

    Such a number with mean m has a variance of at most m (1 - m), that of a coin, so this covers the mean at least as
    often as Wilson's interval covers a share, however rare losses are.
    """
    return wilson(fsum(shares), len(shares), z)


FINDING_LEVEL = 1e-4
"""How often, at most, a correct prediction is reported as a finding."""


def outside(mean: float, trials: int, predicted: float, level: float = FINDING_LEVEL) -> bool:
    """Whether the mean of trials, each from 0 to 1, excludes a predicted mean with a confidence of 1 - `level`.

    By the bound of Chernoff and Hoeffding (Hoeffding 1963, theorem 1): a mean beyond `mean` has a probability of at most
    exp(-trials x relative entropy), for any distribution on [0, 1] and for samples without repetition as well.
    """
    return trials * _relative_entropy(mean, predicted) > log(2 / level)


def _relative_entropy(mean: float, predicted: float) -> float:
    """Of two coins, in nats; infinite where the second cannot show what the first does."""
    total = 0.0
    for part, of in ((mean, predicted), (1 - mean, 1 - predicted)):
        if part > 0:
            if of <= 0:
                return inf
            total += part * log(part / of)
    return total


def sure_interval(mean: float, trials: int, level: float = FINDING_LEVEL) -> tuple[float, float]:
    """The predicted means that are not `outside`, to six digits, rounded outwards."""
    ends = []
    for end in (0.0, 1.0):
        inner, outer = mean, end
        for _ in range(30):
            middle = (inner + outer) / 2
            inner, outer = (inner, middle) if outside(mean, trials, middle, level) else (middle, outer)
        ends.append(end if not outside(mean, trials, end, level) else outer)
    return floor(ends[0] * 1e6) / 1e6, ceil(ends[1] * 1e6) / 1e6
