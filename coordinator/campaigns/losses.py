"""Losses in a campaign: their distribution, and the worst trials with the commands that repeat them."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from coordinator.campaigns.grid import Key
from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow, label_of
from coordinator.scenario.command import run_command

MOST_WORST = 10
"""Trials that a page lists."""


def loss_rows(store: FinishedTrials) -> list[CampaignRow]:
    """Return one row per point, variant and number of unserved healthy nodes.

    A node is unserved if it misses a message. A row has the number of such trials. Only decided trials that enter the
    figures are counted.
    """
    grid, numbers = store.grid, store.numbers()
    return [
        {
            "point": grid.points[point].name,
            label_of(grid): grid.variants[variant].name,
            "nodes_lost": lost,
            "trials": trials,
        }
        for point, variant in product(range(len(grid.points)), range(len(grid.variants)))
        for lost, trials in sorted(store.counts(point, variant, numbers.get((point, variant), [])).lost.items())
    ]


class Lossy(NamedTuple):
    """A trial that leaves healthy nodes without a message; the worst trials sort first."""

    negative: int
    """Number of these nodes, negated."""
    key: Key
    intact: int
    expected: int


def worst_rows(store: FinishedTrials, most: int = MOST_WORST) -> list[CampaignRow]:
    """Return the trials where most healthy nodes miss a message, worst first, each with the command that repeats it.

    Of trials that drew the same faults, the first is listed.
    """
    grid = store.grid
    rows: list[CampaignRow] = []
    seen = set()
    for each in sorted(_lossy(store)):
        trial = grid.trial(each.key)
        if trial in seen or len(rows) == most:
            continue
        seen.add(trial)
        base = store.named(grid.variants[each.key.variant].plan.scenario)
        repeated = base.model_copy(update={"fault": (*base.fault, *trial.faults), "seed": trial.seed})
        rows.append(
            {
                label_of(grid): grid.variants[each.key.variant].name,
                "faults": grid.points[each.key.point].name,
                "draw": each.key.number,
                "nodes_lost": -each.negative,
                "intact": f"{each.intact:,} of {each.expected:,}",
                "repeat": run_command(repeated),
            }
        )
    return rows


def _lossy(store: FinishedTrials) -> Iterator[Lossy]:
    grid = store.grid
    for key, (_, result) in store.findings.items():
        if result.unserved and not grid.exact(key.point, key.variant):
            yield Lossy(-len(result.unserved), key, result.intact, result.expected)
    for point, variant in product(range(len(grid.points)), range(len(grid.variants))):
        if not grid.exact(point, variant):
            continue
        # Every block names its worst trials. More of them are taken than are listed, since several may have drawn the same
        # faults.
        worst = sorted((-lost, number) for block in store.evaluated(point, variant) for lost, number in block.worst)
        if worst:
            numbers = [number for _, number in worst[: 5 * MOST_WORST]]
            outcome, _ = grid.point_engine(point, variant).evaluate(np.array(numbers))
            for at, number in enumerate(numbers):
                key = Key(point, variant, number)
                yield Lossy(-int(outcome.unserved[at]), key, int(outcome.intact[at]), int(outcome.expected[at]))
