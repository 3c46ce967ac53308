"""Schedules in the formats of synthesisers: judged by the readers, and the same hops when they run again."""

from pathlib import Path

import pytest

from coordinator.annexes.schedules.base import FileVerdict, RefusedScheduleError
from coordinator.annexes.schedules.registry import read_schedule
from coordinator.annexes.schedules.writing import timetable_of, write_schedules
from coordinator.scenario.schedule_text import with_schedule
from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case

FIXED = (
    "star:4 broadcast edt", "hypercube:3 broadcast sbt", "hypercube:3 broadcast nesbt", "star:3 alltoall list-schedule",
    "hypercube:3 allgather bfb", "star:4 allreduce bfb", "hypercube:3 allreduce recursive-doubling",
    "hypercube:3 reduce sbt", "star:3 reduce-scatter bfb", "star:4 scatter edt", "hypercube:3 gather sbt",
    "ring:5 allreduce ring", "hypercube:3 allreduce nesbt-rooted", "hypercube:3 allreduce recursive-halving",
)  # fmt: skip


def written(case: Case, path: Path, kind: str = "msccl") -> list[str]:
    """Write the schedule of a case, and return what the file leaves out."""
    return [*write_schedules(case.plan, {kind: path})[kind].dropped]


@pytest.mark.parametrize("line", FIXED, ids=lambda line: line.replace(" ", "-"))
def test_a_written_schedule_holds_and_runs_again(line: str, tmp_path: Path) -> None:
    case = Case(line)
    path, again = tmp_path / "one.xml", tmp_path / "two.xml"
    dropped = written(case, path)
    topology, _, _ = line.split()
    file = read_schedule(path, root=case.plan.spec.source)
    file.require_network(case.plan.topology)
    assert file.judge().verdict is FileVerdict.HOLDS
    assert not file.judge().notes or "RCCL refuses it" in file.judge().notes[0]
    capacity = case.summary["max_link_segments_per_step"]
    one = Case(with_schedule({"schedule": str(path), "topology": topology, "link_capacity": capacity}))
    assert one.summary["verdict"] == "holds"
    # Pairs and chunks are the same; the steps are too, unless the export says otherwise.
    before, after = (sorted(timetable_of(each.plan.algorithm).hops) for each in (case, one))
    assert sorted(hop[1:] for hop in after) == sorted(hop[1:] for hop in before)
    assert (before == after) is not any(each.startswith("steps: ") for each in dropped)
    # The file of the file has the same program, so the same journal.
    if before == after:
        written(one, again)
        two = Case(with_schedule({"schedule": str(again), "topology": topology, "link_capacity": capacity}))
        assert two.summary["journal_hash"] == one.summary["journal_hash"]
    # The capacity is named wherever the schedule comes back with it and not without it.
    plain = sorted(read_schedule(path, root=case.plan.spec.source).timetable().hops)
    needed = before == after and before != plain
    assert needed is any(
        each.startswith(f"the link capacity: read it with --link-capacity {capacity}, or") for each in dropped
    )
    assert dropped.pop() == "labels of nodes, which are numbers in the file"
    assert all(each.startswith(("steps: ", "the link capacity: ", "the numbers of ")) for each in dropped)


@pytest.mark.parametrize(("line", "moved"), [
    ("hypercube:4 scatter sbt", "28 of 32"), ("hypercube:3 reduce sbt", "4 of 7"), ("star:4 reduce edt", "16 of 23"),
    ("star:4 broadcast edt", ""),
])  # fmt: skip
def test_goal_text_says_how_many_hops_move(line: str, moved: str, tmp_path: Path) -> None:
    dropped = written(Case(line), tmp_path / "x.goal", "goal")
    said = [each for each in dropped if each.startswith("steps")]
    assert said == ([f"steps in which a node waits for nothing: {moved} hops move"] if moved else [])


@pytest.mark.parametrize(
    ("case", "field", "value"),
    [
        (Case("star:4 broadcast flood"), "algorithm", "flood"),
        (Case("star:4 broadcast edt x=2"), "redundancy", 2),
        (Case("star:4 broadcast edt repair=switch-tree"), "repair", "switch-tree"),
        (Case("star:4 broadcast greedy-tree fault_knowledge=all", "crash:2134@1"), "fault_knowledge", "all"),
        (Case("fat-tree:4 allgather bfb"), "topology", "fat-tree:4"),
    ],
)
def test_schedules_that_files_cannot_hold_are_refused(case: Case, field: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        written(case, tmp_path / "none.xml")
    assert (error.value.field, error.value.value) == (field, value)
    assert not (tmp_path / "none.xml").exists()


def test_formats_without_the_collective_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(RefusedScheduleError, match="ForestColl has trees of an allgather, and no broadcast"):
        written(Case("star:4 broadcast edt"), tmp_path / "none.xml", "forestcoll")


@pytest.mark.parametrize("line", ["star:3 alltoall list-schedule", "hypercube:3 allreduce recursive-doubling"])
def test_traces_come_back_with_their_cells(line: str, tmp_path: Path) -> None:
    case = Case(line)
    written(case, tmp_path / "set", "chakra")
    written(case, tmp_path / "one.xml")
    traces, text = read_schedule(tmp_path / "set.0.et"), read_schedule(tmp_path / "one.xml")
    assert (traces.judge().verdict, traces.judge().reason) == (FileVerdict.HOLDS, "")
    capacity = case.summary["max_link_segments_per_step"]
    assert traces.timetable(capacity) == text.timetable(capacity)
    with pytest.raises(ScenarioError, match="would be part of the set"):
        written(Case("ring:4 allgather ring"), tmp_path / "set", "chakra")


def test_messages_come_back_from_goal_text(tmp_path: Path) -> None:
    case = Case("star:4 broadcast edt")
    path = tmp_path / "edt.goal"
    assert written(case, path, "goal") == ["what packets contain", "labels of nodes, which are numbers in the file"]
    one = Case(with_schedule({"schedule": str(path), "topology": "star:4"}))
    assert one.summary["verdict"] == "holds"
    columns = ("step", "sender", "receiver", "bytes")
    assert one.journal.select(columns).equals(case.journal.select(columns))
    with pytest.raises(ScenarioError, match="coordinator export goal RUN FILE"):
        written(Case("star:4 broadcast flood"), path, "goal")
