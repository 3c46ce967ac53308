"""A run directory written by version 0.1.0, whose summary has old names of metrics, can still be read."""

import json
import shutil
from pathlib import Path

import pytest

from coordinator.history.run_directory import RENAMED, translate_summary
from tests.command_line import Call

STORED = Path(__file__).parents[2] / "golden" / "run-0.1.0"
"""A broadcast under the timed clock over sockets."""


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """A copy of the stored run."""
    return Path(shutil.copytree(STORED, tmp_path / "old"))


def test_its_summary_reads_with_old_and_new_names() -> None:
    summary = json.loads((STORED / "summary.json").read_text())
    assert set(RENAMED) <= set(summary)
    current = translate_summary(summary)
    names = {claim["name"] for claim in current["claims"]}
    assert set(RENAMED.values()) <= names
    assert set(RENAMED.values()) <= set(current)
    assert not set(RENAMED) & (names | set(current))


@pytest.mark.parametrize("claims", [None, 3, [3, None, {}, {"name": []}]])
def test_malformed_claims_are_left_as_they_are(claims: object) -> None:
    assert translate_summary({"claims": claims, "late_share": 0.5}) == {"claims": claims, "lateness_ratio": 0.5}


def test_it_verifies(call: Call, old_run: Path) -> None:
    ended = call("verify", old_run)
    assert ended.status == 0
    # Only metrics that version 0.1.0 did not have are missing.
    added = ("served_nodes", "redundancy_cost", "mean_latency", "max_latency", "informed_nodes_per_step")
    unchecked = [line for line in ended.out.splitlines() if "not checked" in line]
    assert len(unchecked) == len(added)
    assert all(any(f" {name} is missing" in line for line in unchecked) for name in added)


def test_its_report_has_the_new_names(call: Call, old_run: Path) -> None:
    assert call("report", old_run).status == 0
    report = (old_run / "report.html").read_text()
    assert "replay mismatches" in report
    assert "strange hops" not in report
    assert "late share" not in report


def test_it_is_compared_under_the_new_names(call: Call, old_run: Path) -> None:
    ended = call("compare --json", old_run, STORED)
    assert ended.status == 0
    assert "lateness_ratio" in ended.out
    assert "late_share" not in ended.out


def test_its_schedule_is_exported(call: Call, old_run: Path, tmp_path: Path) -> None:
    assert call("export --goal schedule.goal", old_run).status == 0
    assert (tmp_path / "schedule.goal").stat().st_size
