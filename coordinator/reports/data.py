"""What a run directory holds, as far as it can be read: reports are drawn of broken and half-written runs too.

Nothing here raises for a file that is missing or damaged; it is named in `notes`, and what it would have said is absent.
Only a directory that holds no part of a run is refused.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from coordinator.history.run_directory import translate_summary
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.metrics import measure
from coordinator.scenario.model import make_scenario
from emunode.errors import EmulatorError, ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology

Value = TypeVar("Value")

LATEST = "latest"
MAKES_A_RUN = ("summary.json", "scenario.toml", "journal.parquet")
LARGEST_ORDER = 10_000_000
"""Networks above this are described and not drawn."""

COLUMNS: Mapping[str, Sequence[str]] = {
    "nodes": ("rank", "label", "received", "expected", "first_step", "last_step", "state"),
    "links": ("sender", "port", "receiver", "packets", "segments", "bytes", "busiest_step_segments"),
    "steps": (
        "step", "sending", "receiving", "active", "free", "packets", "segments", "bytes", "max_link_segments",
        "virtual_seconds",
    ),
    "journal": ("step", "sender", "port", "receiver", "origin", "target", "tree", "segment", "bytes", "outcome"),
    "elections": ("receiver", "origin", "segment", "elected"),
}  # fmt: skip
"""Columns of the tables (section 7 of the design)."""


@dataclass
class RunData:
    """One run, every part of it optional."""

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
    """Votes with altered copies; only runs with redundancy have any."""
    notes: list[str] = field(default_factory=list)
    """What is missing or unreadable, one sentence each; empty for a whole run."""

    def get(self, key: str) -> Any:
        """A value of the summary, or else of the scenario, or None."""
        return self.summary.get(key, self.scenario.get(key))

    @property
    def measured(self) -> dict[str, Any]:
        """The summary without what it repeats of the scenario (`segments` is a measurement in it, and a wish there)."""
        return {key: value for key, value in self.summary.items() if key not in self.scenario or key == "segments"}

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the scenario means; None if it cannot be made of what is there."""
        try:
            return make_plan(make_scenario(self.scenario)) if self.scenario else None
        except (EmulatorError, ValueError, TypeError):
            return None

    @property
    def order(self) -> int:
        """Number of nodes; 0 if that is not known."""
        return self.topology.order if self.topology else 0


def find_run(run: Path) -> Path:
    """The directory that `run` means: itself, the newest run in it, or the newest of `runs/<run>`.

    Raises ScenarioError (field `run`) if there is no run.
    """
    for candidate in (run, run / LATEST, Path("runs") / run, Path("runs") / run / LATEST):
        if any((candidate / name).is_file() for name in MAKES_A_RUN):
            return candidate.resolve()
    if not run.exists() and not (Path("runs") / run).exists():
        raise ScenarioError(
            "run", str(run), "there is no such run; give a run directory, or the name of a folder in runs/"
        )
    raise ScenarioError("run", str(run), f"it is no run directory: it holds none of {', '.join(MAKES_A_RUN)}")


def read_run(path: Path, name: str | None = None) -> RunData:
    """Read what is there. Tables that are missing are measured anew from the journal, if that and the scenario are whole."""
    data = RunData(path, name or path.name)
    summary = _read(data, "summary.json", lambda file: json.loads(file.read_text()))
    scenario = _read(data, "scenario.toml", lambda file: tomllib.loads(file.read_text()))
    faults = _read(data, "faults.json", lambda file: json.loads(file.read_text()))
    data.summary = translate_summary(_expect(data, "summary.json", summary, dict) or {})
    data.scenario = scenario or {}
    data.faults = [fault for fault in _expect(data, "faults.json", faults, list) or [] if isinstance(fault, dict)]
    data.topology = _topology(data)
    data.journal = _journal(data)
    for table in ("nodes", "links", "steps"):
        frame = _read(data, f"{table}.parquet", lambda file, table=table: _columns(pl.read_parquet(file), table))  # type: ignore[misc]
        setattr(data, table, frame)
    if (path / "elections.parquet").is_file():
        data.elections = _read(data, "elections.parquet", lambda file: _columns(pl.read_parquet(file), "elections"))
    if data.nodes is None or data.links is None or data.steps is None:
        _measure_anew(data)
    _distrust(data)
    return data


