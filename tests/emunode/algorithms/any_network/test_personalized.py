"""Exchange, scatter and gather on any network: golden numbers, lower bounds, faults, refusals."""

from collections import Counter
from itertools import pairwise

import networkx
import pytest

from emunode.algorithms.any_network.exchange import Exchange, ListScheduledExchange
from emunode.algorithms.any_network.scatter import AnyScatter
from emunode.algorithms.base import Algorithm
from emunode.algorithms.conformance import check_claims, execute, measure
from emunode.algorithms.registry import make_algorithm
from emunode.model import AUTOMATIC, UNLIMITED, Collective, CollectiveSpec, PortModel
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import connected_graphs, golden_network, network_of_graph
from tests.helpers.support import failures, golden_rows, run_scenario

ALLTOALL = golden_rows("any", "alltoall")
SCATTER = golden_rows("any", "scatter")


def algorithm_on(
    topology: Topology, collective: Collective, name: str = "list-schedule", **values: object
) -> Algorithm:
    spec = CollectiveSpec(topology.name, collective, name, 0)
    return make_algorithm(topology, spec._replace(**values))  # type: ignore[arg-type]


def checked(algorithm: Algorithm) -> int:
    """Run an algorithm without an engine, check its claims, and return its steps."""
    found = measure(algorithm, execute(algorithm))
    check_claims(algorithm, found)
    assert isinstance(found["steps"], int)
    return found["steps"]


# Total exchange.


@pytest.mark.parametrize("row", ALLTOALL, ids=lambda row: row["graph"])
def test_exchange_takes_no_more_steps_than_known(row: dict[str, str]) -> None:
    exchange = algorithm_on(golden_network(row["graph"]), Collective.ALLTOALL)
    assert isinstance(exchange, Exchange)
    assert exchange.all_hops == int(row["distance_sum"])
    bound = max(int(row["link_bound"]), int(row["cut_bound"]))
    assert bound <= checked(exchange) <= int(row["greedy_steps"])
    assert exchange.least_steps <= exchange.table.steps


@pytest.mark.parametrize(
    ("name", "steps", "translated"),
    [
        ("hypercube:4", 8, True),
        ("pancake:4", 20, True),
        ("ring:8", 8, False),
        ("ej:2+3", 5, True),
        ("gaussian:3+4", 14, True),
    ],
)
def test_exchange_with_translations_meets_the_bound(name: str, steps: int, translated: bool) -> None:
    exchange = algorithm_on(parse_topology(name), Collective.ALLTOALL)
    assert isinstance(exchange, Exchange)
    assert (exchange.translated, exchange.least_steps, checked(exchange)) == (translated, steps, steps)


def test_the_star_keeps_its_own_exchange() -> None:
    assert not isinstance(algorithm_on(parse_topology("star:4"), Collective.ALLTOALL), ListScheduledExchange)


def test_paths_of_the_exchange_avoid_what_the_trees_overload() -> None:
    grid = golden_network("grid_4x4")
    assert checked(algorithm_on(grid, Collective.ALLTOALL)) == 17
    assert checked(algorithm_on(grid, Collective.ALLTOALL, "bfs-tree")) == 28
    # By the ports of a mesh the tree is dimension order, which list scheduling tries as well.
    assert checked(algorithm_on(parse_topology("mesh:4x4"), Collective.ALLTOALL)) == 17


# Total exchange with packets of several segments.

PACKED = [
    ("star:4", "bfs-tree"),
    ("petersen:5,2", "list-schedule"),
    ("mesh:3x4", "list-schedule"),
    ("fat-tree:4", "bfs-tree"),
]


@pytest.mark.parametrize(("name", "algorithm"), PACKED)
def test_an_exchange_without_bound_takes_the_farthest_distance(name: str, algorithm: str) -> None:
    topology = parse_topology(name)
    exchange = algorithm_on(topology, Collective.ALLTOALL, algorithm, link_capacity=UNLIMITED, messages=2)
    graph = networkx.Graph((one, other) for one, _, other, _ in topology.links())
    distances = dict(networkx.all_pairs_shortest_path_length(graph))
    data = topology.data_ranks
    assert checked(exchange) == max(distances[one][other] for one in data for other in data)


