"""The content of a run directory, as far as it can be read: reports also cover damaged and interrupted runs.

A missing or damaged file never raises an error: it is listed in `notes`, and its data is absent. A directory that holds no
part of a run is refused, and so is a file with content that no run leaves behind (`coordinator.history.stored_run`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from coordinator.annexes import annex_function
from coordinator.features.journals.rows import IS_DATA
from coordinator.history.foreign import FOREIGN_FILE, ForeignOrigin, is_foreign, read_foreign_links, read_origin
from coordinator.history.run_directory import LATEST, RUNS, require_no_links
from coordinator.history.stored.reading import RefusedError, exists
from coordinator.history.stored_run import (
    open_journal,
    read_entries,
    read_run_table,
    read_scenario_file,
    read_summary,
    why_unproven,
)
from coordinator.planning.bounds import why_network_too_large, why_too_large
from coordinator.planning.plan import Plan
from coordinator.results.faults_in_steps import judged_plan
from coordinator.results.metrics import Measurement, measure
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import values_of_file
from coordinator.scenario.networks import network_of, stored_topology
from coordinator.scenario.plugins import absolute_plugins, require_loaded
from emunode.errors import EmulatorError, ScenarioError
from emunode.terminal import plural
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value = TypeVar("Value")

RUN_FILES = ("summary.json", "scenario.toml", "journal.parquet")
LARGEST_ORDER = 10_000_000
"""Larger networks are described but not drawn."""


@dataclass
class RunData:
    """One run; every part of it is optional."""

    path: Path
    name: str
    summary: dict[str, Any] = field(default_factory=dict)
    scenario: dict[str, Any] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    topology: Topology | None = None
    nodes: pl.DataFrame | None = None
    links: pl.DataFrame | None = None
    steps: pl.DataFrame | None = None
    journal: pl.LazyFrame | None = None
    elections: pl.DataFrame | None = None
    """Results of votes that altered copies took part in; only runs with redundancy have them."""
    timeline: pl.DataFrame | None = None
    """Intended and achieved times of packets, under the timed clock."""
    served: list[dict[str, Any]] = field(default_factory=list)
    """Under the timed clock, each healthy node with the time when it had everything."""
    suspicions: list[dict[str, Any]] = field(default_factory=list)
    """Under the timed clock, the changes of mind of detectors."""
    origin: ForeignOrigin | None = None
    """Of a foreign history: where its numbers come from, and the traffic that a rule states."""
    own: bool = False
    """Whether this process has just made the run, so that it may be as large as `run` allows."""
    notes: list[str] = field(default_factory=list)
    """One sentence per missing or unreadable part; empty for a complete run."""

    def get(self, key: str) -> Any:
        """Return a value of the summary, or else of the scenario, or None."""
        return self.summary.get(key, self.scenario.get(key))

    @property
    def measured(self) -> dict[str, Any]:
        """The summary without the keys of the scenario; `segments` has a different meaning in each and is kept."""
        return {key: value for key, value in self.summary.items() if key not in self.scenario or key == "segments"}

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the scenario; None if the scenario is missing, invalid or too large."""
        try:
            # A run without a directory names its network by a digest, and is not a file.
            stored = self.path != Path()
            values = values_of_file(self.scenario, self.path) if stored else self.scenario
            scenario = make_scenario(values) if self.scenario else None
            if scenario is None or (stored and not self.own and self._is_too_large(scenario)):
                return None
            return judged_plan(scenario)
        except (EmulatorError, ValueError, TypeError):
            return None

    def _is_too_large(self, scenario: Scenario) -> bool:
        """Return whether the scenario is not planned, which is noted then."""
        reason = why_too_large(scenario) or why_unproven(self.path, network_of(scenario).order)
        if reason:
            self.notes.append(f"scenario.toml is not used: {reason}")
        return reason is not None

    @cached_property
    def results(self) -> "NDArray[Any] | None":
        """The results of a reduction of real numbers, as bits in storage form.

        One row for each rank, or a single row. None if the run has no results, or if they are missing or damaged.
        """
        if "results_hash" not in self.summary or self.path == Path():
            return None
        try:
            results: NDArray[Any] = annex_function("read results")(self.path / "results.npy")
            return results
        except (OSError, ValueError) as error:
            self.notes.append(f"results.npy cannot be read: {_first_line(error)}")
            return None

    @cached_property
    def measurement(self) -> Measurement | None:
        """The journal measured again; None if the journal or the scenario is missing or damaged."""
        if self.journal is None or self.plan is None:
            return None
        try:
            return measure(self.plan, self.journal)
        except (EmulatorError, pl.exceptions.PolarsError) as error:
            self.notes.append(f"the journal cannot be measured: {_first_line(error)}")
            return None

    @property
    def hops(self) -> pl.LazyFrame | None:
        """The hops of the journal that carry data; None if the journal is missing."""
        return None if self.journal is None else self.journal.filter(IS_DATA)

    @property
    def reasons(self) -> str:
        """Why a part of the run is absent."""
        return "; ".join(self.notes) or ("it was measured elsewhere, without steps" if self.origin else "")

    @property
    def order(self) -> int:
        """Number of nodes; 0 if unknown."""
        return self.topology.order if self.topology else 0


