"""A finished run as an object: verdict, claims and tables, in memory or in a run directory."""

import json
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import polars as pl

from coordinator.annexes import annex_function
from coordinator.api.forks import require_usable
from coordinator.api.pickling import KeptTopology, keep_topology, kept_plugins, load_kept_plugins, restore_topology
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.rows import run_row
from coordinator.api.threads import call
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink, MemoryRun, MemorySink, RunResult
from coordinator.execution.verification import contradictions_named
from coordinator.history.run_directory import branch_folder
from coordinator.history.stored.reading import read_bytes
from coordinator.networks.base import Progress
from coordinator.planning.feasibility import needs_own_network, require_possible, warning
from coordinator.planning.plan import Plan
from coordinator.reports import drawing
from coordinator.reports.data import RunData, find_run, read_run
from coordinator.results.claims import Judged, Verdict
from coordinator.scenario.model import dump_scenario
from emunode.errors import RunError, ScenarioError
from emunode.model import Plugin
from emunode.terminal import visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coordinator.execution.branch import Origin
    from coordinator.live.watch import Watch
    from coordinator.reports.pictures import Page, Picture
    from coordinator.reports.run_pages import Panel

BITS = ("claim", "certified", "measured", "because")
"""The columns of `Run.bits`."""

Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame)
CLAIMS: Mapping[str, type[pl.DataType] | pl.DataType] = {
    "name": pl.String, "relation": pl.String, "predicted": pl.Float64, "measured": pl.Float64, "verdict": pl.String,
    "ratio": pl.Float64, "source": pl.String, "derived": pl.Boolean, "predicted_series": pl.List(pl.Float64),
    "measured_series": pl.List(pl.Float64),
}  # fmt: skip
LOG_BYTES = 256 * 2**20
"""The largest log that is read."""
PICKLED = (
    "name", "summary", "scenario", "faults", "nodes", "links", "steps", "elections", "timeline", "served", "suspicions",
    "notes",
)  # fmt: skip
"""The parts of the data of a run that pickles hold as they are."""


