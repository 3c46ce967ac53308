"""Suspicions in traces, and in the diagram of a run in space and time."""

import json
import shutil
from pathlib import Path

import pytest

from coordinator.annexes.exports.space_time.panel import space_time_panel
from coordinator.annexes.exports.traces.chrome import chrome_trace
from coordinator.annexes.exports.traces.events import TraceEvents
from coordinator.execution.sinks import RunResult
from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from tests.coordinator.reports import test_delivery_times

result = test_delivery_times.result  # a fixture


def test_suspicions_are_in_the_trace(result: RunResult) -> None:
    listed = json.loads((result.path / "suspicions.json").read_text())
    data = read_run(result.path)
    events = json.loads(b"".join(chrome_trace(TraceEvents(data))))["traceEvents"]
    marks = [(event["pid"], event["tid"], event["ts"]) for event in events if event.get("cat") == "suspicion"]
    assert marks == [
        (each["rank"], each["port"] + 1, pytest.approx(each["seconds"] * 1e6, abs=1e-3)) for each in listed
    ]


def test_suspicions_are_in_the_diagram(result: RunResult) -> None:
    wide = str(space_time_panel(Report(read_run(result.path)))).partition("narrow")[0]
    begun = [each for each in json.loads((result.path / "suspicions.json").read_text()) if each["suspected"]]
    assert wide.count('fill="var(--purple)"') == len(begun)
    assert "000 suspects 010, wrongly" in wide


def test_a_damaged_file_only_loses_its_marks(result: RunResult, tmp_path: Path) -> None:
    path = shutil.copytree(result.path, tmp_path / "run")
    (path / "suspicions.json").write_text('[{"rank": 99, "seconds": 1, "port": 0}, {"rank": 0}]')
    data = read_run(path)
    assert b'"suspicion"' not in b"".join(chrome_trace(TraceEvents(data)))
    assert space_time_panel(Report(data)) is not None
