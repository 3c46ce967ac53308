"""Collectives over packings of trees: timetables, faults that they survive, refusals, and one history on all drivers."""

from collections.abc import Iterable
from io import StringIO
from itertools import product

import pytest
import trio

from coordinator.campaigns.shrink import failed
from coordinator.campaigns.trial_runner import Trial, TrialRunner
from coordinator.planning.claims import run_claims
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.algorithms.any_network.tree_packings import PackingBroadcast, least_steps
from emunode.algorithms.base import ALGORITHMS, Algorithm, Need
from emunode.algorithms.conformance import check_claims, execute, measure
from emunode.algorithms.registry import make_algorithm
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import connected_graphs, golden_network, network_of_graph
from tests.helpers.scenarios import Case
from tests.helpers.support import run_scenario

NAMES = ("edge-disjoint-trees", "independent-trees", "arborescences")
ENTRIES = [entry for entry in ALGORITHMS.values() if entry.__module__.endswith("tree_packings")]


def job(topology: Topology, name: str, collective: Collective = Collective.BROADCAST, **values: object) -> Algorithm:
    spec = CollectiveSpec(topology.name, collective, name, 0)
    return make_algorithm(topology, spec._replace(**values))  # type: ignore[arg-type]


def test_five_collectives_are_registered_for_each_packing() -> None:
    assert len(ENTRIES) == 15
    assert all(entry.family == "any" and Need.TABLE in entry.needs for entry in ENTRIES)


def sample(share: int, largest: int = 6) -> list[Topology]:
    """Return every `share`-th connected graph of at most `largest` nodes."""
    return [network_of_graph(graph) for graph in list(connected_graphs(largest))[::share]]


def run_on(networks: list[Topology]) -> int:
    """Run every collective and redundancy on each network from two sources; returns how many jobs ran."""
    ran = 0
    for network, entry, redundancy in product(networks, ENTRIES, (1, 2, 3)):
        for source in (0, network.order - 1):
            try:
                algorithm = job(network, entry.name, entry.collective, source=source, redundancy=redundancy, messages=3)
            except ScenarioError as refusal:
                assert refusal.field in ("topology", "redundancy")  # noqa: PT017  # anything else is a bug
                continue
            check_claims(algorithm, measure(algorithm, execute(algorithm)))
            ran += 1
    return ran


def test_runs_on_a_sample_of_all_small_graphs() -> None:
    assert run_on(sample(12)) > 150


@pytest.mark.slow
def test_runs_on_all_graphs_of_at_most_six_nodes() -> None:
    assert run_on(sample(1)) > 2000


@pytest.mark.parametrize(("name", "messages", "segments"), [*product(NAMES, (1, 3), (1, 4))])
def test_steps_are_the_least_for_the_heights(name: str, messages: int, segments: int) -> None:
    for network in (golden_network("S_4"), golden_network("karate"), golden_network("wheel_8")):
        if name == "independent-trees" and network.name == "file:karate":
            continue
        algorithm = job(network, name, messages=messages, segments=segments)
        assert isinstance(algorithm, PackingBroadcast)
        heights = [algorithm.trees.height(tree) for tree in range(algorithm.trees.count)]
        copies = messages * segments * len(heights)
        assert sum(algorithm.loads) == copies
        used = [height + load - 1 for height, load in zip(heights, algorithm.loads, strict=True) if load]
        assert max(used) == algorithm.last_step == least_steps(heights, copies, copies)
        assert measure(algorithm, execute(algorithm))["steps"] == algorithm.last_step


# Faults.


def verdict(faults: list[str], **values: object) -> Verdict:
    found = run_scenario(None, collective="broadcast", fault=faults, **values)
    claimed = {judgement.claim.name for judgement in found.judgements}
    assert "delivery_ratio" in claimed
    return found.verdict


def unserved(faults: Iterable[str], **values: object) -> list[str]:
    """Return the faults, one at a time, that cost a healthy node a message or violate a claim."""
    scenario = make_scenario({"driver": "memory", "collective": "broadcast", **values})

    async def trials() -> list[str]:
        async with TrialRunner([scenario], StringIO()) as runner:
            return [fault for fault in faults if failed(await runner.trial(Trial(0, (fault,), 0)))]

    return trio.run(trials)


@pytest.mark.parametrize(
    ("topology", "algorithm", "kind"),
    [
        ("torus:4x4", "edge-disjoint-trees", "down:{}~{}@1"),
        ("torus:3x3", "independent-trees", "down:{}~{}@1"),
        ("torus:3x3", "arborescences", "down:{}>{}@1"),
    ],
)
def test_two_copies_survive_every_broken_link(topology: str, algorithm: str, kind: str) -> None:
    network = parse_topology(topology)
    links = [tuple(map(network.label, (one, other))) for one, _, other, _ in network.links()]
    faults = [kind.format(*link) for link in links]
    assert unserved(faults, topology=topology, algorithm=algorithm, redundancy=2) == []
    assert unserved(faults, topology=topology, algorithm=algorithm, redundancy=1) != []
    assert verdict(faults[:1], topology=topology, algorithm=algorithm, redundancy=2) is Verdict.HOLDS


def test_three_copies_outvote_a_lying_node() -> None:
    values = {"topology": "hypercube:3", "algorithm": "independent-trees", "redundancy": 3}
    for label in ("001", "011", "111"):
        assert verdict([f"byzantine:{label}@1"], **values) is Verdict.HOLDS


def test_edge_disjoint_trees_claim_nothing_about_faulty_nodes() -> None:
    values = {"topology": "hypercube:4", "collective": "broadcast", "algorithm": "edge-disjoint-trees", "redundancy": 2}
    claimed = []
    for label in ("0001", "0010", "0100", "1000"):
        plan = Case(values, f"crash:{label}@1").plan
        names = {claim.name: claim for claim in run_claims(plan).kept}
        assert "delivery_ratio" not in names
        claimed.append(str(names["intact_deliveries"].predicted))
    # Trees share inner nodes: a single crash costs healthy nodes both copies.
    assert min(map(float, claimed)) < 14


# Drivers.
