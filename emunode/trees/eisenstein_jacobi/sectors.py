"""Spanning trees of Eisenstein-Jacobi networks EJ_alpha^(n), after Hussain's one-to-all broadcasts.

Sector j = 1..6 holds p rho^j + q rho^(j-1) with p >= 1, q >= 0; rho^j is its major, rho^(j-1) its minor unit. The axis
rho^j belongs to sector j. Port 6 (dim-1) + k adds rho^k in dimension dim = 1..n.
"""

from collections.abc import Callable
from functools import lru_cache

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS
from emunode.trees.base import CACHE_ENTRIES
from emunode.trees.eisenstein_jacobi.base import EisensteinJacobiTrees

SECTORS = range(1, 7)


class SectorTree(EisensteinJacobiTrees):
    """The tree of the improved one-to-all broadcast, for every 0 <= a <= b and every number of dimensions.

    A shortest-path tree of height n floor((a+2b)/3). A node whose lowest dimension with a nonzero component is d received
    its message in dimension d. It forwards the message as follows; the root does step 2 in every dimension:

    1. (Algorithm 2) It continues along its sector in dimension d, by the minor unit always and by the major unit on the
       axis, if the neighbour's canonical label is the next sector position.
    2. (Algorithm 1) It starts all six sectors in every lower dimension.

    A node knows its own relative label only. One faulty node or link cuts off the subtree below it.

    Source: Hussain, Algorithms 1 and 2. Their counters need b = a + 1, where this rule gives the same events. The sector
    position replaces the counters and is correct for every alpha, because canonical labels are closed under geodesic
    predecessors.

    >>> from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
    >>> tree = SectorTree(EisensteinJacobi.parse("2+3"))
    >>> [tree.topology.label(rank) for rank in tree.path(18, 0)]
    ['0,0', '-1,0']
    """

    shortest = True
    title = "the sector tree"

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        # Axis rho^j starts sector j, port j mod 6; listed in the order of Algorithm 1.
        self._start = tuple(j % 6 for j in SECTORS)
        self._continue: Callable[[int], tuple[int, ...]] = lru_cache(CACHE_ENTRIES)(self._find_continue)

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the port to the parent, in the lowest nonzero dimension: minus the minor unit off the axis, minus the
        major unit on it.
        """
        # `digits` begins with dimension 1, so the first nonzero index belongs to the lowest dimension.
        for base, index in enumerate(self.network.digits(rank)):
            if index:
                j, _, q = self.network.sector(index)
                # j + 2 is opposite to the minor port j - 1; j + 3 is opposite to the major port j.
                return 6 * base + ((j + 2) % 6 if q else (j + 3) % 6)
        raise ValueError("the root has no parent")

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children in the order of algorithms 1 and 2: by minor, by major, then the start of
        lower dimensions, highest first.
        """
        ports: list[Port] = []
        lower = self.network.dimensions
        for base, index in enumerate(self.network.digits(rank)):
            # Step 2 of the algorithm: a message received in dimension d continues in d and starts the dimensions
            # below.
            if index:
                ports.extend(6 * base + unit for unit in self._continue(index))
                lower = base
                break
        for base in reversed(range(lower)):
            ports.extend(6 * base + unit for unit in self._start)
        return tuple(ports)

    def _find_continue(self, index: int) -> tuple[int, ...]:
        """Return the units (0..5) that a one-dimensional node forwards a message by, along its sector."""
        j, _, q = self.network.sector(index)
        x, y = self.network.coordinates(index)
        # Algorithm 2: off the axis by minor only, on the axis (q = 0) by minor, then major.
        candidates = (j - 1,) if q else (j - 1, j % 6)
        return tuple(unit for unit in candidates if self._stays_canonical(x, y, unit))

    def _stays_canonical(self, x: int, y: int, unit: int) -> bool:
        """Return whether the pair (x, y) plus a unit is a canonical pair."""
        pair = (x + UNITS[unit][0], y + UNITS[unit][1])
        # Two lattice points can be the same residue; only the canonical one is reached along this sector.
        return self.network.coordinates(self.network.index(*pair)) == pair


Event = tuple[Step, Rank, Port, Rank]
"""(step, sender, its port, receiver)."""

Sector = tuple[int, int, int, int, int]
"""The packet SECTOR(major, minor, d, x, y) as (d, major, minor, x, y); units are exponents of rho."""
