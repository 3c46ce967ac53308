"""Predictions compared with runs of every set of faults, with a walk over the trees, and with published counts."""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from math import comb, prod, sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest
import trio

from coordinator.campaigns.statistics import outside
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.fault_draws import FaultSites, draw, every_set
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.theory.reliability import Expected, expected_delivery_ratio, promises
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.kinds import Down, Fault, Loss
from emunode.net.wire import ROW
from tests.support import played

GOLDEN = Path(__file__).parents[2] / "golden" / "tree_survival.csv"
"""Survived sets and lost nodes over all sets, from independent programs."""


Case = tuple[str, str, Mapping[str, object]]
"""Topology, algorithm, and other fields of a broadcast in memory."""
NONE: Mapping[str, object] = {}


def scenario_of(topology: str, algorithm: str, values: Mapping[str, object] = NONE, **more: object) -> Scenario:
    """A broadcast in memory."""
    scenario = {"topology": topology, "collective": "broadcast", "algorithm": algorithm, "driver": "memory"}
    return make_scenario({**scenario, **values, **more})


def plan_of(topology: str, algorithm: str, values: Mapping[str, object] = NONE, **more: object) -> Plan:
    """The plan of such a broadcast."""
    return make_plan(scenario_of(topology, algorithm, values, **more))


def expected(plan: Plan, text: str) -> Expected:
    """The prediction for a fault set."""
    (fault_set,) = parse_fault_sets(text)
    places = FaultSites(plan.algorithm, plan.scenario.fault)
    return expected_delivery_ratio(plan.algorithm, plan.faults, plan.scenario.fault_knowledge, fault_set, places)


def run(
    scenario: Scenario, sets: Sequence[tuple[str, ...]], seeds: Callable[[int], int] = lambda _: 0
) -> list[TrialResult]:
    """Trials in memory, one per set."""

    async def carry_out() -> list[TrialResult]:
        async with TrialRunner([scenario], sys.stderr) as runner:
            return [await runner.trial(Trial(0, faults, seeds(at))) for at, faults in enumerate(sets)]

    return trio.run(carry_out)


def measured(findings: Sequence[TrialResult]) -> Expected:
    """Both figures over decided trials."""
    counted = [result for result in findings if result.undecided is None]
    assert not any(result.violated for result in counted)
    return Expected(fmean(each.intact / each.expected for each in counted), fmean(each.served for each in counted))


def over_all_sets(scenario: Scenario, text: str) -> Expected:
    """Both figures from running every set of faults."""
    plan = make_plan(scenario)
    sites = FaultSites(plan.algorithm, plan.scenario.fault)
    return measured(run(scenario, list(every_set(parse_fault_sets(text)[0], sites))))


def require_equal(theory: Expected, found: Expected, rel: float = 1e-12) -> None:
    """Theory predicts both figures, and both as they were found."""
    assert theory.ratio == pytest.approx(found.ratio, rel=rel)
    assert theory.guaranteed == pytest.approx(found.guaranteed, rel=rel)


# --- every set, really run ---------------------------------------------------------------------------------------------

