"""Runs scenarios for reproductions. Every scenario runs once per process and is kept until the reproductions end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from coordinator.execution.run import run
from coordinator.history.run_directory import temporary_prefix
from coordinator.networks.base import Progress
from coordinator.planning.feasibility import require_possible
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.errors import RunError
from emunode.topologies.base import Topology


@dataclass(frozen=True)
class Trial:
    """A run in the cache: its plan, its summary, and its directory, which exists while the cache is open."""

    plan: Plan
    summary: Mapping[str, object]
    path: Path
    verdict: Verdict

    def number(self, metric: str) -> int | float:
        """The value of a scalar metric."""
        value = self.summary[metric]
        assert isinstance(value, int | float), metric
        return value

    def series(self, metric: str) -> list[int]:
        """The values of a metric that has one number per step."""
        value = self.summary[metric]
        assert isinstance(value, tuple | list), metric
        return [int(entry) for entry in value]

    def journal(self) -> pl.LazyFrame:
        """Every hop (section 7 of the design)."""
        return pl.scan_parquet(self.path / "journal.parquet", glob=False)

    def table(self, name: str) -> pl.DataFrame:
        """The table `nodes`, `links` or `steps` of the run directory."""
        return pl.read_parquet(self.path / f"{name}.parquet")


@dataclass(frozen=True)
class RunCache:
    """Runs each scenario once. `sizes` are the sizes n that the reproduction has to cover: all of them, or one."""

    folder: Path
    progress: Progress = lambda *_: None
    expired: Callable[[], bool] = lambda: False
    """Returns whether the time limit has passed; called before every run."""
    sizes: Sequence[int] = ()
    expected: int = 0
    """Estimated number of runs, for progress messages; 0 if unknown."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """Keyed by the scenario as requested and by the scenario as the plan completes it."""
    requests: list[str] = field(default_factory=list)
    """Every requested scenario, in order."""

    @property
    def runs(self) -> int:
        """Number of runs made so far."""
        return len({id(trial) for trial in self.trials.values()})

    def run(self, topology: Topology | str, collective: str, algorithm: str, **values: object) -> Trial:
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
            # `source` may be omitted or written in several ways; the completed scenario finds the same run again
            source = plan.topology.label(plan.spec.source)
            completed = plan.scenario.model_copy(update={"source": source}).model_dump_json()
            if completed not in self.trials:
                self._require_time(plan)
                require_possible(plan)
                self.trials[completed] = self._run(plan)
            self.trials[requested] = self.trials[completed]
        return self.trials[requested]

    def _require_time(self, plan: Plan) -> None:
        if self.expired():
            raise RunError(f"time limit reached before {plan.name}; raise --minutes or choose a smaller size")

    def _run(self, plan: Plan) -> Trial:
        number = self.runs + 1
        position = f"run {number:,} of {self.expected:,}" if number <= self.expected else f"run {number:,}"

        def progress(phase: str, done: int, total: int) -> None:
            self.progress(f"{position}, {plan.name}, {phase}", done, total)

        result = run(plan, self.folder / str(number), progress, draw=False)
        if result.execution.interrupted:
            raise KeyboardInterrupt
        return Trial(plan, result.summary, result.path, result.verdict)


@contextmanager
def open_run_cache(
    progress: Progress = lambda *_: None, expired: Callable[[], bool] = lambda: False, expected: int = 0
) -> Iterator[RunCache]:
    """A run cache whose run directories are deleted on exit."""
    with TemporaryDirectory(prefix=temporary_prefix()) as folder:
        yield RunCache(Path(folder), progress, expired, expected=expected)
