"""The tables of a campaign: one row per variant and point, with confidence intervals, and one row per trial."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import isclose

from coordinator.campaigns.counts import Counts, Ratios
from coordinator.campaigns.field_figures import field_figures
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.network_reach import fraction, reachability
from coordinator.campaigns.statistics import betting_interval, mean_interval, outside, sure_interval, wilson
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.features.registry import why_unpredictable
from coordinator.scenario.fault_sets import BY_SHARE, FaultSetTerm
from coordinator.scenario.model import knowledge_of
from coordinator.theory.reliability import Expected, expected_delivery_ratio, promises

TrialFindings = Mapping[Key, tuple[Trial, TrialResult]]
CampaignRow = dict[str, object]


def rows(store: FinishedTrials) -> list[CampaignRow]:
    """Return one row per point and variant that has trials, points first. Figures are over decided trials.

    - `sets`: number of fault sets of the point, unless they are drawn at random.
    - `engine`: `exact` where trials were evaluated exactly, else `messages`; `again`: how many of the exact ones were also
      run with messages, in memory or over TCP, with the same results.
    - `delivery_ratio`: mean share of messages due to healthy nodes that arrived intact; `guaranteed`: share of trials
      where all of them did. Both have a 95% interval, the figure itself if the trials cover every set.
    - `ratio_betting_low`, `ratio_betting_high`: the betting interval of the delivery ratio (`betting_interval`), for
      independent draws.
    - `fraction`: the share of the places that fail, for one kind of places.
    - `reachable`: mean share of healthy nodes that the network itself still connects to the source, or to the target,
      whatever the algorithm; with its 95% interval. It follows from the faults alone (`coordinator.theory.reachability`).
    - `lost`: mean number of healthy nodes that miss a message.
    - `predicted`: mean of the algorithm's claims about these faults; empty where trials were evaluated exactly.
    - `theory`, `guaranteed_theory`: exact predictions of both figures; `promised`: 1 if the algorithm tolerates this
      number of faults.
    - `finding`: the figure that excludes its exact prediction.
    - The figures of `field_figures`.
    """
    grid = store.grid
    with_messages = store.numbers()
    table: list[CampaignRow] = []
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        ran = with_messages.get((point, variant), [])
        counts = store.counts(point, variant, ran)
        if counts.trials:
            exact = grid.exact(point, variant)
            numbers = grid.numbers(point, variant)[: counts.trials] if exact else grid.counted(point, variant, ran)
            table.append(_row(grid, point, variant, counts, len(ran) if exact else None, numbers))
    return table


def _row(
    grid: Grid, point: int, variant: int, counts: Counts, again: int | None, numbers: Collection[int]
) -> CampaignRow:
    fault_set, plan = grid.points[point], grid.variants[variant].plan
    sets = grid.set_count(point, variant)
    row: CampaignRow = {
        label_of(grid): grid.variants[variant].name, "faults": fault_set.name, "sets": sets, "trials": counts.trials,
        "engine": "messages" if again is None else "exact", "again": again,
        "undecided": counts.undecided, "violated": counts.violated,
    }  # fmt: skip
    # All sets decided: figures are exact, without an interval, unless a set has several outcomes.
    exact = sets == counts.decided and not grid.is_random(fault_set, variant)
    row |= _figures(counts, exact=exact)
    # A sample of all sets has no repetitions and is in the order of their numbers: its draws are not independent.
    row |= _betting(counts, exact=exact, independent=fault_set.how != "all")
    knowledge, _ = knowledge_of(plan.scenario)
    theory = Expected()
    # Under the timed clock packets have no fixed steps.
    if plan.scenario.clock == "steps" and why_unpredictable(plan.spec) is None:
        theory = expected_delivery_ratio(plan.algorithm, plan.faults, knowledge, fault_set, grid.places[variant])
    row["theory"] = _rounded(theory.ratio)
    row["promised"] = 1 if promises(plan.algorithm, plan.faults, fault_set) else None
    row["guaranteed_theory"] = _rounded(theory.guaranteed)
    row["finding"] = _finding(counts, theory, exact=exact)
    row["fraction"] = _rounded(fraction(grid, point, variant))
    row |= _reachable(grid, point, variant, numbers, exact=exact)
    return row | field_figures(counts, plan, grid.fault_free_latency(variant), exact=exact)


def _reachable(grid: Grid, point: int, variant: int, numbers: Collection[int], *, exact: bool) -> CampaignRow:
    reach = reachability(grid, point, variant, numbers)
    if reach is None or not reach.trials:
        return dict.fromkeys(("reachable", "reachable_low", "reachable_high"))
    mean = float(reach.total / reach.trials)
    low, high = (mean, mean) if exact else mean_interval(float(reach.total), reach.trials)
    return {"reachable": _rounded(mean), "reachable_low": _rounded(low), "reachable_high": _rounded(high)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def _finding(counts: Counts, theory: Expected, *, exact: bool) -> str | None:
    """Return the figures that contradict theory: over all sets by any difference, over draws by a significant one."""
    words = []
    trials = counts.decided
    for name, measured, expected in (
        ("delivery ratio", counts.ratios, theory.ratio),
        ("guaranteed delivery", counts.served, theory.guaranteed),
    ):
        if expected is None or not trials:
            continue
        mean = float(measured / Fraction(trials))
        # Over all sets any difference is a contradiction; the tolerance covers the rounding of floats.
        if exact and not isclose(mean, expected, abs_tol=1e-9):
            words.append(f"{name} {mean:.9f} over all sets, theory predicts {expected:.9f}")
        # Over draws only a difference beyond chance: 1 in 10,000 correct predictions is reported at most.
        elif not exact and outside(mean, trials, expected):
            low, high = sure_interval(mean, trials)
            words.append(f"{name} {mean:.6f}, 99.99 % interval {low:.6f} to {high:.6f}, theory predicts {expected:.9f}")
    return "; ".join(words) or None


def label_of(grid: Grid) -> str:
    """Return the heading of the column of variants: the varied fields.

    Redundancy needs no heading, since its values read `x=2`.
    """
    varied = [name for name in grid.vary if name != "redundancy"] or list(grid.vary)
    label = " and ".join(name.replace("_", " ") for name in varied) or "algorithm"
    return f"varied {label}" if label in ("segments", "seed") else label  # other columns have these names


def _figures(counts: Counts, *, exact: bool) -> CampaignRow:
    trials = counts.decided
    if not trials:
        return dict.fromkeys(FIGURES)
    ratio, guaranteed = float(counts.ratios / trials), counts.served / trials
    intervals = [(ratio, ratio), (guaranteed, guaranteed)]
    if not exact:
        # Shares of trials by Wilson; ratios by the same formula, which covers any mean in 0..1.
        intervals = [mean_interval(float(counts.ratios), trials), wilson(counts.served, trials)]
    figures = (
        ratio, *intervals[0], guaranteed, *intervals[1], counts.nodes_lost / trials,
        # A mean over some trials only would not be comparable with the measured one.
        None if counts.predicted is None else float(counts.predicted / trials),
        counts.steps / trials, counts.segments / trials,
    )  # fmt: skip
    shown = (None if value is None else round(value, 9) for value in figures)
    return dict(zip(FIGURES, shown, strict=True))


def _betting(counts: Counts, *, exact: bool, independent: bool) -> CampaignRow:
    """Return the betting interval of the delivery ratio; empty without trials, and where draws are not independent."""
    ends: tuple[float, float] | tuple[None, None] = (None, None)
    if counts.decided and exact:
        ends = (float(counts.ratios / counts.decided),) * 2
    elif counts.decided and independent:
        ends = betting_interval([_by_ratio(counts.groups[start]) for start in sorted(counts.groups)])
    return dict(zip(("ratio_betting_low", "ratio_betting_high"), map(_rounded, ends), strict=True))


def _by_ratio(ratios: Ratios) -> Counter[float]:
    by_ratio = Counter[float]()
    for (due, intact), trials in ratios.items():
        by_ratio[intact / due] += trials
    return by_ratio


FIGURES = (
    "delivery_ratio", "ratio_low", "ratio_high", "guaranteed", "guaranteed_low", "guaranteed_high", "lost", "predicted",
    "steps", "segments",
)  # fmt: skip


def families(grid: Grid) -> dict[str, list[tuple[int, float]]]:
    """Return the points that form one curve: name of the counted faults -> (point, number of faults), ascending."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for point, fault_set in enumerate(grid.points):
        # A point without faults belongs to the curve of the kind that it would have.
        struck = [part for part in fault_set.parts if part.count or part.rate] or list(fault_set.parts[:1])
        words = " and ".join(f"{_noun(part)}{part.argument}" for part in struck)
        how = "" if fault_set.how in ("random", "all") else f", {fault_set.how}"
        if fault_set.in_time:
            # Curves over the failure rate: points of another law or repair time are other curves.
            laws = [f"weibull:{part.lifetime.shape:g}" for part in struck if part.lifetime and part.lifetime.shape != 1]
            laws += [f"mttr:{fault_set.repair_time.name}"] if fault_set.repair_time else []
            how = ", ".join([", failures per second", *laws])
        unit = "step" if fault_set.when.replace("-", "").isdigit() else "time"
        when = "" if fault_set.when == "1" else f", {unit} {fault_set.when}"
        size = sum(part.rate for part in fault_set.parts) if fault_set.how in BY_SHARE else float(fault_set.size)
        curves.setdefault(f"{words}{how}{when}", []).append((point, size))
    return {name: sorted(points, key=lambda each: each[1]) for name, points in curves.items()}


_NOUNS = {"crash": "crashed nodes", "down": "links down"}


def _noun(part: FaultSetTerm) -> str:
    return f"blocks {part.block}" if part.block else _NOUNS.get(part.kind, part.kind)


def trial_rows(grid: Grid, findings: TrialFindings) -> Iterator[CampaignRow]:
    """Yield the rows of trials.parquet: one per trial, by point, variant and draw."""
    for key in sorted(findings):
        trial, result = findings[key]
        yield {
            "point": grid.points[key.point].name,
            label_of(grid): grid.variants[key.variant].name,
            "draw": key.number,
            "faults": " ".join(trial.faults),
            "seed": trial.seed,
            **{
                name: " ".join(map(str, value)) if isinstance(value, tuple) else value
                for name, value in vars(result).items()
                if name != "seconds" or grid.variants[key.variant].scenario.clock == "timed"
            },
        }
