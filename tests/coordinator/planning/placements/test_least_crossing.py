"""The heuristic for few links between hosts, compared with the optimum of small networks and with blocks."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from coordinator.planning.placements.base import place, rank_placement
from emunode.errors import ScenarioError
from emunode.host.placement import Placement
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology


def crossing(topology: Topology, placement: Placement) -> int:
    """Count the links between hosts."""
    return sum(placement.host(one) != placement.host(other) for one, _, other, _ in topology.links())


def divisions(ranks: frozenset[int], sizes: list[int]) -> Iterator[list[frozenset[int]]]:
    """Yield all divisions of ranks into parts of these sizes; the lowest rank is always in the first part."""
    if not sizes:
        yield []
        return
    first = min(ranks)
    # Parts of one size are interchangeable, so each size needs to be tried once for the lowest rank.
    for size in sorted(set(sizes)):
        rest = sizes.copy()
        rest.remove(size)
        for others in combinations(sorted(ranks - {first}), size - 1):
            part = frozenset({first, *others})
            for parts in divisions(ranks - part, rest):
                yield [part, *parts]


def optimum(topology: Topology, hosts: int) -> int:
    """Return the least number of links between hosts of the sizes of blocks, by trying all divisions."""
    links = [(one, other) for one, _, other, _ in topology.links()]
    best = len(links)
    for parts in divisions(frozenset(topology.ranks()), Placement(topology.order, hosts).sizes):
        host = {rank: number for number, part in enumerate(parts) for rank in part}
        best = min(best, sum(host[one] != host[other] for one, other in links))
    return best


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("star:3", 2), ("star:3", 3), ("hypercube:3", 2), ("hypercube:3", 3), ("hypercube:3", 4), ("hypercube:4", 2),
        ("ej:1+2", 2), ("ej:1+2", 3), ("mesh:3x3", 3), ("mesh:2x5", 2), ("mesh:3x4", 4), ("torus:3x4", 3), ("ring:9", 4),
        ("petersen:5,2", 2),
    ],
)  # fmt: skip
def test_small_networks_are_placed_optimally(name: str, hosts: int) -> None:
    topology = parse_topology(name)
    placement = place("least-crossing", topology, hosts)
    assert Counter(placement.sizes) == Counter(Placement(topology.order, hosts).sizes)
    assert crossing(topology, placement) == optimum(topology, hosts)


@pytest.mark.parametrize(
    ("name", "hosts", "most"),
    [
        ("star:4", 3, 12),
        ("star:5", 2, 40),
        ("star:5", 4, 68),
        ("hypercube:6", 4, 64),
        ("torus:4x6", 4, 20),
        ("fat-tree:4", 3, 60),
    ],
)
def test_fewer_links_cross_than_between_blocks(name: str, hosts: int, most: int) -> None:
    topology = parse_topology(name)
    found = crossing(topology, place("least-crossing", topology, hosts))
    assert found <= min(most, crossing(topology, Placement(topology.order, hosts)))


def test_the_same_network_is_placed_in_the_same_way() -> None:
    topology = parse_topology("star:5")
    # Without `place`, which keeps what it has found.
    first, second = (rank_placement("least-crossing").host_of_each(topology, 7) for _ in range(2))
    assert first is not None
    assert first == second


def test_large_networks_are_refused() -> None:
    with pytest.raises(ScenarioError, match="it looks at every link, in networks of at most 40,000 link ends"):
        place("least-crossing", parse_topology("star:8"), 2)
