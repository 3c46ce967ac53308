"""Spanning trees of the hypercube Q_n, after Johnsson and Ho (YALEU/DCS/TR-500, 1986). Port d is dimension d.

All rules are stated at root 0 on the relative address c of a node, bit 0 the least significant. Besides a parent, a tree
gives every node a *label*: the cycle, from 0, when the paper's one-port algorithms use the arc into it. Labels grow
along every path. In the trees made of rotations, all arcs of one label lie in one dimension, so that every node
exchanges over the same dimension in a cycle of a one-port algorithm.
"""

from abc import abstractmethod
from typing import ClassVar

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.trees.base import Trees, refuse_root, require

ROOT_LABEL = -1
"""Label of the root, so that a segment that starts there may leave in cycle 0."""


class CubeTrees(Trees):
    """Spanning trees of a hypercube, with the labels of their arcs."""

    title: ClassVar[str]
    """The name of the trees in error messages."""
    greedy: ClassVar[bool] = False
    """Whether the paper states that all paths from the root are shortest ones."""

    def __init__(self, topology: Topology, count: int = 1) -> None:
        """Raise ScenarioError (field `topology`) if `topology` is not a hypercube."""
        super().__init__(topology, count)
        self.cube = require(topology, Hypercube, self.title)

    @property
    def sum_of_levels(self) -> int:
        """The sum of the levels of all nodes in one tree, by formula; for shortest paths n 2^(n-1)."""
        # n 2^(n-1): each of the n bits is set in half of the 2^n addresses, and a level is the number of set bits.
        return self.cube.degree << self.cube.degree - 1

    @abstractmethod
    def label(self, rank: Rank, tree: int) -> int:
        """Return the cycle, from 0, when the arc into `rank` is used over one port; ROOT_LABEL at the root."""

    @abstractmethod
    def last_label(self, tree: int) -> int:
        """Return the largest label of a tree, by formula."""


def rotate_right(address: Rank, turns: int, n: int) -> Rank:
    """Return the n-bit `address` with bit b moved to bit (b - turns) mod n."""
    turns %= n
    return (address >> turns | address << (n - turns)) & ((1 << n) - 1)


def first_one(address: Rank, start: Port, n: int) -> Port:
    """Return k(c, j) of the paper: the first 1-bit of a nonzero address among bits j - 1, j - 2, .., j, cyclically; j =
    `start`.
    """
    # After the rotation bit j - 1 is the highest, so the scan is one bit_length.
    return (rotate_right(address, start, n).bit_length() - 1 + start) % n


def zeros_above(address: Rank, start: Port, n: int) -> tuple[Port, ...]:
    """Return M(c, j) of the paper: the 0-bits above the first 1-bit, up to bit j - 1, cyclically; all bits for address
    0.
    """
    length = rotate_right(address, start, n).bit_length()
    # Everything above the highest 1-bit of the rotated address, turned back to its own dimension.
    return tuple((bit + start) % n for bit in range(length, n))


class BinomialTree(CubeTrees):
    """The spanning binomial tree SBT (Johnsson and Ho, section 3.2): clear the highest 1-bit of the relative address.

    A shortest-path tree of height n; port d of the root leads to 2^(n-d-1) ranks. A node knows its own relative address
    only. One faulty node or link cuts off the subtree below it.

    >>> tree = BinomialTree(Hypercube(3))
    >>> [tree.topology.label(rank) for rank in tree.path(7, 0)]
    ['000', '001', '011', '111']
    """

    greedy = True
    shortest = True
    title = "the spanning binomial tree"

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # Rule of section 3.2: the parent is the address without its highest 1-bit.
        return rank.bit_length() - 1

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return every dimension above the highest 1-bit, ascending: the largest subtree is served first."""
        return tuple(range(rank.bit_length(), self.cube.n))

    def label(self, rank: Rank, tree: int) -> int:
        """Return the dimension of the arc."""
        return rank.bit_length() - 1

    def last_label(self, tree: int) -> int:
        return self.cube.n - 1
