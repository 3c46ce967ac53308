"""What a campaign found: one row for each variant and point, with intervals, and the rows' curves."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import isclose
from statistics import fmean

from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.statistics import mean_interval, outside, sure_interval, wilson
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.theory.reliability import Expected, expected_delivery_ratio, promises

Findings = Mapping[Key, tuple[Trial, TrialResult]]
Row = dict[str, object]


def rows(grid: Grid, findings: Findings) -> list[Row]:
    """One row for each point and variant that has trials, points first; figures over the trials that prove something.

    `sets` is how many sets of faults a point has, where it goes through all of them or a sample. `delivery_ratio` is the
    mean share of messages due to healthy nodes that arrived intact, `guaranteed` the share of trials in which all did, each
    with its 95% interval (where the point went through every set it has, the figure itself); `lost` the mean number of
    healthy nodes that miss something; `predicted` the mean of what the algorithm's claims said of these very faults.
    `theory` and `guaranteed_theory` are what the trees predict for both figures, where that is exact; `promised` is 1 where
    the algorithm tolerates so many faults. `result` says where a figure and its exact theory exclude each other.
    """
    table: list[Row] = []
    by_cell = groupby(sorted(findings), key=lambda key: (key.point, key.variant))
    for (point, variant), keys in by_cell:
        numbers = [key.number for key in keys]
        counted = [findings[Key(point, variant, number)][1] for number in sorted(grid.counted(point, variant, numbers))]
        if counted:
            table.append(_row(grid, point, variant, counted))
    return table


def _row(grid: Grid, point: int, variant: int, found: Sequence[TrialResult]) -> Row:
    fault_set, plan = grid.points[point], grid.variants[variant].plan
    sets = grid.set_count(point, variant)
    row: Row = {label_of(grid): grid.variants[variant].name, "faults": fault_set.name, "sets": sets, **_counts(found)}
    decided = [result for result in found if result.undecided is None]
    row |= _figures(decided, exact=sets == len(decided))
    knowledge = plan.scenario.fault_knowledge
    theory = expected_delivery_ratio(plan.algorithm, plan.faults, knowledge, fault_set, grid.places[variant])
    row["theory"] = _rounded(theory.ratio)
    row["promised"] = 1 if promises(plan.algorithm, plan.faults, fault_set) else None
    row["guaranteed_theory"] = _rounded(theory.guaranteed)
    row["finding"] = _finding(decided, theory, exact=sets == len(decided))
    return row


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def _finding(found: Sequence[TrialResult], theory: Expected, *, exact: bool) -> str | None:
    """What of theory the trials exclude: a figure over all sets is equal to it, one over draws compatible with it."""
    words = []
    for name, measured, expected in (
        ("delivery ratio", [result.intact / result.expected for result in found], theory.ratio),
        ("guaranteed delivery", [float(result.served) for result in found], theory.guaranteed),
    ):
        if expected is None or not measured:
            continue
        mean, trials = fmean(measured), len(measured)
        if exact and not isclose(mean, expected, abs_tol=1e-9):
            words.append(f"{name} {mean:.9f} over all sets, and theory says {expected:.9f}")
        elif not exact and outside(mean, trials, expected):
            low, high = sure_interval(mean, trials)
            words.append(f"{name} {mean:.6f}, 99.99 % interval {low:.6f} to {high:.6f}, and theory says {expected:.9f}")
    return "; ".join(words) or None


def label_of(grid: Grid) -> str:
    """What the names of variants stand for: the fields that are varied (a redundancy names itself: `x=2`)."""
    varied = [name for name in grid.vary if name != "redundancy"] or list(grid.vary)
    return " and ".join(name.replace("_", " ") for name in varied) or "algorithm"


def _counts(found: Sequence[TrialResult]) -> Row:
    return {
        "trials": len(found),
        "undecided": sum(result.undecided is not None for result in found),
        "violated": sum(bool(result.violated) for result in found),
    }


def _figures(found: Sequence[TrialResult], *, exact: bool) -> Row:
    count = len(found)
    if not count:
        return dict.fromkeys(FIGURES)
    ratios = [result.intact / result.expected for result in found]
    ratio, guaranteed = fmean(ratios), sum(result.served for result in found) / count
    intervals = [(ratio, ratio), (guaranteed, guaranteed)]
    if not exact:
        intervals = [mean_interval(ratios), wilson(guaranteed * count, count)]
    predictions = [result.predicted / result.expected for result in found if result.predicted is not None]
    figures = (
        ratio, *intervals[0], guaranteed, *intervals[1],
        fmean(len(result.unserved) for result in found),
        fmean(predictions) if len(predictions) == count else None,
        fmean(result.steps for result in found), fmean(result.segments for result in found),
    )  # fmt: skip
    shown = (None if value is None else round(value, 9) for value in figures)
    return dict(zip(FIGURES, shown, strict=True))


FIGURES = (
    "delivery_ratio", "ratio_low", "ratio_high", "guaranteed", "guaranteed_low", "guaranteed_high", "lost", "predicted",
    "steps", "segments",
)  # fmt: skip


def families(grid: Grid) -> dict[str, list[tuple[int, float]]]:
    """Points that make one curve together: name of what is counted -> (point, how many), ascending."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point, fault_set in enumerate(grid.points):
        struck = [part for part in fault_set.parts if part.count or part.share] or list(fault_set.parts[:1])
        words = " and ".join(f"{_NOUNS.get(part.kind, part.kind)}{part.argument}" for part in struck)
        how = "" if fault_set.how in ("random", "all") else f", {fault_set.how}"
        when = "" if fault_set.when == "1" else f", step {fault_set.when}"
        size = sum(part.share for part in fault_set.parts) if fault_set.how == "bernoulli" else float(fault_set.size)
        found.setdefault(f"{words}{how}{when}", []).append((point, size))
    return {name: sorted(points, key=lambda each: each[1]) for name, points in found.items()}


_NOUNS = {"crash": "crashed nodes", "down": "links down"}


def trial_rows(grid: Grid, findings: Findings) -> Iterator[Row]:
    """One row for each trial, by point, variant and draw: what is kept as trials.parquet."""
    for key in sorted(findings):
        trial, result = findings[key]
        yield {
            "point": grid.points[key.point].name,
            label_of(grid): grid.variants[key.variant].name,
            "draw": key.number,
            "faults": " ".join(trial.faults),
            "seed": trial.seed,
            **{name: " ".join(value) if isinstance(value, tuple) else value for name, value in vars(result).items()},
        }
