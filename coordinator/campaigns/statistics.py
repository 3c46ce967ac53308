"""Confidence intervals for the figures of a campaign."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import ceil, cos, exp, floor, inf, lgamma, log, pi, sqrt, tan
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

MANY: Final = 10_000
"""Degrees of freedom from which on the distribution of Student is taken as normal.

Its quantile then differs by less than 0.0003.
"""
PARTS: Final = 400
"""Parts of an integral; even, for Simpson's rule."""


def half_width(outcomes: Iterable[bool | None]) -> float:
    """Return half the width of the confidence interval of the share of trials that served every node."""
    counted = [outcome for outcome in outcomes if outcome is not None]
    return half_width_of(sum(counted), len(counted))


def half_width_of(served: int, trials: int) -> float:
    """Return half the width of the interval, given the number of trials that served every node."""
    # Wilson rather than the normal approximation: it stays within 0..1 and keeps its coverage near both ends.
    low, high = wilson(served, trials)
    return (high - low) / 2


def wilson(successes: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the confidence interval of a share (Wilson 1927).

    It is a 95% interval for the default `z`. Without trials it is (0, 1).
    """
    if not trials:
        # Without trials nothing is known: the whole range.
        return 0.0, 1.0
    share, square = successes / trials, z * z / trials
    # The centre is pulled towards 1/2, which matters for few trials.
    centre = (share + square / 2) / (1 + square)
    margin = z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, centre - margin), min(1.0, centre + margin)


def mean_interval(total: float, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return a confidence interval of the mean of numbers from 0 to 1, given their sum.

    It is Wilson's formula, with the mean in place of the share. Such a number with mean m has a variance of at most m (1
    - m), the variance of a coin. So this interval covers the mean at least as often as Wilson's interval covers a share,
    however rare losses are.
    """
    return wilson(total, trials, z)


def t_interval(count: int, total: float, squares: float) -> tuple[float, float] | None:
    """Return the 95% confidence interval of a mean by the distribution of Student (1908).

    It needs the number of values, their sum and the sum of their squares. It is approximate: values far from normal need
    many draws. None for fewer than two values. None also if all values are equal, because their spread says nothing
    about values that were not drawn.
    """
    if count < 2:
        return None
    mean = total / count
    variance = (squares - total * mean) / (count - 1)
    if variance <= 1e-12 * (mean * mean + 1e-300):
        return None
    margin = t_quantile(count - 1) * sqrt(variance / count)
    return mean - margin, mean + margin


@cache
def t_quantile(freedom: int, level: float = 0.05) -> float:
    """Return a two-sided quantile of the distribution of Student.

    A variable with this many degrees of freedom is farther from 0 with a probability of `level`.
    """
    if freedom > MANY:
        return NormalDist().inv_cdf(1 - level / 2)
    # The density in the angle with tangent x / sqrt(freedom) is a power of the cosine, which Simpson's rule integrates.
    scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(pi)

    def within(angle: float) -> float:
        step = angle / PARTS
        weights = (1 if at in (0, PARTS) else 4 if at % 2 else 2 for at in range(PARTS + 1))
        return 2 * scale * step / 3 * sum(w * cos(at * step) ** (freedom - 1) for at, w in enumerate(weights))

    low, high = 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 1 - level else (low, middle)
    return sqrt(freedom) * tan(low)


def betting_interval(groups: Iterable[Mapping[float, int]], level: float = 0.05) -> tuple[float, float]:
    """Return a proved confidence interval of the mean of numbers from 0 to 1.

    It holds for any distribution and for any time to stop. `groups` are consecutive draws, each as value -> number of
    draws. One gambler bets on a mean above m, another on a mean below m, each with half of the capital. A mean m is
    excluded if one of them would multiply the capital by 2 / `level` (hedged capital with predictable bets: Waudby-Smith
    and Ramdas 2024, theorem 3; Ville 1939). A bet depends on earlier groups only and stays the same within a group, so
    the order within a group has no influence.
    """
    bets = list(_bets(groups, level))
    if not bets:
        return 0.0, 1.0
    return _end(bets, level, above=True), _end(bets, level, above=False)


MOST_BET = 0.75
"""The largest share of the capital that is lost in one draw."""
_Bet = tuple[NDArray[np.float64], NDArray[np.float64], float]
"""The values of a group, how often each of them was drawn, and the bet before its truncation."""


def _bets(groups: Iterable[Mapping[float, int]], level: float) -> Iterator[_Bet]:
    # One draw of 1/2 with a variance of 1/4 stands before the first one: a bet needs a mean and a variance.
    drawn, total, squares = 1.0, 0.5, 0.25
    for group in groups:
        if not group:
            continue
        values = np.array(list(group), np.float64)
        counts = np.array(list(group.values()), np.float64)
        # The best bet for a known number of draws; twice as many as so far stand for the number, so that it need not be
        # planned.
        horizon = 1 << max(4, int(drawn).bit_length())
        yield values, counts, sqrt(2 * log(2 / level) / (horizon * squares / drawn))
        drawn += float(counts.sum())
        total += float(counts @ values)
        squares += float(counts @ (values - total / drawn) ** 2)


def _end(bets: Sequence[_Bet], level: float, *, above: bool) -> float:
    """Return the lower end of the interval if `above`, else the upper end.

    The gambler who bets on a larger mean excludes all means below the lower end.
    """
    inner, outer = (1.0, 0.0) if above else (0.0, 1.0)
    for _ in range(40):
        middle = (inner + outer) / 2
        if _is_excluded(bets, middle, level, above=above):
            outer = middle
        else:
            inner = middle
    return outer


def _is_excluded(bets: Sequence[_Bet], mean: float, level: float, *, above: bool) -> bool:
    """Return whether a gambler excludes a mean.

    The bet is that the true mean is above it, or below it. The mean is excluded if, after any
    group, the capital has grown by a factor of 2 / `level`.
    """
    log_capital, bound = 0.0, log(2 / level)
    for values, counts, bet in bets:
        gains = (values - mean) if above else (mean - values)
        limit = MOST_BET / (mean if above else 1 - mean)
        log_capital += float(counts @ np.log1p(min(bet, limit) * gains))
        if log_capital >= bound:
            return True
    return False


FINDING_LEVEL = 1e-4
"""The highest probability that a correct prediction is reported as a finding."""


def outside(mean: float, trials: int, predicted: float, level: float = FINDING_LEVEL) -> bool:
    """Return whether the mean of trials excludes a predicted mean with confidence 1 - `level`.

    Each trial is a number from 0 to 1. By the bound of Chernoff and Hoeffding (Hoeffding 1963, theorem 1), a mean as far
    from the prediction as `mean` has a probability of at most exp(-trials x relative entropy). That holds for any
    distribution on [0, 1], and for samples without repetition as well.
    """
    # Two-sided: level / 2 for each end, hence the 2 in the logarithm.
    return trials * _relative_entropy(mean, predicted) > log(2 / level)


def _relative_entropy(mean: float, predicted: float) -> float:
    """Return the relative entropy of two coins in nats.

    Infinite if an outcome of the first coin is impossible for the second.
    """
    total = 0.0
    for observed, expected in ((mean, predicted), (1 - mean, 1 - predicted)):
        if observed > 0:
            # Observed although predicted impossible: one trial is enough to exclude the prediction.
            if expected <= 0:
                return inf
            total += observed * log(observed / expected)
    return total


def sure_interval(mean: float, trials: int, level: float = FINDING_LEVEL) -> tuple[float, float]:
    """Return the interval of predicted means that are not `outside`, to six digits, rounded outwards."""
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


def events_interval(events: int) -> tuple[float, float]:
    """Return the 95% confidence interval of the mean of a Poisson distribution from one number (Garwood 1936)."""

    def at_most(number: int, mean: float) -> float:
        term = total = exp(-mean)
        for count in range(1, number + 1):
            term *= mean / count
            total += term
        return total

    # At the upper end so few events have a probability of 2.5 %, at the lower end so many.
    high = _crossing(lambda mean: 0.025 - at_most(events, mean), events)
    low = _crossing(lambda mean: 1 - at_most(events - 1, mean) - 0.025, events) if events else 0.0
    return low, high


def _crossing(rising: Callable[[float], float], events: int) -> float:
    """Return the mean where a rising function is 0."""
    low, high = 0.0, 10.0 + 3 * events
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low


def findings_per_hour(findings: int, seconds: float) -> str:
    """Return in words how many findings a search of this duration made.

    The text has the rate per hour and its 95% interval. A search without findings proves nothing: its interval says how
    rare findings have to be.
    """
    took = f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:,.1f} minutes"
    text = f"{findings:,} finding{'' if findings == 1 else 's'} in {took} of search"
    if seconds <= 0:
        return text
    low, high = (end * 3600 / seconds for end in events_interval(findings))
    return f"{text}: {findings * 3600 / seconds:.3g} per hour, 95 % interval {low:.3g} to {high:.3g}"
