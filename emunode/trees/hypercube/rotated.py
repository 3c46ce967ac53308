"""Rotated spanning binomial trees of the hypercube (nRSBT), and the n arc-disjoint ones (nESBT)."""

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import refuse_root
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees, first_one, zeros_above


class RotatedBinomialTrees(CubeTrees):
    """n rotated spanning binomial trees, nRSBT: tree j is the SBT with all addresses rotated left by j.

    Johnsson and Ho, section 3.4. Shortest-path trees of height n: dimensions grow in the cyclic order j, j+1, .., j-1
    along every path. All arcs point away from the root, so a node at distance w has w vertex-disjoint paths. One faulty
    node cuts no other node off from all trees, but a neighbour of the root depends on one link. A node knows its own
    relative address only.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> trees = RotatedBinomialTrees(Hypercube(3))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(7, tree)))
    000 001 011 111
    000 010 110 111
    000 100 101 111
    """

    greedy = True
    shortest = True
    title = "the rotated spanning binomial trees"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # Rotation j of the SBT: the highest 1-bit becomes the first 1-bit going down from bit j.
        return first_one(rank, tree, self.cube.n)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children in the cyclic order of the tree: the largest subtree is served first."""
        return zeros_above(rank, tree, self.cube.n)

    def place(self, rank: Rank, tree: int) -> int:
        """Return the position of the parent's dimension in the order of the tree, from 0; -1 at the root."""
        return (self.parent(rank, tree) - tree) % self.cube.n if rank else -1

    def label(self, rank: Rank, tree: int) -> int:
        """Return j + i for the i-th dimension of tree j, so that all trees use the same dimension in a cycle."""
        # Tree j starts in cycle j: in cycle c, all trees then use dimension c mod n.
        return tree + self.place(rank, tree) if rank else ROOT_LABEL

    def last_label(self, tree: int) -> int:
        return tree + self.cube.n - 1


class EdgeDisjointBinomialTrees(CubeTrees):
    """n arc-disjoint spanning binomial trees, nESBT: tree j is an SBT rooted at the root's neighbour on port j.

    Johnsson and Ho, section 3.5 (trees ERSBT j):

    1. rotate the SBT left by j+1;
    2. translate it, so that its root is e_j;
    3. reverse the arc e_j -> 0.

    Height n + 1. The n trees use every arc except those into the root (erratum: Corollary 3.4 prints "incident on") exactly
    once, and the n paths to a node share no inner node, so that n - 1 other faulty nodes leave every node a path. A node
    knows its own relative address, and the tree either from the packet's header or from the port of arrival
    (`tree_of_arrival`).

    >>> from emunode.topologies.hypercube import Hypercube
    >>> trees = EdgeDisjointBinomialTrees(Hypercube(3))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(7, tree)))
    000 001 011 111
    000 010 110 111
    000 100 101 111
    """

    title = "the edge-disjoint spanning binomial trees"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)

    @property
    def sum_of_levels(self) -> int:
        """Half of the nodes except the root lie two levels deeper than their distance."""
        # N - 2 = 2 (N/2 - 1) links more than shortest paths.
        return super().sum_of_levels + self.cube.order - 2

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # Bit j is set first (root e_j) and cleared last: a node without bit j hangs below its neighbour that has it.
        return first_one(rank, tree, self.cube.n) if rank >> tree & 1 else tree

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children in the cyclic order j+1, .., j-1, j, by ascending label; a node without bit
        j is a leaf.
        """
        if not rank:
            return (tree,)
        if not rank >> tree & 1:
            # Leaf: its parent cleared bit j, the last dimension in the order of tree j.
            return ()
        ports = zeros_above(rank, tree, self.cube.n)
        # e_j itself does not flip j, because that arc was reversed in step 3.
        return ports if rank == 1 << tree else (*ports, tree)

    def level(self, rank: Rank, tree: int) -> int:
        # Without bit j the path sets it first and clears it at the end: two links more than the distance.
        return rank.bit_count() + (0 if rank >> tree & 1 or not rank else 2)

    def height(self, tree: int) -> int:
        return self.cube.n + 1

    def label(self, rank: Rank, tree: int) -> int:
        """Return f(i, j) of the paper, congruent to the dimension of the arc modulo n, from j to j + n."""
        if not rank:
            return ROOT_LABEL
        # Every leaf arc of tree j is used in cycle j + n.
        if not rank >> tree & 1:
            return tree + self.cube.n
        # k(c, j) below j is reached only after the order has wrapped around bit n - 1.
        port = first_one(rank, tree, self.cube.n)
        return port if port >= tree else port + self.cube.n

    def last_label(self, tree: int) -> int:
        return tree + self.cube.n

    def tree_of_arrival(self, rank: Rank, port: Port) -> int:
        """Return the tree that contains the arc into a nonzero `rank` over `port`, so that no packet need carry its
        number.

        It is the first 1-bit above the port, cyclically; or the port itself if its bit is 0: such a node is a leaf.
        """
        # An arc that clears its own dimension leads to a leaf of the tree of this port.
        if not rank >> port & 1:
            return port
        n = self.cube.n
        return next(bit % n for bit in range(port + 1, port + n + 1) if rank >> bit % n & 1)
