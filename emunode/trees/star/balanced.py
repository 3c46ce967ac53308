"""The three shortest-path trees for scattering on the star graph (Fragopoulou and Akl, TR 93-346, section 5).

They differ only in the parents of the nodes with x_1 = 1; these nodes are leaves. All other nodes stay in S^k, k the
position of symbol 1, so that the (n-1)! nodes of S^k are below the root's link k.

k-th ordering: 1 < k < k+1 < .. < n < 2 < .. < k-1. In the canonical cycle notation of x, x_1 != 1, every cycle ends
in its smallest symbol and the cycles are sorted by it, descending; so the cycle (a_1 a_2 .. a_m 1), a_1 = x_1 and
a_m = k, comes last. Errata: the printed parent function takes the second cycle from the left; it must be from the
right; the printed children functions claim too many (see `child_ports`).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.permutations import cycle_through
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.star.base import StarTrees
from emunode.trees.star.rotation import Rotation


class ScatterTrees(StarTrees):
    """The common part of the three trees; a subclass defines the parents of the nodes with x_1 = 1.

    Such a node has a copy for each port in `hooks`. Tree j contains its j-th copy, counted cyclically; two of the three
    families have only one tree.
    """

    shortest = True
    title = "a shortest-path tree for scattering"

    def __init__(self, topology: Topology, count: int = 1) -> None:
        super().__init__(topology, count)
        self.rotation = Rotation(self.star)
        self.hooks: Callable[[Rank], tuple[Port, ...]] = lru_cache(CACHE_ENTRIES)(self.find_hooks)

    @abstractmethod
    def find_hooks(self, rank: Rank) -> tuple[Port, ...]:
        """Return the parent ports of the copies of `rank` (x_1 = 1, not the root), ascending; equal to their subtrees'
        root ports.
        """

    def copies(self, rank: Rank) -> int:
        """Return the number of copies of `rank` in the tree."""
        return len(self.hooks(rank)) if self._at_home(rank) else 1

    def subtree(self, rank: Rank, copy: int) -> Port:
        """Return the root's port to a copy of `rank`."""
        if self._at_home(rank):
            return self.hooks(rank)[copy]
        return self.star.permutation(rank).index(1) - 1

    def _at_home(self, rank: Rank) -> bool:
        """Return whether symbol 1 is at position 1."""
        return self.star.permutation(rank)[0] == 1

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the parent port by rules 6 and 7: for x_1 != 1 the smallest symbol of the second cycle from the right,
        else x_1.
        """
        refuse_root(rank)
        symbols = self.star.permutation(rank)
        if symbols[0] == 1:
            hooks = self.hooks(rank)
            return hooks[tree % len(hooks)]
        # A link to a symbol of another cycle merges it with the cycle of 1, without a move of symbol 1 out of S^k.
        own = set(own_cycle(symbols))
        # The k-th ordering makes the smallest symbol of the second cycle from the right the first that is found.
        others = (q for q in ordering(symbols) if symbols[q - 1] != q and q not in own)
        # With one cycle left, the first symbol goes home.
        return next(others, symbols[0]) - 2

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children by ascending type, the union of three cases.

        1. Every fixed point, if x has one cycle.
        2. Every a_i, 1 < i < m, that is smaller in the k-th ordering than a_1 .. a_{i-1} and than all symbols of other
           cycles.
        3. k, if the neighbour over k has x_1 = 1 and its parent here.

        Errata: as printed, case 1 lacks its condition, case 2 ignores the other cycles, and the root is a child.
        """
        if not rank:
            return tuple(range(self.star.degree))
        symbols = self.star.permutation(rank)
        if symbols[0] == 1:
            return ()
        order = {q: place for place, q in enumerate(ordering(symbols))}
        own = own_cycle(symbols)
        # Places in the k-th ordering of all symbols in other cycles; the smallest of them bounds case 2.
        others = [order[q] for q in order if symbols[q - 1] != q and q not in own]
        types = [] if others else [q for q in range(2, len(symbols) + 1) if symbols[q - 1] == q]
        least = min(others, default=len(order))
        # a_m = k is left out: over link k symbol 1 would come to the front (case 3).
        for a in own[:-1]:
            if a != own[0] and order[a] < least:
                types.append(a)
            least = min(least, order[a])
        # Case 3: the neighbour over k has x_1 = 1. It may be the root (no child) or hang elsewhere.
        port = symbols.index(1) - 1
        leaf = self.star.neighbour(rank, port)
        if leaf and self._at_home(leaf) and self.parent(leaf, tree) == port:
            types.append(port + 2)
        return tuple(sorted(t - 2 for t in types))


