"""Campaigns as objects: tables of results and trials, figures, and the failing trials."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from coordinator.annexes import annex_function
from coordinator.api.networks import BaseNetwork
from coordinator.api.option_types import Options
from coordinator.api.options import FaultTexts, as_list, require_number, scenario_values
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.campaigns.batch_trials import CampaignSession
from coordinator.campaigns.engines import Engine
from coordinator.campaigns.fault_coverage import coverage_of
from coordinator.campaigns.field_figures import FIELD_FIGURES, INFORMED
from coordinator.campaigns.grid import Grid, Key
from coordinator.campaigns.losses import loss_rows, worst_rows
from coordinator.campaigns.paired import paired_rows
from coordinator.campaigns.process_figures import process_rows
from coordinator.campaigns.residual import Residual, residuals
from coordinator.campaigns.runner import check_workers
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.shrink import smallest_failure
from coordinator.campaigns.store import FinishedTrials, Store
from coordinator.campaigns.tables import FIGURES, CampaignRow, families, label_of, rows, trial_rows
from coordinator.history.run_directory import temporary_folder
from coordinator.history.stored.writing import replacing
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan
from coordinator.reports.campaign_report import MEASURES, curve_rows, figures, page, pictures_of, slug
from coordinator.reports.curves import CURVES
from coordinator.reports.numbers import describe_load
from coordinator.reports.pictures import Page, Picture, frame
from coordinator.reports.tables import Row, to_csv, to_markdown
from coordinator.results.claims import Judged, Verdict
from coordinator.scenario.model import dump_scenario
from coordinator.scenario.networks import keep_network
from coordinator.scenario.plugins import plugin_flags
from emunode.algorithms.traits import listed_messages
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS
from emunode.topologies.table import TableTopology

SHOWN_VIOLATIONS = 3
TRIALS = "trials.parquet"
"""The table of all trials, in a campaign folder."""
COLUMN_TYPES: Mapping[str, type[pl.DataType] | pl.DataType] = {
    **dict.fromkeys((*FIGURES, *FIELD_FIGURES, "theory", "guaranteed_theory"), pl.Float64),
    **dict.fromkeys(("sets", "promised"), pl.Int64),
    "finding": pl.String,
    INFORMED: pl.List(pl.Float64),
}
"""Types of the columns of results that may have no value at all."""
TRIAL_TYPES: Mapping[str, type[pl.DataType]] = {
    "predicted": pl.Int64, "undecided": pl.String, "latencies": pl.String, "seconds": pl.Float64,
}  # fmt: skip
"""The same for the columns of trials."""


def campaign(  # noqa: PLR0913  # all but the first three are optional
    net: BaseNetwork,
    collective: str,
    algorithm: str | None = None,
    *,
    vary: Mapping[str, Sequence[object]] | None = None,
    faults: FaultTexts,
    fault: FaultTexts = (),
    trials: int = 1000,
    precision: float | None = None,
    engine: Engine = "auto",
    workers: int | None = None,
    out: Path | str | None = None,
    progress: ProgressOption = None,
    **options: Unpack[Options],
) -> "Campaign":
    """Run many trials over a grid of scenarios and faults.

    `vary` has the values of each varied field of a scenario, such as `{"redundancy": range(1, 4)}`. `algorithm` may be
    one of them. `faults` are the points of the grid, such as `"nodes=0..4"`. `fault` is in force in every trial.

    Each variant has at most `trials` trials at each point. A point stops earlier once the confidence interval of
    guaranteed delivery is narrower than plus or minus `precision`. `workers` is the number of processes (default: one
    per core for many trials in memory). With `out`, the campaign is kept in that folder, and an interrupted one is
    resumed from there.

    `engine` is one of three words. `messages` runs every trial. `exact` evaluates fault sets without messages, and
    raises ScenarioError where that is not exact. `auto` is exact wherever possible, and runs a sample again with
    messages. It raises RunError if a result of the sample differs.

    Raises ScenarioError before anything runs, RunError if a trial cannot be run, and KeyboardInterrupt if interrupted.

    >>> import coordinator as tb
    >>> found = tb.campaign(tb.network("star:4"), "broadcast", "edt", redundancy=3, faults="nodes=1..2", trials=50)
    >>> found.results.select("faults", "trials", "guaranteed").rows()
    [('nodes=1', 50, 1.0), ('nodes=2', 50, 1.0)]
    """
    require_number("trials", trials)
    require_number("precision", precision, (int, float))
    require_number("workers", workers)
    with on_disk(net) as values:
        base = scenario_values({**values, "collective": collective}, fault, options)
        if algorithm is not None:
            base["algorithm"] = algorithm
        if not isinstance(vary, Mapping | None):
            raise ScenarioError("vary", vary, 'expected the values of each field, such as {"redundancy": [1, 2]}')
        varied = {name: as_list(items) for name, items in (vary or {}).items()}
        grid = Grid(base, varied, as_list(faults), trials, precision, engine)
        with progress_display(progress, "campaign") as show:
            grid.check()
            check_workers(workers)
            if out is None:
                done = call(run_grid, FinishedTrials(grid), workers, show)
            else:
                done = call(run_stored, grid, Path(out), workers, show)
    if not done.session.finished:
        raise KeyboardInterrupt
    return done


def _source(plan: Plan) -> str:
    return "" if plan.spec.collective in ROOTLESS or plan.spec.permutation else plan.topology.label(plan.spec.source)


_HEAD: Mapping[str, Callable[[Plan], object]] = {
    "algorithm": lambda plan: plan.spec.algorithm,
    "redundancy": lambda plan: plan.spec.redundancy,
    "source": _source,
    "messages": lambda plan: describe_load(plan.spec, listed_messages(plan.algorithm)),
    "segments": lambda plan: plan.algorithm.segments_per_message,
    "port_model": lambda plan: str(plan.spec.port_model),
    "clock": lambda plan: plan.scenario.clock,
    "driver": lambda plan: plan.scenario.driver,
    "seed": lambda plan: plan.spec.seed,
    "fault_knowledge": lambda plan: plan.scenario.fault_knowledge,
    "faults_in_every_trial": lambda plan: ", ".join(plan.scenario.fault),
}
"""The head of a page: by name, the value of a plan; an empty one is left out."""


class Campaign(Judged):
    """A finished campaign.

    A notebook shows its page: curves of delivery over the number of faults, and the results.

    >>> import coordinator as tb
    >>> found = tb.campaign(tb.network("hypercube:3"), "broadcast", "sbt", faults="nodes=1", trials=20)
    >>> found.results.select("faults", "trials", "guaranteed").rows()
    [('nodes=1', 20, 0.65)]
    >>> found.trials.select("faults", "undecided").row(0)
    ('crash:100@1', None)
    """

    def __init__(
        self, grid: Grid, findings: FinishedTrials, session: CampaignSession, path: Path | None = None
    ) -> None:
        self.session = session
        """The number of trials run now, their rate, and whether all are done."""
        self.path = path
        """The campaign folder; None for a campaign that is only in memory."""
        self.violations: list[dict[str, Any]] = []
        """For each of the first violated claims, a smallest scenario. Only campaigns with a folder have these."""
        self._grid = grid
        self.store = findings
        """The finished trials; not part of the public API."""
        self._findings = findings.findings
        self.rows: list[CampaignRow] = rows(findings)
        """The results as plain values."""

    @property
    def results(self) -> pl.DataFrame:
        """One row per variant and point.

        A row has delivery ratio and guaranteed delivery with 95% intervals, beside theory. Each varied field has a
        column with its values. `segments` and `seed` are called `varied_segments` and `varied_seed`.
        """
        return self._table(self.rows, COLUMN_TYPES)

    @cached_property
    def residuals(self) -> list[Residual]:
        """Survived sets and reliability.

        There is one entry for each variant and each kind of faults of which all sets of a size were run.
        """
        return residuals(self.store)

    @property
    def losses(self) -> pl.DataFrame:
        """The distribution of losses: point, varied fields, nodes that miss a message, and trials with that number."""
        return self._table(loss_rows(self.store), {})

    @cached_property
    def process_rows(self) -> list[CampaignRow]:
        """Availability and completion time under failure processes as plain values: see `processes`."""
        return process_rows(self.store)

    @property
    def processes(self) -> pl.DataFrame:
        """Under failure processes, one row per figure (availability, completion).

        A row has the mean, quantiles and their intervals. A completion without a number never comes. A bound without a
        number is never, or so few trials do not bound it.
        """
        return self._table(self.process_rows, {})

    @cached_property
    def trials(self) -> pl.DataFrame:
        """One row per trial with messages.

        A row has point, varied fields, draw, faults, seed, counts, unserved nodes, claims and hash. Trials that were
        evaluated exactly have a row only if they were run again.
        """
        return self._table(list(trial_rows(self._grid, self._findings)), TRIAL_TYPES)

    def coverage(self) -> pl.DataFrame:
        """Return the kinds of faults that trials have tried.

        A row has network, kind, and how many of all places, steps and cells were tried. A cell is a kind, a place and
        the step when a fault begins. Raises ScenarioError (field `coverage`) for the timed clock.
        """
        rows = [{"network": name, **row} for name, found in coverage_of(self.store).items() for row in found.rows()]
        return pl.DataFrame(rows)

    def paired(self, baseline: str | None = None) -> pl.DataFrame:
        """Return how each variant differs from `baseline` (default: the first).

        Variants are compared trial by trial under the same faults. There is one row per figure (delivery ratio, longest
        latency), pair of variants and point. It has the number of pairs, the mean difference with its 95% interval, and
        in how many trials the figure is larger and smaller. Draws that were evaluated exactly are evaluated once more.
        Raises ScenarioError (field `paired`) for an unknown variant, or if there is only one.
        """
        return pl.DataFrame(paired_rows(self.store, baseline), infer_schema_length=None)

    def _table(self, plain: list[CampaignRow], types: Mapping[str, type[pl.DataType] | pl.DataType]) -> pl.DataFrame:
        """Return the rows as a frame.

        A column per varied field replaces the column that names the variant.
        """
        overrides = {name: kind for name, kind in types.items() if plain and name in plain[0]}
        frame = pl.DataFrame(plain, schema_overrides=overrides, infer_schema_length=None)
        label = label_of(self._grid)
        if not self._grid.vary or frame.is_empty():
            return frame
        variants = {variant.name: variant for variant in self._grid.variants}
        rest = frame.drop(label)
        columns = [
            _values(
                f"varied_{name}" if name in rest.columns else name,
                [variants[at].value(name) for at in frame[label]],
            )
            for name in self._grid.vary
        ]
        at = frame.columns.index(label)
        return pl.DataFrame([*frame[:, :at], *columns, *frame[:, at + 1 :]])

    @property
    def failures(self) -> pl.DataFrame:
        """The trials where a healthy node misses a message, or a claim is violated."""
        return self.trials.filter((pl.col("unserved") != "") | (pl.col("violated") != ""))

    @property
    def curves(self) -> list[Row]:
        """The points of all curves as plain values."""
        return curve_rows(self.rows, self._named_families)

    @property
    def left_out(self) -> list[str]:
        """Combinations that an algorithm does not support, with the reason."""
        return self._grid.left_out

    @property
    def verdict(self) -> Verdict:
        """`violated`, `undecided` or `holds`.

        It is `violated` if a claim is, or if results exclude an exact prediction of theory. It is `undecided` if all
        trials of a row are.
        """
        if any(row["violated"] or row["finding"] for row in self.rows):
            return Verdict.VIOLATED
        undecided = any(row["trials"] == row["undecided"] for row in self.rows)
        return Verdict.UNDECIDED if undecided else Verdict.HOLDS

    @property
    def title(self) -> str:
        """Networks and collectives in words."""
        plans = [variant.plan for variant in self._grid.variants]
        networks = ", ".join(dict.fromkeys(plan.topology.title for plan in plans))
        collectives = ", ".join(dict.fromkeys(str(plan.spec.collective) for plan in plans))
        return f"{networks}: {collectives} under faults"

    def plot(self, measure: str = "delivery_ratio", *, faults: str | None = None) -> Picture:
        """Return the curves of a measure over the number of faults, one line per variant.

        The measure is `delivery_ratio` or `guaranteed`. `faults` names a kind, such as `crashed nodes`, if the campaign
        has several. The default is the first. Raises ScenarioError (field `plot`) if there is no such figure.
        """
        if measure not in MEASURES:
            raise ScenarioError("plot", measure, f"expected one of: {', '.join(MEASURES)}")
        drawn = {
            name: picture
            for name, picture in figures(self.rows, self._named_families).items()
            if name.startswith(f"{MEASURES[measure][0]}, ")
        }
        names = [name.partition(", ")[2] for name in drawn]
        if faults is not None and faults not in names:
            raise ScenarioError("plot", faults, f"expected one of: {', '.join(names)}")
        if not drawn:
            raise ScenarioError("plot", measure, "no trial was decided")
        return drawn[f"{MEASURES[measure][0]}, {faults or names[0]}"]

    def pictures(self) -> dict[str, str]:
        """Return every figure as an SVG document, by its title."""
        return {name: picture.svg for name, picture in figures(self.rows, self._named_families).items()}

    @property
    def _named_families(self) -> dict[str, list[tuple[str, float]]]:
        points = self._grid.points
        return {name: [(points[at].name, size) for at, size in sizes] for name, sizes in families(self._grid).items()}

    def _head(self) -> dict[str, object]:
        """Return the settings that all trials share, by name.

        These are the fields that are not varied, and the faults of every trial.
        """
        plans = [variant.plan for variant in self._grid.variants]
        found: dict[str, object] = {}
        for name, value_of in _HEAD.items():
            values = list(dict.fromkeys(value_of(plan) for plan in plans))
            if name not in self._grid.vary and values != [""]:
                found[name.replace("_", " ")] = values[0] if len(values) == 1 else ", ".join(map(str, values))
        return found

    def report(self, path: Path | str | None = None) -> Page:
        """Return the page of the campaign, which a notebook shows.

        With `path`, it is also written to that file.
        """
        facts = {**self._head(), "trials": self._count, "engine": self.engines, "grid": self._grid.fingerprint}
        losses, worst = loss_rows(self.store), worst_rows(self.store)
        text = page(
            self.title, facts, self.rows, self._named_families, losses, worst, self.process_rows, self._grid.searches
        )
        shown = Page(text, self.title)
        if path is not None:
            shown.save(path)
        return shown

    def figures(self) -> dict[str, Picture]:
        """Return every figure for a paper by its name.

        These are the curves, and the losses of each point; see `Picture.save`.
        """
        return pictures_of(self.curves, loss_rows(self.store), None)

    def export(
        self,
        *,
        pgfplots: Path | str | None = None,
        csv: Path | str | None = None,
        figures: Path | str | None = None,
    ) -> dict[str, Path]:
        """Write the curves as a LaTeX document for pgfplots, or as CSV with one row per point of a curve.

        `figures` is a folder for every figure as SVG, PNG and LaTeX. Returns the written files by kind. Raises ScenarioError
        if no file is named or one cannot be written.
        """
        pictures = {} if figures is None else self.figures()
        export = annex_function("Campaign.export")
        written: dict[str, Path] = export(self.curves, pictures, pgfplots=pgfplots, csv=csv, figures=figures)
        return written

    def __repr__(self) -> str:
        return f"<campaign {self.title}: {self._count:,} trials, {self.verdict}>"

    @property
    def _count(self) -> int:
        return sum(int(row["trials"]) for row in self.rows)  # type: ignore[call-overload]

    @property
    def engines(self) -> str:
        """The rows that were computed exactly and the trials repeated with messages, in a sentence."""
        exact = [row for row in self.rows if row["engine"] == "exact"]
        if not exact:
            return "messages"
        again, sockets = len(self._repeated(self._findings)), len(self._repeated(self.store.sockets))
        rows = f"{len(exact)} of {len(self.rows)}" if len(exact) < len(self.rows) else "all"
        words = f"{rows} rows are computed exactly"
        if not again and not sockets:
            return words
        over_tcp = f", {sockets} of them over TCP," if sockets else ""
        return f"{words}; {again:,} trials repeated with messages{over_tcp} agree"

    def _repeated(self, keys: Iterable[Key]) -> list[Key]:
        return [key for key in keys if self._grid.exact(key.point, key.variant)]

    def _repr_html_(self) -> str:
        shown = self.report()
        return frame(shown.html, shown.title, shown.height)


def _values(name: str, values: Sequence[object]) -> pl.Series:
    """Return the values of a field of a scenario as a column.

    They are numbers if all of them are, else texts.
    """
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    return pl.Series(
        name, values if numbers else [None if value is None else str(value) for value in values], strict=False
    )


def run_grid(findings: FinishedTrials, workers: int | None, progress: Progress) -> Campaign:
    """Run the remaining trials of a grid.

    Raises KeyboardInterrupt if interrupted, because nothing keeps what was done.
    """
    session = run_campaign(findings, workers, progress)
    if not session.finished:
        raise KeyboardInterrupt
    return Campaign(findings.grid, findings, session)


def run_stored(grid: Grid, folder: Path, workers: int | None, progress: Progress) -> Campaign:
    """Run the trials of a grid that its folder does not have yet, and write the results there."""
    grid.check()
    with Store(folder, grid) as store:
        session = run_campaign(store, workers, progress)
        progress("figures and page", 0, 0)
        done = Campaign(grid, store, session, folder)
        for name, content in result_files(done).items():
            store.write(name, content)
        with replacing(store.folder / TRIALS) as file:
            done.trials.write_parquet(file)
        done.violations = _smallest_violations(store)
    return done


@contextmanager
def on_disk(net: BaseNetwork) -> Iterator[Mapping[str, object]]:
    """Yield the values of a scenario that name a network for worker processes too.

    A networkx graph is written to a file for them.
    """
    if not isinstance(net, BaseNetwork):
        raise ScenarioError("network", net, "expected a network, such as network('star:4')")
    if not isinstance(net.topology, TableTopology):
        yield net.values
        return
    with temporary_folder() as folder:
        kept = keep_network(net.topology, folder)
        yield {**net.values, **kept, "topology": f"file:{folder}/{str(kept['topology']).removeprefix('file:')}"}


def result_files(done: Campaign) -> dict[str, str]:
    """Return the figures, the page and the tables of a campaign.

    These are the texts of the files in its folder, by name.
    """
    figures = {f"{slug(name)}.svg": svg for name, svg in done.pictures().items()}
    tables = {
        "table.csv": to_csv(done.rows),
        CURVES: to_csv(done.curves),
        "table.md": to_markdown(done.rows),
        "losses.csv": to_csv(loss_rows(done.store)),
        **({"processes.csv": to_csv(done.process_rows)} if done.process_rows else {}),
    }
    return {**figures, "campaign.html": done.report().html, **tables}


def _smallest_violations(store: Store) -> list[dict[str, object]]:
    """Save a smallest scenario for each of the first violated claims, with the command that repeats it."""
    found: list[dict[str, object]] = []
    for key in sorted(store.findings):
        trial, finding = store.findings[key]
        if not finding.violated or len(found) == SHOWN_VIOLATIONS:
            continue
        path = store.folder / f"violated-{len(found) + 1}.toml"
        if not path.exists():
            base = store.grid.variants[key.variant].plan.scenario  # the faults that were drawn for the trial are added
            whole = base.model_copy(update={"fault": (*base.fault, *trial.faults), "seed": trial.seed})
            with store.open_log() as log:
                smallest = smallest_failure(whole, lambda finding: bool(finding.violated), log)
            store.write(path.name, dump_scenario(smallest.model_copy(update=store.files_of(smallest))))
        plugins = plugin_flags(store.grid.variants[key.variant].scenario.plugin)
        repeat = f"coordinator run {path}{plugins}"
        found.append({"claims": list(finding.violated), "faults": list(trial.faults), "repeat": repeat})
    return found
