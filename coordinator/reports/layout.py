"""Where the nodes of a network are drawn: one closed layout a family, the same for every run, by arithmetic on ranks.

* EJ_alpha: canonical pairs on the hexagonal lattice, which fill a hexagon. A link that leaves the hexagon on one side and
  comes back on the other is drawn as two stubs. In n dimensions hexagons of hexagons, dimension n outermost.
* S_n: n substars S_{n-1}, one for each last symbol, on a circle (from n = 7 on one of them in the middle), down to S_3,
  which is a ring of six. The discs of one level never overlap, so positions are distinct.
* Q_n: a grid whose rows and columns follow the Gray code, so that each line changes one bit; bits that are no neighbours on
  the grid are joined by arcs. Small gaps set blocks of four apart.

Coordinates are scaled to `WIDTH` across, y downwards. Everything is arrays over all ranks: 40,320 nodes take milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, factorial, pi, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS, EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

WIDTH = 1000.0
MARGIN = 0.045
"""Free border, as a share of the width."""

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Positions of all ranks in a picture of WIDTH x `height`."""

    x: Floats
    y: Floats
    height: float
    spacing: float
    """Distance of the closest two nodes."""
    scale: float
    """Picture units in one unit of the family's own coordinates."""

    @property
    def radius(self) -> float:
        """Of a node: a third of the way to the closest one, and not too large."""
        return min(26.0, 0.33 * self.spacing)


@dataclass(frozen=True)
class Shapes:
    """How links are drawn: `bow` as a share of the length, and for a link that wraps around its direction, else 0."""

    bow: Floats
    wrap_x: Floats
    wrap_y: Floats


def layout_of(topology: Topology) -> Layout:
    """The layout of a network; TypeError for a family that has none."""
    match topology:
        case StarGraph():
            return _scaled(*_star(topology), _star_spacing(topology.n))
        case Hypercube():
            return _scaled(*_grid(topology), 1.0)
        case EisensteinJacobi():
            return _scaled(*_hexagons(topology), 1.0)
    raise TypeError(f"no layout for {type(topology).__name__}")


def shapes_of(topology: Topology, senders: Ranks, ports: Ranks, receivers: Ranks) -> Shapes:
    """How to draw these directed links."""
    zero = np.zeros(len(senders))
    match topology:
        case StarGraph():  # from S_5 on straight lines between substars would run over other nodes
            return Shapes(np.where(ports >= 3, np.where(senders < receivers, 0.1, -0.1), 0.0), zero, zero)
        case Hypercube():
            return Shapes(_arcs(topology, senders, receivers), zero, zero)
        case EisensteinJacobi():
            beside = np.where(senders < receivers, 0.12, -0.12)  # of hexagons that lie between
            return Shapes(np.where(ports >= 6, beside, 0.0), *_wraps(topology, senders, ports, receivers))
    return Shapes(zero, zero, zero)


def cells_of(topology: Topology, layout: Layout, most: int) -> Ranks:
    """A cell for every rank, at most about `most` of them, each of ranks that are drawn close together.

    Blocks of consecutive ranks are substars, subcubes and inner hexagons; only a one-dimensional hexagon is cut by position.
    """
    ranks = np.arange(topology.order, dtype=np.int64)
    for size in _block_sizes(topology):
        if topology.order <= size * most:
            return ranks // size
    side = max(1, int(sqrt(most)))
    columns = np.minimum((layout.x * side / WIDTH).astype(np.int64), side - 1)
    rows = np.minimum((layout.y * side / layout.height).astype(np.int64), side - 1)
    return np.asarray(rows * side + columns, dtype=np.int64)


def _block_sizes(topology: Topology) -> Sequence[int]:
    match topology:
        case StarGraph(n=n):
            return [1, *(factorial(m) for m in range(3, n))]
        case Hypercube(n=n):
            return [1 << m for m in range(n)]
        case EisensteinJacobi(dimensions=dimensions, modulus=modulus):
            return [modulus**m for m in range(dimensions)]
    return [1]


def _scaled(x: Floats, y: Floats, spacing: float) -> Layout:
    """Fit into WIDTH with a margin of at least a node."""
    width = max(float(np.ptp(x)), float(np.ptp(y)), spacing)
    border = max(MARGIN * width, 0.75 * spacing)
    scale = WIDTH / (float(np.ptp(x)) + 2 * border) if np.ptp(x) else WIDTH / (width + 2 * border)
    height = scale * (float(np.ptp(y)) + 2 * border)
    return Layout(scale * (x - x.min() + border), scale * (y - y.min() + border), height, scale * spacing, scale)


# Permutation star graphs.


def _ring(count: int) -> tuple[float, float]:
    """Radius of `count` equal discs on the rim of a unit disc, touching each other, and of the circle of their centres."""
    radius = sin(pi / count) / (1 + sin(pi / count))
    return radius, 1 - radius


def _level(m: int) -> tuple[float, list[tuple[float, float]]]:
    """Of the m substars in a unit disc: their radius, and their centres."""
    on_rim = m - 1 if m >= 7 else m
    radius, distance = _ring(on_rim)
    turn = -pi / 2 + (pi / 4 if m == 4 else 0)
    rim = [
        (distance * cos(turn + 2 * pi * k / on_rim), distance * sin(turn + 2 * pi * k / on_rim)) for k in range(on_rim)
    ]
    return radius, [(0.0, 0.0), *rim] if m >= 7 else rim


