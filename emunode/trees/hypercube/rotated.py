"""Rotated spanning binomial trees of the hypercube: nRSBT, and the n arc-disjoint ones, nESBT."""

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees, first_one, no_parent, zeros_above


class RotatedBinomialTrees(CubeTrees):
    """n rotated spanning binomial trees, nRSBT: tree j is the SBT with all addresses rotated left by j.

    Johnsson and Ho, section 3.4. Shortest-path trees of height n: dimensions grow in the cyclic order j, j+1, .., j-1
    along every path. All arcs point away from the root, so a node at distance w has w vertex-disjoint paths: one fault
    cuts off nobody for good, but neighbours of the root hang on one link. A node knows its own relative address only.
    """

    greedy = True
    shortest = True

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology, topology.degree, "the rotated spanning binomial trees")

    def parent(self, rank: Rank, tree: int) -> Port:
        no_parent(rank)
        return first_one(rank, tree, self.cube.n)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """In the cyclic order of the tree: the largest subtree is served first."""
        return zeros_above(rank, tree, self.cube.n)

    def place(self, rank: Rank, tree: int) -> int:
        """Place of the parent's dimension in the order of the tree, from 0; -1 at the root."""
        return (self.parent(rank, tree) - tree) % self.cube.n if rank else -1

    def label(self, rank: Rank, tree: int) -> int:
        """j + i for the i-th dimension of tree j: in every cycle all trees use the same dimension."""
        return tree + self.place(rank, tree) if rank else ROOT_LABEL

    def last_label(self, tree: int) -> int:
        return tree + self.cube.n - 1


class EdgeDisjointBinomialTrees(CubeTrees):
    """n arc-disjoint spanning binomial trees, nESBT: tree j is an SBT rooted at the root's neighbour on port j.

    Johnsson and Ho, section 3.5 (trees ERSBT j): the SBT rotated left by j+1 and moved so that its root is e_j, with
    the arc e_j -> 0 turned round. Height n + 1. The n trees use every arc but those into the root (erratum: Corollary
    3.4 prints "incident on") exactly once, and the n paths to every node share no inner node: whatever n - 1 other
    nodes do, every node has a path. A node knows its own relative address, and the tree either from the packet's header
    or from the port it came in by (`tree_of_arrival`).
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no hypercube."""
        super().__init__(topology, topology.degree, "the edge-disjoint spanning binomial trees")

    @property
    def sum_of_levels(self) -> int:
        """Half of the nodes, but for the root, lie two deeper than their distance."""
        return super().sum_of_levels + self.cube.order - 2

    def parent(self, rank: Rank, tree: int) -> Port:
        no_parent(rank)
        return first_one(rank, tree, self.cube.n) if rank >> tree & 1 else tree

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """In the cyclic order j+1, .., j-1, j, by ascending label; a node without bit j is a leaf."""
        if not rank:
            return (tree,)
        if not rank >> tree & 1:
            return ()
        ports = zeros_above(rank, tree, self.cube.n)
        return ports if rank == 1 << tree else (*ports, tree)

    def level(self, rank: Rank, tree: int) -> int:
        return rank.bit_count() + (0 if rank >> tree & 1 or not rank else 2)

    def height(self, tree: int) -> int:
        return self.cube.n + 1

    def label(self, rank: Rank, tree: int) -> int:
        """f(i, j) of the paper, congruent to the dimension of the arc modulo n, from j to j + n."""
        if not rank:
            return ROOT_LABEL
        if not rank >> tree & 1:
            return tree + self.cube.n
        port = first_one(rank, tree, self.cube.n)
        return port if port >= tree else port + self.cube.n

    def last_label(self, tree: int) -> int:
        return tree + self.cube.n

    def tree_of_arrival(self, rank: Rank, port: Port) -> int:
        """The tree of which the arc into a nonzero `rank` by `port` is part: no packet need carry it.

        The first 1-bit above the port, cyclically; the port itself where its bit is 0, for such a node is a leaf.
        """
        if not rank >> port & 1:
            return port
        n = self.cube.n
        return next(bit % n for bit in range(port + 1, port + n + 1) if rank >> bit % n & 1)
