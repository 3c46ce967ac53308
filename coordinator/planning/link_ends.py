"""The link ends of the largest host: ranks x degree where all ranks have the same degree, counted where they differ."""

from itertools import accumulate, pairwise
from math import ceil

from emunode.host.placement import Placement
from emunode.topologies.base import RegularTopology, Topology

LINK_ENDS_COUNTED = 2_000_000
"""Up to this order x degree, counting link ends takes about a second."""


def ends_per_host(topology: Topology, placement: Placement) -> int:
    """Count the link ends of the host with the most; an upper bound for a large network whose degrees differ."""
    before = _ends_before(topology)
    return max(placement.sizes) * topology.degree if before is None else _largest(before, placement)


def fewest_hosts(topology: Topology, limit: int) -> int:
    """Return a number of hosts that leaves each of them at most `limit` link ends, where that is at least the degree.

    The fewest where all ranks have the same degree, otherwise at most about 5 % more.
    """
    enough = ceil(topology.order / (limit // topology.degree))
    before = _ends_before(topology)
    if before is None:
        return enough
    hosts = ceil(before[-1] / limit)
    while hosts < enough and _largest(before, Placement(topology.order, hosts)) > limit:
        # One at a time would take minutes for many hosts.
        hosts += 1 + hosts // 20
    return min(hosts, enough)


def _ends_before(topology: Topology) -> list[int] | None:
    """Return for each rank the link ends of all lower ranks, and at the end the link ends of all ranks.

    None where all ranks have the same degree, or there are too many to look at.
    """
    if isinstance(topology, RegularTopology) or topology.order * topology.degree > LINK_ENDS_COUNTED:
        return None
    return list(accumulate((len(topology.ports(rank)) for rank in topology.ranks()), initial=0))


def _largest(before: list[int], placement: Placement) -> int:
    """Return the most link ends of one host, given the ends of all lower ranks."""
    counts = [0] * placement.hosts
    if placement.table:
        for rank, (start, end) in enumerate(pairwise(before)):
            counts[placement.host(rank)] += end - start
        return max(counts)
    edges = [before[placement.ranks(host)[0]] for host in range(placement.hosts)]
    return max(end - start for start, end in pairwise([*edges, before[-1]]))
