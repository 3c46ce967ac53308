"""The n-1 arc-disjoint spanning trees (EDT) of the star graph, and the graphs SPT and SPG that they are made from.

After Fragopoulou and Akl, "Edge-disjoint spanning trees on the star network with applications to fault tolerance",
IEEE Trans. Computers 45(2), 1996. The paper builds the trees in three steps:

1. SPT: shortest paths from the root to every node with x_1 != 1;
2. SPG: every node with x_1 = 1 is added to the subtree of each link of the root;
3. EDT: one spanning tree for each link of the root.

The formulas are illegible in the only text available; the rules here are a reconstruction that agrees with everything
legible and has all the claimed properties.

Notation: k is the position of symbol 1 in x, s = x_1. S^k holds the nodes with symbol 1 at position k, I those with
x_1 = 1. "Scanning right of k" means positions k+1, .., n, 2, .., k-1.
"""

from collections.abc import Iterator

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import refuse_root, require
from emunode.trees.star.base import StarTrees


class ShortestPathGraph:
    """SPT and SPG: shortest paths to all of S^k through the root's link k, and on to I over each of its links.

    SPT is the tree on the root and the nodes with x_1 != 1. SPG adds x of I to the subtree of each root link l, under
    its neighbour over l. The n-1 paths to x are vertex-disjoint; each has the length of x's distance if position l of x
    is misplaced, and two more otherwise. A node knows its own relative label only.
    """

    def __init__(self, topology: Topology) -> None:
        """Raise ScenarioError (field `topology`) if `topology` is not a star graph."""
        self.star = require(topology, StarGraph, "SPG")

    def own(self, rank: Rank) -> Port:
        """Return the port towards the parent in SPT, for x_1 != 1."""
        return own_type(self.star.permutation(rank)) - 2

    def route(self, rank: Rank, subtree: Port) -> tuple[Port, ...]:
        """Return the ports from the root to `rank` in the subtree of the root's port `subtree`.

        Raises ValueError if `rank` is not in that subtree.
        """
        symbols = self.star.permutation(rank)
        ports: list[Port] = []
        if rank and symbols[0] == 1:
            # x in I is a leaf of every subtree: its last hop in the one of link l is link l itself.
            ports.append(subtree)
            rank = self.star.neighbour(rank, subtree)
        # A node with x_1 != 1 is in one subtree only, by the position of symbol 1.
        elif not rank or symbols.index(1) != subtree + 1:
            raise ValueError(f"{self.star.label(rank)} is not in the subtree of port {subtree}")
        while rank:
            ports.append(self.own(rank))
            rank = self.star.neighbour(rank, ports[-1])
        return tuple(reversed(ports))


class EdgeDisjointTrees(StarTrees):
    """EDT: n-1 spanning trees, tree t being the paper's tree l = t+2, whose root has a single child, over its link l.

    No two trees share an arc, and the n-1 paths from the root to any node share no inner node: only n-1 faults can cut
    a node off. R(tree l) = tree r(l), R the cycle rotation. Height floor(3n/2) + 1 = D_n + 2 for odd n, D_n + 3 for
    even n (measured for n = 3..10; the printed constant is illegible, and D_n + 2 is the least possible for n = 3..6).
    A node knows its own relative label only (see `parent_type`).

    >>> trees = EdgeDisjointTrees(StarGraph(4))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(23, tree)))
    1234 2134 4132 3142 1342 2341 4321
    1234 3214 2314 1324 4321
    1234 4231 2431 3421 4321
    """

    title = "EDT"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        return parent_type(self.star.permutation(rank), tree + 2) - 2

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children in l-th order, l, l+1, .., n, 2, .., l-1, so that the preorders of the n-1
        trees are rotations of each other.
        """
        star = self.star
        # Port t - 2 stands for type t: the l-th order starts at the tree's own number.
        ordered = (*range(tree, star.degree), *range(tree))
        neighbours = star.neighbours(rank)
        # The types agree at both ends, so the neighbour's parent port is compared with the port to it.
        return tuple(port for port in ordered if neighbours[port] and self.parent(neighbours[port], tree) == port)

    def height(self, tree: int) -> int:
        """Return the height: measured, not proved, for every n."""
        return 3 * self.star.n // 2 + 1


def scan_right(n: int, k: int) -> Iterator[int]:
    """Yield positions k+1, .., n, 2, .., k-1."""
    yield from range(k + 1, n + 1)
    yield from range(2, k)


def own_type(symbols: bytes) -> int:
    """Return the type of the link towards the parent in SPT, for x_1 != 1."""
    k, s = symbols.index(1) + 1, symbols[0]
    if s != k:
        return s  # The first symbol goes home.
    # Link k would bring symbol 1 to the front and leave S^k: first fetch the next misplaced symbol. Only the neighbour of
    # the root in S^k has none; its parent is the root.
    return next((q for q in scan_right(len(symbols), k) if symbols[q - 1] != q), k)


def parent_type(symbols: bytes, tree: int) -> int:
    """Return the type of the link towards the parent in tree l = `tree` of EDT, for a node other than the root.

    The comments number the cases of the rule.
    """
    k, s = symbols.index(1) + 1, symbols[0]
    if s == 1:  # 1. x in I: its neighbour over l, as in SPG.
        return tree
    if k == tree:  # 2. x in S^l: as in SPT.
        return own_type(symbols)
    if s != k:  # 3. k if l = s; the position of k if l = x_s; the position of l otherwise.
        # The two exceptional links: exchanging them gives cycles from n = 4 on, so this assignment is forced.
        if tree == s:
            return k
        return symbols.index(k if tree == symbols[s - 1] else tree) + 1
    # 4. s = k: k if l = x_d for the link d != k of x in SPT, which brings l to the front; the position of l otherwise.
    d = own_type(symbols)
    return k if d != k and tree == symbols[d - 1] else symbols.index(tree) + 1
