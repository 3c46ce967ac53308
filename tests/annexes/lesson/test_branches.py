"""Every branch of a lesson is a fresh run with its fault: same journal, same verdict, same claims."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from coordinator.annexes.lesson import branches
from coordinator.annexes.lesson.branches import lesson_of
from coordinator.reports.data import read_run
from coordinator.reports.numbers import show
from emunode.errors import ScenarioError
from tests.annexes.lesson.lessons import Made
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario

SCENARIOS = [
    "star:3 broadcast edt redundancy=2",
    "star:3 gather edt",
    "star:3 allgather edt-dfs fault=hang:213@2-3",
    "star:3 alltoall edt",
    "star:3 allreduce mbst",
    "star:3 reduce-scatter mbst",
    "star:3 reduce greedy-tree fault=crash:321@1",
    "hypercube:3 broadcast nesbt segments=3",
    "hypercube:2 scatter sbt",
    "ej:1+2 broadcast improved",
    "star:3 broadcast flood messages=2 fault=down:123~213@2-3",
]


def fresh(scenario: str, fault: str) -> tuple[str, str, list[list[str]]]:
    """Run a scenario with one more fault; return the journal hash, the verdict, and claims with measured values."""
    values = fields(scenario)
    summary = run_scenario(None, **values | {"fault": [*values.get("fault", ()), fault]}).summary  # type: ignore[misc]
    claims = [[each["name"].replace("_", " "), show(each["measured"]), each["verdict"]] for each in summary["claims"]]  # type: ignore[attr-defined]
    return str(summary["journal_hash"]), str(summary["verdict"]), claims


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_branches_are_fresh_runs(scenario: str, lessons: Callable[[str], Made], pytestconfig: pytest.Config) -> None:
    made = lessons(scenario)
    every = 1 if pytestconfig.getoption("--all") else 7
    for fault, judged, digest in islice(made.journals(), 0, None, every):
        claims = [[name, measured, verdict] for name, _, measured, verdict, _ in judged["claims"]]
        assert (digest, judged["verdict"], claims) == fresh(scenario, fault), fault


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_place_has_a_branch_before_every_step(scenario: str, lessons: Callable[[str], Made]) -> None:
    made = lessons(scenario)
    topology = made.lesson.finished.plan.topology
    assert len(made.data["places"]) == topology.order + topology.link_count
    steps = range(1, max(made.data["run"][0]) + 1)
    expected = {f"{place}@{step}" for place, _, _ in made.data["places"] for step in steps}
    assert {made.fault(branch) for branch in made.data["branches"]} | made.data["refused"].keys() == expected
    broken = {fault.split(":")[1].split("@")[0] for fault in fields(scenario).get("fault", ())}  # type: ignore[attr-defined]
    assert {fault.split(":")[1].split("@")[0] for fault in made.data["refused"]} <= broken
    assert bool(made.data["refused"]) == (("crash" in scenario) or ("hang" in scenario))


def test_the_past_of_a_branch_is_the_run(lessons: Callable[[str], Made]) -> None:
    made = lessons("star:3 alltoall edt")
    steps = made.data["run"][0]
    assert made.data["fields"][0] == "step"
    for branch in made.data["branches"]:
        number, begins = -1, []
        for gap in branch["changes"][::2]:
            number += gap
            begins.append(steps[number])
        assert min(begins, default=branch["step"]) >= branch["step"]


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("star:3 broadcast edt redundancy=2 fault=byzantine:213", "expected a run without altered payloads"),
        ("star:3 broadcast greedy-tree clock=timed", "expected a run with --clock steps"),
    ],
)
def test_runs_without_lessons_are_refused(scenario: str, reason: str, tmp_path: Path) -> None:
    path = run_scenario(tmp_path / "run", **fields(scenario)).path
    with pytest.raises(ScenarioError, match=reason):
        lesson_of(read_run(path))


def test_too_many_branches_are_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_scenario(tmp_path / "run", **fields("star:3 broadcast greedy-tree")).path
    monkeypatch.setattr(branches, "MOST_ROWS", 179)
    monkeypatch.setattr(branches, "run", lambda *_: pytest.fail("nothing runs"))
    with pytest.raises(ScenarioError, match="its 36 branches of 5 hops are 180 hops; at most 179"):
        lesson_of(read_run(path))


def test_another_journal_is_refused(tmp_path: Path) -> None:
    path = run_scenario(tmp_path / "run", **fields("star:3 broadcast greedy-tree")).path
    text = (path / "scenario.toml").read_text()
    (path / "scenario.toml").write_text(text.replace("greedy-tree", "edt"))
    with pytest.raises(ScenarioError, match="run again in memory has another journal"):
        lesson_of(read_run(path))
    (path / "journal.parquet").unlink()
    with pytest.raises(ScenarioError, match=r"journal\.parquet is missing"):
        lesson_of(read_run(path))
