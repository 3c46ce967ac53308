"""Hamiltonian paths and cycles of the star graph as words of link types, and the tree of rotated Hamiltonian paths."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import factorial

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.topologies.permutations import is_odd, swap_first
from emunode.topologies.star import StarGraph
from emunode.trees.base import refuse_root
from emunode.trees.star.base import StarTrees
from emunode.trees.star.rotation import Rotation

SMALLEST_FREE = 4
"""Number of free positions where the recursion stops and searches: a substar S_4."""


def hamiltonian_cycle(star: StarGraph) -> list[Port]:
    """Return the n! ports along a Hamiltonian cycle from the identity.

    The papers assume such a cycle without a construction; this one is ours. S_3 is a ring. For n >= 4, a Hamiltonian
    path from 12..n to 213..n (of the opposite parity) is closed by type 2.
    """
    # S_3 is a ring of six nodes: types 2 and 3 in turn.
    if star.n == 3:
        return [0, 1] * 3
    # Label 213..n: swapping positions 1 and 2 leads back to the identity, so the last link closes the cycle.
    end = bytes((2, 1)) + star.identity[2:]
    types = hamiltonian_path(star.identity, end, tuple(range(1, star.n + 1)))
    return [t - 2 for t in types] + [0]


def hamiltonian_path(start: bytes, end: bytes, free: tuple[int, ...]) -> list[int]:
    """Return the types along a path from `start` to `end`, of opposite parity, through all permutations of `free` positions.

    `free` begins with 1. The steps, from S_5 on:

    1. Split by the symbol at the largest free position p where the ends differ.
    2. Visit the substars in ascending order of that symbol, the start's first and the end's last.
    3. Leave a substar over type p from a node that begins with the next substar's symbol, and whose parity differs from
       that of the node where the substar was entered: a path through an even number of nodes ends at the other parity.
    """
    if len(free) == SMALLEST_FREE:
        return _search(start, end, free)
    p = max(position for position in free[1:] if start[position - 1] != end[position - 1])
    rest = tuple(position for position in free if position != p)
    first, last = start[p - 1], end[p - 1]
    # `between` excludes the two substars whose order is fixed by the ends of the path.
    between = sorted({start[position - 1] for position in free} - {first, last})
    types: list[int] = []
    here = start
    for symbol, following in zip([first, *between], [*between, last], strict=True):
        # The exit must begin with the next substar's symbol: link p then carries it to position p.
        leave = _exit(here, symbol, following, p, rest)
        types += hamiltonian_path(here, leave, rest)
        types.append(p)
        # The entry of the next substar; its parity is opposite to the parity of the exit.
        here = swap_first(leave, p)
    return types + hamiltonian_path(here, end, rest)


def _exit(entered: bytes, symbol: int, following: int, p: int, rest: tuple[int, ...]) -> bytes:
    """Return the last node in the substar with `symbol` at p: first symbol `following`, then ascending symbols.

    The last two are exchanged if the parity must be different.
    """
    node = bytearray(entered)
    node[0] = following
    others = sorted({entered[position - 1] for position in rest} - {following})
    for position, other in zip(rest[1:], others, strict=True):
        node[position - 1] = other
    # A path through all k! nodes of a substar has an odd number of links, so its ends must differ in parity.
    if is_odd(bytes(node)) == is_odd(entered):
        one, other = rest[-2] - 1, rest[-1] - 1
        node[one], node[other] = node[other], node[one]
    assert node[p - 1] == symbol
    return bytes(node)


def _search(start: bytes, end: bytes, free: tuple[int, ...]) -> list[int]:
    """Return `hamiltonian_path` by backtracking, types ascending; it always succeeds on four positions."""
    # 24 nodes for four positions: backtracking takes no noticeable time there, and much for 120.
    size = factorial(len(free))
    visited = {start}
    types: list[int] = []

    def extend(here: bytes) -> bool:
        if len(visited) == size:
            return here == end
        for t in free[1:]:
            there = swap_first(here, t)
            # The end may be visited last only; reaching it early can never be completed.
            if there in visited or (there == end and len(visited) < size - 1):
                continue
            visited.add(there)
            types.append(t)
            if extend(there):
                return True
            visited.remove(there)
            types.pop()
        return False

    if not extend(start):
        raise AssertionError(f"no Hamiltonian path from {start!r} to {end!r}")
    return types


def ehrlich(n: int) -> Iterator[int]:
    """Yield the n! - 1 link types of a Hamiltonian path of S_n: Ehrlich's swaps (Knuth, TAOCP 4A, 7.2.1.2, algorithm
    E).
    """
    swap = list(range(n))
    count = [0] * (n + 1)
    while True:
        # Algorithm E, step E3: find the lowest counter that is not full, and reset those below it.
        k = 1
        while count[k] == k:
            count[k] = 0
            k += 1
        if k == n:
            return
        count[k] += 1
        # Step E4, a swap of positions 0 and swap[k], counted from 0: link type swap[k] + 1.
        yield swap[k] + 1
        # Step E5: the reversal of b_1 .. b_(k-1) changes the symbols that the next round exchanges.
        swap[1:k] = reversed(swap[1:k])


class RotatedPaths(StarTrees):
    """The trees of the two-phase multinode broadcast (TR 93-346, section 3.1), one for each message.

    1. Below the root's link 2 is a Hamiltonian path of S^2: link 2, then Ehrlich's path of S_{n-1} with every type one
       higher (our choice; the paper leaves it open).
    2. Below every other link j is a rotation of that path, a Hamiltonian path of S^j (theorem 4).
    3. The (n-1)! - 1 nodes with x_1 = 1 other than the root are leaves. In the tree of message c the parent y of
       such a node x is over its link with the symbol p_c = n - (c mod (n-1)), so that y_1 = p_c and y_t = 1.

    With p_c = n for every message, step 3 is the paper's rule 1, and every message waits for the one before; the changing
    symbol fills the gaps (erratum to table 1, "M times").

    >>> tree = RotatedPaths(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '4231', '2431', '3421', '4321']
    """

    title = "the tree of rotated Hamiltonian paths"

    def __init__(self, topology: Topology, count: int = 1) -> None:
        """Build `count` trees, one per message; ScenarioError (field `topology`) if `topology` is not a star graph."""
        super().__init__(topology, count)
        self._rotation = Rotation(self.star)

    @cached_property
    def word(self) -> Sequence[Port]:
        """The (n-1)! ports along the path below port 0."""
        # Step 1: link 2 enters S^2; t - 1 is port (t + 1) - 2, Ehrlich's type t raised by one.
        return [0, *(t - 1 for t in ehrlich(self.star.n - 1))]

    @cached_property
    def _reached(self) -> dict[Rank, Step]:
        """The nodes of the path below port 0, each with its position on the path, from 1."""
        here, reached = 0, {}
        for step, port in enumerate(self.word, 1):
            here = self.star.neighbour(here, port)
            reached[here] = step
        return reached

    def step(self, rank: Rank) -> Step:
        """Return the position of `rank`, x_1 != 1, on its path: the step of phase 1 that reaches it."""
        # Rotating back by the root port carries the path of S^j onto the path of S^2, so one table serves all.
        return self._reached[self._rotation.rotate(rank, -self._path(rank))]

    def _path(self, rank: Rank) -> Port:
        """Return the root port of the path through `rank`."""
        return self.star.permutation(rank).index(1) - 1

    def leaf_symbol(self, tree: int) -> int:
        """Return p_c: in `tree`, the parent of a node with x_1 = 1 is over the position of this symbol."""
        return self.star.n - tree % self.star.degree

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        symbols = self.star.permutation(rank)
        if symbols[0] == 1:
            # Step 3: the parent has symbol p_c in front, so the link is at the position of p_c in x.
            return symbols.index(self.leaf_symbol(tree)) - 1
        path = self._path(rank)
        # Step 2: the rotated word, with every type turned by the path's root port.
        return self._rotation.port(self.word[self.step(rank) - 1], path)

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the next node of the path; then, if x_1 = p_c, the leaf over the path's own link."""
        if not rank:
            return tuple(range(self.star.degree))
        symbols = self.star.permutation(rank)
        if symbols[0] == 1:
            return ()
        path, step = self._path(rank), self.step(rank)
        ports = [self._rotation.port(self.word[step], path)] if step < len(self.word) else []
        # Over link k symbol 1 comes to the front. The neighbour may be the root itself: it is no leaf.
        if symbols[0] == self.leaf_symbol(tree) and self.star.neighbour(rank, path):
            ports.append(path)
        return tuple(ports)
