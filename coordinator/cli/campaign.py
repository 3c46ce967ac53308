"""`coordinator campaign`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.api.campaigns import Campaign, run_stored
from coordinator.api.console import on_stderr
from coordinator.campaigns.batch_trials import CampaignSession
from coordinator.campaigns.fault_coverage import FaultCoverage, coverage_of
from coordinator.campaigns.grid import Grid
from coordinator.campaigns.liveness import unfinished
from coordinator.campaigns.paired import paired_rows
from coordinator.campaigns.residual import PROBABILITIES, Residual
from coordinator.campaigns.runner import check_workers
from coordinator.campaigns.statistics import findings_per_hour
from coordinator.campaigns.store import read_grid, require_same_grid
from coordinator.campaigns.tables import CampaignRow
from coordinator.cli import render
from coordinator.cli.given import texts_of, values_from
from coordinator.cli.options import ScenarioWords
from coordinator.cli.output import OUTPUT, Command, as_command
from coordinator.cli.trials import TRIAL_DEFAULTS, EngineFlag, TrialFlags, WorkersFlag
from coordinator.cli.varied import varied_values
from coordinator.reports.campaign_report import process_cells
from coordinator.scenario.named import name_again, require_same
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say

SHOWN_VIOLATIONS = 3
KEPT = "finished trials are kept, and the same command runs the others"
GRID = Group("Grid", sort_key=-1)


@dataclass
class CampaignCommand(Command):
    """Run many trials over a grid of scenarios and faults.

    The results are delivery ratio and guaranteed delivery, with confidence intervals, beside theory. Finished trials are
    kept if the campaign is interrupted or killed; the same command, or --resume, runs the others.

    Examples:
      coordinator campaign star:4 broadcast greedy-tree,edt --faults nodes=0..3 --trials 100
      coordinator campaign --resume runs/campaigns/NAME
    """

    scenario: ScenarioWords = ()
    _: KW_ONLY
    flags: TrialFlags = None
    vary: Annotated[
        list[str] | None,
        Parameter(
            metavar="FIELD=VALUES",
            help="values of a scenario field: FIELD=VALUE,VALUE or FIELD=1..4 (repeatable)",
            group=GRID,
        ),
    ] = None
    faults: Annotated[
        list[str] | None,
        Parameter(
            metavar="POINTS",
            help="points of the grid, such as nodes=0..4 or busiest:links=2 (repeatable)",
            group=GRID,
        ),
    ] = None
    trials: Annotated[
        int | None, Parameter(help="most trials of each variant at each point; default: 1000", group=GRID)
    ] = None
    precision: Annotated[
        float | None,
        Parameter(
            help="stop a point once the confidence interval of guaranteed delivery is narrower than +/- this",
            group=GRID,
        ),
    ] = None
    engine: EngineFlag = None
    workers: WorkersFlag = None
    out: Annotated[Path | None, Parameter(group=OUTPUT, help="campaign folder; an existing campaign is resumed")] = None
    resume: Annotated[
        Path | None, Parameter(group=OUTPUT, help="resume the campaign in this folder, with the grid stored there")
    ] = None
    coverage: Annotated[
        bool,
        Parameter(
            help="print the kinds, places, steps and pairs of faults that the trials have tried, and those never tried",
            group=OUTPUT,
        ),
    ] = False
    paired: Annotated[
        bool,
        Parameter(
            help="print how each variant differs from the first one, trial by trial under the same faults",
            group=OUTPUT,
        ),
    ] = False

    def __call__(self) -> int:
        if self.resume is None:
            grid = self.grid_of(values_from(self.scenario, self.flags))
            folder = self.out or Path("runs", "campaigns", f"{grid.variants[0].plan.name}-{grid.fingerprint[:8]}")
        else:
            grid, folder = self._stored_grid(self.resume), self.resume
        with on_stderr("campaign", KEPT) as progress:
            grid.check()
            check_workers(self.workers)
            done = run_stored(grid, folder, self.workers, progress)
        tried = coverage_of(done.store) if self.coverage else {}
        pairs = paired_rows(done.store) if self.paired else []
        if self.json:
            covered = {"coverage": {name: each.record() for name, each in tried.items()}} if self.coverage else {}
            print_json({**_record(done, grid), **covered, **({"paired": pairs} if self.paired else {})})
        else:
            show_campaign(done, grid.searches, pairs, tried)
        return done.exit_status if done.session.finished else 130

    def _stored_grid(self, folder: Path) -> Grid:
        """Return the grid of a stored campaign; ScenarioError for flags that would change it."""
        given = texts_of(self.flags)
        refusal = ScenarioError("resume", str(folder), "the folder stores the grid; give no other flag of the grid")
        if self.scenario or self.out or self.faults or self.vary or self.trials or self.precision or self.engine:
            raise refusal
        load_plugins(given.pop("plugin", ()))
        named = name_again(given, refusal)
        grid = read_grid(folder)
        require_same(named, {**grid.base, **grid.vary})
        if reason := grid.why_too_large():
            raise ScenarioError("resume", str(folder), f"its grid asks for {reason}")
        require_same_grid(folder, grid.fingerprint, "resume")
        return grid

    def grid_of(self, values: dict[str, object]) -> Grid:
        """Return the grid of a file, overridden by flags.

        A file has the keys `vary` (a table), `faults`, `trials`, `precision` and `engine`.
        """
        names = ("vary", "faults", "trials", "precision", "engine")
        given = {name: values.pop(name) for name in names if name in values}
        table = given.get("vary", {})
        if not isinstance(table, dict) or not all(isinstance(items, list) for items in table.values()):
            raise ScenarioError("vary", table, "expected a table of lists, such as redundancy = [1, 2, 3]")
        points = given.get("faults", [])
        if not isinstance(points, list) or not all(isinstance(point, str) for point in points):
            raise ScenarioError("faults", points, 'expected a list of points, such as ["nodes=0..4"]')
        several = [f"algorithm={values.pop('algorithm')}"] if "," in str(values.get("algorithm", "")) else []
        return Grid(
            {**TRIAL_DEFAULTS, **values},
            {**table, **varied_values([*several, *(self.vary or ())])},
            self.faults or points,
            _number(given.get("trials", 1000), "trials") if self.trials is None else self.trials,
            self.precision if self.precision is not None else _share(given.get("precision")),
            self.engine or str(given.get("engine", "auto")),
        )


def _record(done: Campaign, grid: Grid) -> dict[str, object]:
    """Return the results as plain values."""
    ended = unfinished(done.store)
    return {
        "out": str(done.path),
        **asdict(done.session),
        "left_out": grid.left_out,
        "searches": grid.searches,
        "engines": done.engines,
        "rows": done.rows,
        "processes": done.process_rows,
        "residual": [each.record() for each in done.residuals],
        "violations": done.violations,
        **({"liveness": [each._asdict() for each in ended]} if ended else {}),
    }


def show_campaign(
    done: Campaign, searches: Sequence[str], pairs: Sequence[CampaignRow], tried: Mapping[str, FaultCoverage]
) -> None:
    """Print the results, what else is known of the trials, and which faults they have tried."""
    ended = unfinished(done.store)
    show_results(done)
    show_processes(done.process_rows)
    for line in (
        *chain.from_iterable(map(_residual_lines, done.residuals)),
        *searches,
        *chain.from_iterable(each.lines() for each in ended),
    ):
        say(line)
    show_pairs(pairs)
    say(f"engine: {done.engines}")
    for name, each in tried.items():
        render.show_rows(f"faults in {plural(each.trials, 'trial')} on {name}", list(each.rows()))
        for line in each.never():
            say(line)
    if tried:
        say(_findings(done.rows, done.session))


def _findings(rows: Sequence[CampaignRow], session: CampaignSession) -> str:
    """Return how many violated trials and contradictions of theory were found, and per hour if all trials ran now."""
    findings = sum(bool(row["finding"]) for row in rows)
    findings += sum(row["violated"] for row in rows if isinstance(row["violated"], int))
    parts = ((session.trials, session.rate), (session.exact_trials, session.exact_rate))
    trials = sum(row["trials"] for row in rows if isinstance(row["trials"], int))
    # Earlier sessions do not say how long they took.
    whole = session.trials + session.exact_trials >= trials
    return findings_per_hour(findings, sum(count / rate for count, rate in parts if rate) if whole else 0.0)


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ScenarioError(name, value, "expected a whole number")
    return value


def _share(value: object) -> float | None:
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise ScenarioError("precision", value, "expected a number between 0 and 1")
    return value


def show_results(done: Campaign) -> None:
    """Print the results by variant and point, omissions, violations, and the folder."""
    out, table, session = render.console(), done.rows, done.session
    label = next(iter(table[0])) if table else "algorithm"
    render.show_rows("", [_shown(label, row) for row in table])
    for reason in done.left_out:
        say(f"left out: {reason}")
    for row in table:
        where = escape(f"{row[label]} under {row['faults']}")
        if row["sets"] and row["trials"] < row["sets"]:  # type: ignore[operator]
            out.print(f"{where}: a random sample of {row['trials']:,} of its {row['sets']:,} sets")
        if row["finding"]:
            out.print(f"[bold red]finding[/]: {where}: {escape(str(row['finding']))}")
    for violation in done.violations:
        out.print(f"[bold red]violated[/]: {escape('; '.join(violation['claims']))}")
        say(f"  repeat it with: {violation['repeat']}")
    if session.rate:
        say(f"{plural(session.trials, 'trial')} run with messages, {session.rate:,.0f} per second")
    if session.exact_rate:
        say(f"{plural(session.exact_trials, 'trial')} evaluated exactly, {session.exact_rate:,.0f} per second")
    for note in session.notes:
        say(note)
    if not session.finished:
        say(f"interrupted; {KEPT}")
    say(f"campaign: {done.path} (campaign.html, table.csv, trials.parquet)")


def _shown(label: str, row: CampaignRow) -> dict[str, object]:
    """Return a row of the printed table."""
    verdict = f"{row['violated']} violated" if row["violated"] else "theory excluded" if row["finding"] else "holds"
    return {
        label: row[label],
        "faults": row["faults"],
        "trials": row["trials"],
        "delivery ratio": _interval(row, "delivery_ratio", "ratio"),
        "all served": _interval(row, "guaranteed", "guaranteed"),
        "nodes lost": None if row["lost"] is None else f"{row['lost']:.4g}",
        "theory": None if row["theory"] is None else f"{row['theory']:.5g}",
        "verdict": verdict + (f", {row['undecided']} undecided" if row["undecided"] else ""),
    }


def show_pairs(rows: Sequence[CampaignRow]) -> None:
    """Print paired differences, a table for each figure."""
    for figure in dict.fromkeys(str(row["figure"]) for row in rows):
        shown = []
        for row in rows:
            if row["figure"] == figure:
                _, variants, faults, pairs, value, low, high, larger, smaller = row.values()
                interval = "all equal" if low is None else f"{low:.4g} to {high:.4g}" if low != high else "exact"
                shown.append({
                    "variants": variants, "faults": faults, "pairs": pairs, "difference": f"{value:.4g}",
                    "95 %": interval, "larger": larger, "smaller": smaller,
                })  # fmt: skip
        render.show_rows(f"paired differences: {figure.replace('_', ' ').replace('max ', 'longest ')}", shown)


def show_processes(table: Sequence[CampaignRow]) -> None:
    """Print availability and completion times, a table for each variant and point; `--json` has more quantiles."""
    tables: dict[str, list[dict[str, object]]] = {}
    for row in table:
        cells = {cell["name"]: cell for cell in process_cells(row)}
        variant, faults, figure, *_ = cells.values()
        name = figure["text"]
        # Short enough not to be broken: the share of the time when nodes, or links, work.
        shown: dict[str, object] = {"": f"{name.removeprefix('availability of ')} up" if " of " in name else name}
        for name in ("mean", "expected", "5 %", "median", "95 %"):
            shown[name] = "\n".join(filter(None, (cells[name]["text"], cells[name]["interval"])))
        tables.setdefault(f"{variant['text']} under {faults['text']}", []).append(shown)
    for title, shown_rows in tables.items():
        render.show_rows(title, shown_rows)


def _residual_lines(found: Residual) -> Iterator[str]:
    """Yield the survived sets of a variant by number of faults, and the bounds on its residual reliability."""
    survived = ", ".join(f"{size}: {sets:,}" for size, sets in found.survived.items())
    yield f"{found.variant}, {found.faults} of {found.places}, survived sets by number of faults: {survived}"
    if 0 not in found.survived:
        return  # bounds would say little: with few faults, size 0 is the most likely one
    for q in PROBABILITIES:
        low, high = found.reliability(q)
        shown = f"{low:.10g}" if low == high else f"{low:.10g} to {high:.10g}"
        yield f"  probability to survive, if each fails with {q}: {shown}"


def _interval(row: CampaignRow, column: str, prefix: str) -> str:
    value, low, high = row[column], row[f"{prefix}_low"], row[f"{prefix}_high"]
    if value is None:
        return "-"
    return f"{value:.5f}" if low == high else f"{value:.4f}\n{low:.3f} to {high:.3f}"


campaign_command = as_command(CampaignCommand)
