"""The step that made a loss inevitable, held against an enumeration of all steps."""

from random import Random

import polars as pl
import pytest

from coordinator.execution.branch import inevitable_from
from emunode.errors import ScenarioError
from emunode.model import Rank
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


def by_enumeration(line: str, faults: list[str], rank: Rank) -> int | None:
    """Run with the faults up to every step; a node is served if the journal has a first arrival of every segment."""
    for step in range(1 + max(int(fault.rpartition("@")[2]) for fault in faults)):
        kept = [fault for fault in faults if int(fault.rpartition("@")[2]) <= step]
        journal = Case(line, *kept).journal
        received = journal.filter(pl.col("receiver") == rank, pl.col("outcome") == "first")
        if received["segment"].n_unique() < 2:
            return step
    return None


@pytest.mark.parametrize("network", ["star:4", "hypercube:4"])
def test_steps_are_those_of_an_enumeration(network: str) -> None:
    draw = Random(network)
    line = f"{network} broadcast bfs-tree messages=2"
    topology = Case(line).plan.topology
    found = []
    for _ in range(6):
        broken = draw.sample(range(1, topology.order), 4)
        faults = [f"crash:{topology.label(rank)}@{draw.randint(1, 4)}" for rank in broken]
        case = Case(line, *faults)
        rank = next(iter(case.run.conclusion.measurement.cut_off), min({*range(1, 6)} - {*broken}))
        found.append(inevitable_from(case.plan, rank))
        assert found[-1] == by_enumeration(line, faults, rank)
    assert len(set(found)) > 1


def test_repairs_of_kept_faults_stay() -> None:
    line = "star:3 broadcast greedy-tree"
    healed = Case(line, "down:123~213@3", "up:123~213@4", "crash:321@3")
    rank = healed.plan.topology.rank("213")
    assert inevitable_from(healed.plan, rank) is None
    assert inevitable_from(Case(line, "down:123~213@1", "up:123~213@2").plan, rank) == 1


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(ScenarioError, match="it is crashed itself"):
        inevitable_from((case := Case("star:3 broadcast flood", "crash:213@2")).plan, case.plan.topology.rank("213"))
    with pytest.raises(ScenarioError, match="by steps only"):
        inevitable_from(Case("star:3 broadcast flood clock=timed").plan, 2)


def test_verify_prints_the_step(call: Call, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = Case("star:3 broadcast greedy-tree", "crash:213@2").stored(tmp_path_factory.mktemp("run") / "run").path
    line = "312 misses messages from step 2 on, whatever begins later"
    assert line in call("verify --inevitable 312", path).out
    assert call("verify --inevitable 312 --json", path).data[0]["inevitable"] == [line]
    twice = call("verify --inevitable 312 --explain 312@3 --json", path, path).data
    assert [each["inevitable"] for each in twice] == [[line]] * 2
    assert twice[0]["explained"] == twice[1]["explained"] != []
    assert "231 has everything that is due to it" in call("verify --inevitable 231", path).out
    assert call("verify --inevitable 999", path).status == 2
