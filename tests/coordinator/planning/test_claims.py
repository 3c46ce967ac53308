"""Claims follow from what faults do, however a scenario writes it."""

import pytest

from coordinator.planning.claims import run_claims
from coordinator.results.claims import DELIVERY
from coordinator.results.faults_in_steps import judged_plan
from coordinator.scenario.model import make_scenario
from emunode.algorithms.claims import Claim
from emunode.errors import ScenarioError
from tests.helpers.annex_support import needs_annex
from tests.helpers.command_line import fields


def claims_of(scenario: str, faults: str) -> list[Claim]:
    """Return the claims of a run in memory."""
    return run_claims(judged_plan(make_scenario(fields(f"{scenario} driver=memory", fault=faults.split())))).kept


RELIABLE = "hypercube:3 broadcast sbt reliable=true"
DETECT = "star:4 broadcast greedy-tree fault_knowledge=detect:2"


@pytest.mark.parametrize(
    ("scenario", "faults", "same"),
    [
        (RELIABLE, "down:011>010@1 up:011>010@4", "down:011>010@1-3"),
        (RELIABLE, "down:011>010@1 heal:011>010@4", "down:011>010@1-3"),
        (RELIABLE, "crash:011@2 loss:000>001:0", "crash:011@2"),
        (RELIABLE, "drop:011>010:1 duplicate:011>010:0", "drop:011>010:1"),
        (DETECT, "crash:4231@2 duplicate:1234>2134:0", "crash:4231@2"),
        (DETECT, "down:4231>2431@2 up:4231>2431@4", "down:4231>2431@2-3"),
        (f"{DETECT} on_failure=agree", "hang:4231@2-5 crash:4231@4", "hang:4231@2"),
        (f"{DETECT} on_failure=agree", "hang:4231@2-3 crash:4231@4", "hang:4231@2"),
    ],
)
def test_faults_with_the_same_effects_have_the_same_claims(scenario: str, faults: str, same: str) -> None:
    assert claims_of(scenario, faults) == claims_of(scenario, same) != []


@pytest.mark.parametrize(
    ("faults", "claimed"),
    [
        ("hang:4231@2-5 crash:4231@4", {"false_suspicions"}),
        ("crash:4231@2 recover:4231@5", {"false_suspicions"}),
        ("crash:4231@2 drop:1234>2134:1", {"false_suspicions", "slowest_detection_steps"}),
        ("crash:4231@2 byzantine:2134@1", {"false_suspicions", "slowest_detection_steps"}),
        ("crash:4231@2 loss:1234>2134:0.1", {"slowest_detection_steps"}),
        ("delay:1234>2134:1", {"false_suspicions"}),
        ("delay:1234>2134:2", set()),
        ("delay:1234>2134:1 down:4231>2431@2-3", set()),
    ],
)
def test_detectors_are_perfect_and_fast_as_far_as_signs_arrive(faults: str, claimed: set[str]) -> None:
    names = {claim.name for claim in claims_of(DETECT, faults)}
    assert names & {"false_suspicions", "slowest_detection_steps"} == claimed


def test_claims_about_planned_trees_follow_from_their_schedule() -> None:
    claims = claims_of("ej:2+3 broadcast improved repair=re-root fault_knowledge=all", "crash:1,0@4 hang:2,-2@1-3")
    assert ("intact_deliveries", "==", 17) in {(claim.name, claim.relation, claim.predicted) for claim in claims}


@pytest.mark.parametrize(
    "settings",
    [
        "",
        pytest.param("reliable=true", marks=needs_annex("reliable")),
        "fault_knowledge=detect:2",
        "clock=timed startup=1ms",
    ],
)
@pytest.mark.parametrize(
    "scenario",
    ["star:3 broadcast edt redundancy=2", "star:4 gather edt redundancy=3", "star:3 allgather edt-dfs redundancy=2"],
)
def test_deliveries_have_an_independent_claim_if_there_is_one(scenario: str, settings: str) -> None:
    """A promise by the number of faults is claimed beside what the schedule that runs is derived to deliver."""
    small = scenario.startswith("star:3")
    node, link = ("213", "123~321") if small else ("2134", "1234~4231")
    beside = 0
    for kind in (
        "crash:{0}@2",
        "hang:{0}@2-3",
        "silent:{0}",
        "byzantine:{0}@1",
        "byzantine:{0}@2",
        "down:{1}@2",
        "loss:{1}:0.5",
    ):
        values = fields(f"{scenario} {settings} driver=memory", fault=[kind.format(node, link)])
        try:
            plan = judged_plan(make_scenario(values))
        except ScenarioError:
            continue  # the clock, or the protocol, has no such fault
        about = [claim for claim in run_claims(plan).kept if claim.name in DELIVERY]
        promised = plan.algorithm.claims_with_faults(*plan.count_broken(), plan.judged.states)
        independent = [claim for claim in about if not claim.derived]
        assert independent or not promised or not about, kind
        beside += bool(independent and promised)
    assert beside > 2


@pytest.mark.parametrize("scenario", ["star:4 broadcast greedy-tree", "star:4 broadcast greedy-tree reliable=true"])
def test_deliveries_from_the_schedule_are_marked_as_derived(scenario: str) -> None:
    (claim,) = [each for each in claims_of(scenario, "crash:2134@1") if each.name == "intact_deliveries"]
    assert claim.derived
    flood = scenario.replace("greedy-tree", "flood")
    (claim,) = [each for each in claims_of(flood, "crash:2134@1") if each.name == "intact_deliveries"]
    assert not claim.derived, "a flood is followed over the links that work, without a schedule"
