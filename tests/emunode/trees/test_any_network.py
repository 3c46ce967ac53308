"""Packings of spanning trees on any network: golden maxima, every connected graph of at most six nodes, random graphs."""

from functools import cache

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.algorithms.any_network.tree_packings import least_steps
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.any_network.arborescences import arborescences, edge_connectivity
from emunode.trees.any_network.checks import (
    Parents,
    arc_disjoint_problem,
    depths,
    edge_disjoint_problem,
    independence_problem,
    tree_problem,
)
from emunode.trees.any_network.edge_disjoint import edge_disjoint_trees
from emunode.trees.any_network.independent import CutNode, independent_trees, three_trees, two_trees
from emunode.trees.any_network.parents import adjacency_of
from tests.emunode.trees.partitions import crossing_links, partition_problem
from tests.helpers.any_network_support import connected_graphs, golden_json, golden_network, network_of_graph
from tests.helpers.support import examples, golden_rows


def heights(trees: "tuple[Parents, ...]") -> list[int]:
    return sorted(max(depths(parents)) for parents in trees)


@cache
def connectivities(graph: "nx.Graph[int]") -> tuple[int, int]:
    """Return the edge and the node connectivity; the same for every root."""
    return nx.edge_connectivity(graph), nx.node_connectivity(graph)


def check_all(network: Topology, graph: "nx.Graph[int]") -> None:
    """Every packing of a network, held against the checkers and the connectivity of its graph."""
    adjacency = adjacency_of(network)
    disjoint = edge_disjoint_trees(adjacency)
    assert not any(tree_problem(network, parents) for parents in disjoint.trees)
    assert edge_disjoint_problem(network, disjoint.trees) is None
    assert partition_problem(network, disjoint.parts, len(disjoint.trees) + 1) is None
    assert crossing_links(network, disjoint.parts) == disjoint.crossing
    rate, joined = connectivities(graph)
    assert edge_connectivity(adjacency) == rate
    for together in (True, False):
        packing = arborescences(adjacency, together=together)
        assert len(packing) == rate
        assert not any(tree_problem(network, parents) for parents in packing)
        assert arc_disjoint_problem(network, packing) is None
    if len(graph) < 3:
        return
    found = independent_trees(adjacency)
    if isinstance(found, CutNode):
        rest = [rank for rank in network.ranks() if rank != found.rank]
        kept = nx.Graph((one, other) for one, _, other, _ in network.links())
        assert not nx.is_connected(kept.subgraph(rest))
        return
    # Where two nodes disconnect the graph there may be three trees at some roots.
    assert len(found) >= min(3, joined)
    assert not any(tree_problem(network, parents) for parents in found)
    assert independence_problem(network, found) is None


def test_every_connected_graph_of_six_nodes_at_every_root() -> None:
    cases = 0
    for graph in connected_graphs(6):
        network = network_of_graph(graph)
        for root in network.ranks():
            check_all(network.seen_from(root), graph)
            cases += 1
    assert cases == 809


@st.composite
def graphs(draw: st.DrawFn) -> "nx.Graph[int]":
    """Return a connected graph of 3 to 16 nodes: a random tree and more links."""
    order = draw(st.integers(3, 16))
    graph = nx.Graph((draw(st.integers(0, rank - 1)), rank) for rank in range(1, order))
    pairs = st.tuples(st.integers(0, order - 1), st.integers(0, order - 1)).filter(lambda pair: pair[0] != pair[1])
    graph.add_edges_from(draw(st.lists(pairs, max_size=4 * order)))
    return graph


@given(graphs(), st.data())
@settings(max_examples=examples(60))
def test_random_graphs(graph: "nx.Graph[int]", data: st.DataObject) -> None:
    network = network_of_graph(graph)
    root = data.draw(st.sampled_from(network.ranks()))
    check_all(network.seen_from(root), graph)


@pytest.mark.parametrize("row", golden_rows("any", "edst"), ids=lambda row: row["graph"])
def test_maximum_of_edge_disjoint_trees(row: dict[str, str]) -> None:
    packing = edge_disjoint_trees(adjacency_of(golden_network(row["graph"])))
    assert len(packing.trees) == int(row["max_edge_disjoint_spanning_trees"])


@pytest.mark.parametrize("name", golden_json("arborescences"))
def test_pipelined_broadcast_is_no_slower_than_golden_packings(name: str) -> None:
    adjacency = adjacency_of(golden_network(name))
    packings = [arborescences(adjacency, together=together) for together in (True, False)]
    for row in golden_rows("any", "arborescences", graph=name):
        assert {len(packing) for packing in packings} == {int(row["rate"])}
        segments = int(row["segments"])
        steps = min(least_steps(heights(packing), segments, segments) for packing in packings)
        assert int(row["lower_bound"]) <= steps <= int(row["steps"])


@pytest.mark.parametrize("name", golden_json("st-numbering"))
def test_two_independent_trees_are_no_higher_than_golden(name: str) -> None:
    network = golden_network(name)
    trees = two_trees(adjacency_of(network))
    assert not isinstance(trees, CutNode)
    assert independence_problem(network, trees) is None
    assert max(heights(trees)) <= max(golden_json("st-numbering")[name]["depths"])


@pytest.mark.parametrize("name", golden_json("independent3"))
def test_three_independent_trees_are_no_higher_than_golden(name: str) -> None:
    network = golden_network(name)
    trees = three_trees(adjacency_of(network))
    assert trees is not None
    assert independence_problem(network, trees) is None
    assert max(heights(trees)) <= max(golden_json("independent3")[name]["depths"])


@pytest.mark.parametrize(
    ("name", "count", "most"),
    # Heights in proportion to the diameter: 7, 8 and 5.
    [("star:6", 2, 12), ("hypercube:8", 4, 10), ("jellyfish:500,6,1", 3, 10)],
)
def test_large_networks_have_low_edge_disjoint_trees(name: str, count: int, most: int) -> None:
    network = parse_topology(name)
    packing = edge_disjoint_trees(adjacency_of(network))
    assert len(packing.trees) == count
    assert edge_disjoint_problem(network, packing.trees) is None
    assert heights(packing.trees)[-1] <= most


def test_large_networks_have_low_arborescences() -> None:
    network = parse_topology("star:6")
    packing = arborescences(adjacency_of(network))
    assert arc_disjoint_problem(network, packing) is None
    assert (len(packing), heights(packing)[-1] <= 14) == (5, True)
