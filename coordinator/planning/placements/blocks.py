"""Consecutive ranks share a host: the default."""

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
