"""Which processes a fault of ranks strikes, without any process: the runs of test_drivers.py and test_local.py have them."""

import pytest

from coordinator.networks.process_faults import ProcessFaultPlan
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import make_scenario

STAR = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "local"}
ALL = range(6)


def fates_of(faults: list[str], ranks_per_host: int = 1) -> tuple[ProcessFaultPlan, Plan]:
    """The decisions about a run on S_3, and its plan."""
    plan = make_plan(make_scenario(STAR | {"fault": faults, "ranks_per_host": ranks_per_host}))
    return ProcessFaultPlan(plan), plan


def label(rank: int) -> str:
    """A node of S_3."""
    return fates_of([])[1].topology.label(rank)


def test_a_process_is_killed_when_all_its_ranks_crash_at_once() -> None:
    one, other = label(2), label(3)
    for faults, killed in (
        ([f"crash:{one}@2", f"crash:{other}@2"], [1]),
        ([f"crash:{one}@2"], []),
        ([f"crash:{one}@2", f"crash:{other}@3"], []),
        ([f"crash:{one}@2", f"crash:{other}@2", f"recover:{one}@4", f"recover:{other}@4"], [1]),
        ([f"crash:{one}@2", f"crash:{other}@2", f"recover:{one}@4"], []),
        ([f"crash:{one}@2", f"crash:{other}@2", f"recover:{one}@4", f"recover:{other}@5"], []),
    ):
        fates, plan = fates_of(faults, ranks_per_host=2)
        assert fates.killed(plan.faults_at(2), range(3)) == killed, faults
        assert fates.killed(plan.faults_at(2), [0, 2]) == []


def test_what_counts_packets_cannot_begin_anew() -> None:
    one = label(2)
    there = fates_of([])[1].topology.neighbour(2, 0)
    drop = f"drop:{one}>{label(there)}:2@1"
    fates, plan = fates_of([f"crash:{one}@2", f"recover:{one}@4", drop])
    assert fates.killed(plan.faults_at(2), ALL) == []
    fates, plan = fates_of([f"crash:{one}@2", drop])
    assert fates.killed(plan.faults_at(2), ALL) == [2]


@pytest.mark.parametrize(("second", "stopped"), [("@2-4", {1: 4}), ("@2-5", {})])
def test_a_process_is_stopped_when_all_its_ranks_hang_alike(second: str, stopped: dict[int, int]) -> None:
    fates, plan = fates_of([f"hang:{label(2)}@2-4", f"hang:{label(3)}{second}"], ranks_per_host=2)
    assert fates.stopped(2, plan.faults_at(2), range(3)) == stopped


def test_who_recovers_is_revived() -> None:
    fates, plan = fates_of([f"crash:{label(5)}@2", f"recover:{label(5)}@3"])
    assert fates.revived(plan.faults_at(2)) == set()
    assert fates.revived(plan.faults_at(3)) == {5}
