"""The reachability of a network under faults, against searches in the graph that is left, one fault set after the other."""

from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.networks import load_topology
from coordinator.theory.reachability import Connectivity, FailedPlaces, stops_permanently
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology

NETWORKS = ("hypercube:3", "star:4", "ej:2+3", "mesh:3x4", "debruijn:2,4")


def struck(sets: Sequence[Sequence[int]]) -> FailedPlaces:
    """Return the places of each set as pairs of a place and a set."""
    pairs = [(place, at) for at, places in enumerate(sets) for place in places]
    return FailedPlaces(*np.array(pairs, np.int64).reshape(-1, 2).T)


def searched(
    topology: Topology, source: int, nodes: set[int], links: set[tuple[int, ...]], *, towards: bool
) -> set[int]:
    """Return the nodes that are joined to the source in the directed graph without these nodes and directed links."""
    graph = nx.DiGraph()
    graph.add_nodes_from(rank for rank in topology.ranks() if rank not in nodes)
    for rank in topology.ranks():
        for _, other in topology.adjacent(rank):
            if not nodes & {rank, other} and (rank, other) not in links:
                graph.add_edge(rank, other)
    if source in nodes:
        return set()
    return set(nx.ancestors(graph, source) if towards else nx.descendants(graph, source)) | {source}


@pytest.mark.parametrize("towards", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_nodes_are_reached_as_a_search_finds_them(name: str, towards: bool) -> None:
    topology = load_topology(name)
    links = sorted({(min(rank, other), max(rank, other)) for rank, _, other, _ in topology.links()})
    source, random = 1, np.random.default_rng(7)
    network = Connectivity(topology, source, towards=towards)
    arcs = network.arcs_of(links)
    nodes = [tuple(random.choice(topology.order, size=at % 5, replace=False).tolist()) for at in range(120)]
    # One direction, or both, of some links.
    cut = [
        [(int(at), way) for at in random.choice(len(links), size=k % 7) for way in range(1 + int(random.integers(2)))]
        for k in range(120)
    ]
    found = network.reached(
        120, struck(nodes), struck([tuple(arcs[at, way].item() for at, way in each) for each in cut])
    )
    for at in range(120):
        down = {links[link][:: 1 if way == 0 else -1] for link, way in cut[at]}
        expected = searched(topology, source, set(nodes[at]), down, towards=towards)
        healthy = set(topology.ranks()) - set(nodes[at]) - {source}
        assert found.healthy[at] == len(healthy)
        assert found.reached[at] == len(expected & healthy)
        assert found.decided[at] == (source not in nodes[at])


def test_all_sets_of_a_cube_leave_the_known_numbers() -> None:
    """Three crashed neighbours of 000 cut it off, and three neighbours of another node cut that node off."""
    topology = load_topology("hypercube:3")
    sets = list(combinations(range(1, 8), 3))
    found = Connectivity(topology, 0).reached(len(sets), struck(sets), struck([]))
    lost = dict(zip(sets, (found.healthy - found.reached).tolist(), strict=True))
    assert lost[1, 2, 4] == 4
    assert sorted(lost.values()) == [0] * 30 + [1] * 4 + [4]


def test_given_faults_stop_their_places_in_every_set() -> None:
    topology = load_topology("mesh:3")
    for spec, reached in (("down:0>1@1", 0), ("down:1>0@1", 2), ("crash:1@1", 0)):
        given = parse_faults((spec,), topology)
        found = Connectivity(topology, 0, given).reached(1, struck([()]), struck([()]))
        assert found.reached.tolist() == [reached]


def test_switches_pass_on_and_are_not_counted() -> None:
    topology = TableTopology("net", "abcd", [(0, 3), (1, 3), (2, 3)], switches=[3])
    found = Connectivity(topology, 0).reached(2, struck([(1,), (3,)]), struck([]))
    assert (found.healthy.tolist(), found.reached.tolist()) == ([1, 2], [1, 0])


@pytest.mark.parametrize(
    ("spec", "stops"),
    [
        ("crash:010@1", True), ("hang:010@1", True), ("silent:010@1", True), ("down:000>010@1", True),
        ("loss:000>010:1", True), ("loss:000>010:0", False), ("loss:000>010:0.5", None), ("crash:010@2", None),
        ("hang:010@1-3", None), ("byzantine:010", None), ("corrupt:000>010:1", None), ("drop:000>010:1", None),
    ],
)  # fmt: skip
def test_only_lasting_whole_failures_stop_a_place(spec: str, stops: bool | None) -> None:
    (fault,) = parse_faults((spec,), load_topology("hypercube:3"))
    assert stops_permanently(fault) is stops
