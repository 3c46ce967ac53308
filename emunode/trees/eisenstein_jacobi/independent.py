"""The 6n vertex-independent spanning trees of Eisenstein-Jacobi networks EJ_alpha^(n), by local rule.

Tree q leaves the root by port q only. The trees are arc-disjoint, and the 6n paths from the root to any node share no
inner node, so that any 6n - 1 faulty nodes or links leave every healthy node connected to the root in some tree. There
cannot be more than 6n such trees, 6n being the degree. Two trees may use one link in opposite directions.

*One dimension.* Up to rotation and translation by alpha, every node u + v rho lies in one of four regions, and its parent
port in tree t depends only on the region and on t.

*Several dimensions.* A product of two networks with independent trees has independent trees. The rule is recursive: G is
the network of the dimensions below the highest, H the highest dimension.
"""

from collections.abc import Callable
from functools import lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.eisenstein_jacobi.base import EisensteinJacobiTrees

Ports = tuple[Port, ...]
"""One port per tree, indexed by tree."""

RAY: Ports = (3, 2, 0, 5, 1, 4)
RAY_OF_REAL: Ports = (3, 2, 1, 0, 5, 4)
"""The table of rays for a = 0."""
PARALLELOGRAM: Ports = (4, 3, 2, 1, 0, 5)
PARALLELOGRAM_OF_TWO: Ports = (4, 3, 5, 1, 0, 2)
"""For alpha = 2 + 2 rho."""
INNER_TRIANGLE: Ports = (4, 3, 0, 5, 2, 1)
CENTRE: Ports = (3, 0, 5, 2, 1, 4)


