"""Spanning trees of the permutation star graph S_n. Link types t = 2..n are ports t - 2."""

from emunode.model import Port, Rank
from emunode.topology.base import Topology
from emunode.topology.star import StarGraph
from emunode.trees.base import Trees, require


class GreedyTree(Trees):
    """The greedy tree L(r) of Tseng and Sheu (1997, definition 1, lemma 3) at the identity: send the first symbol home.

    A shortest-path tree of height floor(3(n-1)/2). Parent link of x: type x_1, and if x_1 = 1 the smallest misplaced
    position. A node knows its own relative label only. One faulty node or link cuts off the subtree behind it.
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no star graph."""
        super().__init__(topology)
        self.star = require(topology, StarGraph, "the greedy tree L(r)")

    def parent(self, rank: Rank, tree: int) -> Port:
        symbols = self.star.permutation(rank)
        if symbols[0] != 1:
            return symbols[0] - 2
        for position, symbol in enumerate(symbols, 1):
            if symbol != position:
                return position - 2
        raise ValueError("the root has no parent")

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """By ascending type t: x_t = t; or x_t = 1, x_1 != t and positions 2..t-1 are right."""
        symbols = self.star.permutation(rank)
        ports = []
        right_so_far = True
        for position, symbol in enumerate(symbols[1:], 2):
            if symbol == position or (symbol == 1 and symbols[0] != position and right_so_far):
                ports.append(position - 2)
            right_so_far = right_so_far and symbol == position
        return tuple(ports)

    def level(self, rank: Rank, tree: int) -> int:
        return self.star.weight(rank)

    def height(self, tree: int) -> int:
        return self.star.diameter
