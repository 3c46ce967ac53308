"""Detection by silence: what it costs other layers, settings that are refused, and deliveries, held against trees."""

import pytest

from coordinator.results.claims import Verdict
from tests.helpers.feature_support import CUBE, MANY, Values
from tests.helpers.scenarios import Case


def test_k_is_1_step_later_than_knowledge_of_the_neighbours() -> None:
    known = Case(MANY, fault=["crash:001@3"], fault_knowledge="neighbours").summary
    detected = Case(MANY, fault=["crash:001@4"], fault_knowledge="detect:1").summary
    assert known["lost"] == 0
    assert detected["lost"] == 1
    assert detected["withheld_packets"] == 12 - 4


def test_it_ends_when_faults_have_been_detected() -> None:
    summary = Case(CUBE, fault=["crash:111@3"], fault_knowledge="detect:9").summary
    assert (summary["steps"], summary["detections"], summary["slowest_detection_steps"]) == (3, 3, 9)
    late = Case(CUBE, fault=["crash:111@300"], fault_knowledge="detect:9").summary
    assert late["detections"] == late["wrong_ports"] == 0


def test_flooding_goes_around_what_it_suspects() -> None:
    faults = ["crash:001@1", "down:010~110@1"]
    blind = Case(MANY, algorithm="flood", fault=faults).summary
    detects = Case(MANY, algorithm="flood", fault=faults, fault_knowledge="detect:2").summary
    assert detects["intact_deliveries"] == blind["intact_deliveries"]
    assert detects["segments"] < blind["segments"]


@pytest.mark.parametrize("knowledge", ["detect:1", "detect:3:doubling"])
@pytest.mark.parametrize(
    "line",
    [
        "hypercube:3 broadcast sbt messages=12 fault=loss:000~001:0.4 fault=crash:110@3 fault=down:010>011@2-6",
        (
            "hypercube:3 broadcast sbt messages=12 reliable=true fault=loss:000~001:0.4 fault=crash:110@3 "
            "fault=down:010>011@2-6"
        ),
        "hypercube:3 broadcast flood messages=12 fault=loss:000~001:0.4 fault=crash:110@3 fault=down:010>011@2-6",
        "hypercube:3 broadcast sbt messages=12 fault=crash:001@2 fault=recover:001@6 fault=hang:010@3-7",
        "hypercube:3 broadcast sbt messages=12 fault=delay:000~001:2 fault=duplicate:000~010:0.5 fault=drop:000>100:2",
        "hypercube:3 broadcast nesbt messages=3 redundancy=3 fault=down:000~001@2-3 fault=down:000>010@4",
        "hypercube:3 broadcast nesbt messages=3 redundancy=3 fault=byzantine:001 fault=crash:111@2",
        "hypercube:3 allgather sbt messages=1 fault=loss:000~001:0.4 fault=crash:110@3 fault=down:010>011@2-6",
        "hypercube:3 reduce sbt messages=1 fault=loss:000~001:0.4 fault=crash:110@3 fault=down:010>011@2-6",
    ],
)
def test_no_run_is_judged_wrong(line: str, knowledge: str) -> None:
    result = Case(line, fault_knowledge=knowledge).run
    assert result.verdict is not Verdict.VIOLATED, [each.record() for each in result.judgements]
    assert result.summary["illegal_hops"] == 0


def test_reliable_links_deliver_what_false_suspicions_withhold() -> None:
    values = CUBE | {"messages": 20, "fault": ["loss:001>000:0.5"], "fault_knowledge": "detect:1", "seed": 4}
    unreliable = Case(values).summary
    assert unreliable["delivery_ratio"] < 1
    summary = Case(values, reliable=True).summary
    assert summary["delivery_ratio"] == 1
    assert summary["needlessly_withheld_packets"] > 0


IN_TIME: Values = {"clock": "timed", "startup": "1ms", "per_byte": "0s", "fault_knowledge": "detect:2"}
TREES = ("hypercube:3 broadcast sbt", "torus:3x3 broadcast bfs-tree", "star:3 broadcast greedy-tree")


def served(edges: set[tuple[int, int]], without: int) -> int:
    """The number of nodes that a tree reaches from node 0 if one node passes nothing on, that node not counted."""
    reached = {0}
    while more := {child for parent, child in edges if parent in reached} - reached - {without}:
        reached |= more
    return len(reached) - 1


def edges_of(line: str) -> set[tuple[int, int]]:
    """The hops of a run in lock-step without faults."""
    return set(Case(line).journal.select("sender", "receiver").iter_rows())


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("mode", ["continue", "agree"])
@pytest.mark.parametrize("line", TREES)
def test_a_crash_costs_no_more_than_the_subtree_of_the_node(line: str, mode: str) -> None:
    edges, later = edges_of(line), []
    topology = Case(line).plan.topology
    for _, rank in topology.adjacent(0):
        for time in ("500us", "3500us"):
            case = Case(line, f"crash:{topology.label(rank)}@{time}", **IN_TIME, keep_alive="40ms", on_failure=mode)
            (claimed,) = [each for each in case.conclusion.ruling.judgements if each.claim.name == "intact_deliveries"]
            # No packet takes less than a millisecond, so the first crash comes before any delivery.
            assert claimed.claim.relation == ("==" if time == "500us" else ">=")
            assert claimed.claim.predicted == served(edges, rank)
            assert (str(claimed.verdict), case.summary["verdict"]) == ("holds", "holds")
            later.append(case.summary["intact_deliveries"] > served(edges, rank))
    # The bound is no equation: some crashes come when the node has passed segments on already.
    assert any(later)


@pytest.mark.parametrize("line", ["hypercube:3 allgather bfb messages=20", "torus:3x3 allgather bfb messages=20"])
def test_a_link_that_fails_in_one_direction_is_soon_silent_in_both(line: str) -> None:
    label = Case(line).plan.topology.label
    case = Case(line, f"down:{label(0)}>{label(1)}@0ms", **IN_TIME, keep_alive="4ms")
    assert case.summary["verdict"] == "holds"
    # Node 1 suspects node 0 and withholds, so more is lost than crosses the link in the direction that fails.
    rows = case.journal.select("sender", "receiver", "outcome").rows()
    assert {row[:2] for row in rows if str(row[2]) == "withheld"} >= {(1, 0)}
    (bound,) = [each.claim for each in case.conclusion.ruling.judgements if each.claim.name == "intact_deliveries"]
    assert bound.relation == ">="
    ends = (f"down:{label(0)}~{label(1)}@1",)
    # In lock-step with both directions down, and without detectors, the run itself shows the bound.
    assert bound.predicted == Case(line, *ends).summary["intact_deliveries"]


def test_nothing_is_claimed_where_a_live_neighbour_may_be_suspected() -> None:
    """With K = 1 a sign of life that waits for a packet comes too late."""
    case = Case(TREES[0], "crash:001@1500us", **IN_TIME | {"fault_knowledge": "detect:1"}, keep_alive="12ms")
    assert case.summary["undecided_because"] == "no claim about delivery applies under these faults"
    assert "intact_deliveries" in {each["name"] for each in case.summary["dropped_claims"]}
