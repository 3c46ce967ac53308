"""Sweeps: algorithms over networks and sizes, one run each, and one metric beside its lower bound.

A folder keeps every finished run as a line of `rows.jsonl`. So an interrupted sweep resumes where it stopped, and a
larger sweep reuses the runs of a smaller one.
"""

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import polars as pl
import tomli_w
from pydantic import StringConstraints

from coordinator.annexes import annex_function, has_function
from coordinator.execution.run import run
from coordinator.execution.sinks import FinishedRun, MemorySink
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.features.base import Feature
from coordinator.features.registry import FEATURES
from coordinator.history.run_directory import require_no_links
from coordinator.history.stored.reading import RefusedError, exists, read_lines, read_toml
from coordinator.history.stored.records import Finite, Items, Natural, read_record, refused_in
from coordinator.history.stored.version import VERSION_KEY, require_version
from coordinator.history.stored.writing import open_to_append, replace_file
from coordinator.networks.base import Progress
from coordinator.planning.claims import run_claims
from coordinator.planning.feasibility import require_possible, warning
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports import sweep_report
from coordinator.reports.pictures import Page, Picture, frame
from coordinator.reports.tables import Row, to_csv
from coordinator.results.claims import Judged, Verdict, ratio_to
from coordinator.results.run_metrics import RUN_METRICS
from coordinator.scenario.declared_network import AS_DECLARED
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.networks import absolute_value
from emunode import __version__
from emunode.algorithms.claims import DELIVERY, TRAFFIC, stated_bound
from emunode.annexes import PROGRAM
from emunode.errors import RunError, ScenarioError
from emunode.terminal import plural
from emunode.topologies.table import TableTopology

RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
MOST_NETWORKS: Final = 1000
"""Most networks of one sweep."""
ROWS: Final = "rows.jsonl"
SETTINGS: Final = "sweep.toml"
"""The networks, the algorithms, the metric and the scenario of the last sweep in a folder."""
SERIES: Final = (
    "senders_per_step",
    "receivers_per_step",
    "heaviest_link_segments_per_step",
    "heaviest_link_bytes_per_step",
    "repairs_per_step",
)
"""Metrics with a number for each step."""
METRICS: Final = tuple(name for name in (*TRAFFIC, *DELIVERY) if name not in SERIES)
"""The metrics that every run has, one number each."""


def feature_metrics(features: Iterable[Feature]) -> list[str]:
    """Return the metrics that features add, one number each, in alphabetical order."""
    return sorted({name for feature in features for name in feature.metrics} - {*SERIES, *METRICS})


def known_metrics() -> list[str]:
    """Return every metric that a sweep can have.

    These are metrics of all runs, of plug-ins and of features.
    """
    return [*METRICS, *RUN_METRICS, *feature_metrics(FEATURES.values())]


KINDS: Final = {
    "topology": pl.String, "form": pl.String, "n": pl.Int64, "nodes": pl.Int64, "degree": pl.Int64,
    "collective": pl.String, "algorithm": pl.String, "metric": pl.String, "measured": pl.Float64, "predicted": pl.Float64,
    "bound": pl.Float64, "ratio": pl.Float64, "verdict": pl.String, "bottleneck": pl.String, "journal_hash": pl.String,
}  # fmt: skip
"""The columns of a sweep. `n` is the number in the place of a range; `bottleneck` is the source of the bound."""
VARIED_KINDS: Final = {
    "varied": pl.String, "result": pl.Int64, "changed_percent": pl.Float64, "difference": pl.String,
}  # fmt: skip
"""Further columns of a sweep with varied fields: their values, and what they change of the bits of real numbers."""
FIXED_FIELDS: Final = ("topology", "collective", "algorithm", "fault", "driver", "name", "plugin")
"""Fields that a sweep has other arguments for."""
MOST_VALUES: Final = 1000
"""Most combinations of varied values."""
MOST_ROW_BYTES: Final = 1 << 20
"""The most bytes of the record of a run; its texts are short."""
MOST_COMPARED: Final = 1024
"""Elements of the lowest rank that the record of a run keeps."""
Vary = Mapping[str, Sequence[object]]
"""The values of each varied field."""

