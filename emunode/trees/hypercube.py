"""Spanning trees of the hypercube Q_n, after Johnsson and Ho (YALEU/DCS/TR-500, 1986). Port d is dimension d."""

from emunode.model import Port, Rank
from emunode.topology.base import Topology
from emunode.topology.hypercube import Hypercube
from emunode.trees.base import Trees, require


class BinomialTree(Trees):
    """The spanning binomial tree SBT (Johnsson and Ho, section 3.2): clear the highest 1-bit of the relative address.

    A shortest-path tree of height n; port d of the root leads to 2^(n-d-1) ranks. A node knows its own relative address
    only. One faulty node or link cuts off the subtree behind it.
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology)
        self.cube = require(topology, Hypercube, "the spanning binomial tree")

    def parent(self, rank: Rank, tree: int) -> Port:
        if not rank:
            raise ValueError("the root has no parent")
        return rank.bit_length() - 1

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Every dimension above the highest 1-bit, ascending: the largest subtree is served first."""
        return tuple(range(rank.bit_length(), self.cube.n))

    def level(self, rank: Rank, tree: int) -> int:
        return rank.bit_count()

    def height(self, tree: int) -> int:
        return self.cube.n
