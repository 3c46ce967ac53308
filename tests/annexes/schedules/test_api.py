"""Schedule files from Python: judged, run in memory and in host processes, and stored."""

from pathlib import Path

import pytest

import coordinator as tb
from coordinator.annexes.schedules.base import FileVerdict
from coordinator.scenario.schedule_text import with_schedule
from tests.helpers.scenarios import Case
from tests.helpers.support import GOLDEN

RING = GOLDEN / "schedules" / "allreduce-ring-4.xml"


def test_a_file_is_judged_and_run() -> None:
    schedule = tb.schedule(RING)
    assert schedule.judge().verdict is FileVerdict.HOLDS
    assert schedule.network.edges == [("0", "1"), ("0", "3"), ("1", "2"), ("2", "3")]
    run = schedule.run()
    assert (run.verdict, run.data.summary["steps"]) == ("holds", 6)
    assert repr(schedule) == "<schedule allreduce-ring-4.xml: allreduce on file:allreduce-ring-4>"


def test_a_named_network_is_used() -> None:
    doubling = GOLDEN / "schedules" / "allreduce-doubling-8.xml"
    assert tb.schedule(doubling, "hypercube:3").run().verdict == "holds"
    with pytest.raises(tb.ScenarioError, match="no link joins them"):
        tb.schedule(RING, "hypercube:2")


def test_host_processes_have_the_same_history(tmp_path: Path) -> None:
    fault = "crash:2@3"
    memory = Case(with_schedule({"schedule": str(RING)}), fault).summary["journal_hash"]
    stored = tb.schedule(RING).run(faults=fault, driver="local", out=tmp_path / "run")
    assert stored.data.summary["journal_hash"] == memory
    # The folder repeats the run without the file.
    assert "allreduce-ring-4.xml" in (tmp_path / "run" / "scenario.toml").read_text()
    assert tb.verify(tmp_path / "run").verified


def test_messages_without_contents_run_in_host_processes() -> None:
    schedule = tb.schedule(GOLDEN / "schedules" / "goal-broadcast-4.goal")
    one, two = schedule.run(), schedule.run(driver="local")
    assert (one.verdict, one.unjudged) == ("holds", "contents not judged: the file does not carry them")
    assert one.data.summary["journal_hash"] == two.data.summary["journal_hash"]
    assert schedule.run(faults="crash:2@2").verdict == "holds"
