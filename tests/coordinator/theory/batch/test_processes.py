"""Failure processes: exact expectations of a broadcast under them, long-run availability, and events that stay."""

from math import sqrt

import pytest

from coordinator.campaigns.grid import Grid
from coordinator.scenario.fault_draws import FaultSites, draw
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from emunode.engine.memory import MemoryEngine
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


def test_campaign_over_a_process() -> None:
    base = {"topology": "star:4", "collective": "broadcast", "driver": "memory"}
    grid = Grid(
        base, {"algorithm": ["greedy-tree", "edt"]}, ["process:nodes=0.02;repair=0.2", "process:links=0@1-"], trials=20
    )
    grid.check()
    assert [point.name for point in grid.points] == ["process:nodes=0.02;repair=0.2", "process:links=0.0"]
    trials = [trial for key, trial in grid.rest({}) if key.point == 0 and key.variant == 0]
    assert len({trial.faults for trial in trials}) > 10
