"""The spanning balanced n-tree of the hypercube (SBnT), and the variant with several paths to cyclic nodes (SBnTc)."""

from functools import lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees, first_one, rotate_right, zeros_above


def bases(address: Rank, n: int) -> tuple[Port, ...]:
    """Return J(c), the rotations that make a nonzero address smallest, ascending. There are several if and only if c is
    cyclic.
    """
    # n rotations of n bits: O(n^2) bit operations, small enough to be done without a table.
    turned = [rotate_right(address, turns, n) for turns in range(n)]
    smallest = min(turned)
    return tuple(turns for turns in range(n) if turned[turns] == smallest)


class BalancedTrees(CubeTrees):
    """The spanning balanced n-tree SBnT, or the n of them that together are SBnTc.

    Johnsson and Ho, section 3.6. A shortest-path tree of height n, constructed in two steps:

    1. A node's *base*, the rotation that makes its address smallest, is the root's port to its subtree. That makes n
       subtrees of about (N-1)/n nodes.
    2. Its parent is over its first 1-bit, going down cyclically from the base.

    Cyclic nodes have n / period bases and are leaves (erratum: the paper says non-cyclic). With one tree (SBnT) they take
    the smallest base. With n trees (SBnTc), tree r takes the base j with the smallest (j + r) mod n; all trees agree on
    all other nodes, and a message cut into n parts loads every port of the root equally. A node knows its own relative
    address only. One faulty node or link cuts off the subtree below it, except for some cyclic nodes.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> tree = BalancedTrees(Hypercube(3))
    >>> [tree.topology.label(rank) for rank in tree.path(7, 0)]
    ['000', '001', '011', '111']
    """

    greedy = True
    shortest = True
    title = "the spanning balanced n-tree"

    def __init__(self, topology: Topology, count: int = 1) -> None:
        super().__init__(topology, count)
        self.base = lru_cache(CACHE_ENTRIES)(self._base)

    def _base(self, rank: Rank, tree: int) -> Port:
        """Return the root's port to the subtree of a nonzero rank."""
        # For tree 0 the smallest base; tree r turns the choice, so that the n trees share a cyclic node's bases
        # evenly.
        n = self.cube.n
        return min(bases(rank, n), key=lambda base: (base + tree) % n)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # k(c, j): going down cyclically from the base, the dimension that was taken last.
        return first_one(rank, self.base(rank, tree), self.cube.n)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children in cyclic order from the base upwards; the root serves its ports in
        ascending order.
        """
        n = self.cube.n
        if not rank:
            return tuple(range(n))
        base = self.base(rank, tree)
        # Adding a higher bit may give the child a smaller rotation elsewhere: then it belongs to another subtree.
        return tuple(port for port in zeros_above(rank, base, n) if self.base(rank ^ 1 << port, tree) == base)

    def label(self, rank: Rank, tree: int) -> int:
        """Return j + i for the i-th dimension from base j upwards, so that all subtrees use the same dimension in a
        cycle.
        """
        if not rank:
            return ROOT_LABEL
        base = self.base(rank, tree)
        # Subtree j starts in cycle j and follows the dimensions upwards, one per cycle.
        return base + (self.parent(rank, tree) - base) % self.cube.n

    def last_label(self, tree: int) -> int:
        """Return the last label: in tree 1 the node of all ones hangs below the last port, one cycle after all others."""
        return 2 * self.cube.n - (2 if tree == 1 else 3)
