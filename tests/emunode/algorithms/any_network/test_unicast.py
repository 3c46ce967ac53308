"""Unicast: shortest paths hop by hop, disjoint paths, their lengths against formulas and the quickest flow, faults,
refusals."""

from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import pytest

from emunode.algorithms.any_network.disjoint_paths import OutgoingLink, closed_lengths, disjoint_families
from emunode.algorithms.any_network.unicast import DisjointUnicast, MinimalUnicast, striped
from emunode.algorithms.base import Algorithm
from emunode.algorithms.conformance import check_claims, execute, measure
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import connected_graphs, golden_network, network_of_graph
from tests.helpers.support import failures, golden_rows, run_scenario

DISJOINT = golden_rows("any", "unicast-disjoint")
STEPS = golden_rows("any", "unicast-steps")


def unicast(topology: Topology, name: str, **values: object) -> Algorithm:
    spec = CollectiveSpec(topology.name, Collective.UNICAST, name, 0)
    return make_algorithm(topology, spec._replace(**values))  # type: ignore[arg-type]


def inner_ranks(topology: Topology, path: Sequence[OutgoingLink], target: int) -> list[int]:
    """The ranks between the ends of a path; its links must exist."""
    ranks = [0]
    for sender, port in path:
        assert sender == ranks[-1]
        ranks.append(topology.neighbour(sender, port))
    assert ranks[-1] == target
    return ranks[1:-1]


# Disjoint paths.


@pytest.mark.parametrize("row", DISJOINT, ids=lambda row: f"{row['topology']}-{row['label']}")
def test_disjoint_paths_have_the_least_total_length(row: dict[str, str]) -> None:
    topology, target = parse_topology(row["topology"]), int(row["rank"])
    families = disjoint_families(topology, target)
    assert len(families) == int(row["paths"])
    assert sum(map(len, families[-1])) == int(row["least_total_length"])
    assert len(families[0][0]) == int(row["distance"])
    for family in families:
        inner = [rank for path in family for rank in inner_ranks(topology, path, target)]
        assert len(inner) == len(set(inner))
    closed = closed_lengths(topology, target)
    if closed is not None:
        assert sum(closed[0]) == int(row["least_total_length"])


@pytest.mark.parametrize("name", ["star:5", "hypercube:5", "star:6"])
def test_formulas_of_lengths(name: str) -> None:
    topology = parse_topology(name)
    for target in range(1, topology.order, 1 if topology.order < 100 else topology.order // 10):
        closed = closed_lengths(topology, target)
        assert closed is not None
        families = disjoint_families(topology, target)
        assert sum(map(len, families[-1])) == sum(closed[0])
        assert len(closed[0]) == topology.degree


def test_families_of_every_connected_graph_of_at_most_five_nodes() -> None:
    """The number of paths and their least total length, by trying all sets of simple paths."""
    for graph in connected_graphs(5):
        topology = network_of_graph(graph)
        for target in range(1, len(graph)):
            families = disjoint_families(topology, target)
            simple = list(nx.all_simple_paths(graph, 0, target))
            for count in range(1, len(families) + 2):
                least = min(
                    (
                        sum(len(path) - 1 for path in paths)
                        for paths in combinations(simple, count)
                        if all(set(one) & set(other) == {0, target} for one, other in combinations(paths, 2))
                    ),
                    default=None,
                )
                found = sum(map(len, families[count - 1])) if count <= len(families) else None
                assert found == least


@pytest.mark.parametrize("row", STEPS, ids=lambda row: f"{row['graph']}-{row['target']}-{row['segments']}")
def test_segments_over_several_paths_take_the_fewest_steps(row: dict[str, str]) -> None:
    topology, segments = golden_network(row["graph"]), int(row["segments"])
    found = unicast(
        topology,
        "disjoint-paths",
        source=int(row["source"]),
        target=int(row["target"]),
        segments=segments,
        message_bytes=64,
    )
    assert isinstance(found, DisjointUnicast)
    assert found.striping.steps == int(row["steps"])
    assert found.least_steps(segments) == int(row["time_expanded_optimum"])
    metrics = measure(found, execute(found))
    check_claims(found, metrics)
    assert metrics["steps"] == int(row["steps"])


def test_striping_deals_every_segment_once() -> None:
    found = striped([2, 4, 4], 9)
    assert found.steps == 6
    assert len(set(found.slots)) == 9
    assert all(number + (2, 4, 4)[path] <= 6 for number, path in found.slots)


# One shortest path.


@pytest.mark.parametrize(
    "name", ["star:5", "hypercube:6", "ej:2+3^2", "torus:5x5", "gaussian:3+4", "mesh:3x4", "debruijn:2,5"]
)
def test_minimal_paths_are_shortest_to_every_target(name: str) -> None:
    topology = parse_topology(name)
    for target in range(1, topology.order, 1 + topology.order // 100):
        algorithm = unicast(topology, "minimal", target=target)
        assert isinstance(algorithm, MinimalUnicast)
        assert len(list(algorithm.path(0))) == topology.distance(0, target)


def test_minimal_follows_the_rules_of_the_literature() -> None:
    cube = unicast(parse_topology("hypercube:5"), "minimal", source=0b00110, target=0b10101)
    star = unicast(parse_topology("star:4"), "minimal", target=parse_topology("star:4").rank("3412"))
    assert isinstance(cube, MinimalUnicast)
    assert isinstance(star, MinimalUnicast)
    # e-cube takes bits 0, 1, 4; on the star the first symbol goes to its place, or the least misplaced one comes first.
    assert [port for _, port in cube.path(0b00110)] == [0, 1, 4]
    assert [star.topology.label(rank) for rank, _ in star.path(0)] == ["1234", "3214", "2314", "4312"]


@pytest.mark.parametrize("name", ["star:4", "hypercube:4", "ej:2+3", "mesh:3x4", "petersen:5,2"])
@pytest.mark.parametrize("permutation", ["reversal", "random"])
def test_permutations_queue_and_keep_their_claims(name: str, permutation: str) -> None:
    result = run_scenario(
        topology=name,
        collective="unicast",
        algorithm="minimal",
        permutation=permutation,
        messages=2,
        message_bytes=12,
        segments=2,
    )
    assert failures(result) == []


def test_queues_are_served_in_order_of_arrival() -> None:
    """Three leaves of a star network send to a fourth: one link, so one after the other."""
    topology = golden_network("star-tree_8")
    result = unicast(topology, "minimal", permutation=(0, 2, 1, 4, 5, 3, 6, 7), messages=2)
    metrics = measure(result, execute(result))
    check_claims(result, metrics)
    assert metrics["intact_deliveries"] == 10
