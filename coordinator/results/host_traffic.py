"""Links and packets within hosts and between them. A placement decides these counts and nothing else of a run."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from coordinator.results.tables import LISTED_LINKS
from emunode.host.placement import Placement
from emunode.topologies.base import Topology

HOST_TRAFFIC: Final = ("links_within_hosts", "links_across_hosts", "packets_within_hosts", "packets_across_hosts")
"""Keys of `summary.json` of runs with hosts. A network without a list of idle links has no counts of links."""


def host_traffic(topology: Topology, placement: Placement, links: pl.DataFrame) -> Mapping[str, int]:
    """Count bidirectional links and packets within hosts and across hosts, given the table of directed links of a run."""
    hosts = np.array([placement.host(rank) for rank in topology.ranks()])
    across = hosts[links["sender"].to_numpy()] != hosts[links["receiver"].to_numpy()]
    packets = links["packets"].to_numpy()
    counted = {"packets_within_hosts": int(packets[~across].sum()), "packets_across_hosts": int(packets[across].sum())}
    if 2 * topology.link_count > LISTED_LINKS:
        return counted
    # The table has both directions of every link.
    crossing = int(across.sum()) // 2
    return {"links_within_hosts": topology.link_count - crossing, "links_across_hosts": crossing, **counted}
