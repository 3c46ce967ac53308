"""Rules for nodes that ask for what they miss: published figures, who is served, and what is asked for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.history.journal import sorted_records
from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import Crash, Down, Fault, Loss, Recover, in_order
from emunode.model import CONTROL_TREE, Collective, CollectiveSpec, HopOutcome, PortModel, Rank, Repair, Step
from emunode.play import play
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.support import golden_rows

Records = np.ndarray[Any, np.dtype[Any]]


class Figures(NamedTuple):
    """The step of the last first receipt, the segments that were sent, and the requests."""

    last: int
    segments: int
    requests: int


def algorithm_for(network: str, name: str, rule: str, after: int = 1, *, heal: Step = 0, **more: Any) -> TreeCollective:
    spec = CollectiveSpec(network, Collective.BROADCAST, name, 0, repair=Repair(rule, after, heal))._replace(**more)
    algorithm = make_algorithm(parse_topology(network), spec)
    assert isinstance(algorithm, TreeCollective)
    return algorithm


def journal_of(algorithm: TreeCollective, faults: Sequence[Fault] = ()) -> Records:
    engine, last = MemoryEngine(algorithm), max((fault.step for fault in faults), default=0)
    rows = list(play(engine, faults, limit=2000, over=lambda step, busy: not busy and step >= last))
    assert not engine.busy, "the run does not end"
    return sorted_records(rows)


def figures_of(journal: Records) -> Figures:
    firsts = journal[journal["outcome"] == HopOutcome.FIRST]
    control = int((journal["tree"] >= CONTROL_TREE).sum())
    return Figures(int(firsts["step"].max(initial=0)), len(journal) - control, control)


def requests_of(journal: Records) -> Records:
    return journal[journal["tree"] >= CONTROL_TREE]


def received(journal: Records) -> dict[Rank, set[int]]:
    """By rank, the segments that it received."""
    found: dict[Rank, set[int]] = {}
    for row in journal[journal["outcome"] == HopOutcome.FIRST]:
        found.setdefault(int(row["receiver"]), set()).add(int(row["segment"]))
    return found


# --- every single crash before step 1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("repair", "next_port"), ids=lambda row: "-".join([*row.values()][:3]))
def test_next_port_takes_the_published_steps(row: dict[str, str]) -> None:
    """The last receipts, segments and requests over all single crashes, and those of some crashes on their own."""
    algorithm = algorithm_for(row["network"], row["algorithm"], "next-port", int(row["after"]))
    topology = algorithm.topology
    found = {}
    for rank in range(1, topology.order):
        journal = journal_of(algorithm, (Crash(1, rank),))
        found[topology.label(rank)] = figures_of(journal)
        assert received(journal).keys() == set(topology.ranks()) - {0, rank}
    last, segments, requests = zip(*found.values(), strict=True)
    assert (max(last), min(segments), max(segments), max(requests)) == tuple(
        int(row[name]) for name in ("worst", "fewest_segments", "most_segments", "most_requests")
    )
    assert sum(last) / len(last) == pytest.approx(float(row["mean"]), abs=5e-4)
    for label, numbers in (each.split(":") for each in row["some_crashes"].split()):
        assert "/".join(map(str, found[label])) == numbers


# --- who is served -----------------------------------------------------------------------------------------------------


def links_of(topology: Topology, rule: str, algorithm: TreeCollective) -> "nx.DiGraph[Rank]":
    """Return the directed links that can carry a message under a rule: all of them, or the arcs of all trees."""
    graph: nx.DiGraph[Rank] = nx.DiGraph()
    graph.add_nodes_from(topology.ranks())
    for rank in topology.ranks():
        for port, peer in topology.adjacent(rank):
            arc = any(port in algorithm.trees.children(rank, tree) for tree in range(algorithm.trees.count))
            if rule == "next-port" or arc:
                graph.add_edge(rank, peer)
    return graph


NETWORKS = (
    ("hypercube:3", "sbt", "next-port"),
    ("star:4", "greedy-tree", "next-port"),
    ("ej:1+3", "improved", "next-port"),
    ("mesh:3x3", "bfs-tree", "next-port"),
    ("fat-tree:4", "bfs-tree", "next-port"),
    ("star:4", "edt", "next-port"),
    ("star:4", "edt", "switch-tree"),
    ("hypercube:4", "nesbt", "switch-tree"),
    ("ej:1+2", "independent-trees", "switch-tree"),
)


@given(data=st.data())
def test_every_healthy_node_that_is_connected_is_served(data: st.DataObject) -> None:
    """Crashes and broken links in any step: what healthy nodes and links connect to the source is served."""
    network, name, rule = data.draw(st.sampled_from(NETWORKS))
    model = data.draw(st.sampled_from(parse_models(network, name)))
    messages = data.draw(st.integers(1, 3))
    algorithm = algorithm_for(network, name, rule, data.draw(st.integers(1, 3)), port_model=model, messages=messages)
    topology = algorithm.topology
    steps = st.integers(1, 8)
    crashed = data.draw(st.dictionaries(st.integers(1, topology.order - 1), steps, max_size=3))
    cut = data.draw(st.dictionaries(st.sampled_from(list(topology.links())), steps, max_size=4))
    faults: list[Fault] = [Crash(step, rank) for rank, step in crashed.items()]
    for (rank, port, other, back), step in cut.items():
        faults += [Down(step, rank, port), Down(step, other, back)]
    journal = journal_of(algorithm, list(in_order(faults)))
    graph = links_of(topology, rule, algorithm)
    graph.remove_nodes_from(crashed)
    graph.remove_edges_from([pair for rank, _, other, _ in cut for pair in ((rank, other), (other, rank))])
    due = messages * algorithm.segments_per_message
    connected = nx.descendants(graph, 0).intersection(topology.data_ranks)  # a switch forwards, and owns nothing
    had = received(journal)
    assert all(len(had.get(rank, ())) == due for rank in connected)
    if max([*crashed.values(), *cut.values()], default=1) == 1:
        assert all(rank in connected for rank in had)
    # Nothing is asked for that has arrived before, and by each port once at most.
    first = {(row["receiver"], row["segment"]): row["step"] for row in journal[journal["outcome"] == HopOutcome.FIRST]}
    requests = requests_of(journal)
    assert all(row["step"] <= first.get((row["sender"], row["segment"]), row["step"]) for row in requests)
    asked = Counter((row["sender"], row["port"], row["segment"]) for row in requests)
    assert set(asked.values()) <= {1}


def parse_models(network: str, name: str) -> tuple[PortModel, ...]:
    """Return the port models that let an algorithm be repaired."""
    models = type(algorithm_for(network, name, "next-port")).port_models
    return tuple(model for model in (PortModel.ALL_PORT, PortModel.ONE_PORT) if model in models)


def test_a_node_that_recovers_asks_for_all_it_has_missed() -> None:
    algorithm = algorithm_for("hypercube:3", "sbt", "next-port", messages=4)
    journal = journal_of(algorithm, (Crash(1, 1), Recover(9, 1)))
    assert received(journal) == {rank: {0, 1, 2, 3} for rank in range(1, 8)}


def test_a_source_that_recovers_answers() -> None:
    """It does not repeat what it missed to send, but it has its messages."""
    algorithm = algorithm_for("hypercube:3", "sbt", "next-port", messages=3)
    journal = journal_of(algorithm, (Crash(2, 0), Recover(3, 0)))
    assert received(journal) == {rank: {0, 1, 2} for rank in range(1, 8)}


@pytest.mark.parametrize(("messages", "after"), [(1, 1), (5, 1), (5, 4)])
@pytest.mark.parametrize(("network", "name", "rule"), NETWORKS)
def test_without_faults_nobody_asks(network: str, name: str, rule: str, messages: int, after: int) -> None:
    for model in parse_models(network, name):
        asking = algorithm_for(network, name, rule, after, messages=messages, port_model=model)
        plain = make_algorithm(asking.topology, asking.spec._replace(repair=None))
        assert isinstance(plain, TreeCollective)
        assert np.array_equal(journal_of(asking), journal_of(plain))


# --- until the faults are over ----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 999), heal=st.integers(2, 40), which=st.sampled_from(NETWORKS), after=st.integers(1, 3))
def test_everybody_is_served_once_losses_have_ended(
    seed: int, heal: int, which: tuple[str, str, str], after: int
) -> None:
    """Half of all packets are lost until then. A round that begins later asks each port once, and no other follows."""
    network, name, rule = which
    algorithm = algorithm_for(network, name, rule, after, seed=seed, heal=heal)
    topology = algorithm.topology
    lost = [Loss(1, rank, port, 0.5, last=heal - 1) for rank in topology.ranks() for port in topology.ports(rank)]
    journal = journal_of(algorithm, lost)
    had, due = received(journal), set(range(algorithm.segments_per_message))
    assert [had.get(rank) for rank in topology.data_ranks if rank] == [due] * (len(topology.data_ranks) - 1)
    rounds = Counter(
        (row["sender"], row["port"], row["segment"]) for row in requests_of(journal) if row["step"] >= heal
    )
    assert max(rounds.values(), default=0) <= 2
    assert requests_of(journal)["step"].max(initial=0) <= max(heal, 20) + 4 * topology.degree


@pytest.mark.parametrize(("heal", "asked"), [(0, 3), (5, 3), (6, 6), (11, 6), (12, 9), (20, 12)])
def test_a_node_that_is_cut_off_for_good_stops_asking(heal: int, asked: int) -> None:
    """Node 111 of Q_3 is due in step 3, and asks its three neighbours in steps 5, 7 and 9, then again in 11, .."""
    algorithm = algorithm_for("hypercube:3", "sbt", "next-port", heal=heal)
    neighbours = algorithm.topology.neighbours(7)
    journal = journal_of(algorithm, [Crash(1, rank) for rank in neighbours])
    requests = requests_of(journal)
    alone = requests[requests["sender"] == 7]
    assert alone["step"].tolist() == list(range(5, 5 + 2 * asked, 2))
    assert 7 not in received(journal)


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "name", "rule", "more", "reason"),
    [
        ("star:4", "flood", "next-port", {}, "no broadcast whose nodes forward along trees"),
        ("star:4", "greedy-tree", "switch-tree", {}, "has one tree"),
        ("star:4", "edt", "switch-tree", {"redundancy": 2}, "--redundancy 1"),
        ("star:4", "edt", "next-port", {"collective": Collective.REDUCE}, "repairs a broadcast, not reduce"),
        ("star:4", "greedy-tree", "prayer", {}, "expected one of next-port, switch-tree"),
        ("star:4", "edt", "spanning-tree", {}, "has 3 trees; it repairs one"),
        ("star:4", "greedy-tree", "re-root", {}, "it needs a dense network"),
        ("ej:1+3", "improved", "edges", {}, "it needs a dense network"),
        ("ej:2+3^2", "improved", "re-root", {}, "it needs a dense network"),
        ("gaussian:71+72", "bfs-tree", "edges", {}, "at most 10,000 nodes"),
        ("ej:2+3", "improved", "re-root", {"port_model": PortModel.ONE_PORT}, "it needs all-port"),
    ],
)
def test_a_rule_refuses_what_it_does_not_cover(
    network: str, name: str, rule: str, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ScenarioError, match=reason) as refused:
        algorithm_for(network, name, rule, message_bytes=720, **more)
    assert refused.value.field == "repair"
