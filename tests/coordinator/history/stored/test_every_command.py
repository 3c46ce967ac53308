"""Stored runs, campaigns and sweeps with content that no run leaves behind: one line and status 2 of every command."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import coordinator as tb
from coordinator.execution.verify import verify
from coordinator.reports.run_report import write_report
from emunode import __version__
from tests.helpers.command_line import Call, fields
from tests.helpers.spoilt_files import Spoil, changed, claim, column, content, linked, pipe, record, summary
from tests.helpers.support import run_and_draw

RUNS = {
    "steps": "star:3 broadcast edt redundancy=2 fault=byzantine:213",
    "timed": "hypercube:3 broadcast sbt clock=timed fault=down:000~001@1",
}
COMMANDS = (
    "report {run}",
    "compare {run} {other}",
    "compare {other} {run} --out page.html",
    "export {run} --goal run.goal",
    "export {run} --graphml run.graphml",
    "export {run} --trace run.json",
)
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stored")
    return {name: run_and_draw(folder / name, **fields(scenario)).path for name, scenario in RUNS.items()}


def null(table: str, name: str) -> Spoil:
    """Take away the first value of a column."""
    return column(table, name, pl.when(pl.int_range(pl.len()) > 0).then(pl.col(name)))


def large(name: str, size: int) -> Spoil:
    return lambda run: os.truncate(run / name, size)


REFUSED: dict[str, tuple[Spoil, str]] = {
    "deep summary": (content("summary.json", DEEP), "summary.json: it has more than 32 levels"),
    "deep faults": (content("faults.json", DEEP), "faults.json: it has more than 32 levels"),
    "deep scenario": (content("scenario.toml", f"x = {DEEP}"), "scenario.toml: it has more than 32 levels"),
    "dates": (content("scenario.toml", "x = 2000-01-01"), "scenario.toml: 2000-01-01 is neither text nor a number"),
    "large summary": (large("summary.json", 200 * 2**20), "summary.json: it has more than 16777216 bytes"),
    "NaN": (summary(delivery_ratio=float("nan")), "summary.json: NaN is not a number of JSON"),
    "infinite": (content("summary.json", '{"steps": 1e999}'), "summary.json: inf is not a finite number"),
    "large number": (summary(packets=10**400), "summary.json: it has a whole number of more than 64 bits"),
    "text for a number": (summary(steps="x"), "summary.json: steps is 'x', expected a number or a list of numbers"),
    "object for text": (summary(topology={}), "summary.json: topology is an object, expected text"),
    "verdict": (summary(verdict="fine"), "summary.json: verdict is 'fine', expected 'holds', 'violated' or 'undecided'"),
    "claims": (summary(claims={"a": 1}), "summary.json: claims is an object, expected a list"),
    "claim": (claim(predicted={}), "summary.json: claims.0.predicted is an object, expected a number or a list"),
    "twice": (content("summary.json", '{"a": 1, "a": 2}'), "summary.json: a key is repeated"),
    "no step": (null("journal", "step"), "journal.parquet: rows with missing values of step"),
    "no outcome": (null("journal", "outcome"), "journal.parquet: rows with missing values of outcome"),
    "text for steps": (
        column("journal", "step", pl.lit("x" * 1000)), "journal.parquet: column step is of type String; expected whole"
    ),
    "late": (
        column("journal", "step", pl.lit(2**31 - 1, pl.Int32)),
        "journal.parquet: values of step that are not within 1..2000000",
    ),
    "negative": (
        column("nodes", "received", pl.lit(-1)), "nodes.parquet: values of received that are not within 0.."
    ),
    "not finite": (
        column("steps", "virtual_seconds", pl.lit(float("inf"))),
        "steps.parquet: values of virtual_seconds that are not finite",
    ),
    "outcomes": (
        column("journal", "outcome", pl.lit("found")), "journal.parquet: values of outcome other than first, duplicate,"
    ),
    "elections": (
        column("elections", "elected", pl.lit("")), "elections.parquet: values of elected other than right, wrong, none"
    ),
    "lists": (column("links", "packets", pl.lit([1])), "links.parquet: column packets is of type List(Int64)"),
    "linked summary": (linked("summary.json"), "summary.json: it is a symbolic link"),
    "linked journal": (linked("journal.parquet"), "journal.parquet: it is a symbolic link"),
    "fault": (
        changed("faults.json", lambda value: value[0].update(last="x")), "faults.json: 0.last is 'x', expected a number"
    ),
    "faults": (content("faults.json", "[1]"), "faults.json: 0 is 1, expected an object"),
    "pipe": (pipe("steps.parquet"), "steps.parquet: it is not a regular file"),
    "timed: text": (column("timeline", "start", pl.lit("x")), "timeline.parquet: column start is of type String"),
    "timed: until": (
        changed("faults.json", lambda value: value[0].update(until_seconds=[])),
        "faults.json: 0.until_seconds is a list, expected a number",
    ),
    "timed: served": (content("served.json", DEEP), "served.json: it has more than 32 levels"),
}  # fmt: skip


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", REFUSED)
def test_every_command_refuses_content_that_no_run_leaves_behind(
    name: str, stored: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    spoil, words = REFUSED[name]
    whole = stored["timed" if name.startswith("timed") else "steps"]
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    spoil(run)
    before = (run / "report.html").read_bytes()
    for command in COMMANDS:
        ended = call(command.format(run=run, other=whole))
        assert ended.status == 2, (command, ended.err)
        assert ended.err.startswith(f"coordinator: invalid run '{run}': {words}")
        assert len(ended.err.splitlines()) == 1
        assert ended.out == ""
    verified = call("verify", run)
    assert verified.status == 1
    assert words.partition(" is of type")[0].split(":")[0] in verified.out
    assert (run / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value"), [("sender", pl.lit(0, pl.Int32)), ("port", pl.lit(0, pl.Int16)), ("port", pl.lit(1, pl.Int16))]
)
def test_tables_that_contradict_each_other_are_named(
    name: str, value: pl.Expr, stored: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    """The report draws links of the journal that the table of links does not have."""
    run = Path(shutil.copytree(stored["timed"], tmp_path / "run"))
    column("journal", name, value)(run)
    ended = call("report", run)
    assert ended.status == 2
    assert ended.err.startswith(
        f"coordinator: invalid run '{run}': its files contradict each other: summary.json: journal_hash"
    )
    assert len(ended.err.splitlines()) == 1
    with pytest.raises(tb.ScenarioError, match="its files contradict each other"):
        tb.Run.read(run).report()


def test_a_forged_load_of_a_link_does_not_delay_the_report(stored: dict[str, Path], call: Call, tmp_path: Path) -> None:
    """The histogram of loads took minutes for a link with 2^31-1 segments."""
    run = Path(shutil.copytree(stored["steps"], tmp_path / "run"))
    load = pl.when(pl.int_range(pl.len()) == 0).then(2**31 - 1).otherwise(pl.col("segments")).cast(pl.UInt32)
    column("links", "segments", load)(run)
    ended = call("report", run)
    assert ended.status == 0
    assert "does not verify" in ended.err
    assert "2,147,483,647" in (run / "report.html").read_text()


def test_an_error_of_this_program_stays_one(
    stored: dict[str, Path], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("coordinator.cli.report.write_report", fail)
    ended = call("report", stored["timed"])
    assert ended.status == 4
    assert "internal error: ZeroDivisionError" in ended.err


def test_the_list_of_runs_leaves_out_refused_summaries(stored: dict[str, Path], call: Call, tmp_path: Path) -> None:
    for name in ("good", "deep", "nan", "linked", "pipe"):
        shutil.copytree(stored["steps"], tmp_path / "runs" / name)
    content("summary.json", DEEP)(tmp_path / "runs" / "deep")
    summary(steps=float("nan"))(tmp_path / "runs" / "nan")
    linked("summary.json")(tmp_path / "runs" / "linked")
    pipe("summary.json")(tmp_path / "runs" / "pipe")
    listed = call("list runs --json", tmp_path / "runs")
    assert [entry["path"] for entry in listed.data] == [str(tmp_path / "runs" / "good")]


def test_unknown_keys_are_noted_and_change_no_status(stored: dict[str, Path], call: Call, tmp_path: Path) -> None:
    run = Path(shutil.copytree(stored["steps"], tmp_path / "run"))
    summary(mood="fine")(run)
    with (run / "scenario.toml").open("a") as file:
        file.write('weather = "dry"\n')
    write_report(run)  # which shows the mood
    found = verify(run)
    assert (found.findings, found.undecided) == ([], False)
    assert found.unchecked == ["scenario.toml: unknown key 'weather'", "summary.json: unknown key 'mood'"]
    verified = call("verify", run)
    assert verified.status == 0
    assert f"{run}: not checked: summary.json: unknown key 'mood'" in verified.out


# --- campaigns and sweeps --------------------------------------------------------------------------------------------

CAMPAIGN = "campaign --topology star:3 --algorithm edt --faults nodes=1 --trials 6 --workers 1 --out"
SWEEP = "sweep --topology star:3 --algorithm edt --out"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Provide a campaign by messages, one evaluated exactly, and a sweep."""
    from coordinator.cli.invoke import main

    folder = tmp_path_factory.mktemp("folders")
    lines = {"messages": f"{CAMPAIGN} {folder}/messages --engine messages"}
    lines |= {"exact": f"{CAMPAIGN} {folder}/exact --engine exact", "sweep": f"{SWEEP} {folder}/sweep"}
    for name, line in lines.items():
        assert main(line.split()) == 0, name
    return {name: folder / name for name in lines}


