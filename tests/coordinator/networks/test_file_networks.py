"""Networks from files: one history on every driver, that of the closed form where there is one."""

import json
import shutil
from pathlib import Path
from typing import Any

import networkx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink, RunResult
from coordinator.execution.verify import verify
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario, read_scenario
from coordinator.scenario.network_files import from_networkx
from coordinator.scenario.networks import with_absolute_network
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.flooding import Flood
from emunode.errors import FrameError, ScenarioError
from emunode.host.session import _network
from emunode.host.warmup import CONFIG
from emunode.testing import check_algorithm, check_topology, check_trees, to_networkx
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.breadth_first import BreadthFirstTree
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case
from tests.helpers.support import examples, failures, run_scenario

CLOSED = ("star:4", "hypercube:4", "ej:1+2")
ALGORITHMS = ("flood", "bfs-tree")
ATLAS = [graph for graph in graph_atlas_g() if 2 <= len(graph) <= 6 and networkx.is_connected(graph)]


def labelled(topology: Topology) -> "networkx.Graph[str]":
    """Return the network as a networkx graph of its labels, nodes in the order of ranks."""
    return networkx.relabel_nodes(to_networkx(topology), dict(enumerate(map(topology.label, topology.ranks()))))


def written(graph: "networkx.Graph[Any]", folder: Path) -> str:
    """Return the name of the network of a graph that is written into `folder`."""
    path = folder / "net.graphml"
    networkx.write_graphml(graph, path)
    return f"file:{path}"


def receivers_by_step(result: RunResult) -> dict[int, int]:
    """Return how many ranks received their first segment in each step."""
    journal = pl.read_parquet(result.path / "journal.parquet").filter(pl.col("outcome") == "first")
    return dict(journal.group_by("step").len().sort("step").iter_rows())


# --- the closed form and its file ------------------------------------------------------------------------------------


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", CLOSED)
def test_file_of_a_family_runs_as_its_closed_form(name: str, algorithm: str, tmp_path: Path) -> None:
    closed = parse_topology(name)
    source = closed.label(closed.order - 1)
    values = {"collective": "broadcast", "algorithm": algorithm, "source": source}
    expected = run_scenario(tmp_path / "closed", topology=name, **values)
    file = written(labelled(closed), tmp_path)
    result = run_scenario(tmp_path / "run", topology=file, **values)
    assert result.verdict == "holds"
    for metric in ("steps", "deliveries", "packets"):
        assert result.summary[metric] == expected.summary[metric]
    assert receivers_by_step(result) == receivers_by_step(expected)


# --- every small graph -----------------------------------------------------------------------------------------------


def test_atlas_has_all_connected_graphs_of_two_to_six_nodes() -> None:
    assert len(ATLAS) == 142


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("graph", ATLAS, ids=lambda graph: graph.name)
def test_every_connected_graph_of_at_most_six_nodes(graph: "networkx.Graph[int]") -> None:
    topology = from_networkx(graph)
    check_topology(topology)
    for root in topology.ranks():
        check_trees(BreadthFirstTree(topology.seen_from(root)))
    for entry in (Flood, BreadthFirstBroadcast):
        check_algorithm(entry, topology)


# --- published networks ----------------------------------------------------------------------------------------------


