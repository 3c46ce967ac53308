"""What a campaign found: one row for each variant and point, with intervals, and the rows' curves."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from coordinator.campaign.grid import Grid, Key, mean_interval, wilson
from coordinator.campaign.laboratory import Finding, Trial
from coordinator.fault_sets import Recipe
from coordinator.theory import expectation

Findings = Mapping[Key, tuple[Trial, Finding]]
Row = dict[str, object]


def rows(grid: Grid, findings: Findings) -> list[Row]:
    """One row for each point and variant that has trials, points first; figures over the trials that prove something.

    `delivery_ratio` is the mean share of messages due to healthy nodes that arrived intact, `guaranteed` the share of trials
    in which all did, each with its 95% interval (where the point went through every set it has, the figure itself);
    `lost` the mean number of healthy nodes that miss something; `predicted` the mean of what the algorithm's claims said of
    these very faults. `theory` is the delivery ratio expected from the trees, `promised` is 1 where the algorithm tolerates
    so many faults.
    """
    theories = [expectation(variant.plan.algorithm) for variant in grid.variants]
    table: list[Row] = []
    by_cell = groupby(sorted(findings), key=lambda key: (key.point, key.variant))
    for (point, variant), keys in by_cell:
        found = [findings[key][1] for key in keys]
        recipe = grid.points[point]
        row: Row = {label_of(grid): grid.variants[variant].name, "faults": recipe.name, **_counts(found)}
        decided = [finding for finding in found if finding.undecided is None]
        row |= _figures(decided, exact=grid.whole(point, variant) and len(decided) == grid.wanted(point, variant))
        theory = theories[variant]
        counts = _plain_counts(recipe)
        row["theory"] = round(theory(*counts), 9) if theory and counts is not None else None
        tolerated = grid.variants[variant].plan.algorithm.tolerated_faults
        row["promised"] = 1 if counts is not None and sum(counts) <= tolerated else None
        table.append(row)
    return table


def label_of(grid: Grid) -> str:
    """What the names of variants stand for: the fields that are varied (a redundancy names itself: `x=2`)."""
    varied = [name for name in grid.vary if name != "redundancy"] or list(grid.vary)
    return " and ".join(name.replace("_", " ") for name in varied) or "algorithm"


def _counts(found: Sequence[Finding]) -> Row:
    return {
        "trials": len(found),
        "undecided": sum(finding.undecided is not None for finding in found),
        "violated": sum(bool(finding.violated) for finding in found),
    }


def _figures(found: Sequence[Finding], *, exact: bool) -> Row:
    count = len(found)
    if not count:
        return dict.fromkeys(FIGURES)
    ratios = [finding.intact / finding.expected for finding in found]
    ratio, guaranteed = fmean(ratios), sum(finding.served for finding in found) / count
    intervals = [(ratio, ratio), (guaranteed, guaranteed)]
    if not exact:
        intervals = [mean_interval(ratios), wilson(guaranteed * count, count)]
    predictions = [finding.predicted / finding.expected for finding in found if finding.predicted is not None]
    figures = (
        ratio, *intervals[0], guaranteed, *intervals[1],
        fmean(len(finding.unserved) for finding in found),
        fmean(predictions) if len(predictions) == count else None,
        fmean(finding.steps for finding in found), fmean(finding.segments for finding in found),
    )  # fmt: skip
    shown = (None if value is None else round(value, 9) for value in figures)
    return dict(zip(FIGURES, shown, strict=True))


FIGURES = (
    "delivery_ratio", "ratio_low", "ratio_high", "guaranteed", "guaranteed_low", "guaranteed_high", "lost", "predicted",
    "steps", "segments",
)  # fmt: skip


def _plain_counts(recipe: Recipe) -> tuple[int, int] | None:
    """(nodes crashed, links down) of a point that theory speaks of: every set before the first step equally likely."""
    if recipe.how not in ("random", "all") or recipe.when != "1" or recipe.sources:
        return None
    counts = {"crash": 0, "down": 0}
    for part in recipe.parts:
        if part.kind not in counts or part.argument:
            return None
        counts[part.kind] += part.count
    return counts["crash"], counts["down"]


def families(grid: Grid) -> dict[str, list[tuple[int, float]]]:
    """Points that make one curve together: name of what is counted -> (point, how many), ascending."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point, recipe in enumerate(grid.points):
        struck = [part for part in recipe.parts if part.count or part.share] or list(recipe.parts[:1])
        words = " and ".join(f"{_NOUNS.get(part.kind, part.kind)}{part.argument}" for part in struck)
        how = "" if recipe.how in ("random", "all") else f", {recipe.how}"
        when = "" if recipe.when == "1" else f", step {recipe.when}"
        size = sum(part.share for part in recipe.parts) if recipe.how == "bernoulli" else float(recipe.size)
        found.setdefault(f"{words}{how}{when}", []).append((point, size))
    return {name: sorted(points, key=lambda each: each[1]) for name, points in found.items()}


_NOUNS = {"crash": "crashed nodes", "down": "links down"}


def trial_rows(grid: Grid, findings: Findings) -> Iterator[Row]:
    """One row for each trial, by point, variant and draw: what is kept as trials.parquet."""
    for key in sorted(findings):
        trial, finding = findings[key]
        yield {
            "point": grid.points[key.point].name,
            label_of(grid): grid.variants[key.variant].name,
            "draw": key.number,
            "faults": " ".join(trial.faults),
            "seed": trial.seed,
            **{name: " ".join(value) if isinstance(value, tuple) else value for name, value in vars(finding).items()},
        }
