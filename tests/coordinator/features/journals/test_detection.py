"""Detection by silence, measured: latencies, errors and their cost, and changed journals."""

import numpy as np
import polars as pl
import pytest

from coordinator.results.claims import Verdict
from emunode.model import HopOutcome
from tests.helpers.feature_support import CUBE, MANY
from tests.helpers.mutation_support import history_of, verdict_on, with_values
from tests.helpers.scenarios import Case


@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_crash_is_detected_after_k_steps_and_stops_packets(after: int) -> None:
    result = Case(MANY, fault=["crash:001@3"], fault_knowledge=f"detect:{after}").run
    summary = result.summary
    assert (summary["detections"], summary["slowest_detection_steps"], summary["wrong_ports"]) == (3, after, 0)
    # The source sends a packet in each of 12 steps: 2 arrive, `after` are lost, the others are withheld.
    assert summary["lost"] == after
    assert summary["withheld_packets"] == 12 - 2 - after
    assert summary["needlessly_withheld_packets"] == summary["false_suspicions"] == 0
    assert result.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    "before", ["hang:001@2-4", "hang:001@2-8", "down:000~001@2-4 down:011~001@2-4 down:101~001@2-4"]
)
def test_a_silence_begins_with_its_first_cause(before: str) -> None:
    """A node hangs or has no links in steps 2 to 4, and is then gone: it has been silent since step 2."""
    summary = Case(CUBE, fault=[*before.split(), "crash:001@5"], fault_knowledge="detect:5").summary
    assert (summary["detections"], summary["mean_detection_steps"]) == (3, 5)


def test_a_link_down_one_way_costs_the_packets_of_the_other() -> None:
    """000 hears nothing from 001, and withholds what 001 would have received."""
    summary = Case(MANY, fault=["down:001>000@1"], fault_knowledge="detect:2").summary
    assert (summary["detections"], summary["false_suspicions"]) == (1, 0)
    assert summary["withheld_packets"] == 10
    assert summary["intact_deliveries"] == 7 * 12 - 4 * 10


def test_doubling_ends_false_suspicions_under_loss() -> None:
    # Losses from 001 to 000 only: no packet of the tree crosses there, so every loss of data is a withheld packet.
    values = CUBE | {"messages": 300, "fault": ["loss:001>000:0.5"], "seed": 2}
    plain = Case(values, fault_knowledge="detect:1").summary
    doubling = Case(values, fault_knowledge="detect:1:doubling").summary
    assert plain["lost"] == doubling["lost"] == 0
    assert plain["needlessly_withheld_packets"] == plain["withheld_packets"] > 60
    assert plain["intact_deliveries"] == 300 * 7 - 4 * plain["withheld_packets"]
    assert doubling["withheld_packets"] < plain["withheld_packets"] / 3
    assert doubling["false_suspicions"] < 8 < plain["false_suspicions"]


def test_changed_histories_do_not_hold() -> None:
    plan = Case(MANY, fault=["crash:001@3", "crash:110@1"], fault_knowledge="detect:2").plan
    records = history_of(plan)
    assert verdict_on(plan, records) is Verdict.HOLDS
    withheld = np.flatnonzero(records["outcome"] == HopOutcome.WITHHELD)
    lost = np.flatnonzero(records["outcome"] == HopOutcome.LOST)
    arrived = np.flatnonzero(records["outcome"] == HopOutcome.FIRST)
    for at, outcome in (
        *((int(withheld[0]), outcome) for outcome in (HopOutcome.FIRST, HopOutcome.LOST)),
        (int(lost[0]), HopOutcome.WITHHELD),
        (int(arrived[0]), HopOutcome.WITHHELD),
    ):
        assert verdict_on(plan, with_values(records, at, outcome=outcome)) is Verdict.VIOLATED, (at, outcome)


def test_withheld_packets_are_not_traffic() -> None:
    result = Case(MANY, fault=["crash:001@1"], fault_knowledge="detect:1").run
    rows = result.journal.collect()
    withheld = rows.filter(pl.col("outcome") == "withheld")
    assert len(withheld) == result.summary["withheld_packets"] == 11
    assert result.summary["segments"] == len(rows) - len(withheld)
