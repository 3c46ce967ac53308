"""Runs whose nodes detect faults by silence: latencies, errors and their cost, and the judge."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from coordinator.history.journal import sorted_records
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.model import HopOutcome
from tests.command_line import fields
from tests.mutation_support import verdict_on
from tests.scenarios import Case
from tests.support import played

Values = dict[str, Any]
CUBE: Values = fields("hypercube:3 broadcast sbt")
MANY: Values = CUBE | {"messages": 12}
NOISE = ["loss:000~001:0.4", "crash:110@3", "down:010>011@2-6"]


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


def test_flooding_goes_around_what_it_suspects() -> None:
    faults = ["crash:001@1", "down:010~110@1"]
    blind = Case(MANY, algorithm="flood", fault=faults).summary
    detects = Case(MANY, algorithm="flood", fault=faults, fault_knowledge="detect:2").summary
    assert detects["intact_deliveries"] == blind["intact_deliveries"]
    assert detects["segments"] < blind["segments"]


@pytest.mark.parametrize("knowledge", ["detect:1", "detect:3:doubling"])
@pytest.mark.parametrize(
    "more",
    [
        {"fault": NOISE},
        {"fault": NOISE, "reliable": True},
        {"fault": NOISE, "algorithm": "flood", "collective": "broadcast"},
        {"fault": ["crash:001@2", "recover:001@6", "hang:010@3-7"]},
        {"fault": ["delay:000~001:2", "duplicate:000~010:0.5", "drop:000>100:2"]},
        {"fault": ["down:000~001@2-3", "down:000>010@4"], "algorithm": "nesbt", "redundancy": 3, "messages": 3},
        {"fault": ["byzantine:001", "crash:111@2"], "algorithm": "nesbt", "redundancy": 3, "messages": 3},
        {"fault": NOISE, "collective": "allgather", "messages": 1},
        {"fault": NOISE, "collective": "reduce", "messages": 1},
    ],
)
def test_no_run_is_judged_wrong(more: Values, knowledge: str) -> None:
    result = Case(MANY, **more, fault_knowledge=knowledge).run
    assert result.verdict is not Verdict.VIOLATED, [each.record() for each in result.judgements]
    assert result.summary["illegal_hops"] == 0


def test_reliable_links_deliver_what_false_suspicions_withhold() -> None:
    values = CUBE | {"messages": 20, "fault": ["loss:001>000:0.5"], "fault_knowledge": "detect:1", "seed": 4}
    unreliable = Case(values).summary
    assert unreliable["delivery_ratio"] < 1
    summary = Case(values, reliable=True).summary
    assert summary["delivery_ratio"] == 1
    assert summary["needlessly_withheld_packets"] > 0


def test_changed_histories_do_not_hold() -> None:
    plan = Case(MANY, fault=["crash:001@3", "crash:110@1"], fault_knowledge="detect:2").plan
    records = sorted_records([played(plan)[0]])
    assert verdict_on(plan, records) is Verdict.HOLDS
    withheld = np.flatnonzero(records["outcome"] == HopOutcome.WITHHELD)
    lost = np.flatnonzero(records["outcome"] == HopOutcome.LOST)
    arrived = np.flatnonzero(records["outcome"] == HopOutcome.FIRST)
    for at, outcome in (
        *((int(withheld[0]), outcome) for outcome in (HopOutcome.FIRST, HopOutcome.LOST)),
        (int(lost[0]), HopOutcome.WITHHELD),
        (int(arrived[0]), HopOutcome.WITHHELD),
    ):
        changed = records.copy()
        changed["outcome"][at] = outcome
        assert verdict_on(plan, changed) is Verdict.VIOLATED, (at, outcome)


def test_withheld_packets_are_not_traffic() -> None:
    result = Case(MANY, fault=["crash:001@1"], fault_knowledge="detect:1").run
    rows = result.journal.collect()
    withheld = rows.filter(pl.col("outcome") == "withheld")
    assert len(withheld) == result.summary["withheld_packets"] == 11
    assert result.summary["segments"] == len(rows) - len(withheld)


@pytest.mark.parametrize("value", ["detect", "detect:0", "detect:-1", "detect:2:tripling", "detect:1e3", "oracle"])
def test_knowledge_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError, match="detect:K") as error:
        make_scenario({**CUBE, "fault_knowledge": value})
    assert error.value.field == "fault_knowledge"


TIMED: Values = {"clock": "timed", "fault_knowledge": "detect:2", "keep_alive": "5ms"}


@pytest.mark.parametrize(
    ("more", "field", "reason"),
    [
        ({**TIMED, "keep_alive": None}, "fault_knowledge", "give --keep-alive TIME"),
        ({**TIMED, "keep_alive": "1ms"}, "keep_alive", "a sign of life takes 1.008ms"),
        (
            {**TIMED, "port_model": "one-port", "keep_alive": "3ms"},
            "keep_alive",
            "the signs of life of a node take 3.024ms",
        ),
        ({**TIMED, "keep_alive": "0s"}, "keep_alive", "greater than 0"),
        ({**TIMED, "keep_alive": "5"}, "keep_alive", "a time from 0"),
        ({**TIMED, "clock": "steps"}, "keep_alive", "only --fault-knowledge detect:K under --clock timed"),
        ({**TIMED, "fault_knowledge": "neighbours"}, "keep_alive", "only --fault-knowledge detect:K"),
        ({**TIMED, "port_model": "exchange"}, "port_model", "needs all-port or one-port"),
        ({**TIMED, "collective": "reduce"}, "fault_knowledge", "signs of life make packets late"),
    ],
)
def test_signs_of_life_that_do_not_fit_the_clock_are_refused(more: Values, field: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as error:
        _ = Case(CUBE, **more).plan
    assert error.value.field == field
