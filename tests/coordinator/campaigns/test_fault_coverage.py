"""Coverage of the space of faults, held against a count of all cells of small networks."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.campaigns.fault_coverage import FaultCoverage, coverage_of, fault_text
from coordinator.campaigns.grid import Grid
from coordinator.campaigns.session import run_campaign
from coordinator.campaigns.store import FinishedTrials
from coordinator.scenario.fault_syntax import parse_fault, parse_faults
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, NodeFault
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import Call, fields
from tests.helpers.scenarios import Case

STAR = parse_topology("star:3")
STEPS = 3
REPAIRS = {"recover", "up", "heal"}
BREAKING = {kind: record for kind, record in KINDS.items() if not record.slows and kind not in REPAIRS}
NODE_KINDS = {kind for kind, record in BREAKING.items() if issubclass(record, NodeFault)}
LINK_KINDS = BREAKING.keys() - NODE_KINDS


def test_the_space_has_every_kind_but_repairs_and_slow_ones() -> None:
    coverage = FaultCoverage(STAR, STEPS)
    assert set(coverage.kinds) == NODE_KINDS | LINK_KINDS
    # 6 nodes and 12 directions of links.
    assert coverage.size == STEPS * (6 * len(NODE_KINDS) + 12 * len(LINK_KINDS))
    assert {"crash", "hang", "down", "loss", "silent-ports", "drop"} < BREAKING.keys()


@given(st.lists(st.lists(st.integers(0, 377), max_size=4), max_size=12), st.integers(0, 99))
def test_counts_are_those_of_a_brute_force(trials: list[list[int]], seed: int) -> None:
    coverage, chance = FaultCoverage(STAR, STEPS), Random(seed)
    every = [(kind, place, step) for kind in coverage.kinds for place in coverage.places(kind) for step in range(1, 4)]
    assert len(every) == coverage.size == STEPS * (6 * len(NODE_KINDS) + 12 * len(LINK_KINDS))
    tried, pairs = set(), set()
    for trial in trials:
        cells = [every[number] for number in dict.fromkeys(number % len(every) for number in trial)]
        coverage.add([fault for cell in cells for fault in parse_fault(fault_text(STAR, *cell, chance), STAR)])
        tried |= set(cells)
        names = [(kind, _name(place)) for kind, place, _ in cells]
        pairs |= {tuple(sorted((one[0], two[0]))) for one, two in product(names, repeat=2) if one != two}
    assert set(coverage.cells) == tried
    assert set(coverage.pairs) == pairs
    assert set(coverage.untried_kinds) == set(coverage.kinds) - {kind for kind, _, _ in tried}


def _name(place: object) -> object:
    """Return a name of a place that both directions of a link share."""
    return place if isinstance(place, int) else frozenset((place[0], STAR.neighbour(*place)))  # type: ignore[index,misc]


def test_draws_reach_every_cell_without_a_wasted_one() -> None:
    coverage, chance = FaultCoverage(STAR, STEPS), Random(7)
    drawn = []
    for _ in range(coverage.size):
        drawn.append(coverage.draw(chance))
        coverage.add(parse_faults([drawn[-1]], STAR))
    assert len(coverage.cells) == coverage.size
    again = FaultCoverage(STAR, STEPS)
    chance = Random(7)
    for text in drawn:
        assert again.draw(chance) == text
        again.add(parse_faults([text], STAR))


def test_draws_keep_to_some_kinds() -> None:
    coverage, chance = FaultCoverage(STAR, 1), Random(1)
    for _ in range(18):
        coverage.add(parse_faults([coverage.draw(chance, ("crash", "down"))], STAR))
    assert len(coverage.cells) == 18
    assert {kind for kind, _, _ in coverage.cells} == {"crash", "down"}


@pytest.mark.parametrize("engine", ["messages", "exact"])
def test_a_campaign_tries_every_node_but_the_source(engine: str) -> None:
    grid = Grid(
        fields("star:3 broadcast edt redundancy=2 driver=memory"), {}, ["nodes=1", "nodes=2"], 100, None, engine
    )
    trials = FinishedTrials(grid)
    run_campaign(trials, 1, lambda *_: None)
    (coverage,) = coverage_of(trials).values()
    # All nodes but the source, in the first step.
    source = grid.variants[0].plan.spec.source
    assert set(coverage.cells) == {("crash", rank, 1) for rank in STAR.ranks() if rank != source}
    assert coverage.trials == 2 * 100
    assert all(issubclass(KINDS[kind], NodeFault) for kind, _, _ in coverage.cells)
    assert coverage.pairs == {("crash", "crash"): 100}


def test_a_sample_of_all_sets_is_counted_by_its_numbers() -> None:
    trials = FinishedTrials(Grid(fields("star:4 broadcast edt"), {}, ["all:nodes=1"], 5, None, "exact"))
    run_campaign(trials, 1, lambda *_: None)
    (coverage,) = coverage_of(trials).values()
    drawn = [trials.grid.draws(0, 0).specs(number) for number in trials.grid.numbers(0, 0)]
    places = {fault.place for specs in drawn for fault in parse_faults(specs, coverage.topology)}
    assert {place for _, place, _ in coverage.cells} == places


def test_the_longest_algorithm_decides_the_steps() -> None:
    grid = Grid(fields("star:4 broadcast edt driver=memory"), {"algorithm": ["edt", "greedy-tree"]}, ["nodes=1"], 3)
    trials = FinishedTrials(grid)
    run_campaign(trials, 1, lambda *_: None)
    (coverage,) = coverage_of(trials).values()
    lasts = [Case(f"star:4 broadcast {name}").run.execution.steps for name in ("edt", "greedy-tree")]
    assert len(set(lasts)) == 2
    assert coverage.steps == range(1, max(lasts) + 1)
    assert coverage.trials == 2 * 3


def test_spared_nodes_are_in_no_cell() -> None:
    coverage, chance = FaultCoverage(STAR, 1, spared={0, 3}), Random(2)
    assert coverage.size == 4 * len(NODE_KINDS) + 12 * len(LINK_KINDS)
    for _ in range(coverage.size):
        coverage.add(parse_faults([coverage.draw(chance)], STAR))
    assert not {place for _, place, _ in coverage.cells} & {0, 3}


def test_the_command_prints_the_table(call: Call) -> None:
    line = "campaign --topology star:3 --collective broadcast --algorithm edt --faults nodes=1 --faults links=1"
    done = call(f"{line} --trials 100 --out c --coverage")
    assert "crash  5 of 6" in done.out
    assert "kinds never tried: hang, loss" in done.out
    assert "pairs never tried: crash with crash, crash with down, down with down" in done.out
    record = call("campaign --resume c --coverage --json").data["coverage"]["permutation star graph S_3"]
    assert record["trials"] == 2 * 100
    assert record["cells"] == 5 + 2 * 6


def test_the_timed_clock_is_refused() -> None:
    grid = Grid(fields("star:3 broadcast edt driver=memory clock=timed"), {}, ["nodes=1"], 1, None, "messages")
    trials = FinishedTrials(grid)
    run_campaign(trials, 1, lambda *_: None)
    with pytest.raises(ScenarioError, match=r"coverage.*--clock steps"):
        coverage_of(trials)
