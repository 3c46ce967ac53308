"""Runs scenarios for reproductions. Every scenario runs once and is kept until the reproductions end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from coordinator.annexes.papers.costs import duration
from coordinator.annexes.papers.run_store import RunStore, open_run_store
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.networks.base import Progress
from coordinator.planning.feasibility import require_possible
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.errors import RunError
from emunode.topologies.base import Topology


@dataclass(frozen=True)
class CachedRun:
    """A run in the cache: its plan, its summary, and its directory (it exists while the cache is open)."""

    plan: Plan
    summary: Mapping[str, object]
    path: Path
    verdict: Verdict

    def number(self, metric: str) -> int | float:
        """Return the value of a scalar metric."""
        value = self.summary[metric]
        assert isinstance(value, int | float), metric
        return value

    def series(self, metric: str) -> list[int]:
        """Return the values of a metric that has one number per step."""
        value = self.summary[metric]
        assert isinstance(value, tuple | list), metric
        return [int(entry) for entry in value]

    def journal(self) -> pl.LazyFrame:
        """Return every hop (section 7 of the design)."""
        return pl.scan_parquet(self.path / "journal.parquet", glob=False)

    def table(self, name: str) -> pl.DataFrame:
        """Return the table `nodes`, `links` or `steps` of the run directory."""
        return pl.read_parquet(self.path / f"{name}.parquet")


class RunCount:
    """The number of finished runs, the total, and the time left, estimated from the time of the finished ones."""

    PRIOR_SECONDS = 1.0
    """Weight of the expected seconds beside the measured ones, so that the first runs do not decide alone."""

    def __init__(self, planned: Mapping[str, float] | None = None, elapsed: Callable[[], float] = lambda: 0.0) -> None:
        self._planned = planned or {}
        """Expected seconds by scenario; empty if the runs were not counted."""
        self._elapsed = elapsed
        """Returns the seconds since the first run could start."""
        self._left = sum(self._planned.values())
        self._made = 0.0

    def add(self, scenario: str, *, kept: bool) -> None:
        """Note that a run is done; a kept run took no time."""
        expected = self._planned.get(scenario, 0.0)
        self._left -= expected
        self._made += 0.0 if kept else expected

    def position(self, number: int) -> str:
        """Return the number of a run that starts, the total and the time left, in words."""
        if number > len(self._planned):
            return f"run {number:,}"
        rate = (self.PRIOR_SECONDS + self._elapsed()) / (self.PRIOR_SECONDS + self._made)
        return f"run {number:,} of {len(self._planned):,}, {duration(self._left * rate)} left"


@dataclass(frozen=True)
class RunCache:
    """Runs each scenario once. `sizes` are the sizes n that the reproduction has to cover: all of them, or one."""

    store: RunStore
    """Holds the run directories."""
    progress: Progress = lambda *_: None
    expired: Callable[[], bool] = lambda: False
    """Returns whether the time limit has passed; called before every run."""
    sizes: Sequence[int] = ()
    count: RunCount = field(default_factory=RunCount)
    trials: dict[str, CachedRun] = field(default_factory=dict)
    """Keyed by the scenario as requested and by the scenario as the plan completes it."""
    requests: list[str] = field(default_factory=list)
    """Every requested scenario, in order."""

    rehearsing = False
    """Whether runs are only counted, and results are placeholders (`coordinator.annexes.papers.rehearsal`)."""

    @property
    def runs(self) -> int:
        """Number of runs so far, including the runs of an earlier process."""
        return len({id(trial) for trial in self.trials.values()})

    def unique_trials(self) -> dict[str, CachedRun]:
        """Return every run once, by its completed scenario."""
        return {_completed(trial.plan): trial for trial in self.trials.values()}

    def run(self, topology: Topology | str, collective: str, algorithm: str, **values: object) -> CachedRun:
        """Run this collective, in memory unless `driver` is given; `values` are further fields of the scenario.

        Raises the errors of planning and running, KeyboardInterrupt if the run was interrupted, and RunError after the
        time limit.
        """
        network = topology if isinstance(topology, str) else topology.name
        named = {"topology": network, "collective": collective, "algorithm": algorithm}
        scenario = make_scenario({"driver": "memory", **named, **values})
        requested = scenario.model_dump_json()
        self.requests.append(requested)
        if requested not in self.trials:
            plan = make_plan(scenario)
            completed = _completed(plan)
            if completed not in self.trials:
                self.trials[completed] = self._make(plan, completed)
            self.trials[requested] = self.trials[completed]
        return self.trials[requested]

    def _make(self, plan: Plan, scenario: str) -> CachedRun:
        """Take a run from the store, or run it and put it there."""
        summary = self.store.find(scenario)
        if summary is not None:
            self.count.add(scenario, kept=True)
            return CachedRun(plan, summary, self.store.path(scenario), Verdict(str(summary["verdict"])))
        if self.expired():
            raise RunError(f"time limit reached before {plan.name}; raise --minutes or choose a smaller size")
        require_possible(plan)
        position = self.count.position(self.runs + 1)

        def progress(phase: str, done: int, total: int) -> None:
            self.progress(f"{position}, {plan.name}, {phase}", done, total)

        result = run(plan, DirectorySink(self.store.make_room(scenario), draw=False), progress)
        if result.execution.interrupted:
            raise KeyboardInterrupt
        if result.verdict is not Verdict.UNDECIDED:  # such as a timed run on a busy machine: it deserves another try
            self.store.keep(scenario)
        self.count.add(scenario, kept=False)
        return CachedRun(plan, result.summary, result.path, result.verdict)


def _completed(plan: Plan) -> str:
    """Return the scenario in the form that the plan completes: `source` may be omitted or written in several ways."""
    source = plan.topology.label(plan.spec.source)
    return plan.scenario.model_copy(update={"source": source}).model_dump_json()


@contextmanager
def open_run_cache(
    progress: Progress = lambda *_: None, expired: Callable[[], bool] = lambda: False
) -> Iterator[RunCache]:
    """Open a run cache whose run directories are deleted on exit."""
    with open_run_store(None) as store:
        yield RunCache(store, progress, expired)
