"""When nodes were served, and suspicions: the files of a run, the panel, the diagram and the trace."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from coordinator.execution.sinks import RunResult
from coordinator.execution.verify import verify
from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.delivery_times import delivery_times_panel
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario

DETECTING = fields(
    "hypercube:3 broadcast sbt segments=2 startup=1ms per_byte=0s clock=timed fault_knowledge=detect:1 keep_alive=3ms",
    fault=["crash:001@0s", "slow:010:4"],
    reliable=True,
)


@pytest.mark.parametrize(
    "scenario",
    [
        "hypercube:3 broadcast sbt segments=3",
        "star:4 scatter bfs-tree",
        "hypercube:3 gather sbt",
        "star:3 allgather bfb",
    ],
)
def test_a_node_is_served_with_its_last_new_piece(scenario: str, tmp_path: Path) -> None:
    path = run_scenario(tmp_path / "run", **fields(f"{scenario} clock=timed startup=1ms")).path
    served = {each["rank"]: each["seconds"] for each in json.loads((path / "served.json").read_text())}
    journal, timeline = pl.read_parquet(path / "journal.parquet"), pl.read_parquet(path / "timeline.parquet")
    ends = {tuple(packet): end for *packet, end in timeline.select("step", "sender", "port", "end").iter_rows()}
    expected: dict[int, float] = {}
    for row in journal.filter(pl.col("outcome") == "first").iter_rows(named=True):
        end = ends[row["step"], row["sender"], row["port"]]
        expected[row["receiver"]] = max(end, expected.get(row["receiver"], 0.0))
    assert served == expected
    assert verify(path).findings == []


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Provide the run with suspicions; tests do not modify its directory."""
    return run_scenario(tmp_path_factory.mktemp("suspicions") / "run", **DETECTING)


def test_nodes_that_miss_something_have_no_time(result: RunResult) -> None:
    served = {each["label"]: each["seconds"] for each in json.loads((result.path / "served.json").read_text())}
    assert [label for label, seconds in served.items() if seconds is None] == ["011", "101", "111"]
    assert "001" not in served, "it has crashed"
    assert max(seconds for seconds in served.values() if seconds) == result.summary["completion_seconds"]
    panel = str(delivery_times_panel(Report(read_run(result.path))))
    assert "3 nodes miss something" in panel
    assert "Not served: 011, 101, 111." in panel
    assert panel.count("<tr><td ") == len({seconds for seconds in served.values() if seconds})
    # Half of the six nodes: the staircase ends in the middle of the axis.
    assert "V123.0H1024" in panel


def test_suspicions_are_of_what_is_silent_or_slow(result: RunResult) -> None:
    path = result.path
    listed = json.loads((path / "suspicions.json").read_text())
    begun = [each for each in listed if each["suspected"]]
    assert {each["label"] for each in begun if each["silent"]} == {"000", "011", "101"}
    assert {each["neighbour"] for each in begun if not each["silent"]} == {"010"}
    assert verify(path).findings == []


def test_damaged_files_only_lose_their_panel(result: RunResult, tmp_path: Path) -> None:
    path = shutil.copytree(result.path, tmp_path / "run")
    (path / "served.json").write_text('[{"rank": 3}, {"label": "000", "seconds"')
    (path / "suspicions.json").write_text('[{"rank": 99, "seconds": 1, "port": 0}, {"rank": 0}]')
    data = read_run(path)
    assert delivery_times_panel(Report(data)) is None
