"""Blocks of parallel links."""

from collections.abc import Iterator

from coordinator.scenario.blocks.base import Block, BlockKind
from emunode.topologies.base import CayleyTopology, Topology


class Dimension(BlockKind):
    """All links of one dimension: of one port and, where the other end has another port, of that one too.

    A hypercube Q_n has n, a star graph S_n has n - 1, an Eisenstein-Jacobi network has 3 for each of its dimensions. Every
    node has links in every dimension, so that no source is spared.
    """

    name = "dimension"
    form = "dimension=1"
    on_links = True

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        if not isinstance(topology, CayleyTopology):
            raise ValueError(f"{topology.name} has no dimensions: its ports differ from node to node")
        for port in range(topology.degree):
            if topology.reverse_port(port) >= port:
                ends = ((rank, topology.neighbour(rank, port)) for rank in topology.ranks())
                yield Block(tuple(sorted({(min(pair), max(pair)) for pair in ends})), ())
