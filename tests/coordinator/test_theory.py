"""Theory against three independent judges: every set of faults really run, a walk over the trees, and published counts."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
import trio

from coordinator.campaign.grid import outside
from coordinator.campaign.laboratory import Finding, Laboratory, Trial
from coordinator.fault_sets import Places, draw, every_set, parse_recipes
from coordinator.plan import Plan, make_plan
from coordinator.scenario import Scenario, make_scenario
from coordinator.theory import Expected, expectation, promises

GOLDEN = Path(__file__).parents[1] / "golden" / "tree_survival.csv"
"""Sets survived and nodes lost over all sets, counted elsewhere without this code."""


def scenario_of(topology: str, algorithm: str, **values: object) -> Scenario:
    """A broadcast in memory."""
    scenario = {"topology": topology, "collective": "broadcast", "algorithm": algorithm, "driver": "memory"}
    return make_scenario({**scenario, **values})


def plan_of(topology: str, algorithm: str, **values: object) -> Plan:
    """Its plan."""
    return make_plan(scenario_of(topology, algorithm, **values))


def expected(plan: Plan, text: str) -> Expected:
    """What theory says of a recipe."""
    (recipe,) = parse_recipes(text)
    places = Places(plan.algorithm, plan.scenario.fault)
    return expectation(plan.algorithm, plan.faults, plan.scenario.fault_knowledge, recipe, places)


def run(scenario: Scenario, sets: Sequence[tuple[str, ...]], seeds: Callable[[int], int] = lambda _: 0) -> list[Finding]:
    """Trials in memory, one for each set."""

    async def carry_out() -> list[Finding]:
        async with Laboratory([scenario], open("/dev/null", "w")) as laboratory:  # noqa: SIM115, ASYNC230
            return [await laboratory.trial(Trial(0, faults, seeds(at))) for at, faults in enumerate(sets)]

    return trio.run(carry_out)


def measured(findings: Sequence[Finding]) -> Expected:
    """Both figures over trials that count."""
    counted = [finding for finding in findings if finding.undecided is None]
    assert not any(finding.violated for finding in counted)
    return Expected(fmean(each.intact / each.expected for each in counted), fmean(each.served for each in counted))


# --- every set, really run ---------------------------------------------------------------------------------------------

SMALL: Sequence[tuple[str, str, Mapping[str, object]]] = [
    ("star:3", "edt", {"redundancy": 2}),
    ("star:3", "edt", {"messages": 3, "source": "231"}),
    ("star:3", "congestion2-trees", {"segments": 2}),
    ("star:3", "bfs-tree", {"port_model": "one-port", "segments": 2}),
    ("hypercube:3", "nesbt", {"redundancy": 2}),
    ("hypercube:3", "nesbt", {"redundancy": 3, "messages": 2, "source": "101"}),
    ("hypercube:2", "nesbt", {"segments": 2}),
    ("hypercube:3", "sbt", {"port_model": "one-port"}),
    ("ej:1+2", "independent-trees", {"redundancy": 4}),
]
POINTS = [
    "all:nodes=1", "all:nodes=2", "all:links=1", "all:links=2", "all:nodes=1;links=1", "all:crash=1;hang=1",
    "all:nodes=2@2", "all:nodes=1;links=1@3", "all:links=2@2-2", "all:links=1@1-2", "all:nodes=1@4",
]  # fmt: skip


@pytest.mark.parametrize(("topology", "algorithm", "values"), SMALL)
@pytest.mark.parametrize("text", POINTS)
def test_it_is_the_mean_over_all_sets(topology: str, algorithm: str, values: Mapping[str, object], text: str) -> None:
    scenario = scenario_of(topology, algorithm, **values)
    plan = make_plan(scenario)
    (recipe,) = parse_recipes(text)
    found = measured(run(scenario, list(every_set(recipe, Places(plan.algorithm)))))
    theory = expected(plan, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    assert theory.guaranteed == pytest.approx(found.guaranteed, rel=1e-12)
    assert expected(plan, text.removeprefix("all:")) == theory


GIVEN = [
    ["crash:{one}@1"], ["crash:{one}@3"], ["hang:{one}@2", "down:{link}@1"], ["down:{link}@2-2"], ["down:{arc}@1-3"],
    ["corrupt:{link}:0", "loss:{link}:1@2"],
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(("topology", "algorithm", "values"), [SMALL[1], SMALL[4], SMALL[5], SMALL[7]])
@pytest.mark.parametrize("text", ["all:nodes=0", "all:nodes=1", "all:links=1", "all:nodes=1;links=1@2"])
def test_given_faults_are_counted(
    topology: str, algorithm: str, values: Mapping[str, object], text: str, given: Sequence[str]
) -> None:
    network = plan_of(topology, algorithm, **values).topology
    source = network.rank(str(values.get("source", network.label(0))))
    one, two = network.neighbours(source)[0], network.neighbours(source)[1]
    names = {
        "one": network.label(one),
        "link": f"{network.label(two)}~{network.label(source)}",
        "arc": f"{network.label(source)}>{network.label(two)}",
    }
    scenario = scenario_of(topology, algorithm, **values, fault=[spec.format(**names) for spec in given])
    plan = make_plan(scenario)
    (recipe,) = parse_recipes(text)
    sets = list(every_set(recipe, Places(plan.algorithm, plan.scenario.fault)))
    theory, found = expected(plan, text), measured(run(scenario, sets))
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    lossy = any(spec.startswith("loss") for spec in given)
    assert theory.guaranteed == (pytest.approx(found.guaranteed, rel=1e-12) if theory.guaranteed is not None else None)
    assert theory.guaranteed is not None or lossy


@pytest.mark.parametrize("text", ["cut:victim={v};nodes=1", "cut:victim={v};links=2", "roots:nodes=1", "roots:links=2@2"])
@pytest.mark.parametrize(("topology", "algorithm", "values"), [SMALL[0], SMALL[4], SMALL[7]])
def test_places_of_a_part_of_the_network(topology: str, algorithm: str, values: Mapping[str, object], text: str) -> None:
    """Every set that can be drawn, found by drawing often."""
    scenario = scenario_of(topology, algorithm, **values)
    plan = make_plan(scenario)
    text = text.format(v=plan.topology.label(plan.topology.order - 1))
    (recipe,) = parse_recipes(text)
    sets = {frozenset(draw(recipe, Places(plan.algorithm), 0, number)) for number in range(200)}
    theory, found = expected(plan, text), measured(run(scenario, [tuple(each) for each in sets]))
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    assert theory.guaranteed == pytest.approx(found.guaranteed, rel=1e-12)


@pytest.mark.parametrize("text", ["busiest:nodes=2", "busiest:links=2@2", "busiest:nodes=1;links=1"])
@pytest.mark.parametrize(("topology", "algorithm", "values"), [SMALL[0], SMALL[4], SMALL[7]])
def test_the_busiest_places(topology: str, algorithm: str, values: Mapping[str, object], text: str) -> None:
    scenario = scenario_of(topology, algorithm, **values)
    plan = make_plan(scenario)
    found = measured(run(scenario, [draw(parse_recipes(text)[0], Places(plan.algorithm), 0, 0)]))
    theory = expected(plan, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    assert theory.guaranteed == found.guaranteed


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("topology", "algorithm", "values"), [SMALL[0], SMALL[4], SMALL[7]])
def test_places_that_fail_independently(topology: str, algorithm: str, values: Mapping[str, object], share: float) -> None:
    """All 2^n sets of nodes, weighted; sets that leave nobody are no trials that count."""
    scenario = scenario_of(topology, algorithm, **values)
    plan = make_plan(scenario)
    places = Places(plan.algorithm)
    ratio = guaranteed = weight = 0.0
    for count in range(len(places.nodes()) + 1):
        findings = run(scenario, list(every_set(parse_recipes(f"all:nodes={count}")[0], places)))
        chance = share**count * (1 - share) ** (len(places.nodes()) - count)
        for finding in findings:
            if finding.undecided is None:
                weight += chance
                ratio += chance * finding.intact / finding.expected
                guaranteed += chance * finding.served
    theory = expected(plan, f"bernoulli:nodes={share}")
    if not weight:
        assert theory == Expected()
        return
    assert theory.ratio == pytest.approx(ratio / weight, rel=1e-9)
    assert theory.guaranteed == pytest.approx(guaranteed / weight, rel=1e-9)


def test_links_that_fail_independently() -> None:
    """Q_3 with three trees over all 2^12 sets, from the counts of each size."""
    plan = plan_of("hypercube:3", "nesbt", redundancy=3)
    for share in (0.01, 0.3):
        theory = expected(plan, f"bernoulli:links={share}")
        weights = [share**count * (1 - share) ** (12 - count) for count in range(13)]
        rows = golden()["hypercube:3", "nesbt", "3", "link"]
        assert theory.guaranteed == pytest.approx(sum(w * rows[k][0] for k, w in enumerate(weights)), rel=1e-12)
        lost = sum(w * rows[k][1] for k, w in enumerate(weights))
        assert theory.ratio == pytest.approx(1 - lost / 7, rel=1e-12)


# --- losses ------------------------------------------------------------------------------------------------------------


def fates_of_packets(plan: Plan) -> Iterator[tuple[int, int, int, int, set[tuple[int, int, int]]]]:
    """(message, segment, copy, rank, packets it takes) by the journal of a run in which nothing breaks."""
    from emunode.memory import MemoryNetwork
    from emunode.wire import ROW

    network, rows, step = MemoryNetwork(plan.algorithm), bytearray(), 0
    while network.busy:
        step += 1
        rows += network.step(step)
    arrived: dict[tuple[int, int, int], set[tuple[int, int, int]]] = {}
    for row in ROW.iter_unpack(bytes(rows)):
        at, sender, receiver, tree, segment = row[0], row[1], row[2], *tree_and_segment(row)
        before = arrived.get((tree, segment, sender), set())
        arrived[tree, segment, receiver] = before | {(at, sender, receiver)}
    pieces = getattr(plan.algorithm, "pieces", 1)
    for (tree, segment, rank), packets in arrived.items():
        yield segment // pieces, segment, tree, rank, packets


def tree_and_segment(row: Sequence[int]) -> tuple[int, int]:
    """The two fields of a packed row."""
    from coordinator.journal import COLUMNS

    return row[COLUMNS.index("tree")], row[COLUMNS.index("segment")]
