"""A plug-in: a broadcast on the hypercube. `own_algorithm.py` checks it and runs it.

    coordinator run --plugin highest_bit.py --topology hypercube:4 --collective broadcast --algorithm highest-bit

A plug-in file imports only installed packages; its text is sent to the hosts of every driver.
"""

from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, PortModel, Rank
from emunode.registry import register
from emunode.topologies.base import Topology
from emunode.trees.base import Trees


class HighestBit(Trees):
    """The parent of an address is the address without its highest bit; port d of a node flips bit d."""

    def parent(self, rank: Rank, tree: int) -> Port:
        if not rank:
            raise ValueError("the root has no parent")
        return rank.bit_length() - 1


@register
class HighestBitBroadcast(TreeCollective):
    """Node 2^d + r receives from node r in the step in which it appears: n steps, as few as the diameter."""

    family = "hypercube"
    name = "highest-bit"
    citation = "examples/highest_bit.py"
    collective = Collective.BROADCAST
    port_models = (PortModel.ALL_PORT,)

    def make_trees(self, topology: Topology) -> Trees:
        return HighestBit(topology)

    def claims(self) -> list[Claim]:
        """Claims that follow from the definition, not from the executed schedule."""
        order, dimensions = self.topology.order, self.topology.degree
        packets = self.spec.messages * self.spec.segments
        return [
            Claim("steps", dimensions + packets - 1, "==", "an address has at most n bits; packets follow one another"),
            Claim("deliveries", self.spec.messages * (order - 1), "==", "every address but 0 has a highest bit"),
        ]
