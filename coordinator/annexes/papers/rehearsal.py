"""Counting the runs of reproductions before the first one starts.

A rehearsal calls the function of a reproduction with a cache that plans every scenario and runs none. Metrics are then 1,
series have one step, tables and journals are empty. This works because the runs of a reproduction follow from its sizes and
from plans, never from results. Where placeholders are of no use, a function asks `cache.rehearsing` after its runs and
returns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import polars as pl

from coordinator.annexes.papers.base import Reproduction
from coordinator.annexes.papers.costs import expected_seconds
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.run_store import RunStore
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict


class _Nothing:
    """An empty result: whatever is asked of it is empty again, and 1 as a number."""

    def __getattr__(self, name: str) -> "_Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> "_Nothing":
        return self

    def __getitem__(self, _: object) -> "_Nothing":
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 1

    __int__ = __index__

    def __float__(self) -> float:
        return 1.0


@dataclass(frozen=True)
class PlannedTrial(CachedRun):
    """A run that was planned only."""

    def number(self, metric: str) -> int | float:
        """Return the placeholder of a metric."""
        return 1

    def series(self, metric: str) -> list[int]:
        """Return the placeholder of a series."""
        return [1]

    def journal(self) -> pl.LazyFrame:
        """Return an empty result."""
        return cast(pl.LazyFrame, _Nothing())

    def table(self, name: str) -> pl.DataFrame:
        """Return an empty result."""
        return cast(pl.DataFrame, _Nothing())


@dataclass(frozen=True)
class Rehearsal(RunCache):
    """A cache that plans scenarios without running them."""

    rehearsing = True

    def _make(self, plan: Plan, scenario: str) -> CachedRun:
        return PlannedTrial(plan, {}, Path(), Verdict.HOLDS)


def count_runs(chosen: Sequence[tuple[Reproduction, Sequence[int]]]) -> dict[str, float] | None:
    """Return the scenarios that these reproductions run, each with its expected seconds.

    Returns None if a reproduction cannot be rehearsed: one of a plug-in may need results to go on.
    """
    rehearsal = Rehearsal(RunStore(Path(), None))
    try:
        for about, sizes in chosen:
            for _ in about.build(replace(rehearsal, sizes=sizes)):
                pass
    except Exception:  # the same error is raised again, with its traceback, when the runs are made
        return None
    return {scenario: expected_seconds(trial.plan) for scenario, trial in rehearsal.unique_trials().items()}


def expected_sum(planned: Mapping[str, float], store: RunStore) -> tuple[int, float]:
    """Return the number of planned runs that the store has, and the expected seconds of all others."""
    missing = [seconds for scenario, seconds in planned.items() if store.find(scenario) is None]
    return len(planned) - len(missing), sum(missing)