class IndependentTrees(EisensteinJacobiTrees):
    """6n independent spanning trees of EJ_alpha^(n), for every 0 <= a <= b with N >= 7.

    A node knows its own relative label only. The height in one dimension is a + b - 1 for 1 <= a < b (2D if b = a + 1), b
    for a = 0, 2a for a = b >= 3, and 3 for 2 + 2 rho; in n dimensions at most n times that. This is an extension: the
    literature on these networks has no such trees. Checked exhaustively for b <= 16 in one dimension and for small
    networks of up to four dimensions.

    >>> from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
    >>> trees = IndependentTrees(EisensteinJacobi.parse("2+3"))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(18, tree)))
    0,0 1,0 2,0 -2,1 -1,0
    0,0 0,1 0,2 -1,-1 -1,0
    0,0 -1,1 -1,0
    0,0 -1,0
    0,0 0,-1 -1,0
    0,0 1,-1 2,-2 -2,0 -1,0
    """

    title = "the independent trees"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)
        self._one = lru_cache(CACHE_ENTRIES)(self._find_one)
        self._parents: Callable[[Rank], Ports] = lru_cache(CACHE_ENTRIES)(self._find_parents)
        self._child_ports: Callable[[Rank], tuple[Ports, ...]] = lru_cache(CACHE_ENTRIES)(self._find_child_ports)
        self._detour: Callable[[int], int] = lru_cache(CACHE_ENTRIES)(self._find_detour)
        self._levels: dict[int, list[int]] = {}

    def parent(self, rank: Rank, tree: int) -> Port:
        return self.parents(rank)[tree]

    def parents(self, rank: Rank) -> Ports:
        """Return the parent port of `rank` in every tree; raises ValueError for the root."""
        refuse_root(rank)
        return self._parents(rank)

    def _find_parents(self, rank: Rank) -> Ports:
        digits = self.network.digits(rank)
        # All 6n ports at once: they are a permutation of the node's ports, and callers ask for all trees in turn.
        return tuple(self._arc(digits, tree) for tree in range(self.count))

    def child_ports(self, rank: Rank, tree: int) -> Ports:
        """Return the ports of the children by ascending port."""
        return self._child_ports(rank)[tree]

    def _find_child_ports(self, rank: Rank) -> tuple[Ports, ...]:
        """Return the child ports of `rank` in every tree."""
        # The parent ports of a neighbour in the 6n trees are a permutation of its 6n ports, so each link leads to it in
        # exactly one tree.
        ports: list[list[Port]] = [[] for _ in range(self.count)]
        for port, neighbour in enumerate(self.network.neighbours(rank)):
            if neighbour:
                ports[self._parents(neighbour).index(self.network.reverse_port(port))].append(port)
        return tuple(map(tuple, ports))

    # --- one dimension ---------------------------------------------------------------------------------------------

    def _find_one(self, index: int) -> Ports:
        """Return the parent unit (0..5) of a nonzero one-dimensional index in each of the six trees.

        Tries the translates by alpha and the rotations by a sixth of a turn until the index falls into a region.
        """
        a, b = self.network.a, self.network.b
        x, y = self.network.coordinates(index)
        # Seven translates of the canonical label; one of them lies in a region after some turn.
        for c, d in ((0, 0), *UNITS):
            # z - (c + d rho) alpha, written out by the product of the ring.
            shifted = (x - c * a + d * b, y - d * a - c * b - d * b)
            for turn in range(6):
                table = self._region(*_turn_back(*shifted, turn), turn)
                if table:
                    # The tables are stated for turn 0: a sixth of a turn shifts both the tree numbers and the units
                    # by one.
                    return tuple((table[(tree - turn) % 6] + turn) % 6 for tree in range(6))
        raise ValueError("the root has no parent")

    def _region(self, u: int, v: int, turn: int) -> Ports:
        """Return the parent units in region coordinates; empty where u + v rho lies in no region."""
        a, b = self.network.a, self.network.b
        # For a = 0 opposite rays meet, so that three of the six directions already name every node of the axes.
        if v == 0 and 1 <= u < b and (a or turn < 3):
            return RAY if a else RAY_OF_REAL
        # Of all alphas with 0 < u < a, only 2 + 2 rho has b = 2; it needs a table of its own.
        if 0 < u < a and 0 < v < b:
            return PARALLELOGRAM_OF_TWO if b == 2 else PARALLELOGRAM
        if u > a and v > 0 and u + v < b:
            return INNER_TRIANGLE
        # For a = b the rays end at b - 1 = a - 1, so (a, 0) is left to a region of its own.
        if a == b and (u, v) == (a, 0):
            return CENTRE
        return ()

    # --- products --------------------------------------------------------------------------------------------------

    def _arc(self, digits: tuple[int, ...], tree: int) -> Port:
        """Return the parent port in `tree` of a nonzero node of the network of the first len(digits) dimensions."""
        below, y = digits[:-1], digits[-1]  # the components in G and in H
        top = 6 * len(below)
        if not below:
            return self._one(y)[tree]
        if tree >= top:
            return self._arc_of_highest(below, y, tree - top)
        # y is the root of H: the arc of the tree of G itself.
        if not y:
            return self._arc(below, tree)
        # x is the root of G: step to the root's child on port `tree`.
        if not any(below):
            return tree
        # Both components are nonzero. Tree t > 0 moves along tree t of G to the root's neighbour on port t, and crosses H
        # there. Tree 0 crosses H at once, except at the other neighbours of the root of G, whose crossings are taken.
        child = self._root_child(below)
        stays = child not in (None, 0) if tree == 0 else child != tree
        return self._arc(below, tree) if stays else top + self._one(y)[self._root_child((y,)) or 0]

    def _arc_of_highest(self, below: tuple[int, ...], y: int, unit: int) -> Port:
        """Return `_arc` in the tree that leaves the root by `unit` of the highest dimension."""
        # x is the root of G: the arc of the tree of H itself.
        top = 6 * len(below)
        if not any(below):
            return top + self._one(y)[unit]
        # y is the root of H: step to the root's child on this unit.
        if not y:
            return top + unit
        # As in `_arc`, with the roles of G and H exchanged.
        child = self._root_child((y,))
        stays = child not in (None, 0) if unit == 0 else child != unit
        return top + self._one(y)[unit] if stays else self._arc(below, self._root_child(below) or 0)

    def _root_child(self, digits: tuple[int, ...]) -> Port | None:
        """Return the root's port to this node; None if it is not a neighbour of the root."""
        port = None
        for base, index in enumerate(digits):
            if index:
                _, p, q = self.network.sector(index)
                # A neighbour of the root has exactly one nonzero component, and that one is a unit (p + q = 1).
                if port is not None or p + q > 1:
                    return None
                port = 6 * base + self.network.sector(index)[0] % 6
        return port

    # --- levels ----------------------------------------------------------------------------------------------------

    def levels(self, tree: int) -> list[int]:
        """Return the level of every rank in `tree`, by rank: a table of the whole network, built once per tree."""
        found = self._levels.get(tree)
        if found is None:
            found = self._levels[tree] = self._find_levels(tree)
        return found

    def _find_levels(self, tree: int) -> list[int]:
        found = [0] + [-1] * (self.network.order - 1)
        for rank in self.network.ranks():
            chain, above = [], rank
            # Follow parents up to the first node of known level, then fill in the chain: each node is walked once.
            while found[above] < 0:
                chain.append(above)
                above = self.network.neighbour(above, self.parent(above, tree))
            for level, below in enumerate(reversed(chain), found[above] + 1):
                found[below] = level
        return found

    def height(self, tree: int) -> int:
        """Return the height: by formula in one dimension, with the detours of the product rule in more.

        A path of a tree that leaves the root in dimension d makes all its moves in d, crosses each higher dimension
        along that dimension's tree 0, and the lower dimensions together along theirs. Each crossing ends early when it
        meets a neighbour of the root.
        """
        a, b = self.network.a, self.network.b
        base = tree // 6
        if a == 0:
            height = b
        elif a < b:
            height = a + b - 1
        else:
            # 2 + 2 rho is the one case a = b below 3 with N >= 7.
            height = 2 * a if a > 2 else 3
        if base:
            height += self._detour(base)
        # Each dimension above the tree's own is crossed along its tree 0.
        return height + (self.network.dimensions - 1 - base) * self._detour(1)

    def _find_detour(self, dimensions: int) -> int:
        """Return the longest path of tree 0 in the first `dimensions` dimensions, up to the first neighbour of the root."""
        if dimensions == 1:
            return max(self._cut_short(index, 1) for index in range(1, self.network.modulus))
        below = dimensions - 1
        beside = (self._beside_root(rank, below) for rank in self.network.neighbours(0)[: 6 * below])
        return self._detour(1) + max(2, self._detour(below), *beside)

    def _cut_short(self, rank: Rank, dimensions: int) -> int:
        """Return the steps of tree 0 of the first `dimensions` dimensions from `rank` to a neighbour of the root, plus
        one.
        """
        steps = 1
        while self._root_child(self.network.digits(rank)[:dimensions]) is None:
            rank = self.network.neighbour(rank, self._arc(self.network.digits(rank)[:dimensions], 0))
            steps += 1
        return steps

    def _beside_root(self, rank: Rank, dimensions: int) -> int:
        """Return `_cut_short` from a neighbour of the root that cannot step to it, because a higher dimension is not
        zero yet.
        """
        steps = 0
        while self._root_child(self.network.digits(rank)[:dimensions]) not in (None, 0):
            rank = self.network.neighbour(rank, self._arc(self.network.digits(rank)[:dimensions], 0))
            steps += 1
        return steps + self._cut_short(rank, dimensions)


def _turn_back(x: int, y: int, turn: int) -> tuple[int, int]:
    """Return rho^(-turn) (x + y rho)."""
    for _ in range(turn):
        # Multiplication by rho^-1 = 1 - rho maps (x, y) to (x + y, -x).
        x, y = x + y, -x
    return x, y