def find_run(run: Path) -> Path:
    """Return the run directory that `run` refers to: itself, the newest run in it, or the newest run of `runs/<run>`.

    Raises ScenarioError (field `run`) if there is no run, for a link in `runs` other than `latest`, and (field `plugin`) if
    it names a plug-in that is not loaded.
    """
    for candidate in (run, run / LATEST, RUNS / run, RUNS / run / LATEST):
        require_no_links(candidate, "run")
        if any(exists(candidate / name) for name in RUN_FILES):
            _require_plugins(candidate.resolve())
            return candidate.resolve()
    if not run.exists() and not (Path("runs") / run).exists():
        raise ScenarioError("run", str(run), "no such run: expected a run directory or the name of a folder in runs/")
    raise ScenarioError("run", str(run), f"not a run directory: it contains none of {', '.join(RUN_FILES)}")


def _require_plugins(path: Path) -> None:
    """Refuse a run whose scenario can be read and names a plug-in that is not loaded."""
    try:
        named = read_scenario_file(path).get("plugin", [])
    except (OSError, ValueError):
        return
    if isinstance(named, list):
        require_loaded(absolute_plugins([entry for entry in named if isinstance(entry, str)], path))


def read_run(path: Path, name: str | None = None, *, own: bool = False) -> RunData:
    """Read a run directory. Missing tables are measured again if the journal and the scenario are intact.

    The network and the scenario of a run that is not this process's `own` are left out if they are too large.

    ScenarioError (field `run`) for a file with content that no run leaves behind: a link, wrong types, values out of range.
    """
    data = RunData(path, name or path.name, own=own)
    data.summary = _read(data, "summary.json", lambda _: read_summary(path)) or {}
    if is_foreign(data.summary):
        return _foreign(data)
    data.scenario = _read(data, "scenario.toml", lambda _: read_scenario_file(path)) or {}
    data.faults = _entries(data, "faults")
    for part in ("served", "suspicions"):
        if exists(path / f"{part}.json"):
            setattr(data, part, _entries(data, part))
    data.topology = _topology(data)
    data.journal = _journal(data)
    for table in ("nodes", "links", "steps"):
        setattr(data, table, _table(data, table))
    for table in ("elections", "timeline"):
        if exists(path / f"{table}.parquet"):
            setattr(data, table, _table(data, table))
    if data.nodes is None or data.links is None or data.steps is None:
        _measure_again(data)
    _drop_unfitting(data)
    return data


def _foreign(data: RunData) -> RunData:
    """Read a history that was measured elsewhere, without steps, journal, nodes or faults."""
    data.origin = _read(data, FOREIGN_FILE, lambda _: read_origin(data.path))
    described = ("topology", "collective", "algorithm", "source", "message_bytes", "driver")
    data.scenario = {name: data.summary[name] for name in described if name in data.summary}
    data.topology = _topology(data)
    data.links = _read(data, "links.parquet", lambda _: read_foreign_links(data.path))
    _drop_unfitting(data)
    return data


