"""Host processes that are killed or stopped for faults of ranks. No process is started here."""

import pytest

from coordinator.networks.process_faults import ProcessFaultPlan
from coordinator.planning.plan import Plan
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case

ALL = range(6)


def decisions(faults: str, ranks_per_host: int = 1) -> tuple[ProcessFaultPlan, Plan]:
    """Return the decisions about a run on S_3, and its plan."""
    scenario = fields("star:3 broadcast flood driver=local", fault=faults.split(), ranks_per_host=ranks_per_host)
    plan = Case(scenario).plan
    return ProcessFaultPlan(plan), plan


def label(rank: int) -> str:
    """Return a node of S_3."""
    return decisions("")[1].topology.label(rank)


ONE, OTHER = label(2), label(3)
"""The ranks of host 1 if each host has two."""


@pytest.mark.parametrize(
    ("faults", "killed"),
    [
        (f"crash:{ONE}@2 crash:{OTHER}@2", [1]),
        (f"crash:{ONE}@2", []),
        (f"crash:{ONE}@2 crash:{OTHER}@3", []),
        (f"crash:{ONE}@2 crash:{OTHER}@2 recover:{ONE}@4 recover:{OTHER}@4", [1]),
        (f"crash:{ONE}@2 crash:{OTHER}@2 recover:{ONE}@4", []),
        (f"crash:{ONE}@2 crash:{OTHER}@2 recover:{ONE}@4 recover:{OTHER}@5", []),
    ],
)
def test_a_process_is_killed_when_all_its_ranks_crash_at_once(faults: str, killed: list[int]) -> None:
    process_faults, plan = decisions(faults, ranks_per_host=2)
    assert process_faults.killed(plan.faults_at(2), range(3)) == killed
    assert process_faults.killed(plan.faults_at(2), [0, 2]) == []


def test_a_process_that_counts_packets_is_not_restarted() -> None:
    drop = f"drop:{ONE}>{label(decisions('')[1].topology.neighbour(2, 0))}:2@1"
    process_faults, plan = decisions(f"crash:{ONE}@2 recover:{ONE}@4 {drop}")
    assert process_faults.killed(plan.faults_at(2), ALL) == []
    process_faults, plan = decisions(f"crash:{ONE}@2 {drop}")
    assert process_faults.killed(plan.faults_at(2), ALL) == [2]


@pytest.mark.parametrize(("second", "stopped"), [("@2-4", {1: 4}), ("@2-5", {})])
def test_a_process_is_stopped_when_all_its_ranks_hang_alike(second: str, stopped: dict[int, int]) -> None:
    process_faults, plan = decisions(f"hang:{ONE}@2-4 hang:{OTHER}{second}", ranks_per_host=2)
    assert process_faults.stopped(2, plan.faults_at(2), range(3)) == stopped


def test_a_process_is_restarted_when_its_rank_recovers() -> None:
    process_faults, plan = decisions(f"crash:{label(5)}@2 recover:{label(5)}@3")
    assert process_faults.revived(plan.faults_at(2)) == set()
    assert process_faults.revived(plan.faults_at(3)) == {5}
