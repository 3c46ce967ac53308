"""The repetition of a collective on what failures leave, measured as a run of its own."""

from typing import Any

import polars as pl
import pytest

from coordinator.results.claims import Verdict
from emunode.model import CONTROL_TREE
from emunode.protocols.base import ControlKind
from tests.helpers.feature_support import CUBE, SHRINK
from tests.helpers.scenarios import Case


def test_a_collective_runs_again_on_what_a_crash_leaves() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:001@2"]).run
    summary: dict[str, Any] = result.summary
    assert result.verdict is Verdict.HOLDS
    assert (summary["decisions"], summary["agreement_errors"], summary["revised_decisions"]) == (1, 0, 0)
    # D_2 of Q_3 is 4: suspected in step 3, decided in step 7.
    assert summary["slowest_agreement_steps"] == 4
    assert (summary["repetitions"], summary["repetition_order"]) == (1, 7)
    # Along shortest paths around 001 to six nodes.
    assert (summary["repetition_steps"], summary["repetition_packets"]) == (3, 6)
    assert summary["final_delivery_ratio"] == 1
    assert summary["agreement"] == [
        {
            "nodes": 7,
            "step": 7,
            "suspected_since": [3],
            "links": ["000~001", "001~011", "001~101"],
            "lost_nodes": ["001"],
            "ends": {"repeated": {"nodes": 7}},
        }
    ]
    rows = result.journal.collect()
    news = rows.filter(pl.col("tree") == CONTROL_TREE + ControlKind.SUSPICION, pl.col("outcome") != "report")
    assert summary["agreement_packets"] == news.select("step", "sender", "port").n_unique()
    # Its three neighbours tell 001 that it is given up, in case that it lives.
    assert summary["lost_agreement_packets"] == 3


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("scatter", "balanced-tree"),
        ("gather", "edt"),
        ("reduce", "greedy-tree"),
        ("allgather", "mbst"),
        ("reduce-scatter", "bfb"),
        ("allreduce", "bfs-tree"),
        ("alltoall", "edt"),
        ("unicast", "minimal"),
    ],
)
def test_every_collective_runs_again(collective: str, algorithm: str) -> None:
    values = {"topology": "star:4", "collective": collective, "algorithm": algorithm, "driver": "memory"} | SHRINK
    result = Case(values, fault=["crash:2134@2", "down:1234~3214@3"], message_bytes=96).run
    assert result.verdict is Verdict.HOLDS, [each.record() for each in result.judgements]
    assert result.summary["final_delivery_ratio"] == 1
    assert result.summary["repetition_order"] == 23


def test_the_largest_part_of_a_network_that_is_cut_goes_on() -> None:
    result = Case(CUBE | SHRINK, fault=["crash:110@2", "crash:101@2", "crash:011@2"]).run
    summary: dict[str, Any] = result.summary
    assert result.verdict is Verdict.HOLDS
    assert [(each["nodes"], each["ends"]) for each in summary["agreement"]] == [
        (4, {"repeated": {"nodes": 4}}),
        (1, {"excluded": {"nodes": 1, "labels": ["111"]}}),
    ]
    (claim,) = (claim for claim in summary["claims"] if claim["name"] == "agreement_errors")
    assert claim["source"] == (
        "agreement by flooding: the same set in every component: these faults may have cut the network"
    )


def test_decisions_that_are_too_early_are_revised() -> None:
    """With a bound of one step nodes decide before all news are there, learn it, and decide again."""
    summary = Case(CUBE | SHRINK, fault=["crash:001@2"], agreement_steps=1).summary
    assert summary["revised_decisions"] > 0
    assert summary["agreement_errors"] == 0
    assert summary["final_delivery_ratio"] == 1
    # So the bound that was given is wrong.
    assert summary["verdict"] == "violated"
