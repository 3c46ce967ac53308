"""A resolved run: its timeline, its outages, and the faults that have an effect."""

from emunode.faults.effects import ALWAYS
from tests.helpers.scenarios import Case

RELIABLE = "hypercube:3 broadcast sbt reliable=true"


def test_a_crash_during_a_hang_leaves_one_outage() -> None:
    plan = Case(RELIABLE, fault=["hang:011@1", "crash:011@3"]).plan
    assert plan.judged.outages is not None
    assert plan.judged.outages.permanent
    assert plan.judged.outages.places == {3: [(1, ALWAYS)]}


def test_after_a_recovery_late_faults_count() -> None:
    faults = ["crash:2,3@1", "recover:2,3@3", "down:0,3>0,2@20"]
    plan = Case("torus:3x4 broadcast bfs-tree", fault=faults).plan
    assert plan.judged.effective_faults == plan.faults


def test_a_plan_has_one_timeline() -> None:
    plan = Case(RELIABLE, fault=["crash:011@2", "loss:000>001:0.5"]).plan
    assert plan.judged.timeline is plan.judged.timeline
    assert plan.judged.timeline.recoveries == []
