"""Whole sub-networks on hosts: their sizes, and what is refused."""

import networkx as nx
import pytest

from coordinator.planning.placements.base import place
from coordinator.planning.placements.sub_network import are_sub_networks
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology


def graph_of(topology: Topology, ranks: range) -> "nx.Graph[int]":
    """Return the links between some ranks as a graph."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(ranks)
    graph.add_edges_from((one, other) for one, _, other, _ in topology.links() if one in ranks and other in ranks)
    return graph


@pytest.mark.parametrize(
    ("name", "size", "smaller"),
    [("star:4", 6, "star:3"), ("star:5", 24, "star:4"), ("hypercube:5", 8, "hypercube:3"), ("ej:1+2^2", 7, "ej:1+2")],
)
def test_blocks_are_smaller_networks_of_the_family(name: str, size: int, smaller: str) -> None:
    topology, part = parse_topology(name), parse_topology(smaller)
    for start in range(0, topology.order, size):
        block = graph_of(topology, range(start, start + size))
        assert nx.is_isomorphic(block, graph_of(part, range(part.order)))


@pytest.mark.parametrize(
    ("name", "hosts", "sizes"),
    [
        ("star:4", 3, [12, 6, 6]),
        ("star:5", 4, [48, 24, 24, 24]),
        ("star:5", 7, [18] * 6 + [12]),
        ("hypercube:4", 3, [8, 4, 4]),
        ("ej:1+2^2", 2, [28, 21]),
        ("torus:4x6", 4, [6, 6, 6, 6]),
        ("star:3", 6, [1] * 6),
        ("star:4", 1, [24]),
    ],
)
def test_no_sub_network_is_cut(name: str, hosts: int, sizes: list[int]) -> None:
    assert place("sub-network", parse_topology(name), hosts).sizes == sizes


def test_a_user_chooses_smaller_ones() -> None:
    star = parse_topology("star:4")
    assert place("sub-network:2", star, 3).sizes == [8, 8, 8]
    with pytest.raises(ScenarioError, match="for 3 hosts star:4 has sub-networks of 1, 2, 6 nodes"):
        place("sub-network:4", star, 3)
    with pytest.raises(ScenarioError, match="write sub-network"):
        place("sub-network:-6", star, 3)


def test_networks_without_sub_networks_are_refused() -> None:
    with pytest.raises(ScenarioError, match="ej:3\\+4 has no sub-networks"):
        place("sub-network", parse_topology("ej:3+4"), 2)
    with pytest.raises(ScenarioError, match="it looks at every link"):
        place("sub-network", parse_topology("hypercube:20"), 2)


def test_blocks_with_other_links_are_no_sub_networks() -> None:
    path = TableTopology("path", map(str, range(4)), [(0, 1), (1, 2), (2, 3)])
    assert are_sub_networks([path.neighbours(rank) for rank in path.ranks()], 2)
    # The second block has no link inside.
    fork = TableTopology("fork", map(str, range(4)), [(0, 1), (0, 2), (0, 3)])
    assert not are_sub_networks([fork.neighbours(rank) for rank in fork.ranks()], 2)
    # Both blocks have the same links, none.
    ring = TableTopology("ring", map(str, range(4)), [(0, 2), (2, 1), (1, 3), (3, 0)])
    assert not are_sub_networks([ring.neighbours(rank) for rank in ring.ranks()], 2)
