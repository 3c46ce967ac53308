"""The two-rooted complete binary tree of the hypercube: TCBT."""

from functools import lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees, no_parent


class TwoRootedTree(CubeTrees):
    """The two-rooted complete binary tree TCBT: the root and its first child each head half of a complete binary tree.

    Johnsson and Ho, section 3.3, cite that a dilation-1 embedding exists; this one is explicit. Two copies of the tree
    of Q_(m-1) are joined over dimension m - 1; in the second one the two highest dimensions, those of its root arcs,
    change places, so that the old second root of the first and its image in the second each lack one child and find it
    over the new dimension, and the two old first roots become the new pair of roots. Height n, level sizes 1, 2, 3
    2^(i-2), N/4. Not a shortest-path tree for n > 2. A node needs O(n) work for its parent and O(n^2) for its children.
    One faulty node or link cuts off the subtree behind it.
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology, 1, "the two-rooted complete binary tree")
        self._remembered = lru_cache(CACHE_ENTRIES)(self._label)

    @property
    def sum_of_levels(self) -> int:
        return (2 * self.cube.degree - 3) * self.cube.order // 2 + 2

    def parent(self, rank: Rank, tree: int) -> Port:
        no_parent(rank)
        return (rank ^ _parent(self.cube.n, rank)).bit_length() - 1

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """By ascending port, at the root by descending: the second root first."""
        if not rank:
            return (self.cube.n - 1, self.cube.n - 2)
        return super().child_ports(rank, tree)

    def height(self, tree: int) -> int:
        return self.cube.n

    def label(self, rank: Rank, tree: int) -> int:
        """A node that got something in cycle r serves its children in r + 1 and r + 2; the root in 0 and 1."""
        return self._remembered(rank) if rank else ROOT_LABEL

    def _label(self, rank: Rank) -> int:
        port = self.parent(rank, 0)
        parent = self.cube.neighbour(rank, port)
        return self.label(parent, 0) + 1 + self.children(parent, 0).index(port)

    def last_label(self, tree: int) -> int:
        return 2 * self.cube.n - 3


def _parent(m: int, address: Rank) -> Rank:
    """The parent of a nonzero address in the tree of Q_m, m >= 2."""
    if m == 2:
        return 2 if address == 3 else 0
    top, a, b = 1 << m - 1, 1 << m - 2, 1 << m - 3
    near_the_roots = {top: 0, a: 0, top + a: a, top + b: top, b: top + b}
    if address in near_the_roots:
        return near_the_roots[address]
    if address < top:
        return _parent(m - 1, address)
    return top + _swap(_parent(m - 1, _swap(address - top, a, b)), a, b)


def _swap(address: Rank, a: int, b: int) -> Rank:
    """The address with two of its bits exchanged."""
    return address ^ (a | b) if bool(address & a) != bool(address & b) else address
