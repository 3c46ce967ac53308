"""The two-rooted complete binary tree of the hypercube (TCBT)."""

from functools import lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees


class TwoRootedTree(CubeTrees):
    """The two-rooted complete binary tree TCBT: the root and its first child each head half of a complete binary tree.

    Johnsson and Ho, section 3.3, cite that a dilation-1 embedding exists; this one is explicit. The tree of Q_m is made
    of two copies of the tree of Q_(m-1), whose first root 0 has the children a = 2^(m-2), the second root, and b =
    2^(m-3):

    1. Place the second copy in the subcube with bit m - 1, top = 2^(m-1), with the dimensions of a and b exchanged. Its
       first root top then has the children top + b, its second root, and top + a.
    2. Join the two first roots over the new dimension: 0 and top are the new pair of roots.
    3. Detach from each first root the child that is not a second root, b and top + a. The second root of the other copy
    has only one child, and adopts it over the new dimension: b below top + b, top + a below a.

    Height n, level sizes 1, 2, 3 2^(i-2), N/4. Not a shortest-path tree for n > 2. A node needs O(n) work for its parent
    and O(n^2) for its children. One faulty node or link cuts off the subtree below it.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> tree = TwoRootedTree(Hypercube(3))
    >>> [tree.topology.label(rank) for rank in tree.path(7, 0)]
    ['000', '100', '101', '111']
    """

    title = "the two-rooted complete binary tree"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._remembered = lru_cache(CACHE_ENTRIES)(self._label)

    @property
    def sum_of_levels(self) -> int:
        # By the level sizes: (2n - 3) N/2 + 2 against n N/2 of a shortest-path tree.
        return (2 * self.cube.degree - 3) * self.cube.order // 2 + 2

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # Parent and child differ in one bit, the dimension of the link.
        return (rank ^ _parent(self.cube.n, rank)).bit_length() - 1

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children by ascending port; at the root by descending port, the second root first."""
        if not rank:
            # Port n - 1 leads to the second root, with the larger half of the tree below it.
            return (self.cube.n - 1, self.cube.n - 2)
        return super().child_ports(rank, tree)

    def height(self, tree: int) -> int:
        return self.cube.n

    def label(self, rank: Rank, tree: int) -> int:
        """Return a node that receives in cycle r serves its children in r + 1 and r + 2; the root in 0 and 1."""
        return self._remembered(rank) if rank else ROOT_LABEL

    def _label(self, rank: Rank) -> int:
        port = self.parent(rank, 0)
        parent = self.cube.neighbour(rank, port)
        # Children are served one per cycle, in the order of `children`.
        return self.label(parent, 0) + 1 + self.children(parent, 0).index(port)

    def last_label(self, tree: int) -> int:
        return 2 * self.cube.n - 3


def _parent(m: int, address: Rank) -> Rank:
    """Return the parent of a nonzero address in the tree of Q_m, m >= 2."""
    # Q_2 is the path 1 - 0 - 2 - 3: first root 0, second root 2.
    if m == 2:
        return 2 if address == 3 else 0
    top, a, b = 1 << m - 1, 1 << m - 2, 1 << m - 3
    # Steps 2 and 3 change the parents of top, b and top + a; the two second roots are listed because they are next to them.
    near_the_roots = {top: 0, a: 0, top + a: a, top + b: top, b: top + b}
    if address in near_the_roots:
        return near_the_roots[address]
    if address < top:
        return _parent(m - 1, address)
    # Step 1 in reverse: strip the new bit, exchange a and b, ask the smaller tree, and undo both.
    return top + _swap(_parent(m - 1, _swap(address - top, a, b)), a, b)


def _swap(address: Rank, a: int, b: int) -> Rank:
    """Return the address with two of its bits exchanged."""
    return address ^ (a | b) if bool(address & a) != bool(address & b) else address
