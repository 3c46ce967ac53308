"""The link ends of the largest host, counted."""

import pytest

from coordinator.planning.link_ends import ends_per_host, fewest_hosts
from emunode.host.placement import Placement
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import hub

# --- hosts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topology",
    [hub(30), parse_topology("fat-tree:4"), parse_topology("mesh:5x7"), parse_topology("star:4")],
    ids=lambda topology: topology.name,
)
def test_link_ends_of_the_largest_host_are_counted(topology: Topology) -> None:
    for hosts in range(1, topology.order + 1):
        blocks = map(Placement(topology.order, hosts).ranks, range(hosts))
        counted = max(sum(len(topology.ports(rank)) for rank in block) for block in blocks)
        assert ends_per_host(topology, Placement(topology.order, hosts)) == counted
    for limit in range(topology.degree, 2 * topology.link_count + 1):
        assert ends_per_host(topology, Placement(topology.order, fewest_hosts(topology, limit))) <= limit