class BalancedTree(ScatterTrees):
    """As balanced as possible (section 5.1): root subtrees differ by at most one; the largest has ceil((n!-1)/(n-1)) nodes.

    The parents of the nodes with x_1 = 1 are over the n-1 types in turn, necklace after necklace, in order of distance
    and least label, each from the first node on whose next type is misplaced (the paper leaves both open). Not local:
    every node computes the same table of (n-1)! entries.

    >>> from emunode.topologies.star import StarGraph
    >>> tree = BalancedTree(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '4231', '2431', '3421', '4321']
    """

    def find_hooks(self, rank: Rank) -> tuple[Port, ...]:
        return (self._table[rank],)

    @cached_property
    def _table(self) -> dict[Rank, Port]:
        """The parent port of every node with x_1 = 1."""
        table: dict[Rank, Port] = {}
        for necklace in self.rotation.necklaces():
            if self._at_home(necklace[0]):
                start = self._start(necklace, len(table) % self.star.degree)
                # A nonfull necklace leaves the count in the middle of the n-1 types; the next necklace continues from
                # there.
                for rank in necklace[start:] + necklace[:start]:
                    table[rank] = len(table) % self.star.degree
        return table

    def _start(self, necklace: tuple[Rank, ...], port: Port) -> int:
        """Return the index of the first node of a necklace with a misplaced position of `port`."""
        # One start suffices for the whole necklace: one rotation turns both the symbols and the type by one.
        labels = map(self.star.permutation, necklace)
        return next(place for place, symbols in enumerate(labels) if symbols[port + 1] != port + 2)


class NearBalancedTree(ScatterTrees):
    """Balanced within a constant factor (definitions 13 and 14, theorem 9): root subtrees of (n-1)! to 2(n-1)! nodes.

    The parent of a node with x_1 = 1 is over type d + 2, d its displacement: the number of rotations from its necklace's
    generator to it. The largest subtree has one node for each necklace. A node knows its own relative label only.

    >>> from emunode.topologies.star import StarGraph
    >>> tree = NearBalancedTree(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '4231', '2431', '3421', '4321']
    """

    def find_hooks(self, rank: Rank) -> tuple[Port, ...]:
        return (self.displacement(rank),)

    def displacement(self, rank: Rank) -> int:
        """Return d(x) for x_1 = 1 (definition 8)."""
        necklace = self.rotation.necklace(rank)
        return (necklace.index(rank) - necklace.index(self._generator(necklace))) % len(necklace)

    def _generator(self, necklace: tuple[Rank, ...]) -> Rank:
        """Return the generator by definition 7: of the nodes with symbol 2 misplaced, the one whose cycle through 2,
        written from 2, comes first.

        Erratum: it is not unique from n = 6 on; the least label decides.
        """
        labels = {self.star.permutation(rank): rank for rank in necklace}
        # Symbol 2 must be misplaced, because the generator's parent is over type 2 (displacement 0).
        return labels[min((symbols for symbols in labels if symbols[1] != 2), key=lambda x: (cycle_through(x, 2), x))]


class ReplicatedTrees(NearBalancedTree):
    """Perfectly balanced with repeated nodes (definitions 15 and 16, theorem 10): root subtrees of one node per necklace.

    A node with x_1 = 1 whose necklace has p nodes is a leaf of (n-1)/p subtrees, by types d + 2 + jp. A node knows its
    own relative label only. Tree j contains copy j.

    >>> from emunode.topologies.star import StarGraph
    >>> trees = ReplicatedTrees(StarGraph(4))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(23, tree)))
    1234 4231 2431 3421 4321
    1234 4231 2431 3421 4321
    1234 4231 2431 3421 4321
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)

    def find_hooks(self, rank: Rank) -> tuple[Port, ...]:
        # After p rotations the necklace is back at the same node, so every p-th type leads to it.
        return tuple(range(self.displacement(rank), self.star.degree, len(self.rotation.necklace(rank))))


def ordering(symbols: bytes) -> Iterator[int]:
    """Yield k, k+1, .., n, 2, .., k-1: the symbols above 1 in the k-th ordering."""
    k = symbols.index(1) + 1
    yield from range(k, len(symbols) + 1)
    yield from range(2, k)


def own_cycle(symbols: bytes) -> tuple[int, ...]:
    """Return a_1, a_2, .., a_m of the cycle (a_1 a_2 .. a_m 1), x_1 != 1."""
    return cycle_through(symbols, 1)[1:]
