"""A resolved run: its timeline, its outages, and the faults that have an effect."""

from emunode.faults.effects import ALWAYS
from tests.helpers.scenarios import Case

RELIABLE = "hypercube:3 broadcast sbt reliable=true"


def test_a_crash_during_a_hang_leaves_one_outage() -> None:
    outages = Case(RELIABLE, fault=["hang:011@1", "crash:011@3"]).plan.judged.outages
    assert outages is not None
    assert outages.permanent
    assert outages.places == {3: [(1, ALWAYS)]}


def test_after_a_recovery_late_faults_count() -> None:
    faults = ["crash:2,3@1", "recover:2,3@3", "down:0,3>0,2@20"]
    plan = Case("torus:3x4 broadcast bfs-tree", fault=faults).plan
    assert plan.judged.effective_faults == plan.faults


def test_a_plan_has_one_timeline() -> None:
    judged = Case(RELIABLE, fault=["crash:011@2", "loss:000>001:0.5"]).plan.judged
    assert judged.harmful_timeline is judged.effective_timeline is judged.timeline
