"""Hamiltonian paths of the hypercube by the binary-reflected Gray code (BRG), and its n rotations (nRBRG)."""

from functools import lru_cache

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.hypercube.binomial import CubeTrees, rotate_right


def gray(position: int) -> Rank:
    """Return the address at `position` on the path."""
    # Position l and l + 1 differ in one bit, the lowest 0-bit of l.
    return position ^ position >> 1


def gray_position(address: Rank) -> int:
    """Return the inverse of `gray`: the exclusive or of all prefixes, by doubling the shift."""
    shift = 1
    # Shifts of 1, 2, 4, ..: O(log n) steps in place of n.
    while address >> shift:
        address ^= address >> shift
        shift *= 2
    return address


def transition(position: int) -> Port:
    """Return the dimension of the link from `position` to the next: its lowest 0-bit (0, 1, 0, 2, 0, 1, 0, 3, ..)."""
    # The lowest 0-bit of l is the lowest 1-bit of l + 1, isolated by the and.
    return (~position & position + 1).bit_length() - 1


class GrayPaths(CubeTrees):
    """One Hamiltonian path from the root (BRG), or n of them, path j with all addresses rotated left by j (nRBRG).

    Johnsson and Ho, section 3.1. Height N - 1; dimension d of the BRG has 2^(n-d-1) arcs. The rotated paths use arcs of
    n different dimensions at equal positions, but for n > 2 they share arcs elsewhere. A node knows its relative address
    only. One fault cuts off the rest of a path; with nRBRG, one faulty node cuts no other node off from all paths.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> tree = GrayPaths(Hypercube(3))
    >>> [tree.topology.label(rank) for rank in tree.path(7, 0)]
    ['000', '001', '011', '010', '110', '111']
    """

    title = "the binary-reflected Gray code path"

    def __init__(self, topology: Topology, count: int = 1) -> None:
        super().__init__(topology, count)
        self.position = lru_cache(CACHE_ENTRIES)(self._position)

    def _position(self, rank: Rank, tree: int) -> int:
        """Return the position on the path, from 0 at the root."""
        # Path j is path 0 with all addresses rotated left by j; rotating back gives the position.
        return gray_position(rotate_right(rank, tree, self.cube.n))

    @property
    def sum_of_levels(self) -> int:
        return self.cube.order * (self.cube.order - 1) // 2

    def parent(self, rank: Rank, tree: int) -> Port:
        refuse_root(rank)
        # `position - 1` is where the arc into this node begins; rotation j turns its dimension by j.
        return (transition(self.position(rank, tree) - 1) + tree) % self.cube.n

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        position = self.position(rank, tree)
        last = position == self.cube.order - 1
        return () if last else ((transition(position) + tree) % self.cube.n,)

    def route(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        n = self.cube.n
        return tuple((transition(place) + tree) % n for place in range(self.position(rank, tree)))

    def level(self, rank: Rank, tree: int) -> int:
        return self.position(rank, tree)

    def height(self, tree: int) -> int:
        return self.cube.order - 1

    def label(self, rank: Rank, tree: int) -> int:
        """Return the position that the arc leaves."""
        return self.position(rank, tree) - 1

    def last_label(self, tree: int) -> int:
        return self.cube.order - 2
