"""Detection by silence: what it costs other layers, and settings that are refused."""

import pytest

from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from tests.coordinator.features.support import CUBE, MANY, Values
from tests.scenarios import Case

NOISE = ["loss:000~001:0.4", "crash:110@3", "down:010>011@2-6"]


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
