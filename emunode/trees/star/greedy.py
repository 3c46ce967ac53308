"""The greedy tree of the permutation star graph S_n, and n-1 trees of congestion 2 made of it. Types t = 2..n are
ports t - 2.
"""

from math import gcd

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, require


class GreedyTree(Trees):
    """The greedy tree L(r) of Tseng and Sheu (1997, definition 1, lemma 3) at the identity: send the first symbol
    home.

    A shortest-path tree of height floor(3(n-1)/2). Parent link of x: type x_1, and if x_1 = 1 the smallest
    misplaced position. A node knows its own relative label only. One faulty node or link cuts off the subtree
    behind it.
    """

    shortest = True

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


class CongestionTwoTrees(Trees):
    """The n-1 trees Lhat_1 .. Lhat_{n-1} of Tseng and Sheu (1997, definitions 2 and 3), tree i-1 being Lhat_i.

    rho^i(r) is the label of the root r shifted right by i, cyclically. The greedy tree L(rho^i r) contains a path
    p_i from r to rho^i(r); with that path turned round, it is rooted at r. Any directed link is in at most two of
    the n-1 trees, and the paths share no node but r. Height D_n + n + gcd(n, i) - 2, D_n the diameter (lemma 5;
    erratum: 4 and not 5 for n = 3, i = 2).

    A node knows its own relative label only; the types along p_i follow from n and i.
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no star graph."""
        self.star = require(topology, StarGraph, "the trees Lhat")
        super().__init__(topology, topology.degree)
        self._greedy = GreedyTree(topology)
        identity = self.star.identity
        self._goals = [self.star.rank_of(identity[-i:] + identity[:-i]) for i in range(1, self.star.n)]
        self._before: list[dict[Rank, Port]] = []
        self._after: list[dict[Rank, Port]] = []
        for i in range(1, self.star.n):
            self._lay_path(i)

    def turned_path(self, i: int) -> tuple[Port, ...]:
        """The ports along p_i: n + gcd(n, i) - 2 of them, the first i - 1.

        With positions counted from 0 they follow the cycles C_k = (k, k+i, k+2i, ..) mod n: C_0 without its first
        element, then for k = 1 .. gcd(n, i) - 1 C_k and its first element once more.
        """
        n = self.star.n
        cycles = [[(k + step * i) % n for step in range(n // gcd(n, i))] for k in range(gcd(n, i))]
        positions = cycles[0][1:] + [position for cycle in cycles[1:] for position in (*cycle, cycle[0])]
        return tuple(position - 1 for position in positions)

    def _lay_path(self, i: int) -> None:
        before: dict[Rank, Port] = {}
        after: dict[Rank, Port] = {}
        rank = 0
        for port in self.turned_path(i):
            after[rank] = port
            rank = self.star.neighbour(rank, port)
            before[rank] = port
        self._before.append(before)
        self._after.append(after)

    def parent(self, rank: Rank, tree: int) -> Port:
        """On p_i the node before; elsewhere as in L(rho^i r)."""
        if not rank:
            raise ValueError("the root has no parent")
        before = self._before[tree].get(rank)
        return self._greedy.parent(self._from_goal(rank, tree), 0) if before is None else before

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """By ascending port: the children in L(rho^i r), where p_i passes without the node before, with the node
        after.
        """
        ports = set(self._greedy.children(self._from_goal(rank, tree), 0))
        ports.discard(self._before[tree].get(rank, -1))
        if rank in self._after[tree]:
            ports.add(self._after[tree][rank])
        return tuple(sorted(ports))

    def _from_goal(self, rank: Rank, tree: int) -> Rank:
        return self.star.relative(rank, self._goals[tree])

    def height(self, tree: int) -> int:
        n = self.star.n
        return self.star.diameter + n + gcd(n, tree + 1) - 2 - (n == 3 and tree == 1)
