"""Agreement after crashes and lasting faults, held against plain sets of links and nodes."""

from collections.abc import Iterable
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.annexes.agreement.cases import joined_groups
from coordinator.history.journal import sorted_records
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.annexes.agreement.survivors import RunEnd
from emunode.engine.memory import MemoryEngine
from emunode.faults.kinds import Crash
from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome, Rank, Step
from emunode.play import play
from emunode.protocols.base import ControlKind
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.feature_support import SHRINK, Values
from tests.helpers.scenarios import Case

# --- every crash, by a judge of its own -------------------------------------------------------------------------------


NETWORKS = {
    "star:4": "greedy-tree",
    "hypercube:4": "sbt",
    "ej:1+2": "improved",
    "ej:2+3": "improved",
}
LAST = 9
"""The last step when a node crashes: during the first run, the agreement, or the second run."""


@cache
def shrinking_plan(network: str) -> Plan:
    values = {"topology": network, "collective": "broadcast", "algorithm": NETWORKS[network], "driver": "memory"}
    return make_plan(make_scenario(values | SHRINK | {"fault": []}), faults_may_come=True)


def check(network: str, crashes: dict[Rank, Step]) -> None:
    """Run a broadcast with crashes of these nodes, and judge its journal by plain sets of links and nodes."""
    plan = shrinking_plan(network)
    topology, source = plan.topology, plan.spec.source
    assert plan.spec.agreement is not None
    engine, last = MemoryEngine(plan.algorithm), max(crashes.values()) + 1
    faults = [Crash(at, rank) for rank, at in crashes.items()]
    rows = list(play(engine, faults, limit=200, over=lambda step, busy: not busy and step > last))
    assert not engine.busy
    # Steps after the last one that do anything are not part of the run, so a crash in them is none.
    records = sorted_records(rows)
    reports: dict[Rank, list[tuple[int, ...]]] = {}
    columns = ["sender", "step", "tree", "origin", "target", "segment"]
    for sender, *report in records[records["outcome"] == HopOutcome.REPORT][columns].tolist():
        reports.setdefault(sender, []).append(tuple(report))
    survivors = [rank for rank in topology.ranks() if rank not in crashes]
    expected = expected_decisions(topology, crashes)
    with_source = [nx.node_connected_component(without(topology, links), source) for links in expected.values()]
    for rank in survivors:
        decided: dict[Step, set[frozenset[Rank]]] = {}
        for at, tree, *link, _ in reports.get(rank, ()):
            links = decided.setdefault(at, set())
            if tree == CONTROL_TREE + ControlKind.SUSPICION:
                links.add(frozenset(link))
        assert decided == {seen + plan.spec.agreement.steps: links for seen, links in expected.items()}
        ends = [segment for _, tree, *_, segment in reports.get(rank, ()) if tree == CONTROL_TREE + ControlKind.END]
        assert ends == [RunEnd.REPEATED if rank in connected else RunEnd.ROOT_FAILED for connected in with_source]
    if source not in crashes:
        first = AGAIN_TREE + 256 * (len(expected) - 1)
        served = records[(records["tree"] == first) & (records["outcome"] == HopOutcome.FIRST)]
        # Each survivor has the message once, from the second run alone.
        assert sorted(served["receiver"]) == [rank for rank in survivors if rank != source]


def without(topology: Topology, links: Iterable[Iterable[Rank]]) -> "nx.Graph[Rank]":
    """The network without some links."""
    graph = nx.Graph((one, peer) for one in topology.ranks() for _, peer in topology.adjacent(one))
    graph.remove_edges_from(tuple(link) for link in links)
    return graph


def expected_decisions(topology: Topology, crashes: dict[Rank, Step]) -> dict[Step, set[frozenset[Rank]]]:
    """By step of suspicion, one after a crash, all links that are suspected until then: those to live neighbours."""
    links: set[frozenset[Rank]] = set()
    found = {}
    for at in sorted(set(crashes.values())):
        for rank in (rank for rank, step in crashes.items() if step == at):
            alive = [peer for _, peer in topology.adjacent(rank) if crashes.get(peer, at + 2) > at + 1]
            links |= {frozenset((rank, peer)) for peer in alive}
        found[at + 1] = set(links)
    return found


