"""Consecutive ranks are on different hosts, as a launcher deals cards."""

from collections.abc import Sequence

from coordinator.planning.placements.base import RankPlacement
from emunode.registry import register
from emunode.topologies.base import Topology


@register
class RoundRobin(RankPlacement):
    """Ranks dealt to the hosts in turn: rank r is on host r mod `hosts`."""

    name = "round-robin"
    form = "round-robin"
    meaning = "ranks are dealt to the hosts in turn"

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        return [rank % hosts for rank in topology.ranks()]
