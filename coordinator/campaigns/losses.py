"""Losses in a campaign: their distribution, and the worst trials with the commands that repeat them."""

from collections import Counter

from coordinator.campaigns.grid import Key
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import Row, label_of
from coordinator.scenario.repeat import run_command

MOST_WORST = 10
"""Trials that a page lists."""


def loss_rows(store: FinishedTrials) -> list[Row]:
    """One row per point, variant and number of healthy nodes that miss a message, with the number of such trials.

    Only decided trials that enter the figures are counted.
    """
    grid, found = store.grid, Counter[tuple[int, int, int]]()
    numbers: dict[tuple[int, int], list[int]] = {}
    for key in store.findings:
        numbers.setdefault((key.point, key.variant), []).append(key.number)
    for (point, variant), drawn in numbers.items():
        for number in grid.counted(point, variant, drawn):
            result = store.findings[Key(point, variant, number)][1]
            if result.undecided is None:
                found[point, variant, len(result.unserved)] += 1
    return [
        {
            "point": grid.points[point].name,
            label_of(grid): grid.variants[variant].name,
            "nodes_lost": lost,
            "trials": found[point, variant, lost],
        }
        for point, variant, lost in sorted(found)
    ]


def worst_rows(store: FinishedTrials, most: int = MOST_WORST) -> list[Row]:
    """The trials in which most healthy nodes miss a message, worst first, each with the command that repeats it.

    Of trials that drew the same faults, the first is listed.
    """
    grid = store.grid
    lossy = [(-len(result.unserved), key) for key, (_, result) in store.findings.items() if result.unserved]
    rows: list[Row] = []
    seen = set()
    for negative, key in sorted(lossy):
        trial, result = store.findings[key]
        if trial in seen or len(rows) == most:
            continue
        seen.add(trial)
        base = grid.variants[key.variant].plan.scenario
        repeated = base.model_copy(update={"fault": (*base.fault, *trial.faults), "seed": trial.seed})
        rows.append(
            {
                label_of(grid): grid.variants[key.variant].name,
                "faults": grid.points[key.point].name,
                "draw": key.number,
                "nodes_lost": -negative,
                "intact": f"{result.intact:,} of {result.expected:,}",
                "repeat": run_command(repeated),
            }
        )
    return rows