def _read(data: RunData, name: str, read: Callable[[Path], Value]) -> Value | None:
    file = data.path / name
    if not file.is_file():
        data.notes.append(f"{name} is missing")
        return None
    try:
        return read(file)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        data.notes.append(f"{name} cannot be read: {_first_line(error)}")
        return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _expect(data: RunData, name: str, value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        data.notes.append(f"{name} holds a {type(value).__name__}, not a {kind.__name__}")
        return None
    return value


def _columns(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The frame, if it has the columns of its table; ValueError names those that are missing."""
    missing = [column for column in COLUMNS[table] if column not in frame.columns]
    if missing:
        raise ValueError(f"it has no column {', '.join(missing)}")
    return frame


def _topology(data: RunData) -> Topology | None:
    name = data.get("topology")
    try:
        topology = parse_topology(str(name)) if name else None
    except EmulatorError as error:
        data.notes.append(f"the network is unknown: {error}")
        return None
    return topology if topology and topology.order <= LARGEST_ORDER else None


def _journal(data: RunData) -> pl.LazyFrame | None:
    """The journal, or the parts of it that a killed run left."""
    parts = sorted(data.path.glob("journal-*.parquet"))
    if parts and not (data.path / "journal.parquet").is_file():
        data.notes.append(f"journal.parquet is missing; this report uses {len(parts)} part(s) of it that were written")
        files = parts
    else:
        files = [data.path / "journal.parquet"]
        if not files[0].is_file():
            data.notes.append("journal.parquet is missing")
            return None
    try:
        frame = pl.scan_parquet(files, glob=False)
        names = frame.collect_schema().names()
    except (OSError, pl.exceptions.PolarsError) as error:
        data.notes.append(f"journal.parquet cannot be read: {_first_line(error)}")
        return None
    missing = [column for column in COLUMNS["journal"] if column not in names]
    if missing:
        data.notes.append(f"journal.parquet has no column {', '.join(missing)}")
        return None
    return frame


def _measure_anew(data: RunData) -> None:
    """Fill in missing tables by measuring the journal."""
    if data.journal is None or not data.scenario:
        return
    try:
        measured = measure(make_plan(make_scenario(data.scenario)), data.journal)
    except (EmulatorError, pl.exceptions.PolarsError) as error:
        data.notes.append(f"the journal cannot be measured: {_first_line(error)}")
        return
    data.nodes = measured.nodes if data.nodes is None else data.nodes
    data.links = measured.links if data.links is None else data.links
    data.steps = measured.steps if data.steps is None else data.steps
    data.summary = {**measured.metrics, **data.summary}
    data.notes.append("what is missing of nodes, links and steps was measured anew from the journal")


def _distrust(data: RunData) -> None:
    """Drop tables that speak of another network than the summary."""
    topology = data.topology
    if topology is None:
        return
    if data.nodes is not None and data.nodes["rank"].to_list() != list(topology.ranks()):
        data.notes.append(f"nodes.parquet does not list the {topology.order:,} nodes of {topology.name}")
        data.nodes = None
    if data.links is not None and not _fits(data.links.lazy(), topology):
        data.notes.append(f"links.parquet names links that {topology.name} has not")
        data.links = None
    if data.journal is not None:
        try:
            fits = _fits(data.journal, topology)
        except (OSError, pl.exceptions.PolarsError) as error:
            data.notes.append(f"journal.parquet cannot be read: {_first_line(error)}")
            data.journal = None
            return
        if not fits:
            data.notes.append(f"journal.parquet names links that {topology.name} has not")
            data.journal = None


def _fits(frame: pl.LazyFrame, topology: Topology) -> bool:
    """Whether ranks and ports are those of the network (where they lead is not asked)."""
    ranges = frame.select(
        low=pl.min_horizontal(pl.col("sender").min(), pl.col("receiver").min(), pl.col("port").min()).fill_null(0),
        rank=pl.max_horizontal(pl.col("sender").max(), pl.col("receiver").max()).fill_null(0),
        port=pl.col("port").max().fill_null(0),
    ).collect(engine="streaming")
    low, rank, port = ranges.row(0)
    return bool(low >= 0 and rank < topology.order and port < topology.degree)
