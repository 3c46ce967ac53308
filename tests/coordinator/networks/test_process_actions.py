"""The evidence of faults that processes suffer: every one is logged with what the machine showed, and reports list them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coordinator.reports.data import read_run
from coordinator.reports.panels.faults import process_table
from tests.helpers.support import run_and_draw, run_scenario

BROADCAST = {"collective": "broadcast", "algorithm": "greedy-tree", "driver": "local", "ranks_per_host": 1}
FLOOD = {"collective": "broadcast", "algorithm": "flood", "driver": "memory"}


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_planned_fault_of_a_process_leaves_its_evidence(tmp_path: Path) -> None:
    faults = ["crash:4321@2", "recover:4321@4", "hang:2134@2-3"]
    result = run_and_draw(tmp_path / "run", topology="star:4", fault=faults, **BROADCAST)
    label = result.plan.topology.label
    found = events(tmp_path / "run")
    assert [(each["action"], label(each["host"]), each["step"], each["seen"]) for each in found] == [
        ("kill", "4321", 2, "ended"),
        ("stop", "2134", 2, "stopped"),
        ("continue", "2134", 4, "running"),
        ("restart", "4321", 4, "running"),
    ]
    assert [each["means"] for each in found] == ["SIGKILL", "SIGSTOP", "SIGCONT", "a new process"]
    kill, stop, go_on, restart = found
    assert stop["pid"] == go_on["pid"]
    assert kill["pid"] != restart["pid"], "a process that was killed does not come back"
    assert all(each["seen_after_seconds"] is not None for each in found)
    assert sorted(each["sent"] for each in found) == [each["sent"] for each in found]
    for each in found:
        assert not Path(f"/proc/{each['pid']}").exists(), "no host outlives its run"

    rows = process_table(read_run(tmp_path / "run"))
    assert [(row["action"], row["nodes"], row["pid"]) for row in rows[:2]] == [
        ("kill (SIGKILL)", "4321", str(kill["pid"])),
        ("stop (SIGSTOP)", "2134", str(stop["pid"])),
    ]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Host processes" in page
    assert all(row["sent"] in page and row["seen"] in page for row in rows)


def test_the_evidence_under_the_timed_clock_has_the_virtual_time(tmp_path: Path) -> None:
    # Two seconds: on a busy machine a host may reach its hang late, and a hang that is over by then stops no process.
    faults = ["hang:213@100ms-2s"]
    run_scenario(tmp_path / "run", topology="star:3", clock="timed", startup="100ms", fault=faults, **BROADCAST)
    assert [(each["action"], each["seconds"], each["seen"]) for each in events(tmp_path / "run")] == [
        ("stop", 0.1, "stopped"),
        ("continue", 2, "running"),
    ]


def test_faults_within_a_process_leave_no_evidence_of_one(tmp_path: Path) -> None:
    """Two of three ranks of a process crash: it goes on, so nothing was sent to it."""
    values = {**BROADCAST, "ranks_per_host": 3}
    run_and_draw(tmp_path / "run", topology="star:3", fault=["crash:213@2"], **values)
    assert events(tmp_path / "run") == []
    assert "Host processes" not in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    "line", ["[" * 100_000, "no JSON", "[1]", '{"event": "process fault", "host": "<b>", "pid": []}']
)
def test_a_log_of_unknown_origin_does_no_harm(line: str, tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", topology="star:3", fault=["crash:213@2"], **FLOOD)
    (tmp_path / "run" / "log.jsonl").write_text(line + os.linesep)
    rows = process_table(read_run(tmp_path / "run"))
    assert len(rows) == line.startswith("{")
