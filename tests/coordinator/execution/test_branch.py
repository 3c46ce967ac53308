"""Branches of runs: the history up to a step is the history of the origin, whatever begins later."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import coordinator as tb
from coordinator.api.branches import origin_of
from coordinator.execution.branch import BRANCH_HASH, BRANCH_OF
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.planning.plan import make_plan
from emunode.errors import RunError, ScenarioError
from tests.helpers.branch_support import EARLY, LATE, LINE, stored_origin, up_to
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run with a fault early and a fault late."""
    return stored_origin(tmp_path_factory.mktemp("runs"))


def test_every_crash_after_every_step_keeps_the_rows_before() -> None:
    network = tb.network("star:4")
    origin = network.broadcast("edt", redundancy=3, faults=[EARLY, LATE])
    topology = Case(LINE).plan.topology
    for step in range(origin.summary["steps"] + 1):
        for label in map(topology.label, range(1 + step % 6, topology.order, 6)):
            fault, kept = f"crash:{label}@{step + 1}", [each for each in (EARLY, LATE) if int(each[-1]) <= step]
            if any(label in each for each in kept):
                continue
            other = tb.branch(origin, step, fault)
            alone = network.broadcast("edt", redundancy=3, faults=[*kept, fault])
            assert other.summary["journal_hash"] == alone.summary["journal_hash"]
            assert up_to(other.journal, step).equals(up_to(origin.journal, step))


def test_a_fault_in_force_keeps_its_end() -> None:
    run = tb.network("hypercube:3").broadcast(
        "sbt", messages=4, faults=["hang:001@2-3", "down:000~100@2", "up:000~100@4"]
    )
    other = tb.branch(run, 2)
    assert other.scenario["fault"] == run.scenario["fault"]
    assert other.summary["journal_hash"] == run.summary["journal_hash"]
    assert tb.branch(run, 1).scenario.get("fault", []) == []


@pytest.mark.parametrize(
    ("step", "fault", "words"),
    [
        (3, "crash:4231@3", "it begins in step 3, and the branch in step 4"),
        (3, "random:nodes=2@2", "it begins in step 2"),
        (3, "crash:4231", "it needs a step"),
        (99, "crash:4231@100", "expected a step from 0 to 7"),
        (3, "crash:2134@4", "2134"),
    ],
)
def test_what_is_no_branch_is_refused(origin: Path, step: int, fault: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        tb.branch(origin, step, fault)


def test_the_timed_clock_has_no_branches() -> None:
    run = tb.network("hypercube:2").broadcast("sbt", clock="timed")
    with pytest.raises(ScenarioError, match="--clock steps"):
        tb.branch(run, 1)


def test_another_history_is_not_kept(origin: Path, tmp_path: Path) -> None:
    found = origin_of(origin, 3)
    other = replace(found, journal=found.journal.filter(pl.col("receiver") != 5))
    plan = make_plan(other.branched(["crash:4231@4"]).on_driver("memory"))
    with pytest.raises(RunError, match="the first 3 steps differ from the steps of origin: row"):
        run(plan, DirectorySink(tmp_path / "out"), accept=other.accept)
    assert not list(tmp_path.iterdir())


def test_a_forged_origin_is_refused(tmp_path: Path) -> None:
    forged = Case(LINE, EARLY).stored(tmp_path / "forged").path
    frame = pl.read_parquet(forged / "journal.parquet")
    frame.filter(pl.col("step") > 1).write_parquet(forged / "journal.parquet")
    with pytest.raises(ScenarioError, match="does not verify"):
        tb.branch(forged, 1)


def test_verify_compares_with_the_origin(tmp_path: Path, call: Call) -> None:
    origin = Case(LINE, EARLY).stored(tmp_path / "origin").path
    out = tmp_path / "branch"
    call(f"run --from {origin}@3 --fault crash:4231@4 --driver memory --out", out)
    # An honest run that is no branch of it, although its summary says so.
    summary = json.loads((out / "summary.json").read_text())
    other = Case(LINE, "crash:2134@1").stored(tmp_path / "other").path
    for name in ("journal.parquet", "summary.json", "scenario.toml"):
        (origin / name).write_bytes((other / name).read_bytes())
    forged = json.loads((origin / "summary.json").read_text())
    assert "not checked: summary.json: branch_of: no run origin with this journal is beside" in call("verify", out).out
    (out / "summary.json").write_text(json.dumps({**summary, BRANCH_HASH: forged["journal_hash"]}))
    found = call("verify", out).out
    assert "its first 3 steps are not the steps of origin: row" in found
    (out / "summary.json").write_text(json.dumps({**summary, BRANCH_OF: ".."}))
    assert "name no run and step" in call("verify", out).out
    (out / "summary.json").write_text(json.dumps(summary))
    (origin / "summary.json").unlink()
    assert "no run origin with this journal is beside the branch" in call("verify", out).out
