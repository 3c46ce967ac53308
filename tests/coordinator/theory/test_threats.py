"""Copies under faults, counted in runs with these faults."""

from collections import Counter
from dataclasses import replace

import pytest

from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.theory.dependence.message_paths import paths_of
from coordinator.theory.dependence.outages import Outages
from coordinator.theory.threats import ThreatenedMessages, Threats, parts_of
from emunode.model import Rank
from tests.helpers.scenarios import Case

CASES = [
    Case("star:4 broadcast edt redundancy=3"),
    Case("star:3 broadcast edt redundancy=2 messages=4 segments=2"),
    Case("hypercube:3 broadcast nesbt redundancy=3"),
    Case("petersen:5,2 broadcast independent-trees redundancy=2"),
]


def received(case: Case, faults: tuple[str, ...]) -> Counter[tuple[Rank, int]]:
    """Return how many copies of each segment each rank receives in a run."""
    rows = case.but(*faults).run.journal.collect()
    rows = rows.filter(rows["outcome"].cast(str).is_in(["first", "duplicate"]))
    return Counter(zip(rows["receiver"].to_list(), rows["segment"].to_list(), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kinds", [("crash@1",), ("hang@2-3",), ("down@1",), ("down@1-2", "hang@2")])
def test_undamaged_copies_are_those_that_arrive(case: Case, kinds: tuple[str, ...]) -> None:
    network, source = case.plan.topology, case.plan.spec.source
    near, other = network.neighbours(source)[:2]
    link = f"{network.label(source)}~{network.label(other)}"
    faults = tuple(kind.replace("@", f":{link if kind.startswith('down') else network.label(near)}@") for kind in kinds)
    plan = case.but(*faults).plan
    assert plan.judged.outages is not None
    threats, found = Threats(plan.judged.outages, {}, ()), Counter[tuple[Rank, int]]()
    messages = ThreatenedMessages(paths_of(plan.algorithm), threats)
    for message in messages.due:
        for piece in messages.paths.segments[message]:
            copies = [threats.copy(path) for path in messages.paths.copies(piece, message.receiver).values()]
            found[message.receiver, piece[2]] = sum(not copy.damage for copy in copies)
    ran = received(case, faults)
    assert found == Counter({key: ran[key] for key in found})
    assert any(count < case.plan.spec.redundancy for count in found.values())


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("text", ["nodes=1", "links=1@2", "hang=1@2-3"])
def test_places_of_a_copy_are_those_that_stop_it(case: Case, text: str) -> None:
    """A fault in the scenario damages the copies that name its place, and no others."""
    plan = case.plan
    (fault_set,) = parse_fault_sets(text)
    sites = FaultSites(plan.algorithm)
    threats = Threats(Outages(), {}, parts_of(fault_set, sites))
    messages = ThreatenedMessages(paths_of(plan.algorithm), threats)
    place = sorted(threats.parts[0].eligible)[1]
    struck = case.but(sites.spec(fault_set.parts[0], place, fault_set.when)).plan.judged.outages
    assert struck is not None
    under = replace(threats, outages=struck)
    for message in messages.due:
        if message.receiver != place:
            for piece in messages.paths.segments[message]:
                for path in messages.paths.copies(piece, message.receiver).values():
                    assert bool(under.copy(path).damage) == (place in threats.copy(path).places[0])
