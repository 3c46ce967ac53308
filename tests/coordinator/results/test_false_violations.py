"""Correct runs are never `violated`: classes of scenarios where they once were."""

import pytest

from coordinator.history.journal import sorted_records, table
from coordinator.planning.plan import Plan
from coordinator.results.conclude import Conclusion, History, conclude
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective
from tests.helpers.scenarios import Case
from tests.helpers.support import played

BROADCASTS = [
    entry
    for collective in (Collective.BROADCAST, Collective.REDUCE)
    for entry in algorithms("hypercube", collective).values()
    if entry.family == "hypercube"
]


def history(plan: Plan) -> History:
    """Return the same run in memory."""
    rows, altered = played(plan)
    records = sorted_records([rows])
    return History(table(records).lazy(), len(records), None, altered)


def concluded(plan: Plan) -> Conclusion:
    """Return the conclusion of a run in memory."""
    return conclude(plan, history(plan), replay=True)


@pytest.mark.exhaustive(one_in=20)
@pytest.mark.parametrize("entry", BROADCASTS)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_least_time_holds_for_any_number_of_messages(entry: type[Algorithm], n: int) -> None:
    for model in entry.port_models:
        for messages, segments in ((1, 1), (2, 1), (4, 1), (5, 1), (3, 2), (2, 4)):
            case = Case(
                f"hypercube:{n} {entry.collective} {entry.name}",
                port_model=str(model),
                messages=messages,
                segments=segments,
            )
            try:
                plans = [case.but(startup=startup).plan for startup in ("1ms", "10us")]
            except ScenarioError:
                continue
            happened = history(plans[0])  # a start-up costs virtual time and changes no step
            for plan in plans:
                ruling = conclude(plan, happened, replay=plan is plans[1]).ruling
                assert ruling.verdict == "holds", [each for each in ruling.judgements if each.verdict != "holds"]


@pytest.mark.parametrize("redundancy", [2, 3])
@pytest.mark.parametrize("messages", [1, 2])
def test_traversal_with_acknowledgements_claims_no_tolerance(redundancy: int, messages: int) -> None:
    case = Case("star:4 allgather edt-dfs-ack", redundancy=redundancy, messages=messages)
    for fault in ("crash:3412@2", "crash:3214@1", "down:1234~2134@3"):
        ruling = concluded(case.but(fault).plan).ruling
        assert ruling.verdict == "undecided"
        assert ruling.undecided == "no claim about delivery applies under these faults"


@pytest.mark.parametrize("silent", ["hang:000@3-3", "hang:000@2-5", "crash:000@3", "hang:000@3"])
@pytest.mark.parametrize("delay", [1, 2, 4])
def test_packets_queued_for_a_silent_node_are_dropped(silent: str, delay: int) -> None:
    conclusion = concluded(Case("hypercube:3 broadcast sbt messages=6", f"delay:000>001:{delay}@1-1", silent).plan)
    assert conclusion.ruling.undecided is not None
    assert "source 000 is" in conclusion.ruling.undecided
    assert int(str(conclusion.metrics["steps"])) < 30


@pytest.mark.parametrize(
    "more",
    [
        # The fold of all that is connected, up a tree around what is broken; one result, not one for each rank.
        "fault=down:0,1~1,1@1 segments=2",
        "fault=crash:0,1@1",
        # One direction is broken: partial results need the one that the tree does not grow in.
        "fault=down:0,1>0,0@1",
        "fault=down:0,0>0,1@1",
    ],
)
def test_a_reduce_around_known_faults(more: str) -> None:
    case = Case(f"mesh:3x3 reduce bfs-tree message_bytes=64 fault_knowledge=all source=0,0 {more}")
    conclusion = concluded(case.plan)
    assert conclusion.ruling.verdict == "holds"
    assert conclusion.measurement.metrics["intact_deliveries"] == 1


@pytest.mark.parametrize("fault", [["crash:132@1", "recover:132@2"], ["down:123~213@1"], ["crash:132@1"]])
def test_an_allreduce_keeps_its_timetable_whatever_is_known(fault: list[str]) -> None:
    conclusion = concluded(Case("star:3 allreduce bfs-tree messages=2 fault_knowledge=all", *fault).plan)
    assert conclusion.ruling.verdict != "violated"


def test_a_lost_contribution_of_one_byte_may_be_zero() -> None:
    """With this seed one of them is, and the result is right without it."""
    line = "circulant:8:1,2,4 allreduce circulant messages=3 segments=2 message_bytes=24 seed=436"
    conclusion = concluded(Case(line, "down:7~1@1").plan)
    assert conclusion.ruling.verdict == "holds"
    assert conclusion.measurement.metrics["intact_deliveries"] == 72 + 7


@pytest.mark.parametrize(
    ("network", "faults", "delivered"),
    [
        # In flight until 4 ms, and lost.
        ("ring:5", ["slow:1>2:3@1ms-2ms", "crash:2@2ms"], 3),
        # Received at 4 ms, and never passed on.
        ("mesh:4", ["slow:0>1:4@0ms-1ms", "crash:1@4ms"], 0),
    ],
)
def test_a_late_fault_may_meet_a_slow_packet(network: str, faults: list[str], delivered: int) -> None:
    result = Case(f"{network} broadcast bfs-tree clock=timed startup=1ms per_byte=0", *faults).run
    assert result.verdict == "undecided"
    assert result.summary["intact_deliveries"] == delivered
    assert not result.summary["without_effect"]
