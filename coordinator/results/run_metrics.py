"""Metrics of one's own: numbers that plug-ins compute from the journals of runs.

A run has the metrics of the plug-ins that its scenario names, and the metrics that the program registered itself. They
stand in `summary.json` beside all others, in reports, comparisons, sweeps and rows.
"""

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Final

import polars as pl

from coordinator.planning.plan import Plan
from coordinator.results.tables import HOST_TRAFFIC
from coordinator.scenario.model import OPTIONS
from coordinator.scenario.plugins import loaded_plugins
from emunode.algorithms.claims import FURTHER_METRICS, METRICS
from emunode.errors import RegistrationError, RunError
from emunode.plugins import LOADED
from emunode.registry import Registry

Compute = Callable[[Plan, pl.LazyFrame], float]
NAME: Final = re.compile("[a-z][a-z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True)
class RunMetric:
    """A metric: `compute` takes the plan of a finished run and its journal, and returns one number."""

    name: str
    """Its key in `summary.json`: small letters, digits and `_`."""
    meaning: str
    """Its meaning in one line, with the unit."""
    compute: Compute
    """Called once for each run. The journal has the rows that carry data, with the columns of `journal.parquet`."""

    def of(self, plan: Plan, journal: pl.LazyFrame) -> int | float:
        """Return the number for a run. Raises RunError if `compute` fails or returns something else."""
        try:
            value = self.compute(plan, journal)
        # A plug-in may raise anything. Its last line leads its author to the mistake.
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise RunError(
                f"metric {self.name} failed: {type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"
            ) from error
        # Python counts True as a number; in a metric it is a mistake.
        if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
            raise RunError(f"metric {self.name} returned {value!r}: expected a finite number")
        return int(value) if isinstance(value, Integral) else float(value)


def _check(metric: RunMetric) -> None:
    """Refuse a name that `summary.json` has already, or that cannot be a key."""
    if not NAME.fullmatch(metric.name):
        raise RegistrationError(f"metric {metric.name!r}: expected a name of small letters, digits and _")
    if metric.name in METRICS or metric.name in OPTIONS or metric.name in TAKEN:
        raise RegistrationError(f"metric {metric.name!r}: summary.json has that key already")
    if not metric.meaning.strip():
        raise RegistrationError(f"metric {metric.name!r}: say in `meaning` what it counts")
    if not callable(metric.compute):
        raise RegistrationError(f"metric {metric.name!r}: `compute` is not a function")


TAKEN: Final = frozenset(
    {
        "order", "degree", "diameter", "hosts", "blocks", "segments_per_tree", "faults", "fault_searches", "without_effect",
        "agreement", "wall_seconds", "setup_seconds", "network_read_seconds", "links_opened",
        *HOST_TRAFFIC, "journal_rows", "journal_hash", "verdict", "undecided_because", "reason", "claims",
        "dropped_claims", "cut_off", "cut_off_count", "missing_contributions", "version", "violated", "unjudged",
    }
)  # fmt: skip
"""Keys of `summary.json` and of rows that are no metrics."""
RUN_METRICS: Final = Registry[str, RunMetric](
    "metric", RunMetric, key=lambda metric: metric.name, check=_check, instances=True
)
"""Every metric that plug-ins and programs have registered, by its name."""
FURTHER_METRICS.append(RUN_METRICS)


def own_metrics(plan: Plan, journal: pl.LazyFrame) -> Mapping[str, int | float]:
    """Return the metrics of the plug-ins that a run names, and of the program itself; RunError if one fails."""
    if not RUN_METRICS:
        return {}
    named = {plugin.sha256 for plugin in loaded_plugins(plan.scenario.plugin, all_of_them=True)}
    # Plug-ins that this run does not name may be loaded for another run of the same process.
    elsewhere = [
        entry
        for digest, loaded in LOADED.items()
        if digest not in named
        for registry, entry in loaded.additions
        if registry is RUN_METRICS
    ]
    return {name: metric.of(plan, journal) for name, metric in RUN_METRICS.items() if metric not in elsewhere}