@pytest.mark.exhaustive(one_in=60)
@pytest.mark.parametrize(
    ("network", "rank"),
    [(network, rank) for network in NETWORKS for rank in parse_topology(network).ranks()],
)
def test_after_any_crash_survivors_agree_and_are_served(network: str, rank: Rank) -> None:
    for at in range(1, LAST + 1):
        check(network, {rank: at})


@pytest.mark.exhaustive(one_in=280)
@pytest.mark.parametrize("pair", list(combinations(range(24), 2)))
def test_after_any_two_crashes_survivors_agree_and_are_served(pair: tuple[Rank, Rank]) -> None:
    one, other = pair
    # Every second step, the other ones for the next pair.
    for at in range(1 + sum(pair) % 2, LAST + 1, 2):
        # Together, one after the other while nodes agree, when they decide, and during the second run.
        check("star:4", {one: at, other: at})
        for later in (1, 3, 6, 8):
            check("star:4", {one: at, other: at + later})
            check("star:4", {other: at, one: at + later})


# --- runs -------------------------------------------------------------------------------------------------------------


@st.composite
def lasting_faults(draw: st.DrawFn) -> Values:
    network = draw(st.sampled_from(["hypercube:3", "ring:6", "mesh:3x3", "ej:1+2", "debruijn:2,3"]))
    topology = parse_topology(network)
    faults = {}
    for rank in draw(st.lists(st.sampled_from(topology.ranks()), max_size=4, unique=True)):
        kind, step = draw(st.sampled_from(["crash", "hang", "down"])), draw(st.integers(1, 12))
        port, peer = draw(st.sampled_from(list(topology.adjacent(rank))))
        ends = f"{topology.label(rank)}{draw(st.sampled_from('~>'))}{topology.label(peer)}"
        faults[rank] = f"{kind}:{ends if kind == 'down' else topology.label(rank)}@{step}"
        assert port in topology.ports(rank)
    return {
        "topology": network,
        "fault": list(faults.values()),
        "fault_knowledge": f"detect:{draw(st.integers(1, 3))}",
        "on_failure": draw(st.sampled_from(["agree", "shrink"])),
    }


@given(lasting_faults())
def test_no_run_is_judged_wrong(values: Values) -> None:
    """Whatever fails, and even if the network is cut: one decision in each component, and at most one part goes on."""
    result = Case({"collective": "broadcast", "algorithm": "bfs-tree", "driver": "memory"} | values).run
    assert result.verdict is not Verdict.VIOLATED, [each.record() for each in result.judgements]
    assert result.summary["agreement_errors"] == 0
    going_on = [each for each in result.conclusion.measurement.stated["agreement"] if "repeated" in each["ends"]]  # type: ignore[attr-defined]
    assert len(going_on) <= 1
    if going_on:
        assert_largest(result.plan, going_on[0])


def assert_largest(plan: Plan, decision: Any) -> None:
    """The part that goes on is the largest component of the network without the links given up."""
    topology = plan.topology
    graph = without(topology, [map(topology.rank, link.split("~")) for link in decision["links"]])
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    assert {topology.label(rank) for part in parts[1:] for rank in part} == {*decision["lost_nodes"]}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), st.sets(st.integers(0, 9), min_size=1))
def test_joined_groups_are_components(links: list[tuple[Rank, Rank]], ranks: set[Rank]) -> None:
    graph = nx.Graph(link for link in links if {*link} <= ranks)
    graph.add_nodes_from(ranks)
    groups = joined_groups(sorted(ranks), links)
    assert sorted(map(sorted, groups)) == sorted(map(sorted, nx.connected_components(graph)))
