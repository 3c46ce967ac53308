"""Paired differences between the variants of a campaign: the same draws of faults, compared trial by trial.

Both variants of a pair meet the same faults, so differences vary less than the figures themselves. Delivery ratios differ by
at most 1: their differences have the betting interval, moved to numbers from 0 to 1. Latencies have no such bound: their
differences have Student's interval.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.campaigns.counts import group_of
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.statistics import betting_interval, t_interval
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow, label_of
from coordinator.theory.batch.draws import BLOCK
from emunode.errors import ScenarioError


class TrialFigures(NamedTuple):
    """Figures of trials in the order of their draws; not a number in undecided trials and where no node is served."""

    ratio: NDArray[np.float64]
    """The delivery ratio."""
    longest: NDArray[np.float64]
    """The longest latency of a served node, in steps."""


FIGURES = {"delivery_ratio": 0, "max_latency": 1}
"""The compared figures, by their place in `TrialFigures`."""


def paired_rows(store: FinishedTrials, baseline: str | None = None) -> list[CampaignRow]:
    """Return one row per point, variant and figure: the mean difference from the baseline, with a 95% interval.

    `baseline` is the name of a variant, by default the first. A row counts the pairs in which both variants have the figure.
    Points whose draws differ between the two variants have no row. ScenarioError (field `paired`) for an unknown baseline,
    or with a single variant.
    """
    grid = store.grid
    names = [variant.name for variant in grid.variants]
    base = names[0] if baseline is None else baseline
    if base not in names:
        raise ScenarioError("paired", base, f"expected one of: {', '.join(names)}")
    if len(names) < 2:
        raise ScenarioError("paired", base, "it is the only variant: give two or more, such as --vary algorithm=A,B")
    at = names.index(base)
    return [
        {"figure": figure, label_of(grid): f"{names[variant]} - {base}", "faults": grid.points[point].name, **values}
        for point in range(len(grid.points))
        for variant in range(len(names))
        if variant != at and _same_draws(grid, point, at, variant)
        for figure, values in _differences(store, point, at, variant)
    ]


def _same_draws(grid: Grid, point: int, one: int, other: int) -> bool:
    """Return whether two variants meet the same faults in each draw."""
    plans, fault_set = (grid.variants[one].plan, grid.variants[other].plan), grid.points[point]
    drawn_from = {(plan.topology.name, plan.scenario.fault, plan.scenario.seed) for plan in plans}
    # These strategies choose places by the sends of the algorithm, so each variant has places of its own.
    if fault_set.how in ("worst", "busiest", "roots") or len(drawn_from) > 1:
        return False
    sites = grid.places[one], grid.places[other]
    return sites[0].sources == sites[1].sources and sites[0].broken == sites[1].broken


def _differences(store: FinishedTrials, point: int, one: int, other: int) -> Iterator[tuple[str, CampaignRow]]:
    """Yield the differences of each figure over the draws that both variants have."""
    grid = store.grid
    shared = sorted(set(_numbers(store, point, one)).intersection(_numbers(store, point, other)))
    sides = [_figures(store, point, variant, shared) for variant in (one, other)]
    # Over all sets, the mean is the difference itself.
    exact = all(
        grid.set_count(point, at) == len(shared) and not grid.is_random(grid.points[point], at) for at in (one, other)
    )
    independent = grid.points[point].how != "all"
    for figure, column in FIGURES.items():
        values = sides[1][column] - sides[0][column]
        known = ~np.isnan(values)
        if not known.any():
            continue
        mean = float(values[known].mean())
        ends: tuple[float, float] | None = (mean, mean)
        if not exact and figure == "delivery_ratio" and independent:
            ends = _moved(betting_interval(_groups(values, known)))
        elif not exact:
            ends = t_interval(int(known.sum()), float(values[known].sum()), float((values[known] ** 2).sum()))
        low, high = ends or (None, None)
        larger, smaller = int((values[known] > 0).sum()), int((values[known] < 0).sum())
        yield figure, {
            "pairs": int(known.sum()), "difference": round(mean, 9), "low": _rounded(low), "high": _rounded(high),
            "larger": larger, "smaller": smaller,
        }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def _groups(values: NDArray[np.float64], known: NDArray[np.bool_]) -> Iterable[Counter[float]]:
    """Return differences as numbers from 0 to 1, in the groups of their draws."""
    groups: dict[int, Counter[float]] = {}
    for place in np.flatnonzero(known).tolist():
        groups.setdefault(group_of(place), Counter())[(float(values[place]) + 1) / 2] += 1
    return [groups[start] for start in sorted(groups)]


def _moved(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of differences from the interval of the numbers from 0 to 1 that stand for them."""
    return 2 * ends[0] - 1, 2 * ends[1] - 1


def _numbers(store: FinishedTrials, point: int, variant: int) -> Sequence[int]:
    """Return the numbers of the draws that a variant has finished at a point."""
    grid = store.grid
    if grid.exact(point, variant):
        blocks = store.evaluated(point, variant)
        return grid.numbers(point, variant)[: blocks[-1].stop if blocks else 0]
    return list(grid.counted(point, variant, store.numbers().get((point, variant), [])))


def _figures(store: FinishedTrials, point: int, variant: int, numbers: Sequence[int]) -> TrialFigures:
    """Return the figures of draws: from the record of their trials, or evaluated again without messages."""
    grid = store.grid
    if not grid.exact(point, variant):
        results = [store.findings[Key(point, variant, number)][1] for number in numbers]
        return TrialFigures(
            np.array([each.intact / each.expected if each.decided and each.expected else np.nan for each in results]),
            np.array([each.latency_sums[2] if each.latency_sums[0] else np.nan for each in results], np.float64),
        )
    ratios, longests = [np.zeros(0)], [np.zeros(0)]
    for start in range(0, len(numbers), BLOCK):
        drawn = np.array(numbers[start : start + BLOCK], np.int64)
        outcome, _ = grid.point_engine(point, variant).evaluate(drawn, latencies=True)
        assert outcome.latencies is not None
        ratio = outcome.intact / np.maximum(outcome.expected, 1)
        ratios.append(np.where(outcome.decided, ratio, np.nan))
        served = outcome.decided & (outcome.latencies.served > 0)
        longests.append(np.where(served, outcome.latencies.longest, np.nan))
    return TrialFigures(np.concatenate(ratios), np.concatenate(longests))