def _read(data: RunData, name: str, read: Callable[[Path], Value]) -> Value | None:
    try:
        return read(data.path / name)
    except FileNotFoundError:
        data.notes.append(f"{name} is missing")
    except RefusedError as error:
        raise ScenarioError("run", str(data.path), f"{name}: {error}") from None
    except (OSError, ValueError) as error:
        data.notes.append(f"{name} cannot be read: {_first_line(error)}")
    return None


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _entries(data: RunData, part: str) -> list[dict[str, Any]]:
    return _read(data, f"{part}.json", read_entries) or []


def _table(data: RunData, table: str) -> pl.DataFrame | None:
    return _read(data, f"{table}.parquet", lambda _: read_run_table(data.path, table))


def _topology(data: RunData) -> Topology | None:
    name = data.get("topology")
    try:
        topology = stored_topology(str(name), data.path) if name else None
    except EmulatorError as error:
        data.notes.append(f"unknown network: {error}")
        return None
    if topology is None or topology.order > LARGEST_ORDER:
        return None
    reason = None if data.own else why_network_too_large(topology)
    if reason is None and not data.own and not data.origin:
        reason = why_unproven(data.path, topology.order)
    if reason:
        data.notes.append(f"its network is not drawn: {reason}")
    return None if reason else topology


def _journal(data: RunData) -> pl.LazyFrame | None:
    """Return the journal, or the parts that an interrupted run left of it."""
    parts = sorted(data.path.glob("journal-*.parquet"))
    if not parts or exists(data.path / "journal.parquet"):
        return _read(data, "journal.parquet", open_journal)
    data.notes.append(
        f"journal.parquet is missing; this report uses the {plural(len(parts), 'part')} that the run had written"
    )
    read = [_read(data, part.name, open_journal) for part in parts]
    # A part that cannot be read is noted; without it the others are not the history of the run.
    whole = [part for part in read if part is not None]
    return pl.concat(whole) if len(whole) == len(parts) else None


def _measure_again(data: RunData) -> None:
    """Replace missing tables by measuring the journal."""
    measured = data.measurement
    if measured is None:
        return
    data.nodes = measured.nodes if data.nodes is None else data.nodes
    data.links = measured.links if data.links is None else data.links
    data.steps = measured.steps if data.steps is None else data.steps
    data.summary = {**measured.metrics, **data.summary}
    data.notes.append("missing tables (nodes, links, steps) were measured again from the journal")


def _drop_unfitting(data: RunData) -> None:
    """Drop tables that do not fit the network of the summary."""
    topology = data.topology
    if topology is None:
        return
    if data.nodes is not None and data.nodes["rank"].to_list() != list(topology.ranks()):
        data.notes.append(f"nodes.parquet does not list the {topology.order:,} nodes of {topology.name}")
        data.nodes = None
    if data.links is not None and not _fits(data.links.lazy(), topology):
        data.notes.append(f"links.parquet contains links that do not exist in {topology.name}")
        data.links = None
    if data.journal is not None:
        try:
            fits = _fits(data.journal, topology)
        except (OSError, pl.exceptions.PolarsError) as error:
            data.notes.append(f"journal.parquet cannot be read: {_first_line(error)}")
            data.journal = None
            return
        if not fits:
            data.notes.append(f"journal.parquet contains links that do not exist in {topology.name}")
            data.journal = None


def _fits(frame: pl.LazyFrame, topology: Topology) -> bool:
    """Return whether all ranks and ports exist in the network; receivers are not checked against ports."""
    ranges = frame.select(
        low=pl.min_horizontal(pl.col("sender").min(), pl.col("receiver").min(), pl.col("port").min()).fill_null(0),
        rank=pl.max_horizontal(pl.col("sender").max(), pl.col("receiver").max()).fill_null(0),
        port=pl.col("port").max().fill_null(0),
    ).collect(engine="streaming")
    low, rank, port = ranges.row(0)
    return bool(low >= 0 and rank < topology.order and port < topology.degree)
