"""MBST, the spanning tree over necklaces for broadcasts from all nodes of the star graph (Fragopoulou and Akl)."""

from collections.abc import Iterator
from functools import cached_property

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.trees.base import refuse_root
from emunode.trees.star.base import StarTrees
from emunode.trees.star.rotation import Rotation


class NecklaceTree(StarTrees):
    """MBST (TR 93-346, section 3.2, theorem 8): nodes in an order m = 0, 1, .. by distance and necklace.

    The link from node m to its parent has type v = (m-1) mod (n-1) + 2, the n-1 types in turn; it must lead one closer.
    Then it can receive in step ceil(m / (n-1)): all links of one step have different types, and a parent has the message
    in an earlier step. The result is an optimal multinode broadcast, and root subtrees that are balanced within one.

    Erratum: the printed condition m(x) - m(parent) >= n-1 fails for one node (two for n = 3); an earlier step is the
    condition needed, and it holds. Not local: every node computes the same table of n! entries.

    >>> from emunode.topologies.star import StarGraph
    >>> tree = NecklaceTree(StarGraph(4))
    >>> [tree.topology.label(rank) for rank in tree.path(23, 0)]
    ['1234', '4231', '2431', '3421', '4321']
    """

    shortest = True
    title = "MBST"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._rotation = Rotation(self.star)

    @cached_property
    def order(self) -> list[Rank]:
        """All nodes, indexed by m."""
        return list(self._ordered())

    @cached_property
    def _numbers(self) -> dict[Rank, int]:
        """m of every node."""
        return {rank: m for m, rank in enumerate(self.order)}

    def step(self, rank: Rank) -> Step:
        """Return ceil(m / (n-1)), the step when `rank` receives, 0 for the root."""
        # n - 1 nodes in a step: the root sends at most one message on each of its links.
        return -(-self._numbers[rank] // self.star.degree)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        return self._port(self._numbers[rank])

    def _port(self, m: int) -> Port:
        # Types 2, 3, .., n, 2, .. in turn, so that the links of one step are of different types.
        return (m - 1) % self.star.degree

    def _ordered(self) -> Iterator[Rank]:
        star, rotation = self.star, self._rotation
        # 1. The necklaces that have a generator g_k, one in every distance class D_k (but D_n if n is odd).
        generated: dict[Rank, tuple[Rank, Port]] = {}
        for k in range(1, star.diameter + 1):
            if (found := self.generator(k)) is not None:
                # A generator fixes the start of its necklace in the order, so it has to be found first.
                generated[rotation.necklace(found[0])[0]] = found

        # 2. In each distance class the generator's necklace comes first; then the other necklaces with x_1 != 1, then
        #    those with x_1 = 1, each group by least label (our choice; the paper leaves it open).
        def sort_key(necklace: tuple[Rank, ...]) -> tuple[int, bool, bool, bytes]:
            symbols = star.permutation(necklace[0])
            return star.weight(necklace[0]), necklace[0] not in generated, symbols[0] == 1, symbols

        # 3. Every necklace starts at a node whose next link type leads closer. All its further nodes are then right
        #    too, because one rotation of the node turns its link type by one.
        # The root is number 0; it belongs to no necklace of n - 1 nodes.
        yield 0
        m = 1
        for necklace in sorted(rotation.necklaces(), key=sort_key):
            if necklace[0] in generated:
                generator, port = generated[necklace[0]]
                # The generator's own link is `port`; rotated by the difference, its link becomes that of the next
                # place m.
                start = rotation.rotate(generator, self._port(m) - port)
            else:
                start = self._start(necklace, self._port(m))
            # The necklace is a cycle: cut it at the start and wrap around.
            first = necklace.index(start)
            yield from necklace[first:] + necklace[:first]
            m += len(necklace)

    def generator(self, k: int) -> tuple[Rank, Port] | None:
        """Return g_k and the port to its parent; None if D_k has none (n odd, k = D_n).

        For k <= n-1 the cycle (k+1, k, .., 2, 1), by its first symbol. Beyond, k+1-n two-cycles (n, n-1)(n-2, n-3)..(i,
        i-1) and the cycle (i-2, .., 2, 1), by i-1, the smaller symbol of the second cycle from the right (erratum: not
        from the left).
        """
        n = self.star.n
        # Beyond distance n - 1 the cycle of symbol 1 gets shorter by two symbols for every two-cycle, one step
        # farther.
        pairs = max(0, k + 1 - n)
        length = min(k + 1, n - 2 * pairs)
        if length < 2:
            # n odd, k = D_n: the two-cycles would take all symbols, and leave none for the cycle of 1.
            return None
        symbols = bytearray(self.star.identity)
        # Label (length, 1, 2, .., length - 1, ..): the cycle (length, .., 2, 1).
        symbols[:length] = bytes((length, *range(1, length)))
        for upper in range(n, n - 2 * pairs, -2):
            symbols[upper - 2], symbols[upper - 1] = upper, upper - 1
        # With two-cycles, i - 1 = length + 1 is the smaller symbol of the last pair.
        return self.star.rank_of(bytes(symbols)), (length + 1 if pairs else length) - 2

    def _start(self, necklace: tuple[Rank, ...], port: Port) -> Rank:
        """Return the first node of a necklace, from the least on, whose `port` leads closer to the root (our choice).

        There is one for n = 3..7.
        """
        star = self.star
        for rank in necklace:
            if star.weight(star.neighbour(rank, port)) < star.weight(rank):
                return rank
        raise AssertionError(f"no node of the necklace of {star.label(necklace[0])} has its parent over port {port}")
