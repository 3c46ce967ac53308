"""Properties of networks against the golden table, against networkx, and under limits of time and size."""

import csv
from typing import Any

import networkx
import pytest

from coordinator.annexes.invariants.graph_connectivity import OutOfTimeError, edge_connectivity, vertex_connectivity
from coordinator.annexes.invariants.graph_properties import NAMES, GraphProperties, NotComputed, distance_table, girth
from coordinator.scenario.network_files import from_networkx
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology
from tests.helpers.support import GOLDEN

LARGEST = 400
COLUMNS = {
    "order": "order",
    "degree_min": "degree_min",
    "degree_max": "degree_max",
    "links": "links",
    "diameter": "diameter",
    "distances_from_rank_0": "distances_from_rank_0",
    "ordered_pairs_by_distance": "ordered_pairs_by_distance",
    "vertex_connectivity": "kappa",
    "edge_connectivity": "lambda",
    "girth": "girth",
    "bipartite": "bipartite",
}
"""The column of the golden table for each property."""


def golden_rows() -> list[dict[str, str]]:
    """Return the small networks of families that exist."""
    rows = []
    with (GOLDEN / "networks" / "networks.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            try:
                parse_topology(row["topology"])
            except ScenarioError:
                continue
            if int(row["order"]) <= LARGEST:
                rows.append(row)
    return rows


def as_golden(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return " ".join(map(str, value))
        case None:
            return "none"
    return str(value)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("as_table", [False, True], ids=["family", "table"])
@pytest.mark.parametrize("row", golden_rows(), ids=lambda row: row["topology"])
def test_golden_properties(row: dict[str, str], as_table: bool) -> None:
    topology = parse_topology(row["topology"])
    if as_table:
        links = [(one, other) for one, _, other, _ in topology.links()]
        topology = TableTopology("net", map(topology.label, topology.ranks()), links)
    found = GraphProperties(topology).record()
    assert list(found) == list(NAMES)
    assert {name: as_golden(found[name]) for name in COLUMNS} == {
        name: row[column] or as_golden(found[name]) for name, column in COLUMNS.items()
    }
    if not as_table:
        assert found["network_sha256"] == row["network_sha256"]
        assert (found["symmetry"] == "cayley") <= (row["cayley"] == "yes")
    if found["symmetry"] == "not vertex-transitive":
        assert row["vertex_orbits"] != "1"


def test_golden_rows_are_there() -> None:
    assert len(golden_rows()) >= 12


def random_graphs() -> list[Any]:
    graphs = [
        networkx.path_graph(2),
        networkx.complete_graph(6),
        networkx.barbell_graph(5, 3),
        networkx.barbell_graph(6, 0),
        networkx.star_graph(6),
        networkx.petersen_graph(),
        networkx.karate_club_graph(),
        networkx.davis_southern_women_graph(),
        networkx.heawood_graph(),
        networkx.windmill_graph(3, 5),
        networkx.lollipop_graph(5, 4),
    ]
    for seed in range(40):
        graph = networkx.gnm_random_graph(8 + seed, 14 + 3 * seed, seed=seed)
        graphs.append(graph.subgraph(max(networkx.connected_components(graph), key=len)))
    return [networkx.convert_node_labels_to_integers(graph) for graph in graphs]


@pytest.mark.parametrize("graph", random_graphs(), ids=lambda graph: f"{len(graph)}-{graph.number_of_edges()}")
def test_properties_agree_with_networkx(graph: Any) -> None:
    found = GraphProperties(from_networkx(graph, "net")).record()
    cycle = networkx.girth(graph)
    assert found["girth"] == (None if cycle == float("inf") else cycle)
    assert found["vertex_connectivity"] == networkx.node_connectivity(graph)
    assert found["edge_connectivity"] == networkx.edge_connectivity(graph)
    assert found["diameter"] == networkx.diameter(graph)
    assert found["average_distance"] == pytest.approx(networkx.average_shortest_path_length(graph))
    assert found["bipartite"] == networkx.is_bipartite(graph)


def test_connectivity_when_every_neighbour_of_a_node_separates() -> None:
    """Cut nodes and cut links between dense parts, wherever they are in the breadth-first order."""
    for shift in range(12):
        graph = networkx.barbell_graph(6, 0)
        graph = networkx.relabel_nodes(graph, {node: (node + shift) % 12 for node in graph})
        adjacency = [sorted(graph[node]) for node in range(12)]
        assert (vertex_connectivity(adjacency), edge_connectivity(adjacency)) == (1, 1)
        graph.add_edge((0 + shift) % 12, (7 + shift) % 12)
        adjacency = [sorted(graph[node]) for node in range(12)]
        assert vertex_connectivity(adjacency) == networkx.node_connectivity(graph)
        assert edge_connectivity(adjacency) == 2


def test_profiles_of_distances() -> None:
    ring, path = (
        [list(graph[node]) for node in range(9)] for graph in (networkx.cycle_graph(9), networkx.path_graph(9))
    )
    assert distance_table(ring).profiles == 1
    assert distance_table(path).profiles == 5
    assert distance_table(path).ordered_pairs == (9, 16, 14, 12, 10, 8, 6, 4, 2)


def test_symmetry() -> None:
    assert GraphProperties(parse_topology("star:4")).symmetry == "cayley"
    assert GraphProperties(from_networkx(networkx.path_graph(4))).symmetry == "not vertex-transitive"
    assert GraphProperties(from_networkx(networkx.petersen_graph())).symmetry == "unknown"
    regular = networkx.random_regular_graph(3, 20, seed=1)
    assert GraphProperties(from_networkx(regular)).symmetry == "not vertex-transitive"


def test_a_giant_is_described_by_formulas() -> None:
    found = GraphProperties(parse_topology("star:20")).record()
    assert (found["degree_min"], found["diameter"], found["girth"], found["edge_connectivity"]) == (19, 28, 6, 19)
    assert sum(found["distances_from_rank_0"]) == found["order"]  # type: ignore[arg-type]
    for name in ("vertex_connectivity", "network_sha256"):
        value = found[name]
        assert isinstance(value, NotComputed)
        assert "nodes are more than 262,144" in value.reason


def test_a_family_without_formulas_is_searched_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.invariants.graph_properties.LARGEST_TABLE", 10)
    found = GraphProperties(parse_topology("crossed-cube:4")).record()
    for name in ("ordered_pairs_by_distance", "girth", "vertex_connectivity", "edge_connectivity", "symmetry"):
        value = found[name]
        assert isinstance(value, NotComputed), name
        assert value.reason == "no formula is known, and 16 nodes are more than 10"
    assert (found["order"], found["links"]) == (16, 32)


def test_what_takes_too_long_is_not_computed() -> None:
    started = 0

    def start_clock() -> Any:
        nonlocal started
        started += 1
        return lambda: True

    found = GraphProperties(from_networkx(networkx.cycle_graph(30)), start_clock, 2.5).record()
    missing = {name for name, value in found.items() if isinstance(value, NotComputed)}
    assert {"diameter", "girth", "vertex_connectivity", "edge_connectivity", "symmetry"} <= missing
    assert {value.reason for value in found.values() if isinstance(value, NotComputed)} == {"it takes more than 2.5 s"}
    assert (found["order"], found["links"], found["bipartite"]) == (30, 30, True)
    assert started <= 3  # what failed is not tried again for other properties


@pytest.mark.parametrize("compute", [vertex_connectivity, edge_connectivity, distance_table])
def test_computations_stop_when_their_time_is_over(compute: Any) -> None:
    adjacency = [list(networkx.cycle_graph(9)[node]) for node in range(9)]
    calls = iter([False, False])
    with pytest.raises(OutOfTimeError):
        compute(adjacency, lambda: next(calls, True))
    with pytest.raises(OutOfTimeError):
        girth(adjacency.__getitem__, range(9), lambda: True)


def test_the_digest_of_a_large_network_heeds_the_limit_of_time() -> None:
    expired = GraphProperties(parse_topology("complete:200"), lambda: lambda: True, 1)
    assert expired.value("network_sha256") == NotComputed("it takes more than 1 s")
    assert isinstance(GraphProperties(parse_topology("complete:200")).value("network_sha256"), str)
