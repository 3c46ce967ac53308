"""Confidence intervals for the figures of a campaign."""

from collections.abc import Iterable
from math import ceil, floor, inf, log, sqrt


def half_width(outcomes: Iterable[bool | None]) -> float:
    """Half the width of the confidence interval of the share of trials in which every node was served."""
    counted = [outcome for outcome in outcomes if outcome is not None]
    return half_width_of(sum(counted), len(counted))


def half_width_of(served: int, trials: int) -> float:
    """The same from the number of trials in which every node was served."""
    # Wilson rather than the normal approximation: it stays within 0..1 and keeps its coverage near both ends.
    low, high = wilson(served, trials)
    return (high - low) / 2


def wilson(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of a share (Wilson 1927), 95% for the default `z`; (0, 1) without trials."""
    if not trials:
        # Without trials nothing is known: the whole range.
        return 0.0, 1.0
    share, square = successes / trials, z * z / trials
    # The centre is pulled towards 1/2, which matters for few trials.
    centre = (share + square / 2) / (1 + square)
    margin = z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, centre - margin), min(1.0, centre + margin)


def mean_interval(total: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Confidence interval of the mean of numbers from 0 to 1, given their sum: Wilson's formula with the mean as the share.

    Such a number with mean m has a variance of at most m (1 - m), that of a coin, so this covers the mean at least as
    often as Wilson's interval covers a share, however rare losses are.
    """
    return wilson(total, trials, z)


FINDING_LEVEL = 1e-4
"""The probability, at most, that a correct prediction is reported as a finding."""


def outside(mean: float, trials: int, predicted: float, level: float = FINDING_LEVEL) -> bool:
    """Whether the mean of trials (each from 0 to 1) excludes a predicted mean with confidence 1 - `level`.

    By the bound of Chernoff and Hoeffding (Hoeffding 1963, theorem 1): a mean beyond `mean` has a probability of at most
    exp(-trials x relative entropy), for any distribution on [0, 1] and for samples without repetition as well.
    """
    # Two-sided: level / 2 for each end, hence the 2 in the logarithm.
    return trials * _relative_entropy(mean, predicted) > log(2 / level)


def _relative_entropy(mean: float, predicted: float) -> float:
    """The relative entropy of two coins in nats; infinite if an outcome of the first is impossible for the second."""
    total = 0.0
    for observed, expected in ((mean, predicted), (1 - mean, 1 - predicted)):
        if observed > 0:
            # Observed although predicted impossible: one trial is enough to exclude the prediction.
            if expected <= 0:
                return inf
            total += observed * log(observed / expected)
    return total


def sure_interval(mean: float, trials: int, level: float = FINDING_LEVEL) -> tuple[float, float]:
    """The predicted means that are not `outside`, to six digits, rounded outwards."""
    ends = []
    # `outside` is monotonic from `mean` towards either end, so bisection finds where it begins.
    for end in (0.0, 1.0):
        inner, outer = mean, end
        for _ in range(30):  # bisection, far below the six digits that are shown
            middle = (inner + outer) / 2
            inner, outer = (inner, middle) if outside(mean, trials, middle, level) else (middle, outer)
        # If even the end itself is not outside, the interval extends to it.
        ends.append(end if not outside(mean, trials, end, level) else outer)
    # Rounded outwards, so that the interval shown contains the one computed.
    return floor(ends[0] * 1e6) / 1e6, ceil(ends[1] * 1e6) / 1e6
