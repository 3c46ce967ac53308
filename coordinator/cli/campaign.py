"""`coordinator campaign`: many trials over a grid."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coordinator.cli.options import JsonFlag, ScenarioFlags, print_json, values_from
from emunode.errors import ScenarioError

if TYPE_CHECKING:
    from coordinator.campaigns.grid import Grid
    from coordinator.campaigns.store import Store
    from coordinator.campaigns.tables import Row

DEFAULTS = {"collective": "broadcast", "driver": "memory"}
"""Of a campaign and a certificate; all drivers have the same history, and this one is the fastest."""
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
SHOWN_VIOLATIONS = 3


def campaign(  # noqa: PLR0913  # its flags
    scenario: Path | None = None,
    *,
    flags: ScenarioFlags = None,
    vary: Annotated[
        list[str] | None, Parameter(help="FIELD=VALUE,VALUE or FIELD=1..4 of the scenario (repeatable)", negative=())
    ] = None,
    faults: Annotated[
        list[str] | None,
        Parameter(help="points of the grid, such as nodes=0..4 or busiest:links=2 (repeatable)", negative=()),
    ] = None,
    trials: Annotated[int | None, Parameter(help="trials of each variant at each point, at most; default 1000")] = None,
    precision: Annotated[
        float | None, Parameter(help="end a point when guaranteed delivery is known to within plus or minus this")
    ] = None,
    workers: Annotated[int | None, Parameter(help="processes; default: one a core in memory, else one")] = None,
    out: Annotated[
        Path | None, Parameter(help="folder of the campaign; one that is there already is gone on with")
    ] = None,
    resume: Annotated[Path | None, Parameter(help="go on with the campaign in this folder, as it was begun")] = None,
    json: JsonFlag = False,
) -> int:
    """Run trials over a grid of scenarios and faults: delivery ratio and guaranteed delivery, with intervals.

    What ended is kept whatever happens; the same command, or --resume, goes on with the rest.
    """
    from coordinator.campaigns.runner import run_campaign  # noqa: PLC0415
    from coordinator.campaigns.store import Store, read_grid  # noqa: PLC0415
    from coordinator.cli.render import progress_display  # noqa: PLC0415

    if resume is not None:
        if scenario or out or faults or vary or flags is not None or trials or precision:
            raise ScenarioError("resume", str(resume), "the folder says what was begun; give nothing else of the grid")
        grid, folder = read_grid(resume), resume
    else:
        grid = make_grid(values_from(scenario, flags), vary or [], faults, trials, precision)
        folder = out or Path("runs", "campaigns", f"{grid.variants[0].plan.name}-{grid.fingerprint[:8]}")
    grid.check()
    with Store(folder, grid) as store:
        with progress_display("campaign") as progress:
            session = run_campaign(store, workers, progress)
        rows, violations = conclude(store)
    if json:
        known = {"out": str(folder), **asdict(session), "left_out": grid.left_out}
        print_json({**known, "rows": rows, "violations": violations})
    else:
        from coordinator.cli.render import show_campaign  # noqa: PLC0415

        show_campaign(folder, rows, grid.left_out, violations, session)
    return 130 if not session.finished else _status(rows)


def _status(rows: "list[Row]") -> int:
    """1 where a claim is violated or exact theory is excluded, 3 where no trial of a variant proves anything, else 0."""
    if any(row["violated"] or row["finding"] for row in rows):
        return 1
    return 3 if any(row["trials"] == row["undecided"] for row in rows) else 0


def make_grid(
    values: dict[str, object],
    vary: list[str],
    faults: list[str] | None,
    trials: int | None,
    precision: float | None,
) -> "Grid":
    """The grid of flags and file; in a file it has the keys `vary` (a table), `faults`, `trials` and `precision`."""
    from coordinator.campaigns.grid import Grid  # noqa: PLC0415

    given = {name: values.pop(name) for name in ("vary", "faults", "trials", "precision") if name in values}
    table = given.get("vary", {})
    if not isinstance(table, dict) or not all(isinstance(items, list) for items in table.values()):
        raise ScenarioError("vary", table, "a table of lists, such as redundancy = [1, 2, 3]")
    points = given.get("faults", [])
    if not isinstance(points, list) or not all(isinstance(point, str) for point in points):
        raise ScenarioError("faults", points, 'a list of points, such as ["nodes=0..4"]')
    return Grid(
        {**DEFAULTS, **values},
        {**table, **dict(map(_varied, vary))},
        faults or points,
        _number(given.get("trials", 1000), "trials") if trials is None else trials,
        precision if precision is not None else _share(given.get("precision")),
    )


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ScenarioError(name, value, "a whole number")
    return value


def _share(value: object) -> float | None:
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise ScenarioError("precision", value, "a number between 0 and 1")
    return value


def _varied(text: str) -> tuple[str, list[object]]:
    """`redundancy=1..4`, `algorithm=edt,greedy-tree` as name and values."""
    from coordinator.campaigns.grid import MOST_VALUES  # noqa: PLC0415

    name, equals, given = text.partition("=")
    if not equals or not name:
        raise ScenarioError("vary", text, "write FIELD=VALUE,VALUE or FIELD=1..4")
    values: list[object] = []
    for value in given.split(","):
        match = RANGE.fullmatch(value)
        if match and (len(value) > 40 or int(match[2]) - int(match[1]) >= MOST_VALUES):
            raise ScenarioError("vary", text, f"a range holds at most {MOST_VALUES:,} values")
        values += range(int(match[1]), int(match[2]) + 1) if match else [value] if value else []
    return name.replace("-", "_"), values


def conclude(store: "Store") -> "tuple[list[Row], list[dict[str, object]]]":
    """Write the results of a campaign into its folder; its rows, and where violated claims are shown."""
    import polars as pl  # noqa: PLC0415

    from coordinator.campaigns.tables import families, rows, trial_rows  # noqa: PLC0415
    from coordinator.reports.campaign_report import charts_of, figures, page  # noqa: PLC0415
    from coordinator.reports.tables import to_csv, to_markdown  # noqa: PLC0415

    grid = store.grid
    table = rows(grid, store.findings)
    named = {
        family: [(grid.points[point].name, size) for point, size in points] for family, points in families(grid).items()
    }
    for name, chart in figures(table, named).items():
        store.write(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".svg", chart)
    plan = grid.variants[0].plan
    networks, collectives = (
        ", ".join(dict.fromkeys(names))
        for names in zip(*((v.plan.topology.title, str(v.plan.spec.collective)) for v in grid.variants), strict=True)
    )
    title = f"{networks}: {collectives} under faults"
    facts = {"trials": len(store.findings), "driver": plan.scenario.driver, "grid": grid.fingerprint}
    store.write("campaign.html", page(title, facts, table, charts_of(table, named)))
    store.write("table.csv", to_csv(table))
    store.write("table.md", to_markdown(table))
    partial = store.folder / ".trials.parquet.partial"
    pl.DataFrame(list(trial_rows(grid, store.findings)), infer_schema_length=None).write_parquet(partial)
    partial.replace(store.folder / "trials.parquet")
    return table, _show_violations(store)


def _show_violations(store: "Store") -> list[dict[str, object]]:
    """Save the smallest scenarios that show the first violated claims, each with the command that repeats it."""
    from coordinator.campaigns.certify import smallest_failure  # noqa: PLC0415
    from coordinator.campaigns.runner import log_file  # noqa: PLC0415
    from coordinator.scenario.model import dump_scenario  # noqa: PLC0415

    found: list[dict[str, object]] = []
    for key in sorted(store.findings):
        trial, finding = store.findings[key]
        if not finding.violated or len(found) == SHOWN_VIOLATIONS:
            continue
        path = store.folder / f"violated-{len(found) + 1}.toml"
        if not path.exists():
            base = store.grid.variants[key.variant].plan.scenario  # with the faults that were drawn for it
            whole = base.model_copy(update={"fault": (*base.fault, *trial.faults), "seed": trial.seed})
            with log_file(store.folder) as log:
                smallest = smallest_failure(whole, lambda finding: bool(finding.violated), log)
            store.write(path.name, dump_scenario(smallest))
        found.append(
            {"claims": list(finding.violated), "faults": list(trial.faults), "repeat": f"coordinator run {path}"}
        )
    return found
