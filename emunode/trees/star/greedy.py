"""The greedy tree of the permutation star graph S_n, and n-1 trees of congestion 2 made of it."""

from math import gcd

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import refuse_root
from emunode.trees.star.base import StarTrees


class GreedyTree(StarTrees):
    """The greedy tree L(r) of Tseng and Sheu (1997, definition 1, lemma 3) at the identity: send the first symbol home.

    A shortest-path tree of height floor(3(n-1)/2). A node knows its own relative label only. One faulty node or link
    cuts off the subtree below it.

    >>> from emunode.topologies.star import StarGraph
    >>> tree = GreedyTree(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '2134', '3124', '1324', '4321']
    """

    shortest = True
    title = "the greedy tree L(r)"

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return type x_1; if x_1 = 1, the smallest misplaced position."""
        refuse_root(rank)
        # Definition 1: link type x_1 swaps the first symbol with the symbol at position x_1, which sends x_1 home.
        symbols = self.star.permutation(rank)
        if symbols[0] != 1:
            return symbols[0] - 2
        # Type "dif" of definition 1: symbol 1 is home and would not move, so it is exchanged for the first misplaced
        # symbol.
        return next(position for position, symbol in enumerate(symbols, 1) if symbol != position) - 2

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children by ascending type t: x_t = t; or x_t = 1, x_1 != t and the symbols at
        positions 2..t-1 are home.
        """
        symbols = self.star.permutation(rank)
        ports = []
        all_home_so_far = True
        for position, symbol in enumerate(symbols[1:], 2):
            # Over link t the neighbour y has y_1 = x_t and y_t = x_1. If x_t = t, y sends its first symbol t home over t.
            # If x_t = 1, then y_1 = 1, and t is its smallest misplaced position unless an earlier one is misplaced.
            if symbol == position or (symbol == 1 and symbols[0] != position and all_home_so_far):
                ports.append(position - 2)
            all_home_so_far = all_home_so_far and symbol == position
        return tuple(ports)


class CongestionTwoTrees(StarTrees):
    """The n-1 trees Lhat_1 .. Lhat_{n-1} of Tseng and Sheu (1997, definitions 2 and 3), tree i-1 being Lhat_i.

    rho^i(r) is the label of the root r shifted right by i, cyclically. For every i:

    1. take the greedy tree L(rho^i r), rooted at rho^i(r);
    2. in it, find the path p_i from rho^i(r) down to r (`turned_path`);
    3. reverse the arcs of p_i, so that r becomes the root.

    Every directed link is in at most two of the n-1 trees, and the paths share no node but r. Height D_n + n + gcd(n, i)
    - 2, D_n the diameter (lemma 5; erratum: 4 instead of 5 for n = 3, i = 2). A node knows its own relative label only;
    the types along p_i follow from n and i.

    >>> from emunode.topologies.star import StarGraph
    >>> trees = CongestionTwoTrees(StarGraph(4))
    >>> for tree in range(trees.count):
    ...     print(*map(trees.topology.label, trees.path(23, tree)))
    1234 2134 3124 4123 1423 3421 4321
    1234 3214 2314 4312 3412 1432 2431 3421 4321
    1234 4231 3241 2341 4321
    """

    title = "the trees Lhat"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.degree)
        self._greedy = GreedyTree(topology)
        identity = self.star.identity
        shifts = range(1, self.star.n)
        # A slice to the right by i: r_a lands at position ((a - 1 + i) mod n) + 1.
        self._shifted_roots = [self.star.rank_of(identity[-i:] + identity[:-i]) for i in shifts]
        # n - 1 walks of fewer than 2n links, done once: p_i is the only part that a rule cannot read off its own
        # label.
        turned = [self._walk_turned_path(i) for i in shifts]
        self._ports_up = [up for up, _ in turned]
        self._ports_down = [down for _, down in turned]

    def turned_path(self, i: int) -> tuple[Port, ...]:
        """Return the ports along p_i from r to rho^i(r): n + gcd(n, i) - 2 of them, the first i - 1.

        With positions counted from 0 they follow the cycles C_k = (k, k+i, k+2i, ..) mod n: C_0 without its first
        element, then for k = 1 .. gcd(n, i) - 1 C_k and its first element once more.
        """
        n = self.star.n
        # gcd(n, i) cycles of n / gcd(n, i) positions: a shift by i decomposes the positions like this.
        cycles = [[(k + step * i) % n for step in range(n // gcd(n, i))] for k in range(gcd(n, i))]
        # C_0 holds position 0 itself, so link 0 does not occur; every later cycle is entered and left over its first
        # element.
        positions = cycles[0][1:] + [position for cycle in cycles[1:] for position in (*cycle, cycle[0])]
        # Positions count from 0 and type t is port t - 2 = position - 1.
        return tuple(position - 1 for position in positions)

    def _walk_turned_path(self, i: int) -> tuple[dict[Rank, Port], dict[Rank, Port]]:
        """Return, for the nodes of p_i, the port to the node before and the port to the node after."""
        up: dict[Rank, Port] = {}
        down: dict[Rank, Port] = {}
        rank = 0
        for port in self.turned_path(i):
            down[rank] = port
            # A link has the same type at both ends, so the way up from the next node is the port that led down to it.
            rank = self.star.neighbour(rank, port)
            up[rank] = port
        return up, down

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the port to the parent: on p_i the node before, elsewhere as in L(rho^i r)."""
        refuse_root(rank)
        up = self._ports_up[tree].get(rank)
        # F_q maps rho^i(r) to the identity and keeps link types, so the port needs no translation back.
        return self._greedy.parent(self._from_shifted_root(rank, tree), 0) if up is None else up

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children by ascending port: as in L(rho^i r), but on p_i without the node before and
        with the node after.
        """
        ports = set(self._greedy.children(self._from_shifted_root(rank, tree), 0))
        # Step 3 reverses p_i: the node before it was a child in L(rho^i r) and becomes the parent.
        ports.discard(self._ports_up[tree].get(rank, -1))
        if rank in self._ports_down[tree]:
            # The node after it on p_i was the parent in L(rho^i r) and becomes a child.
            ports.add(self._ports_down[tree][rank])
        return tuple(sorted(ports))

    def _from_shifted_root(self, rank: Rank, tree: int) -> Rank:
        return self.star.relative(rank, self._shifted_roots[tree])

    def height(self, tree: int) -> int:
        n = self.star.n
        # Lemma 5, with the one exception that was measured.
        return self.star.diameter + n + gcd(n, tree + 1) - 2 - (n == 3 and tree == 1)
