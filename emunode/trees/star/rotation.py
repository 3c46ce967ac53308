"""The cycle rotation R of the star graph, its orbits (necklaces), and the rotations of one tree.

r(1) = 1 and 2 -> 3 -> .. -> n -> 2. R(x) holds r(x_i) at position r(i): the automorphism of S_n that fixes the
identity and carries a link of type t to one of type r(t), so port p to port p + 1 mod (n-1). It preserves distances to
the identity. A necklace has n-1 nodes if x_1 != 1; smaller ones exist only among the nodes with x_1 = 1, and their size
divides n-1 (Fragopoulou and Akl, TR 93-346, definitions 5, 6 and 9, theorems 3, 5, 6 and 7). The "least" node is the one
with the least label.
"""

from functools import lru_cache
from math import factorial, gcd

from emunode.model import Port, Rank
from emunode.topologies.star import StarGraph
from emunode.trees.base import CACHE_ENTRIES, Trees


class Rotation:
    """R and its powers on the ranks of one star graph."""

    def __init__(self, star: StarGraph) -> None:
        self.star = star
        self.period = star.n - 1
        others = star.identity[1:]
        # r^i for every i as a table for bytes.translate: symbols 2..n shifted, symbol 1 is fixed.
        self._relabel = [bytes.maketrans(others, others[i:] + others[:i]) for i in range(self.period)]
        # Hot path: schedules rotate the same nodes for every tree and message; plain form: the method itself.
        self.rotate = lru_cache(CACHE_ENTRIES)(self._rotate)
        self.necklace = lru_cache(CACHE_ENTRIES)(self._necklace)

    def _rotate(self, rank: Rank, times: int) -> Rank:
        """Return R^times(rank)."""
        times %= self.period
        if not times:
            return rank
        symbols = self.star.permutation(rank)
        # Positions 2..n move right by `times`, position 1 stays; then the symbols are relabelled alike.
        moved = symbols[:1] + symbols[-times:] + symbols[1:-times]
        return self.star.rank_of(moved.translate(self._relabel[times]))

    def port(self, port: Port, times: int) -> Port:
        """Return the image of `port` under R^times."""
        return (port + times) % self.period

    def _necklace(self, rank: Rank) -> tuple[Rank, ...]:
        """Return the necklace of `rank`, starting at its least node, each node the rotation of the one before."""
        orbit = [rank]
        # R has order n - 1, so the orbit closes after a divisor of n - 1 steps.
        while (following := self.rotate(orbit[-1], 1)) != rank:
            orbit.append(following)
        # A canonical start, so that all nodes of a necklace share one tuple.
        least = orbit.index(min(orbit, key=self.star.permutation))
        return tuple(orbit[least:] + orbit[:least])

    def necklaces(self) -> list[tuple[Rank, ...]]:
        """Return all necklaces except the root's own, by (distance, least node). Walks the whole network."""
        weight, permutation = self.star.weight, self.star.permutation
        ordered = sorted(range(1, self.star.order), key=lambda rank: (weight(rank), permutation(rank)))
        # Each necklace is listed at its least node, so no set of visited nodes is needed.
        return [necklace for rank in ordered if (necklace := self.necklace(rank))[0] == rank]


def necklace_count(n: int) -> int:
    """Return the number of necklaces of S_n except the root's own, in closed form: 3, 9, 33, 147, 855 for n = 3..7.

    The (n-1) (n-1)! nodes with x_1 != 1 make (n-1)! full necklaces. On the other nodes R acts as conjugation by a cycle of
    m = n-1 symbols; its j-th power has e = gcd(j, m) cycles and fixes (m/e)^e e! permutations (Burnside's lemma).
    """
    m = n - 1
    fixed: int = sum((m // e) ** e * factorial(e) for e in (gcd(j, m) for j in range(m)))
    # Burnside: the mean of the fixed points is the number of orbits; one of them is the root's own.
    return factorial(m) + fixed // m - 1


class RotatedTrees(Trees):
    """The n-1 images R^0(T) .. R^{n-2}(T) of one spanning tree T of the star graph.

    Tseng and Sheu 1997 call R^i a dimension change (DC). If T has a local rule, all have one: a node rotates its own
    relative address back, applies the rule, and rotates the resulting port forward.

    >>> from emunode.topologies.star import StarGraph
    >>> from emunode.trees.star.greedy import GreedyTree
    >>> trees = RotatedTrees(StarGraph(4), GreedyTree(StarGraph(4)))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(23, tree)))
    ...
    1234 2134 3124 1324 4321
    1234 3214 2314 1324 4321
    1234 2134 3124 1324 4321
    """

    def __init__(self, star: StarGraph, tree: Trees) -> None:
        super().__init__(star, star.n - 1)
        self._rotation = Rotation(star)
        self._tree = tree

    def parent(self, rank: Rank, tree: int) -> Port:
        rotation = self._rotation
        # R^tree fixes the root, so the parent of R^tree(x) is the image of the parent of x.
        return rotation.port(self._tree.parent(rotation.rotate(rank, -tree), 0), tree)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the children in T, rotated, in the order of T."""
        rotation = self._rotation
        return tuple(rotation.port(port, tree) for port in self._tree.children(rotation.rotate(rank, -tree), 0))

    def level(self, rank: Rank, tree: int) -> int:
        return self._tree.level(self._rotation.rotate(rank, -tree), 0)

    def height(self, tree: int) -> int:
        # Automorphisms keep heights.
        return self._tree.height(0)
