"""Chosen rotations and reflections of the spanning binomial tree, for the elements left over by a division."""

from collections.abc import Sequence

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import refuse_root
from emunode.trees.hypercube.binomial import ROOT_LABEL, CubeTrees, first_one

Turn = tuple[int, bool]
"""Left rotation of all addresses of the SBT, in bits; whether they are reflected (bit order reversed) beforehand."""


class TurnedBinomialTrees(CubeTrees):
    """Chosen rotations and reflections of the spanning binomial tree, in the given order.

    Johnsson and Ho, section 5.1.4. Rotation j takes the dimensions of a path in the cyclic order j, j+1, .., j-1; its
    reflection in the order j, j-1, .., j+1. Shortest-path trees of height n. A node knows its own relative address.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> trees = TurnedBinomialTrees(Hypercube(3), [(0, False), (0, True)])
    >>> [[trees.topology.label(rank) for rank in trees.path(7, tree)] for tree in range(2)]
    [['000', '001', '011', '111'], ['000', '001', '101', '111']]
    """

    shortest = True

    title = "rotated and reflected spanning binomial trees"

    def __init__(self, topology: Topology, turns: Sequence[Turn]) -> None:
        super().__init__(topology, len(turns))
        self.turns = tuple(turns)

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        turn, reflected = self.turns[tree]
        n = self.cube.n
        if not reflected:
            # A rotation of the SBT has the rule of nRSBT: the first 1-bit going down from the turn.
            return first_one(rank, turn, n)
        # A path takes the dimensions in the order j, j-1, .., j+1, so the last one taken is the first 1-bit from j+1 up.
        return next(bit for bit in ((turn + 1 + place) % n for place in range(n)) if rank >> bit & 1)

    def label(self, rank: Rank, tree: int) -> int:
        """Return the position of the parent's dimension in the order of the tree; the paper's schedules use all ports."""
        if not rank:
            return ROOT_LABEL
        turn, reflected = self.turns[tree]
        port = self.parent(rank, tree)
        # A label counts along this tree's direction through the dimensions, up or down.
        return ((turn - port) if reflected else (port - turn)) % self.cube.n

    def last_label(self, tree: int) -> int:
        return self.cube.n - 1


def rotations(n: int, k: int) -> list[Turn]:
    """Return k rotations at equal distances, for k that divides n."""
    return [(place * (n // k), False) for place in range(k)]


def reflections(n: int, k: int) -> list[Turn]:
    """Return k/2 rotations at equal distances, each with the reflection that loads the same root links in reverse
    order.

    k must be even and divide 2n.
    """
    # k trees are k/2 pairs, so that neighbouring turns are 2n/k apart.
    distance = 2 * n // k
    turns = [place * distance for place in range(k // 2)]
    # Reflection of the tree turned by t - 1: its first dimension is t - 1, the last of the rotation by t.
    return [*((turn, False) for turn in turns), *(((turn - 1) % n, True) for turn in turns)]
