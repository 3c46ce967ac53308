"""Failure processes in time: their laws, exact expectations of a broadcast, events as ordinary faults, what is refused."""

from itertools import pairwise
from math import exp, gamma, prod, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.history.prediction import completed, history_of, prediction, timed_faults
from coordinator.history.timetable import FaultFreeSteps, PredictionInputs
from coordinator.planning.plan import Plan
from coordinator.scenario import fault_draws, fault_processes
from coordinator.scenario.fault_draws import FaultSites, draw
from coordinator.scenario.fault_processes import Geometric, Lifetime, Window, expected_availability, outages
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import MOST_TIME, parse_faults, read_time, write_time
from coordinator.scenario.model import costs_of
from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case
from tests.helpers.support import examples

MS = 10**6


def timed_plan(*fault: str, **values: object) -> Plan:
    base = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "sbt", "driver": "memory",
            "clock": "timed", "startup": "1ms", "per_byte": 0, "fault": fault}  # fmt: skip
    return Case({**base, **values}).plan


def survival(time: float, mean: float, shape: float) -> float:
    """Return the probability that a Weibull lifetime with this mean is longer than `time`."""
    return exp(-((time * gamma(1 + 1 / shape) / mean) ** shape))


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 4.0])
def test_waiting_times_follow_their_law(shape: float) -> None:
    mean, number = 20 * MS, 4000
    times = sorted(Lifetime(mean, shape).wait(f"7/{each}") for each in range(number))
    below = [1 - survival(time, mean, shape) for time in times]
    distance = max(max(at / number - share, share - (at - 1) / number) for at, share in enumerate(below, 1))
    assert distance * sqrt(number) < 1.95  # Kolmogorov and Smirnov: exceeded once in a thousand tests
    assert distance > 0


def test_availability_of_one_element_over_a_long_time() -> None:
    window = Window(0, 10**6 * MS, timed=True)
    for shape in (1.0, 2.0):
        events = list(outages(Lifetime(100 * MS, shape), Lifetime(25 * MS), window, "3/x"))
        down = sum(map(window.downtime, events)) / window.length
        # By the central limit theorem for renewal cycles; about 8,000 of them.
        assert abs(down - 0.2) < 4.5 * 0.2 * 0.8 * sqrt(2 / len(events))
        for (_, repaired), (begin, _) in pairwise(events):
            assert repaired is not None
            assert repaired < begin


@pytest.mark.parametrize(("failure", "repair"), [
    (Lifetime(30 * MS), Lifetime(10 * MS)), (Lifetime(80 * MS), Geometric(0.0)),
    (Geometric(0.05), Geometric(0.2)), (Geometric(0.3), Geometric(0.9)), (Geometric(0.05), Geometric(0.0)),
])  # fmt: skip
def test_expected_availability_of_a_short_window(failure: Lifetime | Geometric, repair: Lifetime | Geometric) -> None:
    window = Window(0, 40 * MS, timed=True) if isinstance(failure, Lifetime) else Window(1, 26)
    number = 4000
    shares = [
        1 - sum(map(window.downtime, outages(failure, repair, window, f"0/{each}"))) / window.length
        for each in range(number)
    ]
    mean = sum(shares) / number
    spread = sqrt(sum((share - mean) ** 2 for share in shares) / number / (number - 1))
    expected = expected_availability(failure, repair, window)
    assert expected is not None
    assert abs(mean - expected) < 4.5 * spread


def test_expected_availability_in_steps_is_that_of_the_chain() -> None:
    for a, b, steps in ((0.1, 0.3, 7), (1.0, 1.0, 5), (0.4, 0.0, 6), (0.0, 0.2, 4)):
        up, total = 1.0, 0.0
        for _ in range(steps):
            up = up * (1 - a) + (1 - up) * b
            total += up
        expected = expected_availability(Geometric(a), Geometric(b), Window(3, 3 + steps))
        assert expected == pytest.approx(total / steps, abs=1e-12)
    assert expected_availability(Lifetime(5 * MS, 2.0), Lifetime(MS), Window(0, MS, timed=True)) is None