SMALL: Sequence[Case] = [
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


@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("text", POINTS)
def test_prediction_is_the_mean_over_all_sets(case: Case, text: str) -> None:
    theory = expected(plan_of(*case), text)
    require_equal(theory, over_all_sets(scenario_of(*case), text))
    assert expected(plan_of(*case), text.removeprefix("all:")) == theory


GIVEN = [
    ["crash:{one}@1"], ["crash:{one}@3"], ["hang:{one}@2", "down:{link}@1"], ["down:{link}@2-2"], ["down:{arc}@1-3"],
    ["corrupt:{link}:0", "loss:{link}:1@2"],
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("case", [SMALL[1], SMALL[4], SMALL[5], SMALL[7]])
@pytest.mark.parametrize("text", ["all:nodes=0", "all:nodes=1", "all:links=1", "all:nodes=1;links=1@2"])
def test_given_faults_are_counted(case: Case, text: str, given: Sequence[str]) -> None:
    network = plan_of(*case).topology
    source = network.rank(str(case[2].get("source", network.label(0))))
    one, two = network.neighbours(source)[:2]
    names = {
        "one": network.label(one),
        "link": f"{network.label(two)}~{network.label(source)}",
        "arc": f"{network.label(source)}>{network.label(two)}",
    }
    scenario = scenario_of(*case, fault=[spec.format(**names) for spec in given])
    theory, found = expected(make_plan(scenario), text), over_all_sets(scenario, text)
    assert theory.ratio == pytest.approx(found.ratio, rel=1e-12)
    lossy = any(spec.startswith("loss") for spec in given)
    assert theory.guaranteed == (pytest.approx(found.guaranteed, rel=1e-12) if theory.guaranteed is not None else None)
    assert theory.guaranteed is not None or lossy


@pytest.mark.parametrize(
    "text",
    [
        "cut:victim={v};nodes=1", "cut:victim={v};links=2", "roots:nodes=1", "roots:links=2@2", "busiest:nodes=2",
        "busiest:links=2@2", "busiest:nodes=1;links=1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("case", [SMALL[0], SMALL[4], SMALL[7]])
def test_prediction_for_selected_places(case: Case, text: str) -> None:
    """Enumerates the sets of `cut` and `roots` by drawing often; `busiest` has one set."""
    plan = plan_of(*case)
    text = text.format(v=plan.topology.label(plan.topology.order - 1))
    (fault_set,) = parse_fault_sets(text)
    sets = {frozenset(draw(fault_set, FaultSites(plan.algorithm), 0, number)) for number in range(200)}
    assert len(sets) == 1 or not text.startswith("busiest")
    require_equal(expected(plan, text), measured(run(plan.scenario, [tuple(each) for each in sets])))


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", [SMALL[0], SMALL[4], SMALL[7]])
def test_places_that_fail_independently(case: Case, share: float) -> None:
    """All 2^n sets of nodes, weighted, without the set of all nodes."""
    scenario = scenario_of(*case)
    plan = make_plan(scenario)
    places = FaultSites(plan.algorithm)
    ratio = guaranteed = weight = 0.0
    for count in range(len(places.nodes()) + 1):
        findings = run(scenario, list(every_set(parse_fault_sets(f"all:nodes={count}")[0], places)))
        chance = share**count * (1 - share) ** (len(places.nodes()) - count)
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
    plan = plan_of("hypercube:3", "nesbt", redundancy=3)
    for share in (0.01, 0.3):
        theory = expected(plan, f"bernoulli:links={share}")
        weights = [share**count * (1 - share) ** (12 - count) for count in range(13)]
        rows = golden()["hypercube:3", "nesbt", "3", "link"]
        survived, lost = (sum(w * rows[k][column] for k, w in enumerate(weights)) for column in (0, 1))
        require_equal(theory, Expected(1 - lost / 7, survived))


# --- losses ------------------------------------------------------------------------------------------------------------


PortPacket = tuple[int, int, int]
"""Step, sender, receiver."""


def packets_of_copies(plan: Plan) -> dict[tuple[int, int], dict[int, list[frozenset[PortPacket]]]]:
    """(rank, message) -> segment -> the packets of each copy, from the journal of a fault-free run."""
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
    """Both figures, over every set of packets that can be lost."""
    copies = packets_of_copies(plan)
    packets = {packet for ways in copies.values() for each in ways.values() for way in each for packet in way}
    lossy = sorted(packet for packet in packets if rate_of(packet))
    ratio = guaranteed = 0.0
    for fates in product((False, True), repeat=len(lossy)):
        gone = {packet for packet, lost in zip(lossy, fates, strict=True) if lost}
        chance = prod(rate_of(packet) if packet in gone else 1 - rate_of(packet) for packet in lossy)
        served = [all(any(not way & gone for way in each) for each in ways.values()) for ways in copies.values()]
        ratio += chance * fmean(served)
        guaranteed += chance * all(served)
    return Expected(ratio, guaranteed)


LOSSY: Sequence[Case] = [
    ("star:3", "edt", {}),
    ("star:3", "edt", {"redundancy": 2}),
    ("star:3", "edt", {"redundancy": 2, "messages": 2}),
    ("hypercube:2", "nesbt", {"segments": 2}),
    ("hypercube:3", "sbt", {"port_model": "one-port"}),
]


@pytest.mark.parametrize(
    "text", ["loss=1:0.3", "loss=2:0.3@2", "loss=1:0.5@1-2", "links=1;loss=1:0.25", "loss=1:0.5;loss=1:1"]
)
@pytest.mark.parametrize("case", LOSSY)
def test_links_that_lose_packets(case: Case, text: str) -> None:
    """Over every set of links and every set of packets that these may lose."""
    plan = plan_of(*case)
    places = FaultSites(plan.algorithm)
    figures = []
    for specs in every_set(parse_fault_sets(f"all:{text}")[0], places):
        faults = parse_faults(specs, plan.topology)

        def rate_of(packet: PortPacket, faults: Sequence[Fault] = faults) -> float:
            step, sender, receiver = packet
            whole = 1.0
            for fault in faults:
                assert isinstance(fault, Down | Loss)
                if (fault.sender, plan.topology.neighbour(fault.sender, fault.port)) == (sender, receiver):
                    whole *= 1 - getattr(fault, "rate", 1.0) if fault.step <= step <= fault.last else 1
            return 1 - whole

        figures.append(by_packets(plan, rate_of))
    theory = expected(plan, text)
    assert theory.ratio == pytest.approx(fmean(each.ratio or 0.0 for each in figures), rel=1e-9)
    single = case[2].get("redundancy", 1) == 1
    assert (theory.guaranteed is not None) == single
    if single:
        assert theory.guaranteed == pytest.approx(fmean(each.guaranteed or 0.0 for each in figures), rel=1e-9)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "loss=4:0.3"),
        ([], "bernoulli:loss=0.4:0.5"),
        ([], "bernoulli:nodes=0.1;links=0.1;loss=0.2:0.5@2"),
        (["loss:000>001:0.4", "crash:011@2"], "loss=2:0.5;links=1"),
        (["loss:000~001:0.5@2-3"], "nodes=1@2"),
        ([], "bernoulli:links=0.2@2-3"),
        ([], "bernoulli:crash=0.2;hang=0.2@2"),
    ],
)
@pytest.mark.parametrize("values", [{"redundancy": 2}, {}], ids=["two-copies", "striped"])
def test_draws_agree_with_the_prediction(given: Sequence[str], text: str, values: Mapping[str, object]) -> None:
    """Runs 300 draws with fixed seeds; the 99.99 % interval of a correct figure contains it."""
    scenario = scenario_of("hypercube:3", "nesbt", values, fault=given)
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
    """(network, algorithm, redundancy, kind) -> number of faults -> sets survived, nodes lost, places."""
    found: dict[tuple[str, str, str, str], dict[int, tuple[int, int, int]]] = {}
    with GOLDEN.open() as file:
        for row in csv.DictReader(file):
            key = row["network"], row["algorithm"], row["redundancy"], row["faults"]
            counts = row["sets_survived"], row["healthy_nodes_lost_over_all_sets"], row["elements"]
            found.setdefault(key, {})[int(row["failed"])] = tuple(map(int, counts))  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("key", sorted(golden()), ids=" ".join)
def test_published_counts(key: tuple[str, str, str, str]) -> None:
    network, algorithm, redundancy, kind = key
    plan = plan_of(network, algorithm, redundancy=int(redundancy))
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


@pytest.mark.parametrize(
    ("network", "algorithm", "redundancy", "kind", "figures"),
    [
        ("star:4", "edt", 3, "nodes", (0.9996864229, 0.9720041873, 0.8530133825)),
        ("star:4", "greedy-tree", 1, "nodes", (0.8694480870, 0.4980408653, 0.2499520860)),
        ("hypercube:4", "nesbt", 4, "nodes", (0.9999982663, 0.9991289079, 0.9894331209)),
        ("hypercube:3", "nesbt", 3, "links", (0.9999308900, 0.9926864664, 0.9527674248)),
        ("ej:2+3", "independent-trees", 6, "nodes", (0.9999999997, 0.9999956840, 0.9997836011)),
    ],
)
def test_reliability_polynomials(
    network: str, algorithm: str, redundancy: int, kind: str, figures: Sequence[float]
) -> None:
    """Places fail with a probability of .01, .05, .1; the sets that leave no node healthy weigh less than 1e-7.

    Of the 8,388,608 sets of nodes of S_4 this goes through all, once.
    """
    plan = plan_of(network, algorithm, redundancy=redundancy)
    figures = [figure for figure in figures if network != "star:4" or figure == figures[1]]
    for share, figure in zip((0.01, 0.05, 0.1) if len(figures) > 1 else (0.05,), figures, strict=True):
        assert expected(plan, f"bernoulli:{kind}={share}").guaranteed == pytest.approx(figure, abs=1.1e-7)


@pytest.mark.parametrize(("nodes", "links", "lost"), [(1, 0, 0.667), (5, 0, 2.549), (0, 1, 0.526), (0, 3, 1.556)])
def test_nodes_lost_with_the_single_tree_of_an_eisenstein_jacobi_network(nodes: int, links: int, lost: float) -> None:
    """EJ_{2+3rho}: by exhaustive enumeration elsewhere."""
    ratio = expected(plan_of("ej:2+3", "improved"), f"nodes={nodes};links={links}").ratio
    assert ratio is not None
    assert (18 - nodes) * (1 - ratio) == pytest.approx(lost, abs=0.0005)


@pytest.mark.parametrize(
    ("topology", "algorithm", "x"),
    [("star:4", "edt", 3), ("ej:2+3", "independent-trees", 6), ("star:6", "edt", 5), ("hypercube:7", "nesbt", 7)],
)
def test_fewer_faults_than_trees_lose_nothing(topology: str, algorithm: str, x: int) -> None:
    """Both figures are exactly 1, even with far too many sets to enumerate."""
    plan = plan_of(topology, algorithm, redundancy=x)
    for faults in {0, 1, x - 1}:
        for nodes, links in {(faults, 0), (0, faults), (faults // 2, faults - faults // 2)}:
            assert expected(plan, f"nodes={nodes};links={links}") == Expected(1.0, 1.0)
    assert expected(plan, f"nodes={x}").ratio < 1 > expected(plan, f"links={x}").ratio  # type: ignore[operator]


def test_no_prediction_if_every_place_fails() -> None:
    plan = plan_of("star:3", "edt")
    assert expected(plan, "nodes=5") == Expected()
    assert expected(plan, "links=6") == Expected(0.0, 0.0)


# --- where it says nothing ---------------------------------------------------------------------------------------------


EDT = "star:4", "edt"
UNPREDICTED: Sequence[tuple[str, str, Mapping[str, object], str]] = [
    ("star:4", "flood", {}, "nodes=1"),
    ("star:4", "rotated-trees", {"collective": "allgather"}, "nodes=1"),
    ("ej:1+2^3", "independent-trees", {"redundancy": 18}, "nodes=1"),
    *(
        (*EDT, {"redundancy": 3}, text)
        for text in (
            "nodes=1;byzantine=1", "corrupt=1:0.5", "duplicate=1:0.5", "delay=1:2", "drop=1:1", "hang=1@2-4",
        )
    ),
    *(
        (*EDT, {"redundancy": 3, "fault": given.split()}, "nodes=1")
        for given in (
            "byzantine:2134", "hang:2134@1-2", "crash:2134@1 recover:2134@2", "down:1234~2134@1 up:1234~2134@2",
            "delay:1234~2134:1", "crash:1234@3",
        )
    ),
    ("star:4", "bfs-tree", {"fault_knowledge": "all"}, "nodes=1"),
    ("hypercube:3", "nesbt-fifo", {"port_model": "exchange"}, "nodes=1@2"),
    ("hypercube:3", "nesbt-fifo", {"port_model": "exchange"}, "loss=1:0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("topology", "algorithm", "values", "text"), UNPREDICTED)
def test_no_prediction_where_the_formula_does_not_apply(
    topology: str, algorithm: str, values: Mapping[str, object], text: str
) -> None:
    assert expected(plan_of(topology, algorithm, values), text) == Expected()


@pytest.mark.parametrize("knowledge", ["none", "neighbours", "all"])
@pytest.mark.parametrize(("algorithm", "values"), [("edt", {"redundancy": 2}), ("bfs-tree", {}), ("greedy-tree", {})])
@pytest.mark.parametrize("text", ["all:nodes=2", "all:links=1", "all:nodes=1;links=1@2"])
def test_prediction_under_fault_knowledge(
    algorithm: str, values: Mapping[str, object], knowledge: str, text: str
) -> None:
    """Nodes do not send to known faults, which costs no message. Trees built around known faults are not predicted."""
    scenario = scenario_of("star:3", algorithm, values, fault_knowledge=knowledge)
    theory = expected(make_plan(scenario), text)
    if (algorithm, knowledge) == ("bfs-tree", "all"):
        assert theory == Expected()
    else:
        require_equal(theory, over_all_sets(scenario, text))


@pytest.mark.parametrize("text", ["all:nodes=1", "all:links=2"])
@pytest.mark.parametrize("algorithm", ["nesbt-fifo", "nesbt"])
def test_trees_without_a_timetable(algorithm: str, text: str) -> None:
    """Under faults from step 1 on, the steps of copies do not matter."""
    scenario = scenario_of("hypercube:3", algorithm, port_model="exchange", redundancy=2)
    require_equal(expected(make_plan(scenario), text), over_all_sets(scenario, text))


# --- promises ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text", "promised"),
    [
        ([], "nodes=2", True),
        ([], "nodes=3", False),
        ([], "nodes=1;links=1@3", True),
        ([], "byzantine=1", True),
        ([], "nodes=1;byzantine=1", False),
        ([], "loss=2:0.5", True),
        ([], "bernoulli:nodes=0.1", False),
        (["crash:2134@1"], "nodes=1", True),
        (["crash:2134@1"], "nodes=2", False),
        (["down:1234~2134@1"], "nodes=2", False),
        (["corrupt:1234~2134:0"], "nodes=2", True),
        (["byzantine:2134"], "nodes=0", True),
        (["byzantine:2134"], "nodes=1", False),
        (["crash:1234@1"], "nodes=1", False),
    ],
)
def test_promises_count_all_faults(given: Sequence[str], text: str, promised: bool) -> None:
    """edt over three trees tolerates two faults, or one that alters payloads."""
    plan = plan_of("star:4", "edt", redundancy=3, fault=given)
    assert promises(plan.algorithm, plan.faults, parse_fault_sets(text)[0]) == promised
