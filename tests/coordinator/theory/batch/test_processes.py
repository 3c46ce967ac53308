"""Failure processes: exact expectations of a broadcast under them, long-run availability, and events that stay."""

from math import sqrt

import pytest

from coordinator.campaigns.grid import Grid
from coordinator.scenario.fault_draws import FaultSites, draw
from coordinator.scenario.fault_processes import Geometric, Window, outages
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.net.wire import ROW
from emunode.play import play
from tests.helpers.scenarios import Case


@pytest.mark.parametrize(
    ("topology", "algorithm", "levels", "trials"),
    [("hypercube:3", "sbt", (3, 3, 1), 2000), ("ej:1+2", "improved", (6,), 1000),
     ("star:4", "greedy-tree", (3, 6, 9, 5), 1000)],
)  # fmt: skip
def test_mean_number_of_receivers_without_repair(
    topology: str, algorithm: str, levels: tuple[int, ...], trials: int
) -> None:
    given, q = Case(f"{topology} broadcast {algorithm}").plan, 0.1
    sites, (process,) = FaultSites(given.algorithm), parse_fault_sets(f"process:nodes={q}")
    received = []
    for number in range(trials):
        faults = parse_faults(draw(process, sites, 7, number), given.topology)
        rows = b"".join(play(MemoryEngine(given.algorithm), faults))
        received.append(sum(row[-1] == 0 for row in ROW.iter_unpack(rows)))
    # A node at level l receives if every node on its path, itself included, is up when it sends or receives.
    mean = sum(count * (1 - q) ** (level * (level + 1) // 2 + level - 1) for level, count in enumerate(levels, 1))
    found = sum(received) / trials
    spread = sqrt(sum((each - found) ** 2 for each in received) / (trials - 1) / trials)
    assert abs(found - mean) < 4.5 * spread
    assert spread < mean / 50


def test_long_run_availability() -> None:
    elements, step = 20_000, 200
    up = 0
    for element in range(elements):
        events = list(outages(Geometric(0.01), Geometric(0.2), Window(1, step + 1), f"0/{element}"))
        up += not any(begin <= step and (end is None or step < end) for begin, end in events)
    # Both chances per step are far from 1, so that after 200 steps the start is forgotten: a chi-square of one degree.
    expected = elements * 20 / 21
    assert (up - expected) ** 2 / expected + (up - expected) ** 2 / (elements - expected) < 15


def test_events_do_not_depend_on_later_steps_or_other_elements() -> None:
    failure, repair = Geometric(0.2), Geometric(0.3)
    long = list(outages(failure, repair, Window(1, 61), "0/a"))
    for last in range(1, 60):
        known = [(begin, end if end and end <= last else None) for begin, end in long if begin <= last]
        assert list(outages(failure, repair, Window(1, last + 1), "0/a")) == known
    sites = FaultSites(Case("star:4 broadcast edt").plan.algorithm)
    alone, both = (draw(parse_fault_sets(f"process:{text};repair=0.3@2-9")[0], sites, 1, 0) for text in
                   ("nodes=0.1", "nodes=0.1;links=0.1"))  # fmt: skip
    assert both[: len(alone)] == alone
    assert list(outages(Geometric(1), Geometric(1), Window(3, 7), "0/a")) == [(3, 4), (5, 6)]
    assert list(outages(Geometric(0), Geometric(1), Window(1, 7), "0/a")) == []


def test_a_run_states_its_events_and_can_be_repeated() -> None:
    values = {"redundancy": 3, "seed": 5}
    given = Case("star:4 broadcast edt", fault=["process:nodes=0.1;links=0.05;repair=0.3@1-"], **values).plan
    again = Case("star:4 broadcast edt", fault=list(given.scenario.fault), **values).plan
    assert given.faults == again.faults
    kinds = {spec.partition(":")[0] for spec in given.scenario.fault}
    assert kinds == {"crash", "recover", "down"}


def test_campaign_over_a_process() -> None:
    base = {"topology": "star:4", "collective": "broadcast", "driver": "memory"}
    grid = Grid(
        base, {"algorithm": ["greedy-tree", "edt"]}, ["process:nodes=0.02;repair=0.2", "process:links=0@1-"], trials=20
    )
    grid.check()
    assert [point.name for point in grid.points] == ["process:nodes=0.02;repair=0.2", "process:links=0.0"]
    trials = [trial for key, trial in grid.rest({}) if key.point == 0 and key.variant == 0]
    assert len({trial.faults for trial in trials}) > 10


@pytest.mark.parametrize(
    ("text", "message"),
    [("process:nodes=2", "from 0 to 1"), ("process:byzantine=0.1", "a process has nodes or links"),
     ("process:nodes=0.1@1ms", "either steps or times"), ("process:repair=0.1", "write"),
     ("process:nodes=0.1;repair=x", "invalid"),
     ("process:substar=0.1", "blocks are drawn by"), ("nodes=1;repair=0.1", "'repair' is not among")],
)  # fmt: skip
def test_malformed_processes(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse_fault_sets(text)
