"""Blocks that a network file states."""

import re
from collections import defaultdict
from collections.abc import Iterator

from coordinator.scenario.blocks.base import Block, BlockKind
from emunode.model import Rank
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology


class Rack(BlockKind):
    """The nodes of a network file with the same value of an attribute, such as a rack or a power supply.

    A node without the attribute is in no block.
    """

    name = "rack"
    form = "rack=1:power"

    def read(self, argument: str) -> str:
        attribute = argument or "rack"
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]{0,63}", attribute):
            raise ValueError(f"{argument!r} is not the name of an attribute, as in {self.form}")
        return attribute

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        attributes = topology.node_attributes if isinstance(topology, TableTopology) else {}
        members: dict[str, list[Rank]] = defaultdict(list)
        for rank in topology.ranks():
            if argument in attributes.get(rank, ()):
                members[str(attributes[rank][argument])].append(rank)
        if not members:
            raise ValueError(f"no node of {topology.name} has an attribute {argument!r}; it comes from a network file")
        for value in sorted(members):
            yield Block(tuple(members[value]), tuple(members[value]))