@pytest.mark.parametrize("shape", [1.0, 2.5])
def test_mean_number_of_receivers_without_repair(shape: float) -> None:
    """In Q_3 a node of level j takes its packet until time j c, and sends until (j + 1) c if others are behind it."""
    mean, trials = 12 * MS, 400
    plan = timed_plan()
    sites = FaultSites(plan.algorithm, run_time=lambda: 3 * MS)
    (process,) = parse_fault_sets(f"process:nodes=mttf:12ms:weibull:{shape}")
    costs, received = costs_of(plan.scenario), []
    fault_free = completed(prediction(plan.algorithm, (), costs, 100))
    steps = FaultFreeSteps(fault_free.packets, costs)
    for number in range(trials):
        faults = parse_faults(draw(process, sites, 11, number), plan.topology, timed=True)
        inputs = PredictionInputs(timed_faults(faults, steps), fault_free, costs, steps, 100)
        received.append(len(completed(history_of(inputs, plan.algorithm)).arriving))
    expected = sum(
        nodes * survival(level * MS, mean, shape) * prod(survival((j + 1) * MS, mean, shape) for j in range(1, level))
        for level, nodes in enumerate((3, 3, 1), 1)
    )
    if shape == 1:  # the exponents 1, 4, 8 of the process by steps
        q = exp(-1 / 12)
        assert expected == pytest.approx(3 * q + 3 * q**4 + q**8)
    found = sum(received) / trials
    spread = sqrt(sum((each - found) ** 2 for each in received) / (trials - 1) / trials)
    assert abs(found - expected) < 4.5 * spread < 0.6


@pytest.mark.parametrize(
    ("failure", "repair", "unit", "texts"),
    [
        (Lifetime(3 * MS, 1.5), Lifetime(MS), MS,
         ("nodes=mttf:4ms;repair=mttr:1ms", "nodes=mttf:4ms;links=mttf:9ms;repair=mttr:1ms")),
        (Geometric(0.2), Geometric(0.3), 1, ("nodes=0.1;repair=0.3@2-9", "nodes=0.1;links=0.1;repair=0.3@2-9")),
    ],
    ids=["times", "steps"],
)  # fmt: skip
def test_events_do_not_depend_on_the_end_or_other_elements(
    failure: Lifetime | Geometric, repair: Lifetime | Geometric, unit: int, texts: tuple[str, str]
) -> None:
    long = list(outages(failure, repair, Window(unit, 60 * unit, timed=unit > 1), "0/a"))
    for end in range(2 * unit, 60 * unit, 3 * unit):
        known = [(begin, back if back and back < end else None) for begin, back in long if begin < end]
        assert list(outages(failure, repair, Window(unit, end, timed=unit > 1), "0/a")) == known
    sites = FaultSites(timed_plan().algorithm, run_time=lambda: 9 * MS)
    alone, both = (draw(parse_fault_sets(f"process:{text}")[0], sites, 1, 0) for text in texts)
    assert alone
    assert both[: len(alone)] == alone


def test_certain_and_impossible_events() -> None:
    assert list(outages(Geometric(1), Geometric(1), Window(3, 7), "0/a")) == [(3, 4), (5, 6)]
    assert list(outages(Geometric(0), Geometric(1), Window(1, 7), "0/a")) == []


@pytest.mark.parametrize("driver", ["memory", "local"])
def test_a_run_has_its_events_as_ordinary_faults(driver: str) -> None:
    process = "process:nodes=mttf:8ms:weibull:1.5;links=mtbf:13ms;repair=mttr:1ms"
    values: dict[str, object] = {"messages": 4, "seed": 5}
    first = timed_plan(process, **values)
    again = timed_plan(*first.scenario.fault, driver=driver, **values)
    assert first.faults == again.faults
    kinds = {spec.partition(":")[0] for spec in first.scenario.fault}
    assert kinds == {"crash", "recover", "down"}
    assert not any(":000@" in spec for spec in first.scenario.fault)  # the source
    hashes = {run(plan, MemorySink()).summary["journal_hash"] for plan in (first, again)}
    assert len(hashes) == 1


def test_the_source_may_fail_too() -> None:
    specs = timed_plan("process:nodes=mttf:1ms;sources;repair=mttr:1ms@0s-20ms").scenario.fault
    assert any(spec.startswith("crash:000@") for spec in specs)


@given(st.integers(0, MOST_TIME))
@settings(max_examples=examples(200))
def test_times_are_read_as_they_are_written(time: int) -> None:
    assert read_time(write_time(time)) == time


def test_refused_in_lock_step_and_with_too_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault_processes.MOST_EVENTS == 100_000
    monkeypatch.setattr(fault_draws, "MOST_EVENTS", 1000)
    with pytest.raises(ScenarioError, match="use --clock timed, or steps"):
        timed_plan("process:nodes=mttf:2s", clock="steps")
    with pytest.raises(ScenarioError, match=r"more than 1,000 outages"):
        timed_plan("process:nodes=mttf:1us;repair=mttr:1us@0s-1s")