HEXAGON = 0.72
"""Radius of a ring of six within its disc; the rest keeps rings of neighbouring discs apart."""


TWIST = 0.27
"""Angle of the rings, chosen so that links between them pass beside other nodes."""


def _star(topology: StarGraph) -> tuple[Floats, Floats]:
    ranks = np.arange(topology.order, dtype=np.int64)
    x, y, size = np.zeros(topology.order), np.zeros(topology.order), 1.0
    for m in range(topology.n, 3, -1):
        radius, centres = _level(m)
        where = np.array(centres)[ranks // factorial(m - 1) % m]
        x, y, size = x + size * where[:, 0], y + size * where[:, 1], size * radius
    around = np.empty(6)
    rank, small = 0, StarGraph(3)
    for place in range(6):
        around[rank] = place * pi / 3
        rank = small.neighbour(rank, place % 2)
    angle = around[ranks % 6] + TWIST
    return x + size * HEXAGON * np.cos(angle), y + size * HEXAGON * np.sin(angle)


def _star_spacing(n: int) -> float:
    """The smaller of the side of a ring of six and the gap between two rings."""
    size = min(HEXAGON, 2 * (1 - HEXAGON))
    for m in range(n, 3, -1):
        size *= _level(m)[0]
    return size


# Hypercubes.


def _places(bits: int) -> Floats:
    """Place of each word of `bits` bits in the Gray code, with gaps between blocks of four and wider ones of sixteen."""
    words = np.arange(1 << bits, dtype=np.int64)
    code = words ^ (words >> 1)
    place = np.empty(1 << bits, dtype=np.float64)
    place[code] = words + 0.35 * (words // 4) + 0.65 * (words // 16)
    return place


def _halves(topology: Hypercube) -> tuple[int, int]:
    """Bits of a row's number and of a column's."""
    return topology.n // 2, topology.n - topology.n // 2


def _grid(topology: Hypercube) -> tuple[Floats, Floats]:
    ranks = np.arange(topology.order, dtype=np.int64)
    rows, columns = _halves(topology)
    return _places(columns)[ranks & ((1 << columns) - 1)], _places(rows)[ranks >> columns]


def _arcs(topology: Hypercube, senders: Ranks, receivers: Ranks) -> Floats:
    """Neighbours on the grid are joined by a line, others by an arc: the longer, the higher, below the next row.

    Both directions of a link lie on one side; arcs of even and of odd bits on different ones.
    """
    rows, columns = _halves(topology)
    low = (1 << columns) - 1
    across, down = _places(columns), _places(rows)
    along = (across[receivers & low] - across[senders & low]) + (down[receivers >> columns] - down[senders >> columns])
    length = np.abs(along)
    longest = max(float(across.max()), float(down.max()))
    lift = 0.34 + 0.24 * length / longest
    bit = np.log2((senders ^ receivers).astype(np.float64)).round().astype(np.int64)
    side = np.where(bit % 2 == 0, 1.0, -1.0) * np.sign(along)
    return np.where(length < 2.5, 0.0, side * lift / length)


# Eisenstein-Jacobi networks.


def _pairs(topology: EisensteinJacobi) -> NDArray[np.int64]:
    """Canonical pairs of the one-dimensional indices."""
    return np.array([topology.coordinates(index) for index in range(topology.modulus)], dtype=np.int64)


def _sizes(topology: EisensteinJacobi, pairs: NDArray[np.int64]) -> list[float]:
    """Lattice unit of every dimension: hexagons of the one below fit beside each other."""
    x, y = pairs[:, 0] + pairs[:, 1] / 2, pairs[:, 1] * sqrt(3) / 2
    reach = 2 * float(np.sqrt(x**2 + y**2).max()) + 1.4
    return [reach**dimension for dimension in range(topology.dimensions)]


def _hexagons(topology: EisensteinJacobi) -> tuple[Floats, Floats]:
    pairs = _pairs(topology)
    ranks = np.arange(topology.order, dtype=np.int64)
    x, y = np.zeros(topology.order), np.zeros(topology.order)
    for dimension, size in enumerate(_sizes(topology, pairs)):
        own = pairs[ranks // topology.modulus**dimension % topology.modulus]
        x += size * (own[:, 0] + own[:, 1] / 2)
        y -= size * own[:, 1] * sqrt(3) / 2
    return x, y


def _wraps(topology: EisensteinJacobi, senders: Ranks, ports: Ranks, receivers: Ranks) -> tuple[Floats, Floats]:
    """Unit vector of each link that leaves its hexagon on one side and comes back on the other; 0 for the others."""
    pairs, units = _pairs(topology), np.array(UNITS, dtype=np.int64)
    place = np.array([topology.modulus**d for d in range(topology.dimensions)], dtype=np.int64)[ports // 6]
    step = pairs[receivers // place % topology.modulus] - pairs[senders // place % topology.modulus]
    unit = units[ports % 6]
    wraps = (step != unit).any(axis=1)
    x, y = unit[:, 0] + unit[:, 1] / 2, -unit[:, 1] * sqrt(3) / 2
    return np.where(wraps, x, 0.0), np.where(wraps, y, 0.0)