@pytest.mark.parametrize(("name", "algorithm"), PACKED)
def test_a_link_carries_as_many_segments_as_its_capacity(name: str, algorithm: str) -> None:
    topology = parse_topology(name)
    single = algorithm_on(topology, Collective.ALLTOALL, algorithm)
    assert isinstance(single, Exchange)
    steps = [checked(single)]
    for capacity in (2, 3, 5):
        exchange = algorithm_on(topology, Collective.ALLTOALL, algorithm, link_capacity=capacity)
        steps.append(checked(exchange))
        hops = list(execute(exchange))
        assert len(hops) == single.all_hops
        loads = Counter((hop.step, hop.sender, hop.port) for hop in hops)
        assert max(loads.values()) <= capacity
        # Every directed link carries a full packet in every step, at best.
        assert steps[-1] * capacity * 2 * topology.link_count >= single.all_hops
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < steps[0]


def test_the_automatic_capacity_is_what_one_start_up_covers() -> None:
    star = parse_topology("star:4")
    automatic = algorithm_on(
        star, Collective.ALLTOALL, "bfs-tree", link_capacity=AUTOMATIC, message_bytes=100, segments=2, packet_limit=250
    )
    assert automatic.link_capacity == 5
    small = algorithm_on(star, Collective.ALLTOALL, "bfs-tree", link_capacity=AUTOMATIC, packet_limit=10)
    assert small.link_capacity == 1
    assert algorithm_on(star, Collective.ALLTOALL, "bfs-tree", link_capacity=AUTOMATIC).link_capacity is None


@pytest.mark.parametrize("capacity", [4, "unlimited"])
def test_packed_exchanges_hold_their_claims_and_have_one_history(capacity: int | str) -> None:
    values = {"topology": "star:4", "collective": "alltoall", "algorithm": "bfs-tree", "link_capacity": capacity}
    in_memory = run_scenario(None, **values)
    assert in_memory.verdict == "holds"
    assert in_memory.summary["packets"] < in_memory.summary["segments"]  # type: ignore[operator]
    with_fault = run_scenario(None, **values, fault=["crash:4123@2"])
    assert with_fault.verdict == "holds", failures(with_fault)


@pytest.mark.parametrize(
    "line", ["alltoall near-balanced-tree", "alltoall list-schedule", "broadcast congestion2-trees", "broadcast flood"]
)
def test_the_capacity_of_an_algorithm_has_a_name(line: str) -> None:
    collective, algorithm = line.split()
    own = algorithm_on(parse_topology("star:4"), Collective(collective), algorithm)
    again = algorithm_on(parse_topology("star:4"), Collective(collective), algorithm, link_capacity=AUTOMATIC)
    assert again.link_capacity == own.link_capacity


# Scatter and gather.


@pytest.mark.parametrize("row", SCATTER, ids=lambda row: row["graph"])
def test_scatter_takes_the_fewest_steps(row: dict[str, str]) -> None:
    topology = golden_network(row["graph"])
    for collective in (Collective.SCATTER, Collective.GATHER):
        flow = algorithm_on(topology, collective)
        assert isinstance(flow, AnyScatter)
        assert flow.least_steps == int(row["scatter_bound_0"])
        assert checked(flow) == int(row["scatter_optimum_0"])
    for name in ("list-schedule", "bfs-tree"):
        one_port = algorithm_on(topology, Collective.SCATTER, name, port_model=PortModel.ONE_PORT)
        assert checked(one_port) == int(row["scatter_one_port_bound_0"])
    assert checked(algorithm_on(topology, Collective.SCATTER, "bfs-tree")) >= int(row["scatter_optimum_0"])


def test_scatter_and_exchange_on_all_graphs_of_five_nodes() -> None:
    for graph in connected_graphs(5):
        topology = network_of_graph(graph)
        for source in topology.ranks():
            checked(algorithm_on(topology, Collective.SCATTER, source=source, messages=2))
        checked(algorithm_on(topology, Collective.GATHER, source=topology.order - 1, messages=2))
        checked(algorithm_on(topology, Collective.ALLTOALL, messages=2))


def test_routes_visit_no_rank_twice() -> None:
    for name in ("karate", "irregular_20_45", "barbell_4-4"):
        topology = golden_network(name)
        scatter = algorithm_on(topology, Collective.SCATTER, messages=3)
        assert isinstance(scatter, AnyScatter)
        for target in range(1, topology.order):
            for number in range(3):
                ranks = [0]
                route = scatter.route(target, 0, number)
                for port, _ in route:
                    ranks.append(topology.neighbour(ranks[-1], port))
                assert ranks[-1] == target
                assert len(set(ranks)) == len(ranks)
                assert all(one < other for (_, one), (_, other) in pairwise(route))