def added(name: str, line: str) -> Spoil:
    def spoil(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(f"{line}\n")

    return spoil


TRIALS = "trials.jsonl"
VERSION = f'version = "{__version__}"'
RECORDS: dict[str, tuple[Spoil, str]] = {
    "messages: deep": (added(TRIALS, DEEP), "its trials.jsonl is refused: line 7: Invalid JSON: recursion limit"),
    "messages: no JSON": (added(TRIALS, "{"), "line 7: Invalid JSON: EOF while parsing"),
    "messages: missing": (added(TRIALS, "{}"), "line 7: point is missing"),
    "messages: NaN": (record(TRIALS, 0, predicted=float("nan")), "line 1: predicted is nan, expected a whole number"),
    "messages: point": (record(TRIALS, 2, point=7), "line 3: its point or its variant is not one of the grid"),
    "messages: intact": (record(TRIALS, 2, intact=9), "line 3: 9 of 4 messages arrived intact"),
    "messages: link": (linked(TRIALS), "is a symbolic link"),
    "messages: long": (added(TRIALS, " " * (16 * 2**20 + 1)), "line 7 has more than 16777216 bytes"),
    "exact: due": (record(TRIALS, 0, due=[[4, 5]]), "line 1: due.0.2 is missing"),
    "exact: groups": (record(TRIALS, 0, groups=[[0, [[0, 0, 6]]]]), "line 1: more messages arrived than were due"),
    "exact: trials": (record(TRIALS, 0, trials=9), "line 1: due has 6 trials, and 9 are decided"),
    "messages: deep grid": (content("campaign.toml", f"x = {DEEP}"), "campaign.toml: it has more than 32 levels"),
    "messages: no grid": (content("campaign.toml", VERSION), "campaign.toml: scenario is missing"),
    "messages: scenario": (
        content("campaign.toml", VERSION + '\nscenario = 3\nvary = {}\nfaults = []\ntrials = 1\nengine = "auto"'),
        "campaign.toml: scenario is 3, expected an object",
    ),
    "messages: linked grid": (linked("campaign.toml"), "campaign.toml: it is a symbolic link"),
    "sweep: deep": (added("rows.jsonl", DEEP), "its rows.jsonl is damaged: line 2: Invalid JSON: recursion limit"),
    "sweep: measured": (record("rows.jsonl", 0, measured={"steps": []}), "line 1: measured.steps is a list, expected"),
    "sweep: claims": (record("rows.jsonl", 0, claims=[1]), "line 1: claims.0 is 1, expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_hostile_campaigns_and_sweeps_are_not_resumed(
    name: str, folders: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    spoil, words = RECORDS[name]
    kind = name.partition(":")[0]
    folder = Path(shutil.copytree(folders[kind], tmp_path / kind))
    spoil(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    ended = call(SWEEP, folder) if kind == "sweep" else call("campaign --resume", folder)
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("row", "words"),
    [("nan", "a number is not finite"), ("", "a number is missing"), ("x" * 200_000, "field larger than field limit")],
)
def test_hostile_curves_are_not_exported(
    row: str, words: str, folders: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders["messages"], tmp_path / "campaign"))
    with (folder / "curves.csv").open("a") as file:
        file.write(f"a,b,c,d,1,{row},1,1,\n")
    ended = call("export", folder, "--pgfplots", tmp_path / "curves.tex")
    assert ended.status == 2
    assert f"its curves.csv cannot be read: {words}" in ended.err
    assert len(ended.err.splitlines()) == 1


# --- pipes where results are written ---------------------------------------------------------------------------------
