"""Spanning trees of the hypercube Q_n, after Johnsson and Ho (YALEU/DCS/TR-500, 1986). Port d is dimension d.

Everything is stated at root 0 on the relative address c of a node, bit 0 the least significant. Besides its parent a
tree gives every node a *label*: the cycle, from 0, in which the paper's one-port algorithms use the arc into it. Labels
grow along every path. In the trees made of rotations all arcs of one label lie in one dimension, so that a cycle of a
one-port algorithm is an exchange over that dimension everywhere.
"""

from abc import abstractmethod
from typing import ClassVar

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.trees.base import Trees, require

ROOT_LABEL = -1
"""Label of the root, so that a piece that starts there may leave in cycle 0."""


class CubeTrees(Trees):
    """Spanning trees of a hypercube, with the labels of their arcs."""

    greedy: ClassVar[bool] = False
    """Whether the paper states that all paths from the root are shortest ones."""

    @property
    def sum_of_levels(self) -> int:
        """The levels of all nodes of one tree together, by formula; here the distances, n 2^(n-1)."""
        return self.cube.degree << self.cube.degree - 1

    def __init__(self, topology: Topology, count: int, title: str) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology, count)
        self.cube = require(topology, Hypercube, title)

    @abstractmethod
    def label(self, rank: Rank, tree: int) -> int:
        """Cycle, from 0, in which the arc into `rank` is used over one port; ROOT_LABEL at the root."""

    @abstractmethod
    def last_label(self, tree: int) -> int:
        """The largest label of a tree, by formula."""


def rotate_right(address: Rank, turns: int, n: int) -> Rank:
    """The n-bit `address` with bit b moved to bit (b - turns) mod n."""
    turns %= n
    return (address >> turns | address << (n - turns)) & ((1 << n) - 1)


def first_one(address: Rank, start: Port, n: int) -> Port:
    """The first 1-bit of a nonzero address among bits start - 1, start - 2, .., start, going down cyclically: k(c, j)."""
    return (rotate_right(address, start, n).bit_length() - 1 + start) % n


def zeros_above(address: Rank, start: Port, n: int) -> tuple[Port, ...]:
    """The 0-bits above the first 1-bit, from there up to bit start - 1, cyclically: M(c, j) of the paper; all for 0."""
    length = rotate_right(address, start, n).bit_length()
    return tuple((bit + start) % n for bit in range(length, n))


def no_parent(rank: Rank) -> None:
    """Raises ValueError for the root."""
    if not rank:
        raise ValueError("the root has no parent")


class BinomialTree(CubeTrees):
    """The spanning binomial tree SBT (Johnsson and Ho, section 3.2): clear the highest 1-bit of the relative address.

    A shortest-path tree of height n; port d of the root leads to 2^(n-d-1) ranks. A node knows its own relative address
    only. One faulty node or link cuts off the subtree behind it.
    """

    greedy = True
    shortest = True

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology, 1, "the spanning binomial tree")

    def parent(self, rank: Rank, tree: int) -> Port:
        no_parent(rank)
        return rank.bit_length() - 1

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Every dimension above the highest 1-bit, ascending: the largest subtree is served first."""
        return tuple(range(rank.bit_length(), self.cube.n))

    def label(self, rank: Rank, tree: int) -> int:
        """The dimension of the arc."""
        return rank.bit_length() - 1

    def last_label(self, tree: int) -> int:
        return self.cube.n - 1
