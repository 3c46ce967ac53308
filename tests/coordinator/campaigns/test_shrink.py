"""Reduction of failing scenarios: the result still fails and is minimal."""

import pytest

from coordinator.campaigns.shrink import MOST_TRIALS, shrink, simplifications
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from emunode.topologies.star import StarGraph

LARGE = make_scenario({
    "topology": "star:4", "collective": "broadcast", "algorithm": "edt", "redundancy": 3, "driver": "memory",
    "messages": 5, "message_bytes": 4096, "seed": 77, "fault_knowledge": "neighbours",
    "fault": [
        "crash:3142@4", "hang:2134@2-7", "down:1342~3142@3-5", "loss:3214~1234:0.5@2", "byzantine:4231@3", "crash:4213@1",
    ],
})  # fmt: skip


async def test_only_relevant_faults_are_kept() -> None:
    """Fails whenever 2134 and a link of 3214 have a fault."""
    tried: list[Scenario] = []

    async def fails(scenario: Scenario) -> bool:
        tried.append(scenario)
        words = " ".join(scenario.fault)
        return "2134@" in words and "3214" in words

    smallest = await shrink(LARGE, fails)
    assert sorted(smallest.fault) == ["crash:2134@1", "down:3214>1234@1"]
    assert (smallest.messages, smallest.message_bytes, smallest.seed, smallest.fault_knowledge) == (1, 1, 0, "none")
    assert await fails(smallest)
    assert not [simpler for simpler in simplifications(smallest) if await fails(simpler)]
    assert len(tried) <= MOST_TRIALS + 20


async def test_minimal_scenario_is_kept() -> None:
    async def never(scenario: Scenario) -> bool:
        return scenario == LARGE

    assert await shrink(LARGE, never) == LARGE


async def test_relevant_size_is_kept() -> None:
    async def fails(scenario: Scenario) -> bool:
        return scenario.messages >= 3 and any("@4" in spec for spec in scenario.fault)

    smallest = await shrink(LARGE, fails)
    assert smallest.messages == 3
    assert smallest.fault == ("crash:3142@4",)


@pytest.mark.parametrize("fault", [LARGE.fault, ("drop:1234>2134:3@2-9", "recover:3142@5", "crash:3142@2")], ids=len)
def test_every_simplification_is_valid(fault: tuple[str, ...]) -> None:
    scenario = LARGE.model_copy(update={"fault": fault})
    found = list(simplifications(scenario))
    assert len(found) > 8
    assert scenario not in found
    for simpler in found:
        parse_faults(simpler.fault, StarGraph(4))
