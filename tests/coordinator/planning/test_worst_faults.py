"""The most harmful set of a size: against the batch engine over all sets, and against a run with messages."""

import re

import numpy as np
import pytest

from coordinator.campaigns.grid import Grid
from coordinator.planning import worst_faults
from coordinator.planning.plan import Plan
from coordinator.scenario.fault_draws import FaultSites, set_count
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.theory.batch.draws import Draws
from coordinator.theory.batch.engine import batch_engine_of
from coordinator.theory.batch.point import PointEngine
from emunode.errors import ScenarioError
from tests.helpers.annex_support import needs_annex
from tests.helpers.batch_support import run
from tests.helpers.scenarios import Case

CASES = [
    ("star:4 broadcast greedy-tree", "nodes=2"),
    ("star:4 broadcast edt redundancy=2", "nodes=2"),
    ("star:4 broadcast edt redundancy=3", "links=3"),
    ("star:4 broadcast edt redundancy=2", "nodes=1;links=1@3"),
    ("star:4 broadcast edt messages=3", "links=2@2-4"),
    ("star:4 broadcast greedy-tree", "substar=1@2"),
    ("hypercube:3 broadcast nesbt redundancy=3", "nodes=3"),
    ("hypercube:3 scatter sbt", "hang=2@2-3"),
    ("star:3 gather balanced-tree messages=2", "nodes=2"),
    ("star:3 allgather rotated-trees", "nodes=2"),
    ("ej:2+3 broadcast independent-trees redundancy=2", "nodes=2"),
]


def harms(given: Plan, text: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the healthy nodes that miss a message under each set of a size, by the batch engine."""
    (fault_set,) = parse_fault_sets(f"all:{text}")
    sites = FaultSites(given.algorithm, given.scenario.fault)
    draws = Draws(fault_set, sites, 0)
    engine = PointEngine(batch_engine_of(given), given, draws, sites, lambda _number: 0)
    return engine.evaluate(np.arange(set_count(fault_set, sites) or 0))[0].unserved


@pytest.mark.parametrize(("line", "text"), CASES)
def test_the_worst_of_all_sets(line: str, text: str) -> None:
    free, worst = Case(line).plan, Case(line, f"worst:{text}").plan
    every = harms(free, text)
    assert worst.searches[0].startswith(f"worst:{text}: exact: the most harmful of {len(every):,} sets; ")
    assert _harm(worst) == every.max()
    assert len(run(free, worst.faults, 0)[0].unserved) == every.max()


@pytest.mark.parametrize(("line", "text"), CASES)
def test_the_heuristic_states_what_its_set_costs(line: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_faults, "MOST_SETS", 0)
    free, worst = Case(line).plan, Case(line, f"worst:{text}").plan
    every, harm = harms(free, text), _harm(worst)
    assert len(run(free, worst.faults, 0)[0].unserved) == harm <= every.max()
    # Far better than a set at random, and on these small networks as good as the best.
    assert harm == every.max() > every.mean()
    assert re.search("heuristic: greedy|every healthy node is harmed", worst.searches[0])


def _harm(worst: Plan) -> int:
    (found,) = re.findall(r"; (\d+) healthy node", worst.searches[0])
    return int(found)


def test_cuts_prove_that_no_set_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst_faults.MOST_SETS == 1_000_000
    monkeypatch.setattr(worst_faults, "MOST_SETS", 100_000)
    worst = Case("star:5 broadcast edt", redundancy=4, fault=["worst:nodes=3"]).plan
    assert "by smallest cuts, none of 273,819 sets does harm; 0 healthy" in worst.searches[0]
    assert len(worst.faults) == 3


def test_worst_beside_given_faults() -> None:
    # Two of three trees are broken for whoever depends on them, and one node more costs what three cost otherwise.
    given = Case("star:4 broadcast edt", redundancy=3, fault=["crash:2134@1", "crash:3214@1"]).plan
    worst = Case("star:4 broadcast edt", redundancy=3, fault=["worst:nodes=1", "crash:2134@1", "crash:3214@1"]).plan
    assert _harm(worst) == harms(given, "nodes=1").max() > 0
    assert len({fault.rank for fault in worst.faults}) == 3  # type: ignore[attr-defined]


def test_campaigns_have_one_worst_set_per_variant() -> None:
    base = {"topology": "star:4", "collective": "broadcast", "driver": "memory"}
    texts = ["worst:nodes=1..2", "worst:ball=2:1", "nodes=1"]
    grid = Grid(base, {"algorithm": ["greedy-tree", "edt"]}, texts, trials=200, engine="exact")
    grid.check()
    assert [grid.wanted(point, 0) for point in range(4)] == [1, 1, 1, 200]
    assert len(grid.searches) == 6
    for point, text in enumerate(["nodes=1", "nodes=2", "ball=2:1"]):
        for variant, each in enumerate(grid.variants):
            found = grid.point_engine(point, variant).evaluate(np.array([0]))[0]
            assert found.unserved.tolist() == [harms(each.plan, text).max()]


@pytest.mark.parametrize(
    ("values", "fault", "message"),
    [({"algorithm": "flood"}, "worst:nodes=1", "choose at run time"), ({}, "worst:loss=1:0.5", "does not follow from paths"),
     ({}, "worst:byzantine=1", "it takes faults that stop"), ({}, "worst:nodes=1;hang=1", "one part for each kind"),
     ({}, "worst:nodes=1;sources", "always spares it"),
     pytest.param({"reliable": "true"}, "worst:nodes=1", "reliable links", marks=needs_annex("reliable")),
     ({"clock": "timed"}, "worst:nodes=1", "timed clock"), ({}, "worst:nodes=24", "needs more places than may fail")],
)  # fmt: skip
def test_sets_that_are_not_searched(values: dict[str, object], fault: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        _ = Case({"topology": "star:4", "collective": "broadcast", "algorithm": "edt", **values, "fault": [fault]}).plan
    with pytest.raises(ScenarioError, match="of the scenario does not follow"):
        _ = Case("star:4 broadcast edt", "loss:1234~2134:0.5", "worst:nodes=1").plan
