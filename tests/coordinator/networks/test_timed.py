"""Runs under the timed clock: the history of lock-step on every driver, times that hold together, and what ends a run early.

No test depends on how late this machine is; `scripts/timed` measures that.
"""

import json
import signal
from pathlib import Path

import polars as pl
import psutil
import pytest

from coordinator.api.comparisons import compare
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.execution.verify import verify
from emunode.errors import RuleError
from emunode.model import PortModel
from tests.helpers.command_line import Call, fields, flags
from tests.helpers.scenarios import Case
from tests.helpers.signals import SignalSender
from tests.helpers.support import failures, run_scenario, same_tables

Values = dict[str, object]
NEVER_TOO_LATE: Values = {"clock": "timed", "lateness_limit": 1.0, "worst_lateness_limit": 1e9}
RING = "allgather hamiltonian-cycle port_model=one-port"
SCENARIOS = {
    "ring": fields(f"star:4 {RING} startup=10ms"),
    "reduce": fields("star:4 reduce greedy-tree segments=2 startup=50ms"),
    "exchange": fields(
        "hypercube:3 broadcast nesbt port_model=exchange segments=6 message_bytes=6000 packet_limit=1000 startup=20ms"
    ),
    "flood": fields("ej:2+3 broadcast flood startup=50ms"),
    "scatter": fields("hypercube:3 scatter sbt source=101 startup=50ms"),
}
LONG = fields(f"star:3 {RING} startup=500ms driver=local") | NEVER_TOO_LATE
"""Two and a half seconds."""
CUBE = (
    fields("hypercube:3 broadcast sbt segments=4 startup=500ms per_byte=0s driver=local ranks_per_host=1")
    | NEVER_TOO_LATE
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_clock_does_not_change_the_history(name: str, tmp_path: Path) -> None:
    steps, timed = (Case(SCENARIOS[name], clock=clock).stored(tmp_path / clock) for clock in ("steps", "timed"))
    assert not failures(timed)
    assert same_tables(steps, timed)
    assert timed.summary["journal_hash"] == steps.summary["journal_hash"]
    assert timed.summary["early_hops"] == 0
    assert timed.summary["intended_seconds"] <= steps.summary["virtual_seconds"] + 1e-6  # type: ignore[operator]


def test_in_memory_nothing_is_late(tmp_path: Path) -> None:
    timed = run_scenario(tmp_path / "timed", **SCENARIOS["exchange"], clock="timed")
    assert (timed.exit_status, failures(timed)) == (0, [])
    summary = timed.summary
    assert summary["lateness_ratio"] == summary["worst_lateness_seconds"] == 0
    assert summary["achieved_seconds"] == summary["intended_seconds"] == pytest.approx(summary["virtual_seconds"])
    timeline = pl.read_parquet(timed.path / "timeline.parquet")
    assert timeline.columns == ["step", "sender", "port", "receiver", "bytes", "start", "started", "end", "ended"]
    assert len(timeline) == summary["packets"]
    assert timeline["end"].max() == pytest.approx(summary["intended_seconds"])
    duration = 0.020 + 1000 * 1e-6
    assert (timeline["end"] - timeline["start"]).to_list() == pytest.approx([duration] * len(timeline))


def test_nodes_do_not_wait_for_steps_of_others(tmp_path: Path) -> None:
    """A scatter of blocks that halve: a node continues when its own block is there, and the whole takes no longer."""
    timed = run_scenario(tmp_path / "timed", **SCENARIOS["scatter"], clock="timed")
    timeline = pl.read_parquet(timed.path / "timeline.parquet")
    steps = pl.read_parquet(timed.path / "steps.parquet").with_columns(over=pl.col("virtual_seconds").cum_sum())
    held = timeline.join(steps.select("step", "over"), "step")
    assert (held["end"] <= held["over"] + 1e-9).all()


def test_a_machine_that_is_too_slow_is_reported(call: Call, tmp_path: Path) -> None:
    """Twenty-four packets per microsecond are too many for any machine."""
    ended = call("run --clock=timed --per-byte=0 --out run", *flags(**SCENARIOS["ring"] | {"startup": "1us"}))
    assert ended.status == 3
    assert "the machine was late by" in ended.out
    assert "packets per millisecond were due" in ended.out
    timeline = pl.read_parquet(tmp_path / "run" / "timeline.parquet")
    assert timeline["ended"].null_count() == 0


def test_the_step_limit_ends_a_timed_run(tmp_path: Path) -> None:
    values = SCENARIOS["ring"] | {"step_limit": 7}
    steps = run_scenario(tmp_path / "steps", **values)
    timed = run_scenario(tmp_path / "timed", **values, **NEVER_TOO_LATE, driver="local")
    assert timed.exit_status == 3
    assert "the step limit of 7 was reached" in str(timed.summary["undecided_because"])
    assert timed.summary["journal_hash"] == steps.summary["journal_hash"]
    assert timed.summary["intended_seconds"] == pytest.approx(7 * (0.010 + 64e-6))
    assert verify(timed.path).findings == []


def test_an_invalid_algorithm_is_stopped_before_hosts_start(tmp_path: Path) -> None:
    plan = Case("ej:1+2 broadcast flood driver=local clock=timed").plan
    # The rules send over every port, and the nodes now allow one.
    plan.algorithm.spec = plan.spec._replace(port_model=PortModel.ONE_PORT)
    with pytest.raises(RuleError, match="which one-port does not allow"):
        run(plan, DirectorySink(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


def test_clocks_are_compared_by_modelled_time(tmp_path: Path) -> None:
    values = SCENARIOS["exchange"]
    run_scenario(tmp_path / "steps", **values)
    run_scenario(tmp_path / "timed", **values, clock="timed")
    comparison = compare(tmp_path / "steps", tmp_path / "timed").record
    assert comparison["same_history"]
    assert "clock" in comparison["differs"]
    one, other = comparison["metrics"]["model_seconds"]
    assert one == pytest.approx(other)


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "target", "because"),
    [(signal.SIGINT, "coordinator", "interrupted"), (signal.SIGKILL, "host", "disconnected")],
)
@pytest.mark.parametrize(
    "case",
    [
        Case(LONG),
        Case(LONG, "down:123~213@2"),
        # The planned crash is that of the node farthest from the one that is killed.
        Case(CUBE, "crash:111@900ms", "hang:110@700ms-5s"),
    ],
    ids=["alone", "a link", "processes"],
)
def test_a_timed_run_that_ends_early_keeps_what_was_measured(
    number: int, target: str, because: str, case: Case, tmp_path: Path
) -> None:
    sender_of_signal = SignalSender(number, target)
    result = run(case.plan, DirectorySink(tmp_path / "run", draw=not case.plan.faults), sender_of_signal)
    assert sender_of_signal.done
    assert result.exit_status == 3
    assert because in str(result.summary["undecided_because"])
    assert not psutil.Process().children()
    assert (tmp_path / "run" / "timeline.parquet").exists()
    found = verify(result.path)
    assert found.findings == []
    assert any("the reason of its early end" in note for note in found.unchecked)
    # The timetable of the whole run is still compared.
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["intended_seconds"] > summary["achieved_seconds"]
    summary["intended_seconds"] *= 2
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    assert any("intended_seconds" in finding for finding in verify(result.path).findings)