class Run(Judged):
    """A finished run.

    Its tables are polars frames with the columns of the Parquet files of a run directory. A run that is undecided, or
    that failed after its first step, states the reason in `undecided` and holds its results so far. In a notebook it
    shows its claims, and the network with a slider for the steps.

    >>> import coordinator as tb
    >>> run = tb.network("star:4").broadcast("greedy-tree")
    >>> run.claims.select("name", "relation", "predicted", "measured").row(0)
    ('steps', '==', 4.0, 4.0)
    >>> run.journal.height, run.nodes["received"].sum()
    (23, 23)
    """

    def __init__(
        self, data: RunData | None, result: RunResult | MemoryRun | None = None, log: str | None = None
    ) -> None:
        """Take the data of a stored run, or the result of a run in memory.

        The data of a run in memory is put together on first use. `log` is the log of a run in memory that comes from a
        pickle.
        """
        assert data is not None or isinstance(result, MemoryRun)
        self._data = data
        self._result = result
        self._kept_log = log

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a stored run as its path, and one in memory whole.

        The pickle has the plug-ins that the run needs.
        """
        plugins = kept_plugins(self.scenario.get("plugin", ()))
        if self.path is not None:
            return _restore_stored, (type(self), self.path.absolute(), plugins)
        parts = {name: getattr(self.data, name) for name in PICKLED}
        network = None if self.data.topology is None else keep_topology(self.data.topology)
        return _restore_in_memory, (type(self), parts, network, self.journal, self.log, plugins)

    @property
    def data(self) -> RunData:
        """The data of the report.

        Not part of the public API.
        """
        require_usable()
        if self._data is None:
            self._data = _data_of(self._fresh, self.summary, self.scenario)
        return self._data

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the run in a run directory, or the latest run of a folder of `runs/`.

        The run may be incomplete or damaged. Raises ScenarioError (field `run`) if there is no run.
        """
        found = find_run(Path(path))
        with contradictions_named(found):
            return cls(read_run(found))

    @property
    def name(self) -> str:
        """The `name` of the scenario, or else network, collective and algorithm.

        A stored run has the name of its folder.
        """
        return self.data.name if self._data is not None else self._fresh.plan.name

    # --- verdict -------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> Verdict:
        """`holds`, `violated` or `undecided`.

        A stored run without a verdict that can be read is `undecided` too.
        """
        if self.finished is not None:
            return self._fresh.verdict
        stored = self.summary.get("verdict")
        return Verdict(stored) if stored in list(Verdict) else Verdict.UNDECIDED

    @property
    def undecided(self) -> str | None:
        """Why the run is undecided; None if it is decided."""
        because = self.summary.get("undecided_because")
        return None if because is None else str(because)

    @property
    def reason(self) -> str | None:
        """Why a run is undecided: `interrupted`, `not yet served`, `not judged` or `undecided by theory`."""
        reason = self.summary.get("reason")
        return None if reason is None else str(reason)

    @property
    def unjudged(self) -> str | None:
        """The part of the run that cannot be judged, and why; None if all of it is judged."""
        unjudged = self.summary.get("unjudged")
        return None if unjudged is None else str(unjudged)

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim: name, relation, predicted, measured, verdict, ratio (to a lower bound), source, derived.

        Claims about one number per step have `predicted_series` and `measured_series` instead.
        """
        require_usable()
        rows = self.summary.get("claims")
        return pl.DataFrame([_claim_row(claim) for claim in rows or ()], schema=CLAIMS)

    # --- scenario and results ------------------------------------------------------------------------------------------

    # In memory, each is made when it is first used: together they take a quarter of the time of a short run.

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario as the keys and values of a scenario file.

        It is complete: running it again repeats the run.
        """
        return (
            self._data.scenario if self._data is not None else tomllib.loads(dump_scenario(self._fresh.plan.scenario))
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every metric, and the claims: the content of `summary.json`."""
        if self._data is not None:
            return self._data.summary
        # Values have the types that JSON gives them.
        values: dict[str, Any] = json.loads(json.dumps(self._fresh.summary))
        return values

    @property
    def finished(self) -> MemoryRun | None:
        """The run in memory with its plan; None for a stored run and one from a pickle. Not part of the public API."""
        return self._result if isinstance(self._result, MemoryRun) else None

    @property
    def _fresh(self) -> MemoryRun:
        assert self.finished is not None
        return self.finished

    def row(self) -> dict[str, str | int | float | bool | None]:
        """Return the run as one flat row.

        The row has the scenario, every metric that is a single number, the verdict and the violated claims. Times are in
        seconds. `faults` and `violated` are one text each. Rows of several runs make a table:
        `polars.DataFrame([run.row() for run in runs], infer_schema_length=None)`.
        """
        return run_row(self.name, self.scenario, self.summary)

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The faults of the run, with the steps when they began and showed.

        This is the content of `faults.json`.
        """
        return self.data.faults

    @property
    def notes(self) -> list[str]:
        """One sentence per part that is missing or unreadable.

        Empty for a complete run.
        """
        return self.data.notes

    @cached_property
    def journal(self) -> pl.DataFrame:
        """Every hop of every segment: step, sender, port, receiver, origin, target, tree, segment, bytes, outcome."""
        return self._table("journal", self._fresh.journal if self._data is None else self._data.journal).collect()

    @property
    def nodes(self) -> pl.DataFrame:
        """One row per node: rank, label, received, expected, first_step, last_step, state."""
        return self._table("nodes", self.data.nodes)

    @property
    def links(self) -> pl.DataFrame:
        """One row per directed link: sender, port, receiver, packets, segments, bytes, busiest_step_segments."""
        return self._table("links", self.data.links)

    @property
    def steps(self) -> pl.DataFrame:
        """One row per step: step, sending, receiving, active, free, packets, segments, bytes, max_link_segments, ..."""
        return self._table("steps", self.data.steps)

    @property
    def elections(self) -> pl.DataFrame | None:
        """The votes that altered copies took part in.

        None if there were none.
        """
        return self.data.elections

    @property
    def timeline(self) -> pl.DataFrame | None:
        """Intended and achieved times of every packet, in seconds; None except under the timed clock."""
        return self.data.timeline

    # --- real numbers ---------------------------------------------------------------------------------------------------

    @property
    def results(self) -> "NDArray[Any] | None":
        """The results of ranks, where `values` are real numbers; None for other runs.

        Of shape (ranks, elements) in an allreduce, else one row. bfloat16 is an array of that type if `ml-dtypes` is
        installed, else 16-bit words. A missing element is a NaN.
        """
        require_usable()
        stored = self._fresh.conclusion.results if self._data is None or self.path is None else None
        array = stored.numbers if stored is not None else self.data.results
        if array is None or self.summary.get("values") not in ("bfloat16", "probe-bfloat16"):
            return array
        try:
            from ml_dtypes import bfloat16  # noqa: PLC0415  # an extra
        except ImportError:
            return array
        found: NDArray[Any] = array.view(bfloat16)
        return found

    @property
    def bits(self) -> pl.DataFrame:
        """One row per claim on the bits of the results: claim, certified (by fold trees, for all data), measured (by the
        values of this run), because; empty for runs without real numbers.
        """
        require_usable()
        return pl.DataFrame(self.summary.get("bits") or [], schema=dict.fromkeys(BITS, pl.String))

    def additions(self) -> pl.DataFrame:
        """Return the fold tree of every part of the result at every rank: the order of all additions without faults.

        One row per rank, owner of the block, and segment: rank, owner, segment, first_element (in the block), elements,
        depth, mean_depth, complete (each contribution once), sha256 (of the canonical text), tree (the canonical text). Of
        an algorithm that adds by itself, such as a program, the trees are those that its results reveal in a probe.
        ScenarioError if the algorithm folds in no fixed order, or has too many parts.
        """
        require_usable()
        plan = self.data.plan
        if plan is None:
            raise RunError(f"the scenario of this run cannot be read: {self.data.reasons}")
        table: pl.DataFrame = annex_function("Run.additions")(plan.algorithm, self.results)
        return table

    def _table(self, name: str, table: Table | None) -> Table:
        require_usable()
        if table is None:
            raise RunError(f"{name} of this run cannot be read: {self.data.reasons}")
        return table

    # --- files ---------------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The run directory; None for a run that is only in memory."""
        return None if isinstance(self._result, MemoryRun) or self._kept_log is not None else self.data.path

    @property
    def log(self) -> str:
        """The events of the run, one JSON object per line; RunError if they cannot be read."""
        if isinstance(self._result, MemoryRun):
            return self._result.log
        if self._kept_log is not None:
            return self._kept_log
        try:
            return read_bytes(self.data.path / "log.jsonl", LOG_BYTES, follow=False).decode(errors="replace")
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise RunError(f"log.jsonl of this run cannot be read: {error}") from None

    def save(self, folder: Path | str) -> Path:
        """Write a run directory that `coordinator verify` accepts, and return its path.

        Raises ScenarioError (field `out`) if the folder exists and is not empty or cannot be created, if the run has a
        directory already, and if it comes from a pickle; RunError if a file cannot be written.
        """
        if self._kept_log is not None:
            raise ScenarioError("out", str(folder), "this run comes from a pickle; save it in the process that ran it")
        if not isinstance(self._result, MemoryRun):
            raise ScenarioError("out", str(folder), f"this run has a directory already, {self.path}; copy that")
        return self._result.save(Path(folder))

    def report(self, path: Path | str | None = None) -> "Page":
        """Return the report of the run (a notebook shows it); with `path`, it is also written to that file.

        Raises ScenarioError (field `report`) if the file cannot be written.
        """
        with contradictions_named(self.path):
            page: Page = drawing("report")(self.data)
        if path is not None:
            page.save(path)
        return page

    def panel(self, name: str) -> "Panel":
        """Return one panel of the report as a page of its own.

        A notebook shows the page, and its charts are pictures. Names are `network`, `claims`, `steps`, `space-time`,
        `links` and the names in `panels`. Raises ScenarioError (field `panel`) for another name, and for a panel that
        has nothing to show of this run.
        """
        page: Panel = drawing("panel")(self.data, name)
        return page

    @property
    def panels(self) -> list[str]:
        """The names of the panels of the report that have something to show of this run."""
        names: list[str] = drawing("panels")(self.data)
        return names

    def figures(self, step: int | None = None) -> "dict[str, Picture]":
        """Return the charts and maps of the report by their names, as pictures.

        Their method `save` writes SVG, PNG or LaTeX. With `step` the map shows the run after that step. Raises
        ScenarioError (field `step`) if the run has no such step.
        """
        with contradictions_named(self.path):
            drawn: dict[str, Picture] = annex_function("Run.figures")(self.data, step)
            return drawn

    def export(
        self,
        *,
        figures: Path | str | None = None,
        gif: Path | str | None = None,
        goal: Path | str | None = None,
        graphml: Path | str | None = None,
        trace: Path | str | None = None,
        msccl: Path | str | None = None,
        forestcoll: Path | str | None = None,
        chakra: Path | str | None = None,
    ) -> dict[str, Path]:
        """Write the executed schedule for LogGOPSim (`goal`), or the network with its trees and loads (`graphml`).

        `msccl`, `forestcoll` and `chakra` have the chunks of the schedule without faults; ScenarioError if its steps are not
        fixed.

        `trace` has every packet by its times: for Perfetto (`.pftrace`, `.perfetto-trace`), or for it and chrome://tracing
        (`.json`). `gif` is the map as an animation, with a picture for each position of the slider of a report; it needs the
        extra `report`. `figures` is a folder for every chart and map as SVG, PNG and LaTeX. Returns the written
        files by kind. Raises ScenarioError if no file is named or one cannot be written.
        """
        wanted = {
            "graphml": graphml, "goal": goal, "trace": trace, "figures": figures, "gif": gif,
            "msccl": msccl, "forestcoll": forestcoll, "chakra": chakra,
        }  # fmt: skip
        files = {kind: Path(path) for kind, path in wanted.items() if path is not None}
        with contradictions_named(self.path):
            written: dict[str, Path] = annex_function("Run.export")(self.data, files)
        return written

    def pack(self, file: Path | str) -> Path:
        """Write an archive with everything that others need to judge the run, as `coordinator pack`, and return its path.

        Raises ScenarioError (field `run`) if the run is too long, cannot be read or comes from a pickle, and (field
        `file`) if the file cannot be written.
        """
        if self._kept_log is not None:
            raise ScenarioError("run", self.name, "this run comes from a pickle; pack it in the process that ran it")
        pack = annex_function("the archive of a run")
        pack(self._result if isinstance(self._result, MemoryRun) else self.data.path, Path(file))
        return Path(file)

    # --- display -------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        values = {**self.scenario, **self.summary}
        what = " ".join(str(values.get(name)) for name in ("topology", "collective", "algorithm"))
        because = f" ({self.undecided})" if self.undecided else ""
        return visible(f"<run {what}: {self.verdict}{because}>", lines=False)

    def _repr_html_(self) -> str:
        with contradictions_named(self.path):
            cell: str = drawing("cell")(self.data, repr(self))
        return cell


def _restore_stored(kind: type[Run], path: Path, plugins: Sequence[Plugin]) -> Run:
    load_kept_plugins(plugins)
    return kind.read(path)


def _restore_in_memory(
    kind: type[Run],
    parts: Mapping[str, Any],
    network: KeptTopology | None,
    journal: pl.DataFrame,
    log: str,
    plugins: Sequence[Plugin],
) -> Run:
    load_kept_plugins(plugins)
    topology = None if network is None else restore_topology(network)
    return kind(RunData(Path(), **parts, topology=topology, journal=journal.lazy()), log=log)


def run_plan(
    plan: Plan, out: Path | None, progress: ProgressOption, page: "Watch | None" = None, origin: "Origin | None" = None
) -> Run:
    """Run a plan, in memory or into the run directory `out`.

    A `page`, if there is one, steers it. `origin` is the run that a branch continues. Raises KeyboardInterrupt if the
    run was interrupted, after everything it started has ended. A run directory is then kept, as undecided. Other errors
    as of `execution.run.run`.
    """
    require_possible(plan)
    if large := warning(plan):
        warnings.warn(large, RuntimeWarning, stacklevel=4)  # the line that calls the method of the collective
    with progress_display(progress, plan.topology.title) as show:
        own_network, number = needs_own_network(plan), 0
        result = call(_execute, plan, out, show, page, origin, own_network=own_network)
        while page is not None and (origin := page.concluded(result)):
            number += 1
            folder = branch_folder(out, number)
            result = call(_execute, page.plan, folder, show, page, origin, own_network=own_network)
    if result.execution.interrupted:
        raise KeyboardInterrupt
    return Run(None if isinstance(result, MemoryRun) else read_run(result.path, own=True), result)


def _execute(
    plan: Plan, out: Path | None, progress: Progress, page: "Watch | None", origin: "Origin | None"
) -> RunResult | MemoryRun:
    accept = None if origin is None else origin.accept
    if out is None:
        return run(plan, MemorySink(), progress, steering=page, accept=accept)
    return run(plan, DirectorySink(out), progress, steering=page, accept=accept)


def _data_of(result: MemoryRun, summary: dict[str, Any], scenario: dict[str, Any]) -> RunData:
    """Return the data of the report of a run in memory.

    Values have the types that JSON gives them.
    """
    plan, measurement = result.plan, result.conclusion.measurement
    data = RunData(
        Path(),
        plan.name,
        summary=summary,
        scenario=scenario,
        faults=json.loads(json.dumps(measurement.faults)),
        topology=plan.topology,
        nodes=measurement.nodes,
        links=measurement.links,
        steps=measurement.steps,
        journal=result.journal,
        elections=measurement.elections,
        timeline=result.conclusion.timeline,
        **json.loads(json.dumps(dict(result.conclusion.records))),
    )
    data.plan = plan
    if result.conclusion.results is not None:
        data.results = result.conclusion.results.numbers
    return data


def _claim_row(claim: Mapping[str, Any]) -> dict[str, object]:
    row: dict[str, object] = {name: claim.get(name) for name in ("name", "relation", "verdict", "ratio", "source")}
    row["derived"] = claim.get("derived") is True
    for key in ("predicted", "measured"):
        value = claim.get(key)
        several = isinstance(value, list)
        row[key], row[f"{key}_series"] = (None, value) if several else (value, None)
    return row
