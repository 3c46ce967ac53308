"""Traffic on networks: loads by brute force, and placements."""

from collections import Counter

import pytest

from coordinator.annexes.mpi.placement import nodes_of, place, shortest_path
from coordinator.annexes.mpi.rules.base import PairCount
from coordinator.scenario.networks import load_topology
from emunode.errors import ScenarioError

ALL_PAIRS = {(a, b): PairCount(2, 100 * a + b) for a in range(8) for b in range(8) if a != b}


@pytest.mark.parametrize("name", ["ring:8", "hypercube:3", "torus:3x3", "complete:8", "star:4"])
def test_loads_are_the_sums_over_shortest_paths(name: str) -> None:
    topology = load_topology(name)
    nodes = nodes_of(topology, 8, "random:3")
    placed = place(topology, nodes, ALL_PAIRS)
    messages: Counter[tuple[int, int]] = Counter()
    hops = 0
    for (source, target), count in ALL_PAIRS.items():
        path = shortest_path(topology, nodes[source], nodes[target])
        assert len(path) == topology.distance(nodes[source], nodes[target])
        ends = [topology.neighbour(*link) for link in path]
        assert [nodes[source], *ends[:-1]] == [node for node, _ in path]
        assert ends[-1] == nodes[target]
        for link in path:
            messages[link] += count.messages
        hops += count.messages * len(path)
    assert {link: count.messages for link, count in placed.links.items()} == messages
    assert (placed.hops, placed.congestion) == (hops, max(messages.values()))
    assert placed.least_steps >= max(placed.congestion, placed.farthest)


def test_the_ring_on_a_ring_uses_its_links_once() -> None:
    topology = load_topology("ring:6")
    placed = place(
        topology, nodes_of(topology, 6, "in-order"), {(r, (r + 1) % 6): PairCount(10, 1000) for r in range(6)}
    )
    record = placed.record()
    assert (record["links_used"], record["busiest_link"], record["steps_at_least"]) == (6, ["0", "1"], 10)
    assert (record["busiest_link_bytes"], record["congestion"], record["hops"]) == (1000, 10, 60)


def test_no_traffic_costs_nothing() -> None:
    topology = load_topology("ring:6")
    record = place(topology, range(6), {}).record()
    assert (record["busiest_link"], record["busiest_link_bytes"], record["steps_at_least"]) == (None, 0, 0)


def test_placements_are_by_label_or_by_seed() -> None:
    topology = load_topology("hypercube:2")
    assert nodes_of(topology, 3, "11;00;10") == [3, 0, 2]
    assert nodes_of(topology, 4, "random:1") == nodes_of(topology, 4, "random:1")
    assert sorted(nodes_of(topology, 4, "random:2")) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("ranks", "placement", "message"),
    [
        (5, "in-order", "a network with a node for each of 5 ranks"),
        (2, "backwards", "in-order, random:SEED, or a label for each rank"),
        (2, "00;00", "different labels for 2 ranks"),
        (2, "00;01;10", "different labels for 2 ranks"),
        (2, "00;9", "9"),
    ],
)
def test_impossible_placements_are_refused(ranks: int, placement: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        nodes_of(load_topology("hypercube:2"), ranks, placement)