def test_networks_of_topohub() -> None:
    """One hundred networks of the collection, where it is installed: flooding takes the eccentricity of the source."""
    topohub = pytest.importorskip("topohub")
    files = sorted(Path(topohub.__file__).parent.glob("data/*/*.json"))
    ran = 0
    for file in files[:: max(1, len(files) // 150)]:
        graph = networkx.node_link_graph(json.loads(file.read_text()), edges="edges")
        simple = networkx.Graph(graph)
        if len(simple) > 300 or not networkx.is_connected(simple) or simple.number_of_edges() < graph.number_of_edges():
            continue
        result = run_scenario(topology=f"file:{file}", relabel=True, collective="broadcast", algorithm="flood")
        far = networkx.single_source_shortest_path_length(simple, next(iter(graph)))
        assert result.summary["deliveries"] == len(simple) - 1
        assert max(far.values()) <= result.summary["steps"] <= max(far.values()) + 1
        assert result.verdict == "holds", failures(result)
        ran += 1
        if ran == 100:
            break
    assert ran == 100


# --- random graphs with faults ---------------------------------------------------------------------------------------


@st.composite
def connected_graphs(draw: st.DrawFn) -> "networkx.Graph[int]":
    """Return a random tree with random further links: degrees differ."""
    order = draw(st.integers(3, 14))
    graph = networkx.Graph([(rank, draw(st.integers(0, rank - 1))) for rank in range(1, order)])
    pairs = st.tuples(st.integers(0, order - 1), st.integers(0, order - 1)).filter(lambda pair: pair[0] != pair[1])
    graph.add_edges_from(draw(st.lists(pairs, max_size=order)))
    return graph


@settings(max_examples=examples(40))
@given(graph=connected_graphs(), data=st.data())
def test_flooding_reaches_what_crashes_leave_connected(
    graph: "networkx.Graph[int]", data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nodes = sorted(graph)
    source = data.draw(st.sampled_from(nodes))
    crashed = data.draw(st.sets(st.sampled_from([node for node in nodes if node != source]), max_size=3))
    result = run_scenario(
        topology=written(graph, tmp_path_factory.mktemp("graph")),
        collective="broadcast",
        algorithm="flood",
        source=str(source),
        fault=[f"crash:{node}@1" for node in sorted(crashed)],
    )
    alive = graph.subgraph(set(nodes) - crashed)
    assert result.summary["intact_deliveries"] == len(networkx.node_connected_component(alive, source)) - 1
    assert not [each for each in result.judgements if each.verdict == "violated"]


# --- switches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("driver", ["memory", "local"])
def test_switches_forward_and_receive_nothing_of_their_own(driver: str, algorithm: str, tmp_path: Path) -> None:
    result = run_scenario(
        tmp_path / "run", topology="fat-tree:4", collective="broadcast", algorithm=algorithm, driver=driver
    )
    network = parse_topology("fat-tree:4")
    switches = [rank for rank in network.ranks() if network.is_switch(rank)]
    journal = pl.read_parquet(result.path / "journal.parquet").filter(pl.col("receiver").is_in(switches))
    assert set(journal["outcome"]) == {"relay"}
    assert result.summary["deliveries"] == result.summary["expected_deliveries"] == 15
    assert result.verdict == "holds"
    assert verify(result.path).findings == []


# --- run directories and hosts ---------------------------------------------------------------------------------------


def test_moved_run_directory_repeats_its_run(tmp_path: Path) -> None:
    file = written(networkx.lollipop_graph(4, 3), tmp_path)
    first = run_scenario(tmp_path / "first", topology=file, collective="broadcast", algorithm="bfs-tree", source="6")
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(first.path, moved)
    (tmp_path / "net.graphml").unlink()
    assert verify(moved).findings == []
    scenario = make_scenario(with_absolute_network(read_scenario(moved / "scenario.toml"), moved))
    again = run(make_plan(scenario), DirectorySink(tmp_path / "again", draw=False))
    assert again.summary["journal_hash"] == first.summary["journal_hash"]


def test_another_network_in_the_run_directory_is_refused(tmp_path: Path) -> None:
    runs = [
        run_scenario(tmp_path / name, topology=written(graph, tmp_path), collective="broadcast", algorithm="flood")
        for name, graph in (("one", networkx.path_graph(5)), ("other", networkx.cycle_graph(5)))
    ]
    shutil.copy(runs[1].path / "network.json", runs[0].path / "network.json")
    values = with_absolute_network(read_scenario(runs[0].path / "scenario.toml"), runs[0].path)
    with pytest.raises(
        ScenarioError, match=r"digest mismatch: the scenario says [0-9a-f]{64}, the file has [0-9a-f]{64}"
    ):
        _ = Case(values).plan


def test_host_refuses_a_network_with_another_digest() -> None:
    one, other = from_networkx(networkx.path_graph(4)), from_networkx(networkx.cycle_graph(4))
    config = CONFIG._replace(network=one.to_bytes(), network_sha256=other.sha256)
    with pytest.raises(FrameError, match=f"coordinator has {other.sha256}, this host received {one.sha256}"):
        _network(config)


def test_names_of_networks_may_hold_commas_where_they_vary(call: Call) -> None:
    shown = call(
        "campaign --algorithm flood --faults nodes=1 --trials 2 --vary topology=circulant:8:1,3,star:3 "
        "--vary topology=nk-star:4,2 --out c --json"
    ).data
    assert [row["topology"] for row in shown["rows"]] == ["circulant:8:1,3", "star:3", "nk-star:4,2"]


def test_campaign_folder_keeps_the_network(call: Call, tmp_path: Path) -> None:
    file = written(networkx.wheel_graph(7), tmp_path)
    assert call(f"campaign --topology {file} --algorithm flood --faults nodes=1 --trials 3 --out c").status == 0
    (tmp_path / "net.graphml").unlink()
    moved = (tmp_path / "c").rename(tmp_path / "d")
    more = call("campaign --json --resume", moved).data
    assert [row["trials"] for row in more["rows"]] == [3]
