"""Blocks around a node: balls, and all links of a node."""

from collections.abc import Iterator

from coordinator.scenario.blocks.base import MOST_MEMBERS, Block, BlockKind, NumberedBlockKind
from emunode.topologies.base import Topology


class Ball(NumberedBlockKind):
    """The nodes at most r links away from a centre. Every node is a centre; balls of different centres may be equal."""

    name = "ball"
    form = "ball=1:1"
    default = "1"

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        radius, members = int(argument), 0
        peers = [[peer for _, peer in topology.adjacent(rank)] for rank in topology.ranks()]
        for centre in topology.ranks():
            within = border = {centre}
            for _ in range(radius):
                border = {peer for rank in border for peer in peers[rank]} - within
                if not border:
                    break
                within = within | border
            members += len(within)
            if members > MOST_MEMBERS:
                raise ValueError(f"the balls of radius {radius} have more than {MOST_MEMBERS:,} nodes together")
            places = tuple(sorted(within))
            yield Block(places, places)


class LinksOf(BlockKind):
    """All links of a node, which itself stays healthy and is cut off."""

    name = "links-of"
    form = "links-of=1"
    on_links = True

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        for rank in topology.ranks():
            links = (tuple(sorted((rank, peer))) for _, peer in topology.adjacent(rank))
            yield Block(tuple((one, other) for one, other in sorted(links)), (rank,))