LATER: Final = frozenset(
    {
        "data", "fixed_order", "heal_at", "host_file", "launcher", "leaves", "merge_links", "placement", "rounding",
        "schedule", "trees", "values",
    }
)  # fmt: skip
"""Keys of scenarios that 0.3.0 did not have."""


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    plan: Plan
    form: str
    """The name of the network as it was given, with its range."""
    number: int | None
    """The number in the place of the only range, if there is one."""
    varied: Mapping[str, object] = field(default_factory=dict)
    """The values of the varied fields."""

    @property
    def setting(self) -> str:
        """The values of the varied fields, as text."""
        return " ".join(f"{name}={value}" for name, value in self.varied.items())

    @property
    def key(self) -> str:
        """A digest of everything that decides the run."""
        topology = self.plan.topology
        network, left_out = topology.name, {"name"}
        if isinstance(topology, TableTopology):
            # A network from a file counts by its content, wherever the file is.
            network, left_out = topology.sha256, left_out | {"topology", "network_sha256", *AS_DECLARED}
        # Keys of later versions count only with a value, so that sweeps of 0.3.0 keep their digests.
        stated = self.plan.scenario.model_dump(mode="json", exclude_defaults=True).keys()
        values = self.plan.scenario.model_dump(mode="json", exclude=left_out | (LATER - stated))
        return sha256(json.dumps([network, values], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class RunRecord:
    """A run of a sweep as a line of its folder."""

    key: str
    order: Natural
    degree: Natural
    verdict: Literal["holds", "violated", "undecided"]
    journal_hash: str
    measured: dict[str, Finite | None]
    claims: Items[tuple[str, str, Finite, str]]
    """Name, relation, predicted value and source."""
    bits: Annotated[str, StringConstraints(pattern="^([0-9a-f]{4})*$", max_length=16 * MOST_COMPARED)] | None = None
    """The first results of a run with real numbers, as hexadecimal digits of their little-endian bytes."""


@dataclass(frozen=True)
class SweepFile:
    """The values of `sweep.toml`."""

    version: str
    topologies: list[str]
    collective: str
    algorithms: list[str]
    metric: str
    scenario: dict[str, Any]
    vary: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Sweep(Judged):
    """The result of a sweep.

    A notebook shows its page: the metric over the sizes, with its lower bounds, and the table.
    """

    collective: str
    metric: str
    rows: list[Row]
    """One for each run, by network and algorithm, with the columns `KINDS`."""
    left_out: list[str]
    """The networks where an algorithm is not defined, with the reasons."""
    finished: bool
    """False if the sweep was interrupted."""

    @property
    def results(self) -> pl.DataFrame:
        """One row per network and algorithm.

        A row has measured value, predicted value, best lower bound, ratio to it, verdict, and more.
        """
        varied = any("varied" in row for row in self.rows)
        return pl.DataFrame(self.rows, schema=KINDS | VARIED_KINDS if varied else KINDS)

    @property
    def different_bits(self) -> list[str]:
        """How many different results the varied fields give.

        There is a line for each network and algorithm.
        """
        results: dict[tuple[str, str], list[int]] = {}
        for row in self.rows:
            if isinstance(number := row.get("result"), int):
                results.setdefault((str(row["algorithm"]), str(row["topology"])), []).append(number)
        return [
            f"{algorithm} on {network}: {plural(max(numbers), 'different result')} of {plural(len(numbers), 'setting')}"
            for (algorithm, network), numbers in results.items()
        ]

    @property
    def title(self) -> str:
        """The measured quantity, in words."""
        forms = ", ".join(dict.fromkeys(str(row["form"]) for row in self.rows))
        return f"{self.metric.replace('_', ' ')} of {self.collective} on {forms}"

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a run: `violated` before `undecided`."""
        verdicts = {Verdict(str(row["verdict"])) for row in self.rows}
        return next((each for each in (Verdict.VIOLATED, Verdict.UNDECIDED) if each in verdicts), Verdict.HOLDS)

    def plot(self) -> Picture:
        """Draw the metric over the sizes, with its lower bounds."""
        return sweep_report.chart(self.title, self.metric, self.rows)

    def report(self, path: Path | str | None = None) -> Page:
        """Return the page of the sweep, which a notebook shows.

        With `path`, it is also written to that file.
        """
        facts = plural(len(self.rows), "run") + ("" if self.finished else "; interrupted, so rows are missing")
        page = Page(sweep_report.page(self.title, self.metric, facts, self.rows, self.left_out), self.title)
        if path is not None:
            page.save(path)
        return page

    @property
    def files(self) -> dict[str, str]:
        """The texts of `table.csv`, `sweep.svg`, `sweep.tex` and `sweep.html`.

        There are none if no run was finished.
        """
        if not self.rows:
            return {}
        drawn = self.plot()
        return {
            "table.csv": to_csv(self.rows),
            "sweep.svg": drawn.svg,
            **({"sweep.tex": "".join(drawn.latex())} if has_function("a chart in LaTeX") else {}),
            "sweep.html": self.report().html,
        }

    def write(self, folder: Path) -> None:
        """Write the files of the sweep."""
        for name, text in self.files.items():
            replace_file(folder / name, text)

    def __repr__(self) -> str:
        return f"<sweep {self.title}: {len(self.rows):,} runs>"

    def _repr_html_(self) -> str:
        page = self.report()
        return frame(page.html, page.title, page.height)


def sweep(
    topologies: Sequence[str],
    collective: str,
    algorithms: Sequence[str],
    metric: str = "steps",
    *,
    vary: Vary | None = None,
    out: Path | None = None,
    progress: Progress = lambda *_: None,
    warn: Callable[[str], object] = warnings.warn,
    **values: object,
) -> Sweep:
    """Run every algorithm on every network and compare `metric` with the best claimed lower bound.

    Names of networks may hold ranges, as `star:3..6`. `vary` has several values for further fields. A run is made of
    every combination, and where runs add real numbers, their bits are compared. `values` are further fields of the
    scenario. Runs are in memory unless `driver` is given. `warn` is called for each run that takes very long.

    ScenarioError is raised before anything runs: for an unknown metric, for an algorithm that is defined on none of the
    networks, and for a folder that holds something else. RunError is raised for a run that this machine cannot do.
    """
    if metric not in (allowed := known_metrics()):
        raise ScenarioError("metric", metric, f"expected one of {', '.join(allowed)}")
    points, left_out = points_of(topologies, collective, algorithms, values, vary=vary)
    _require_measured(metric, points)
    known = {
        key: record
        for key, record in (_read_rows(out) if out else {}).items()
        # The records of a sweep of an earlier version have no bits.
        if metric in record.measured and (not vary or record.bits or "distinct_results" not in record.measured)
    }
    for point in points:
        if point.key not in known:
            require_possible(point.plan)
            if large := warning(point.plan):
                warn(f"{point.plan.scenario.algorithm} on {point.plan.topology.name}: {large}")
    if out:
        _write_settings(out, topologies, collective, algorithms, metric, vary or {}, values)
    records: list[tuple[SweepPoint, RunRecord]] = []
    finished = True
    with InterruptGuard() as stop:
        for done, point in enumerate(points):
            progress(f"{point.plan.topology.name} {point.plan.scenario.algorithm}", done, len(points))
            record = known.get(point.key)
            if record is None:
                record = None if stop.requested else run_point(point)
                if record is None:
                    finished = False
                    break
                if out:
                    _append(out, record)
            records.append((point, record))
    rows, without = rows_of(records, metric)
    left_out += without
    result = Sweep(collective, metric, rows, left_out, finished)
    if out:
        result.write(out)
    return result


def _require_measured(metric: str, points: Sequence[SweepPoint]) -> None:
    """Refuse a metric that only runs with a certain feature have.

    It is allowed if all runs have the feature.
    """
    if metric in METRICS or metric in RUN_METRICS:
        return
    for point in points:
        if metric not in feature_metrics(point.plan.features):
            names = " or ".join(name for name, feature in FEATURES.items() if metric in feature.metrics)
            where = f"{point.plan.scenario.algorithm} on {point.plan.topology.name}"
            raise ScenarioError(
                "metric", metric, f"only runs with the feature {names} have it, and {where} has no such feature"
            )


def rows_of(records: Sequence[tuple[SweepPoint, RunRecord]], metric: str) -> tuple[list[Row], list[str]]:
    """Return the rows of finished runs, and lines about runs without the metric."""
    bits: dict[str, Row] = {}
    groups: dict[tuple[str, str], list[tuple[SweepPoint, RunRecord]]] = {}
    for point, record in records:
        groups.setdefault((point.plan.topology.name, point.plan.scenario.algorithm), []).append((point, record))
    for group in groups.values():
        if any(point.varied for point, _ in group):
            compared = annex_function("compare bits")([(point.plan, record) for point, record in group])
            bits |= {point.key: row for (point, _), row in zip(group, compared, strict=True)}
    rows: list[Row] = []
    left_out = []
    for point, record in records:
        if record.measured[metric] is None:
            left_out.append(without_number(point, metric))
        else:
            rows.append({**row_of(point, metric, record), **bits.get(point.key, {})})
    return rows, left_out


def without_number(point: SweepPoint, metric: str) -> str:
    """Return the line about a run that is left out because it has no number for the metric."""
    return f"{point.plan.scenario.algorithm} on {point.plan.topology.name}: the run has no {metric}"


# --- the runs --------------------------------------------------------------------------------------------------------


def networks_in(text: str) -> Iterator[tuple[str, int | None]]:
    """Yield the names that `star:3..6` or `torus:3..4x4` stands for.

    Each comes with the number in the place of a single range.
    """
    parts = RANGE.split(text)
    starts, ends = parts[1::3], parts[2::3]
    ranges = [range(int(start[:20]), int(end[:20]) + 1) for start, end in zip(starts, ends, strict=True)]
    if any(each.start >= each.stop for each in ranges):
        raise ScenarioError("topology", text, "a range goes from the smaller to the larger number, as star:3..6")
    count = 1
    for each in ranges:
        # `len` fails for numbers beyond 2^63.
        count *= min(each.stop - each.start, MOST_NETWORKS + 1)
    if count > MOST_NETWORKS:
        raise ScenarioError("topology", text, f"a sweep has at most {MOST_NETWORKS:,} networks")
    for numbers in product(*ranges):
        between = zip(parts[0::3], [*map(str, numbers), ""], strict=True)
        yield "".join(word for pair in between for word in pair), numbers[0] if len(numbers) == 1 else None


def points_of(
    topologies: Sequence[str],
    collective: str,
    algorithms: Sequence[str],
    values: Mapping[str, object],
    check: Callable[[Scenario], None] = lambda _: None,
    *,
    vary: Vary | None = None,
) -> tuple[list[SweepPoint], list[str]]:
    """Return the runs in order, and the reasons why others are left out.

    Raises ScenarioError if an algorithm has no run at all.
    """
    if not topologies or not algorithms:
        name = "algorithm" if topologies else "topology"
        raise ScenarioError(name, None, f"give at least one {name}")
    settings = _settings_of(vary or {})
    points: list[SweepPoint] = []
    left_out: list[str] = []
    refused: dict[str, ScenarioError] = {}
    networks = {name: (form, number) for form in topologies for name, number in networks_in(form)}
    if len(networks) > MOST_NETWORKS:
        raise ScenarioError("topology", topologies[-1], f"a sweep has at most {MOST_NETWORKS:,} networks")
    every = product(networks.items(), dict.fromkeys(algorithms), settings)
    for (name, (form, number)), algorithm, varied in every:
        given = {"driver": "memory", **values, **varied}
        given |= {"topology": name, "collective": collective, "algorithm": algorithm}
        if algorithm != PROGRAM:  # the program plays the nodes of that algorithm only
            given.pop("program", None)
        try:
            scenario = make_scenario(given)
            check(scenario)
            plan = make_plan(scenario)
            shown = plan.topology.name if isinstance(plan.topology, TableTopology) else form
            points.append(SweepPoint(plan, shown, number, varied))
        except ScenarioError as error:
            refused.setdefault(algorithm, error)
            setting = "".join(f" {field}={value}" for field, value in varied.items())
            left_out.append(f"{algorithm} on {name}{setting}: {error}")
    ran = {point.plan.scenario.algorithm for point in points}
    for algorithm, reason in refused.items():
        if algorithm not in ran:
            raise reason
    return points, left_out


def _settings_of(vary: Vary) -> list[dict[str, object]]:
    """Return every combination of the varied values.

    Raises ScenarioError (field `vary`) if they cannot be varied.
    """
    for name, items in vary.items():
        if name in FIXED_FIELDS:
            raise ScenarioError("vary", name, "a sweep has flags of its own for it")
        if not items:
            raise ScenarioError("vary", name, "expected at least one value")
    # Not the product of the lists first: that may be long.
    count = 1
    for items in vary.values():
        count *= min(len(items), MOST_VALUES + 1)
    if count > MOST_VALUES:
        raise ScenarioError("vary", ", ".join(vary), f"at most {MOST_VALUES:,} combinations of values")
    return [dict(zip(vary, chosen, strict=True)) for chosen in product(*vary.values())]


def run_point(point: SweepPoint, driver: str | None = None) -> RunRecord | None:
    """Return the metrics and claims of a run.

    It runs on another driver if one is named. None if interrupted.
    """
    plan = point.plan
    if driver not in (None, plan.scenario.driver):
        plan = make_plan(plan.scenario.on_driver(driver))
    result = run(plan, MemorySink())
    if result.execution.interrupted:
        return None
    return _record(point.key, result, feature_metrics(plan.features))


def _record(key: str, result: FinishedRun, optional: Sequence[str]) -> RunRecord:
    """Return the record of a run.

    Metrics in `optional` are None where the run has no number for them.
    """
    summary = result.summary
    claims = [
        (judgement.claim.name, judgement.claim.relation, judgement.claim.predicted, judgement.claim.source)
        for judgement in result.judgements
        if judgement.claim.name in (*METRICS, *optional) and judgement.claim.relation != "<="
    ]
    measured = {name: summary[name] for name in (*METRICS, *RUN_METRICS) if isinstance(summary.get(name), int | float)}
    measured |= {name: _number(summary.get(name)) for name in optional}
    facts = {name: summary[name] for name in ("order", "degree", "verdict", "journal_hash")}
    results = result.conclusion.results
    bits = None if results is None else results.numbers[0, :MOST_COMPARED].tobytes().hex()
    return read_record(RunRecord, {"key": key, **facts, "measured": measured, "claims": claims, "bits": bits})


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) else None


def row_of(point: SweepPoint, metric: str, record: RunRecord) -> Row:
    """Return the row of one run.

    It has the metric, the value that is claimed for it, and the lower bound of every algorithm.
    """
    claims = [claim for claim in record.claims if claim[0] == metric]
    predicted = next((value for _, relation, value, _ in claims if relation == "=="), None)
    bound, reasons = stated_bound(run_claims(point.plan).kept, metric)
    measured = record.measured[metric]
    return {
        "topology": point.plan.topology.name,
        "form": point.form,
        "n": point.number,
        "nodes": record.order,
        "degree": record.degree,
        "collective": str(point.plan.scenario.collective),
        "algorithm": point.plan.scenario.algorithm,
        "metric": metric,
        "measured": measured,
        "predicted": predicted,
        "bound": bound,
        "ratio": ratio_to(bound, measured),
        "verdict": record.verdict,
        "bottleneck": reasons or None,
        "journal_hash": record.journal_hash,
        **({"varied": point.setting} if point.varied else {}),
    }


# --- the folder ------------------------------------------------------------------------------------------------------


def _read_rows(folder: Path) -> dict[str, RunRecord]:
    """Read the finished runs of a folder by their keys.

    An incomplete last line, left by a kill, is cut off. Makes the folder. Raises ScenarioError (field `out`) if it holds
    something else or cannot be written.
    """
    file = folder / ROWS
    require_no_links(folder, "out")
    try:
        if folder.exists() and not exists(file) and (not folder.is_dir() or any(folder.iterdir())):
            raise ScenarioError("out", str(folder), "it exists and is not the folder of a sweep")
        folder.mkdir(parents=True, exist_ok=True)
        if exists(folder / SETTINGS) or (exists(file) and file.lstat().st_size):
            _require_settings(folder)
        if not exists(file):
            os.close(open_to_append(file))
        rows, whole = {}, 0
        for line, record in read_rows(file):
            rows[record.key] = record
            whole += len(line) + 1
        if whole < file.lstat().st_size:
            os.truncate(file, whole)
        return rows
    except OSError as error:
        raise ScenarioError("out", str(folder), f"it cannot be written: {error.strerror}") from None
    except RefusedError as error:
        raise ScenarioError("out", str(folder), f"its {ROWS} is damaged: {error}; use another folder") from None


def read_rows(path: Path) -> Iterator[tuple[bytes, RunRecord]]:
    """Yield each line of `rows.jsonl`, without its end, and its record; OSError and RefusedError."""
    for number, line in enumerate(read_lines(path, MOST_ROW_BYTES, follow=False), 1):
        with refused_in(f"line {number}"):
            record = read_record(RunRecord, line)
        yield line, record


def _require_settings(folder: Path) -> None:
    try:
        read_settings(folder)
    except ValueError as error:
        raise ScenarioError("out", str(folder), f"its {SETTINGS} is damaged: {error}; use another folder") from None


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the values of `sweep.toml`.

    It is the only file that names the version of a sweep's folder. Raises OSError and ValueError as `read_toml`. A
    missing file means a sweep of an early version, and raises VersionError (field `sweep`), as another minor version
    does.
    """
    try:
        values = read_toml(folder / SETTINGS, follow=False)
    except FileNotFoundError:
        values = {}
    require_version(values, "sweep", folder)
    return values


def _write_settings(
    folder: Path,
    topologies: Sequence[str],
    collective: str,
    algorithms: Sequence[str],
    metric: str,
    vary: Vary,
    values: Mapping[str, object],
) -> None:
    """Write the arguments of a sweep, for `verify` to find its runs.

    Files of networks are written by their absolute paths.
    """
    scenario = {name: value for name, value in values.items() if value is not None}
    settings = {
        VERSION_KEY: __version__,
        "topologies": [absolute_value("topology", name, Path.cwd()) for name in topologies],
        "collective": str(collective),
        "algorithms": list(algorithms),
        "metric": metric,
        **({"vary": json.loads(json.dumps({name: list(items) for name, items in vary.items()}))} if vary else {}),
        "scenario": json.loads(json.dumps(scenario, default=str)),
    }
    try:
        replace_file(folder / SETTINGS, tomli_w.dumps(settings))
    except OSError as error:
        raise ScenarioError("out", str(folder), f"it cannot be written: {error.strerror}") from None


def _append(folder: Path, record: RunRecord) -> None:
    values = {name: value for name, value in vars(record).items() if value is not None}
    try:
        # Unbuffered: a line is with the kernel as soon as `write` returns, so a kill loses none.
        with os.fdopen(open_to_append(folder / ROWS), "ab", buffering=0) as file:
            file.write(json.dumps(values, separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise RunError(f"operating system error: {error.strerror}; the runs that are finished are kept") from None
