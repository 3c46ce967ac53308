"""Decisions on failures in journals: who decided, on which nodes, and how each node ended."""

from coordinator.results.claims import Verdict
from tests.helpers.feature_support import AGREE, CUBE, SHRINK
from tests.helpers.scenarios import Case


def test_without_its_source_every_survivor_ends_with_an_error() -> None:
    summary = Case(CUBE | SHRINK, fault=["crash:000@2"]).summary
    assert summary["verdict"] == "undecided"
    assert summary["undecided_because"] == (
        "the source 000 is crashed: 7 nodes agreed on that, and ended with the error root-failed"
    )
    (decision,) = summary["agreement"]
    assert decision["ends"] == {
        "root-failed": {"nodes": 7, "labels": ["001", "010", "011", "100", "101", "110", "111"]}
    }
    # The agreement itself is judged all the same.
    judged = {claim["name"]: claim["verdict"] for claim in summary["claims"]}
    assert judged["agreement_errors"] == judged["slowest_agreement_steps"] == "holds"


def test_a_source_failing_after_the_end_has_nothing_to_repeat() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:000@4"]).run
    assert result.summary["undecided_because"] == "7 nodes ended with the error root-failed"
    assert "final_delivery_ratio" not in {each.claim.name for each in result.judgements}
    assert {each.verdict for each in result.judgements} == {Verdict.HOLDS}


def test_a_live_node_that_is_given_up_learns_it_and_ends() -> None:
    summary = Case(CUBE | SHRINK, fault=["hang:001@2-4"]).summary
    (decision,) = summary["agreement"]
    assert decision["ends"]["excluded"] == {"nodes": 1, "labels": ["001"]}
    assert decision["ends"]["repeated"] == {"nodes": 7}
    assert (summary["agreement_errors"], summary["final_delivery_ratio"]) == (0, 1)


def test_a_node_that_hangs_during_the_agreement_learns_it() -> None:
    summary = Case(CUBE | AGREE, topology="hypercube:2", fault=["hang:01@1-3"]).summary
    assert [each["nodes"] for each in summary["agreement"]] == [4]
    assert summary["agreement_errors"] == 0


def test_a_node_that_is_not_heard_learns_that_it_is_excluded() -> None:
    faults = [f"down:001>{peer}@2" for peer in ("000", "011", "101")]
    summary = Case(CUBE | SHRINK, fault=faults).summary
    excluded = [each["ends"]["excluded"]["labels"] for each in summary["agreement"] if "excluded" in each["ends"]]
    assert excluded == [["001"]]
