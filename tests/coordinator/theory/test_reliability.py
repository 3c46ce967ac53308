"""Predictions compared with runs of every set of faults, with a walk over the trees, and with published counts."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from math import comb, prod, sqrt
from statistics import fmean, stdev

import pytest
import trio

from coordinator.campaigns.statistics import outside
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.fault_draws import FaultSites, draw, every_set
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario
from coordinator.theory.reliability import Expected, expected_delivery_ratio, promises
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.kinds import Down, Fault, Loss
from emunode.model import FaultKnowledge
from emunode.net.wire import ROW
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, played


def case_id(row: Mapping[str, str]) -> str:
    """Return the test id of a row with a scenario and a set of faults."""
    return f"{row['scenario']} {row['faults']}"


def expected(plan: Plan, text: str) -> Expected:
    """Return the prediction for a fault set."""
    (fault_set,) = parse_fault_sets(text)
    places = FaultSites(plan.algorithm, plan.scenario.fault)
    knowledge = FaultKnowledge(plan.scenario.fault_knowledge)
    return expected_delivery_ratio(plan.algorithm, plan.faults, knowledge, fault_set, places)


def run(
    scenario: Scenario, sets: Sequence[tuple[str, ...]], seeds: Callable[[int], int] = lambda _: 0
) -> list[TrialResult]:
    """Return trials in memory, one per set."""

    async def carry_out() -> list[TrialResult]:
        async with TrialRunner([scenario], sys.stderr) as runner:
            return [await runner.trial(Trial(0, faults, seeds(at))) for at, faults in enumerate(sets)]

    return trio.run(carry_out)


def measured(findings: Sequence[TrialResult]) -> Expected:
    """Return both figures over decided trials."""
    counted = [result for result in findings if result.undecided is None]
    assert not any(result.violated for result in counted)
    return Expected(fmean(each.intact / each.expected for each in counted), fmean(each.served for each in counted))


def over_all_sets(scenario: Scenario, text: str) -> Expected:
    """Return both figures from running every set of faults."""
    plan = make_plan(scenario)
    sites = FaultSites(plan.algorithm, plan.scenario.fault)
    return measured(run(scenario, list(every_set(parse_fault_sets(text)[0], sites))))


def require_equal(theory: Expected, found: Expected, rel: float = 1e-12) -> None:
    """Theory predicts both figures, and both as they were found."""
    assert theory.ratio == pytest.approx(found.ratio, rel=rel)
    assert theory.guaranteed == pytest.approx(found.guaranteed, rel=rel)


# --- every set, really run ---------------------------------------------------------------------------------------------

SMALL = [
    "star:3 broadcast edt redundancy=2",
    "star:3 broadcast edt messages=3 source=231",
    "star:3 broadcast congestion2-trees segments=2",
    "star:3 broadcast bfs-tree port_model=one-port segments=2",
    "hypercube:3 broadcast nesbt redundancy=2",
    "hypercube:3 broadcast nesbt redundancy=3 messages=2 source=101",
    "hypercube:2 broadcast nesbt segments=2",
    "hypercube:3 broadcast sbt port_model=one-port",
    "ej:1+2 broadcast independent-trees redundancy=4",
    "hypercube:3 broadcast binomial",
    "complete:5 broadcast circulant messages=2",
]
POINTS = [
    "all:nodes=1", "all:nodes=2", "all:links=1", "all:links=2", "all:nodes=1;links=1", "all:crash=1;hang=1",
    "all:nodes=2@2", "all:nodes=1;links=1@3", "all:links=2@2-2", "all:links=1@1-2", "all:nodes=1@4",
]  # fmt: skip


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("text", POINTS)
def test_prediction_is_the_mean_over_all_sets(case: str, text: str) -> None:
    theory = expected(Case(case).plan, text)
    require_equal(theory, over_all_sets(Case(case).scenario, text))
    assert expected(Case(case).plan, text.removeprefix("all:")) == theory


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ("fat-tree:2", "all:nodes=1"), ("fat-tree:2", "all:links=1"), ("fat-tree:2", "all:nodes=1;links=1@2"),
        ("fat-tree:4", "all:nodes=1"), ("fat-tree:4", "all:links=1"),
        pytest.param("fat-tree:4", "all:nodes=2", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_nothing_is_due_to_switches(network: str, text: str) -> None:
    """Where switches fail too, the number of faults does not tell how many receivers are left."""
    case = f"{network} broadcast bfs-tree"
    theory, found = expected(Case(case).plan, text), over_all_sets(Case(case).scenario, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    if network == "fat-tree:2" and "nodes" in text:
        assert theory.guaranteed is None  # some sets leave no healthy receiver
    else:
        assert theory.guaranteed == pytest.approx(found.guaranteed, rel=1e-12)


GIVEN = [
    ["crash:{one}@1"], ["crash:{one}@3"], ["hang:{one}@2", "down:{link}@1"], ["down:{link}@2-2"], ["down:{arc}@1-3"],
    ["corrupt:{link}:0", "loss:{link}:1@2"], ["hang:{one}@1-2"], ["silent:{one}@2-3", "hang:{one}@4"],
    ["hang:{one}@2", "crash:{one}@3"], ["down:{link}@1", "up:{link}@2"], ["silent-ports:{one}:1@2"],
]  # fmt: skip


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("case", [SMALL[1], SMALL[4], SMALL[5], SMALL[7]])
@pytest.mark.parametrize("text", ["all:nodes=0", "all:nodes=1", "all:links=1", "all:nodes=1;links=1@2"])
def test_given_faults_are_counted(case: str, text: str, given: Sequence[str]) -> None:
    plan = Case(case).plan
    network, source = plan.topology, plan.spec.source
    assert source is not None
    one, two = network.neighbours(source)[:2]
    names = {
        "one": network.label(one),
        "link": f"{network.label(two)}~{network.label(source)}",
        "arc": f"{network.label(source)}>{network.label(two)}",
    }
    scenario = Case(case, fault=[spec.format(**names) for spec in given]).scenario
    theory, found = expected(make_plan(scenario), text), over_all_sets(scenario, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    assert theory.guaranteed == pytest.approx(found.guaranteed, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "cut:victim={v};nodes=1", "cut:victim={v};links=2", "roots:nodes=1", "roots:links=2@2", "busiest:nodes=2",
        "busiest:links=2@2", "busiest:nodes=1;links=1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("case", [SMALL[0], SMALL[4], SMALL[7]])
def test_prediction_for_selected_places(case: str, text: str) -> None:
    """Enumerates the sets of `cut` and `roots` by drawing often; `busiest` has one set."""
    plan = Case(case).plan
    text = text.format(v=plan.topology.label(plan.topology.order - 1))
    (fault_set,) = parse_fault_sets(text)
    sets = {frozenset(draw(fault_set, FaultSites(plan.algorithm), 0, number)) for number in range(200)}
    assert len(sets) == 1 or not text.startswith("busiest")
    require_equal(expected(plan, text), measured(run(plan.scenario, [tuple(each) for each in sets])))


@cache
def over_all_sets_of_nodes(case: str) -> list[list[TrialResult]]:
    """Return the trials of all sets of nodes, by the size of the sets."""
    scenario = Case(case).scenario
    places = FaultSites(make_plan(scenario).algorithm)
    counts = range(len(places.nodes()) + 1)
    return [run(scenario, list(every_set(parse_fault_sets(f"all:nodes={count}")[0], places))) for count in counts]


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", [SMALL[0], SMALL[4], SMALL[7]])
def test_places_that_fail_independently(case: str, share: float) -> None:
    """All 2^n sets of nodes, weighted, without the set of all nodes."""
    plan, by_count = Case(case).plan, over_all_sets_of_nodes(case)
    ratio = guaranteed = weight = 0.0
    for count, findings in enumerate(by_count):
        chance = share**count * (1 - share) ** (len(by_count) - 1 - count)
        for result in findings:
            if result.undecided is None:
                weight += chance
                ratio += chance * result.intact / result.expected
                guaranteed += chance * result.served
    theory = expected(plan, f"bernoulli:nodes={share}")
    if weight:
        require_equal(theory, Expected(ratio / weight, guaranteed / weight), rel=1e-9)
    else:
        assert theory == Expected()


def test_links_that_fail_independently() -> None:
    """Q_3 with three trees over all 2^12 sets, from the counts of each size."""
    plan = Case("hypercube:3 broadcast nesbt redundancy=3").plan
    for share in (0.01, 0.3):
        theory = expected(plan, f"bernoulli:links={share}")
        weights = [share**count * (1 - share) ** (12 - count) for count in range(13)]
        rows = golden()["hypercube:3", "nesbt", "3", "link"]
        survived, lost = (sum(w * rows[k][column] for k, w in enumerate(weights)) for column in (0, 1))
        require_equal(theory, Expected(1 - lost / 7, survived))


# --- paths -------------------------------------------------------------------------------------------------------------


# --- losses ------------------------------------------------------------------------------------------------------------


PortPacket = tuple[int, int, int]
"""Step, sender, receiver."""


def packets_of_copies(plan: Plan) -> dict[tuple[int, int], dict[int, list[frozenset[PortPacket]]]]:
    """Return (rank, message) -> segment -> the packets of each copy, from the journal of a fault-free run."""
    ways: dict[tuple[int, int, int], frozenset[PortPacket]] = {}
    for at, sender, receiver, _, _, segment, _, tree, _, _ in ROW.iter_unpack(bytes(played(plan)[0])):
        ways[tree, segment, receiver] = ways.get((tree, segment, sender), frozenset()) | {(at, sender, receiver)}
    found: dict[tuple[int, int], dict[int, list[frozenset[PortPacket]]]] = {}
    assert isinstance(plan.algorithm, TreeCollective)
    for (_, segment, rank), packets in ways.items():
        found.setdefault((rank, segment // plan.algorithm.segments_per_message), {}).setdefault(segment, []).append(
            packets
        )
    return found


def by_packets(plan: Plan, rate_of: Callable[[PortPacket], float]) -> Expected:
    """Return both figures, over every set of packets that can be lost."""
    copies = packets_of_copies(plan)
    packets = {packet for ways in copies.values() for each in ways.values() for way in each for packet in way}
    rates = {packet: rate_of(packet) for packet in packets}
    lossy = sorted(packet for packet in packets if rates[packet])
    ratio = guaranteed = 0.0
    for fates in product((False, True), repeat=len(lossy)):
        gone = {packet for packet, lost in zip(lossy, fates, strict=True) if lost}
        chance = prod(rates[packet] if packet in gone else 1 - rates[packet] for packet in lossy)
        served = [all(any(not way & gone for way in each) for each in ways.values()) for ways in copies.values()]
        ratio += chance * fmean(served)
        guaranteed += chance * all(served)
    return Expected(ratio, guaranteed)


LOSSY = [
    "star:3 broadcast edt",
    "star:3 broadcast edt redundancy=2",
    "star:3 broadcast edt redundancy=2 messages=2",
    "hypercube:2 broadcast nesbt segments=2",
    "hypercube:3 broadcast sbt port_model=one-port",
]


@pytest.mark.parametrize(
    "text", ["loss=1:0.3", "loss=2:0.3@2", "loss=1:0.5@1-2", "links=1;loss=1:0.25", "loss=1:0.5;loss=1:1"]
)
@pytest.mark.parametrize("case", LOSSY)
def test_links_that_lose_packets(case: str, text: str) -> None:
    """Over every set of links and every set of packets that these may lose."""
    plan = Case(case).plan
    theory, found = expected(plan, text), over_all_packets(plan, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-9)
    single = plan.scenario.redundancy == 1
    assert (theory.guaranteed is not None) == single
    if single:
        assert theory.guaranteed == pytest.approx(found.guaranteed, rel=1e-9)


@pytest.mark.parametrize("text", ["loss=1:0.3", "loss=1:0.5@2", "links=1;loss=1:0.25", "loss=1:0;links=1"])
@pytest.mark.parametrize("link", ["123~213", "123~321"])
def test_one_of_two_trees_is_cut_at_its_root(text: str, link: str) -> None:
    """A single copy of each message is left, so both figures are known, over links that lose packets too."""
    case = "star:3 broadcast edt redundancy=2"
    cut = Case(case, fault=[f"down:{link}@1"]).plan
    require_equal(expected(cut, text), over_all_packets(Case(case).plan, text, cut.scenario.fault), rel=1e-9)


def over_all_packets(plan: Plan, text: str, given: Sequence[str] = ()) -> Expected:
    """Return both figures over every set of links, and every set of packets that these and given links may lose."""
    places = FaultSites(plan.algorithm, given)
    figures = []
    for specs in every_set(parse_fault_sets(f"all:{text}")[0], places):
        faults = parse_faults([*given, *specs], plan.topology)

        def rate_of(packet: PortPacket, faults: Sequence[Fault] = faults) -> float:
            step, sender, receiver = packet
            whole = 1.0
            for fault in faults:
                assert isinstance(fault, Down | Loss)
                if (fault.sender, plan.topology.neighbour(fault.sender, fault.port)) == (sender, receiver):
                    whole *= 1 - getattr(fault, "rate", 1.0) if fault.step <= step <= fault.last else 1
            return 1 - whole

        figures.append(by_packets(plan, rate_of))
    return Expected(*(fmean(getattr(each, name) or 0.0 for each in figures) for name in ("ratio", "guaranteed")))


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("row", golden_rows("reliability", "draws"), ids=case_id)
def test_draws_agree_with_the_prediction(row: dict[str, str]) -> None:
    """Runs 300 draws with fixed seeds; the 99.99 % interval of a correct figure contains it."""
    scenario, text = Case(row["scenario"]).scenario, row["faults"]
    plan = make_plan(scenario)
    (fault_set,) = parse_fault_sets(text)
    places = FaultSites(plan.algorithm, plan.scenario.fault)
    sets = [draw(fault_set, places, 11, number) for number in range(300)]
    findings = [each for each in run(scenario, sets, lambda at: at) if each.undecided is None]
    theory, found = expected(plan, text), measured(findings)
    assert theory.ratio is not None
    assert found.ratio is not None
    ratios = [each.intact / each.expected for each in findings]
    assert abs(found.ratio - theory.ratio) <= 4.5 * stdev(ratios) / sqrt(len(ratios))
    assert not outside(found.ratio, len(findings), theory.ratio)
    if theory.guaranteed is not None:
        assert found.guaranteed is not None
        assert not outside(found.guaranteed, len(findings), theory.guaranteed)


# --- known counts ------------------------------------------------------------------------------------------------------


@cache
def golden() -> dict[tuple[str, str, str, str], dict[int, tuple[int, int, int]]]:
    """Return (network, algorithm, redundancy, kind) -> number of faults -> sets survived, nodes lost, places."""
    found: dict[tuple[str, str, str, str], dict[int, tuple[int, int, int]]] = {}
    for row in golden_rows("", "tree_survival"):
        key = row["network"], row["algorithm"], row["redundancy"], row["faults"]
        counts = row["sets_survived"], row["healthy_nodes_lost_over_all_sets"], row["elements"]
        found.setdefault(key, {})[int(row["failed"])] = tuple(map(int, counts))  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("key", sorted(golden()), ids=" ".join)
def test_published_counts(key: tuple[str, str, str, str]) -> None:
    network, algorithm, redundancy, kind = key
    plan = Case(f"{network} broadcast {algorithm} redundancy={redundancy}").plan
    order = plan.topology.order
    for count, (survived, lost, places) in golden()[key].items():
        if network == "star:4" and count > 6:
            continue  # millions of sets; their sum is held against the reliability polynomial below
        owed = order - 1 - (count if kind == "node" else 0)
        theory = expected(plan, f"{kind}s={count}")
        if not owed:
            assert theory == Expected()
            continue
        sets = comb(places, count)
        require_equal(theory, Expected(1 - lost / (sets * owed), survived / sets))


@pytest.mark.parametrize("row", golden_rows("reliability", "polynomials"), ids=case_id)
def test_reliability_polynomials(row: dict[str, str]) -> None:
    """Places fail with a probability of .01, .05, .1; the sets that leave no node healthy weigh less than 1e-7.

    Of the 8,388,608 sets of nodes of S_4 this goes through all, once.
    """
    found = expected(Case(row["scenario"]).plan, row["faults"]).guaranteed
    assert found == pytest.approx(float(row["guaranteed"]), abs=1.1e-7)


@pytest.mark.parametrize(("nodes", "links", "lost"), [(1, 0, 0.667), (5, 0, 2.549), (0, 1, 0.526), (0, 3, 1.556)])
def test_nodes_lost_with_a_single_eisenstein_jacobi_tree(nodes: int, links: int, lost: float) -> None:
    """EJ_{2+3rho}: by exhaustive enumeration elsewhere."""
    ratio = expected(Case("ej:2+3 broadcast improved").plan, f"nodes={nodes};links={links}").ratio
    assert ratio is not None
    assert (18 - nodes) * (1 - ratio) == pytest.approx(lost, abs=0.0005)


@pytest.mark.parametrize(
    ("case", "x"),
    [
        ("star:4 broadcast edt", 3),
        ("ej:2+3 broadcast independent-trees", 6),
        ("star:6 broadcast edt", 5),
        ("hypercube:7 broadcast nesbt", 7),
    ],
)
def test_fewer_faults_than_trees_lose_nothing(case: str, x: int) -> None:
    """Both figures are exactly 1, even with far too many sets to enumerate."""
    plan = Case(case, redundancy=x).plan
    for faults in {0, 1, x - 1}:
        for nodes, links in {(faults, 0), (0, faults), (faults // 2, faults - faults // 2)}:
            assert expected(plan, f"nodes={nodes};links={links}") == Expected(1.0, 1.0)
    assert expected(plan, f"nodes={x}").ratio < 1 > expected(plan, f"links={x}").ratio  # type: ignore[operator]


def test_no_prediction_if_every_place_fails() -> None:
    plan = Case("star:3 broadcast edt").plan
    assert expected(plan, "nodes=5") == Expected()
    assert expected(plan, "links=6") == Expected(0.0, 0.0)


# --- where it says nothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("reliability", "unpredicted"), ids=case_id)
def test_no_prediction_where_the_formula_does_not_apply(row: dict[str, str]) -> None:
    assert expected(Case(row["scenario"]).plan, row["faults"]) == Expected()


@pytest.mark.parametrize("knowledge", ["none", "neighbours", "all"])
@pytest.mark.parametrize("algorithm", ["edt redundancy=2", "bfs-tree", "greedy-tree"])
@pytest.mark.parametrize("text", ["all:nodes=2", "all:links=1", "all:nodes=1;links=1@2"])
def test_prediction_under_fault_knowledge(algorithm: str, knowledge: str, text: str) -> None:
    """Nodes do not send to known faults, and that costs no message. Trees built around known faults are not predicted."""
    scenario = Case(f"star:3 broadcast {algorithm}", fault_knowledge=knowledge).scenario
    theory = expected(make_plan(scenario), text)
    if (algorithm, knowledge) == ("bfs-tree", "all"):
        assert theory == Expected()
    else:
        require_equal(theory, over_all_sets(scenario, text))


@pytest.mark.parametrize("text", ["all:nodes=1", "all:links=2"])
@pytest.mark.parametrize("algorithm", ["nesbt-fifo", "nesbt"])
def test_trees_without_a_timetable(algorithm: str, text: str) -> None:
    """Under faults from step 1 on, the steps of copies do not matter."""
    scenario = Case(f"hypercube:3 broadcast {algorithm} port_model=exchange redundancy=2").scenario
    require_equal(expected(make_plan(scenario), text), over_all_sets(scenario, text))


# --- promises ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("reliability", "promises"), ids=case_id)
def test_promises_count_all_faults(row: dict[str, str]) -> None:
    """edt over three trees tolerates two faults, or one that alters payloads."""
    plan = Case(row["scenario"]).plan
    (fault_set,) = parse_fault_sets(row["faults"])
    assert promises(plan.algorithm, plan.faults, fault_set) == (row["promised"] == "yes")
