"""Availability and completion time in campaigns over failure processes: means, and quantiles with intervals.

The availability of a trial is the share of the window of its process when its nodes (or links) work, over all that may
fail. Its completion is the time when the last healthy node gets everything due to it, in steps, or in seconds under the
timed clock. A trial that leaves some node without a message never completes, and counts as later than all others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, exp, inf, lgamma, log, log1p

from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.statistics import mean_interval
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow, label_of
from coordinator.scenario.fault_draws import process_outages, process_window
from coordinator.scenario.fault_processes import expected_availability
from coordinator.scenario.fault_sets import FaultSetTerm

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MEANS = ("mean", "mean_low", "mean_high", "expected")
LEVEL = 0.95
"""The least probability that an interval covers its quantile."""


def process_rows(store: FinishedTrials) -> list[CampaignRow]:
    """Return one row per point with a process, variant and figure; empty without processes or decided trials.

    Availability follows from the draws, so it is over all trials: trials with a failed source are undecided, and
    availability without them would be too high. Completion is over decided trials.

    `figure` is `availability of nodes` (or `links`) or `completion`, `unit` is `share`, `steps` or `seconds`. Availability
    has a `mean` with its interval and, for exponential and geometric times, the `expected` one; completion has `served`, the
    share of trials that complete. `q50`, `q50_low` and `q50_high` are the median with its interval, and so on. A completion
    is None if it never comes, and a bound if it is infinite or so few trials give none.
    """
    grid, numbers = store.grid, store.numbers()
    rows: list[CampaignRow] = []
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        if grid.points[point].how != "process":
            continue
        counted = grid.counted(point, variant, numbers.get((point, variant), []))
        results = {number: store.findings[Key(point, variant, number)][1] for number in counted}
        decided = [number for number in sorted(results) if results[number].undecided is None]
        if not decided:
            continue
        timed = grid.variants[variant].scenario.clock == "timed"
        times = [results[number].completion for number in decided]
        first: CampaignRow = {label_of(grid): grid.variants[variant].name, "faults": grid.points[point].name}
        drawn = sorted(results)
        rows += ({**first, "trials": len(drawn), **row} for row in _availability_rows(grid, point, variant, drawn))
        served = sum(time is not None for time in times)
        known = sorted(inf if time is None else time for time in times)
        rows.append(
            {
                **first,
                "trials": len(decided),
                "figure": "completion",
                "unit": "seconds" if timed else "steps",
                **dict.fromkeys(MEANS),
                "served": round(served / len(decided), 9),
                **_quantiles(known),
            }
        )
    return rows


def _availability_rows(grid: Grid, point: int, variant: int, numbers: Sequence[int]) -> Iterator[CampaignRow]:
    fault_set, places = grid.points[point], grid.places[variant]
    window, repair = process_window(fault_set, places), fault_set.repair_law
    down = [_downtime(grid, point, variant, number) for number in numbers]
    for term in fault_set.parts:
        whole = window.length * len(places.links if term.on_links else places.nodes(sources=fault_set.sources))
        shares = sorted(1 - each[term] / whole if whole else 1.0 for each in down)
        interval = mean_interval(sum(shares), len(shares))
        mean = sum(shares) / len(shares)
        figures = (mean, *interval, expected_availability(term.failure, repair, window))
        yield {
            "figure": f"availability of {term.site}", "unit": "share",
            **dict(zip(MEANS, (None if value is None else round(value, 9) for value in figures), strict=True)),
            "served": None, **_quantiles(shares),
        }  # fmt: skip


def _downtime(grid: Grid, point: int, variant: int, number: int) -> Counter[FaultSetTerm]:
    """Return for each term the steps or nanoseconds that its places are down in one draw, together."""
    fault_set, places = grid.points[point], grid.places[variant]
    window, downtime = process_window(fault_set, places), Counter[FaultSetTerm]()
    for term, _, outage in process_outages(fault_set, places, f"{grid.variants[variant].scenario.seed}/{number}"):
        downtime[term] += window.downtime(outage)
    return downtime


def _quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """Return the quantiles of sorted values with their intervals; None for an infinite or unbounded value."""
    quantiles: dict[str, float | None] = {}
    for share in QUANTILES:
        name = f"q{round(100 * share)}"
        low, high = order_statistics(len(values), share)
        at = ceil(len(values) * share)
        for key, place in ((name, at), (f"{name}_low", low), (f"{name}_high", high)):
            value = values[place - 1] if place else inf
            quantiles[key] = None if value == inf else round(value, 9)
    return quantiles


def order_statistics(trials: int, share: float, level: float = LEVEL) -> tuple[int, int]:
    """Return the numbers of the order statistics that enclose a quantile.

    Numbers count from 1. The two enclose the quantile with a probability of at least `level`. 0 stands for an end that
    no order statistic bounds. The number of values below the quantile is binomial, whatever their distribution, and if
    the distribution has steps, the interval covers more (David and Nagaraja, Order Statistics, 2003, section 7.1).
    """
    tail = (1 - level) / 2
    logs = [
        lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(share) + (trials - k) * log1p(-share)
        for k in range(trials + 1)
    ]
    # The largest number l with P(B < l) <= tail, and the smallest u with P(B >= u) <= tail.
    low, below = 0, 0.0
    while (below := below + exp(logs[low])) <= tail:
        low += 1
    high, above = trials + 1, 0.0
    while (above := above + exp(logs[high - 1])) <= tail:
        high -= 1
    return low, high if high <= trials else 0
