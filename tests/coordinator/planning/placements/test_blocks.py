"""Blocks: links that cross hosts, held against closed forms."""

from math import factorial

import pytest

from coordinator.planning.placements.base import place
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology


def crossing(topology: Topology, hosts: int, placement: str) -> int:
    """Count the links between hosts by going through all links."""
    host = place(placement, topology, hosts).host
    return sum(host(one) != host(other) for one, _, other, _ in topology.links())


@pytest.mark.parametrize(("n", "h"), [(n, h) for n in range(2, 8) for h in range(n + 1)])
def test_links_between_subcubes_are_the_links_of_their_dimensions(n: int, h: int) -> None:
    cube = parse_topology(f"hypercube:{n}")
    for placement in ("blocks", "sub-network", "round-robin"):
        assert crossing(cube, 2**h, placement) == h * 2 ** (n - 1)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in range(3, 7) for k in range(1, n)])
def test_links_between_substars_are_the_links_of_their_types(n: int, k: int) -> None:
    star = parse_topology(f"star:{n}")
    for placement in ("blocks", "sub-network"):
        assert crossing(star, factorial(n) // factorial(k), placement) == (n - k) * factorial(n) // 2


@pytest.mark.parametrize(("alpha", "dimensions"), [("1+2", 2), ("1+2", 3), ("2+3", 2), ("3+4", 2)])
def test_links_between_blocks_are_the_links_of_the_last_dimension(alpha: str, dimensions: int) -> None:
    one = parse_topology(f"ej:{alpha}").order
    network = parse_topology(f"ej:{alpha}^{dimensions}")
    for placement in ("blocks", "sub-network"):
        assert crossing(network, one, placement) == 3 * one**dimensions
