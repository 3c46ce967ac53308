"""Placements by ranks alone: blocks of consecutive ranks (the default), or ranks dealt to the hosts in turn."""

from collections.abc import Sequence

from coordinator.planning.placements.base import RankPlacement
from emunode.registry import register
from emunode.topologies.base import Topology


@register
class ConsecutiveRanks(RankPlacement):
    """Blocks of consecutive ranks, whose sizes differ by at most one."""

    name = "blocks"
    form = "blocks"
    meaning = "consecutive ranks share a host; sizes differ by at most one"

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        return None


@register
class RoundRobin(RankPlacement):
    """Ranks dealt to the hosts in turn: rank r is on host r mod `hosts`."""

    name = "round-robin"
    form = "round-robin"
    meaning = "ranks are dealt to the hosts in turn"

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        return [rank % hosts for rank in topology.ranks()]
