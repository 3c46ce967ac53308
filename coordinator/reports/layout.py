"""Where the nodes of a network are drawn: the same for every run.

A family may have a layout of its own, computed from ranks:

* EJ_alpha: canonical pairs on the hexagonal lattice; they fill a hexagon. A link that leaves the hexagon on one side
  and returns on the other is drawn as two stubs. In n dimensions: hexagons of hexagons, dimension n outermost.
* S_n: n substars S_{n-1}, one for each last symbol, on a circle (from n = 7 on, one of them in the middle), down to
  S_3, a ring of six. The discs of one level never overlap, so positions are distinct.
* Q_n: a grid whose rows and columns follow the Gray code, so that each line changes one bit. Links between nodes that are
  not neighbours on the grid are arcs. Small gaps separate blocks of four.
* Pancake, bubble-sort and transposition networks: blocks of blocks, as S_n. Cube-connected cycles and butterflies: a ring of
  positions at the place of every word on the grid of Q_n.
* Meshes and tori of one or two dimensions: a grid, with links from border to border as two stubs.
* Rings, circulant and complete graphs: a circle, in the order of ranks.

Any other network is drawn from its links alone (`computed_layout`).

Coordinates are scaled to `WIDTH` across, y downwards. Positions are arrays over all ranks: 40,320 nodes take milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import cos, factorial, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.reports.computed_layout import LARGEST_WITH_FORCES, Floats, Ranks, computed_positions
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS, EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

WIDTH = 1000.0
MARGIN = 0.045
"""Free border, as a share of the width."""


@dataclass(frozen=True)
class Layout:
    """Positions of all ranks in a picture of WIDTH x `height` units."""

    x: Floats
    y: Floats
    height: float
    spacing: float
    """Distance of the closest two nodes."""
    scale: float
    """Picture units in one unit of the family's own coordinates."""

    @property
    def radius(self) -> float:
        """Radius of a node: a third of the distance to the closest one, at most 26 units."""
        return min(26.0, 0.33 * self.spacing)


@dataclass(frozen=True)
class Shapes:
    """How links are drawn: their bow as a share of their length, and the direction of links that wrap around, else 0."""

    bow: Floats
    wrap_x: Floats
    wrap_y: Floats


@dataclass(frozen=True)
class FamilyLayout:
    """How the networks of one family are drawn."""

    place: Callable[[Any], Layout]
    shapes: Callable[[Any, Ranks, Ranks, Ranks], Shapes] = lambda _, senders, *__: _straight(senders)
    """Shapes of the links with these senders, ports and receivers."""
    blocks: Callable[[Any], Sequence[int]] = lambda _: [1]
    """Sizes, ascending, of blocks of consecutive ranks that are drawn close together."""


def layout_of(topology: Topology) -> Layout:
    """Return the positions of all nodes; computed from the links if the family has no layout of its own."""
    return _family(topology).place(topology)


def has_layout(topology: Topology) -> bool:
    """Return whether the family has a layout of its own."""
    return topology.family in LAYOUTS


def shapes_of(topology: Topology, senders: Ranks, ports: Ranks, receivers: Ranks) -> Shapes:
    """Return how these directed links are drawn."""
    return _family(topology).shapes(topology, senders, ports, receivers)


def cells_of(topology: Topology, layout: Layout, most: int) -> Ranks:
    """Return a cell for each rank: about `most` cells, each of ranks that are drawn close together.

    Substars, subcubes and inner hexagons are blocks of consecutive ranks. Where no block is large enough, such as in a
    one-dimensional hexagon, cells are squares of the picture.
    """
    ranks = np.arange(topology.order, dtype=np.int64)
    for size in _family(topology).blocks(topology):
        if topology.order <= size * most:
            return ranks // size
    side = max(1, int(sqrt(most)))
    columns = np.minimum((layout.x * side / WIDTH).astype(np.int64), side - 1)
    rows = np.minimum((layout.y * side / layout.height).astype(np.int64), side - 1)
    return np.asarray(rows * side + columns, dtype=np.int64)


def _family(topology: Topology) -> FamilyLayout:
    return LAYOUTS.get(topology.family, COMPUTED)


def _straight(senders: Ranks) -> Shapes:
    zero = np.zeros(len(senders))
    return Shapes(zero, zero, zero)


def _scaled(x: Floats, y: Floats, spacing: float) -> Layout:
    """Return the positions, scaled to WIDTH with a margin of at least one node."""
    width = max(float(np.ptp(x)), float(np.ptp(y)), spacing)
    border = max(MARGIN * width, 0.75 * spacing)
    scale = WIDTH / (float(np.ptp(x)) + 2 * border) if np.ptp(x) else WIDTH / (width + 2 * border)
    height = scale * (float(np.ptp(y)) + 2 * border)
    return Layout(scale * (x - x.min() + border), scale * (y - y.min() + border), height, scale * spacing, scale)


# --- any network -----------------------------------------------------------------------------------------------------


def _computed_layout(topology: Topology) -> Layout:
    x, y = computed_positions(topology).T
    return _scaled(x, y, _closest(x, y))


def _closest(x: Floats, y: Floats) -> float:
    """Return the distance of the closest two nodes; in large networks, drawn without nodes, half of a node's own
    square.
    """
    if len(x) > LARGEST_WITH_FORCES:
        return 0.5
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    np.fill_diagonal(distance, np.inf)
    return float(distance.min())


COMPUTED = FamilyLayout(_computed_layout)


# --- rings -----------------------------------------------------------------------------------------------------------


def _circle_layout(topology: Topology) -> Layout:
    angle = 2 * pi * np.arange(topology.order) / topology.order
    return _scaled(np.sin(angle), -np.cos(angle), 2 * sin(pi / max(2, topology.order)))


CIRCLE = FamilyLayout(_circle_layout)


# --- permutation star graphs -----------------------------------------------------------------------------------------


def _star_layout(topology: Any) -> Layout:
    """Lay out blocks of blocks, for every family on permutations whose ports 0 and 1 move only the first three symbols."""
    return _scaled(*_star(topology), _star_spacing(topology.n))


def _star_shapes(_: StarGraph, senders: Ranks, ports: Ranks, receivers: Ranks) -> Shapes:
    # From S_5 on, straight links between substars would run over other nodes.
    bow = np.where(ports >= 3, np.where(senders < receivers, 0.1, -0.1), 0.0)
    return replace(_straight(senders), bow=bow)


def _bowed(_: Any, senders: Ranks, ports: Ranks, receivers: Ranks) -> Shapes:
    # Links between blocks of six cross the picture, and straight ones would run over other nodes.
    bow = np.where(ports >= 2, np.where(senders < receivers, 0.18, -0.18), 0.0)
    return replace(_straight(senders), bow=bow)


def _star_blocks(topology: Any) -> list[int]:
    return [1, *(factorial(m) for m in range(3, topology.n))]


def _ring(count: int) -> tuple[float, float]:
    """Return the radius of `count` equal, touching discs inside the rim of a unit disc, and the radius of their
    centres' circle.
    """
    radius = sin(pi / count) / (1 + sin(pi / count))
    return radius, 1 - radius


def _level(m: int) -> tuple[float, list[tuple[float, float]]]:
    """Return the radius and the centres of the m substars in a unit disc."""
    on_rim = m - 1 if m >= 7 else m
    radius, distance = _ring(on_rim)
    turn = -pi / 2 + (pi / 4 if m == 4 else 0)
    rim = [
        (distance * cos(turn + 2 * pi * k / on_rim), distance * sin(turn + 2 * pi * k / on_rim)) for k in range(on_rim)
    ]
    return radius, [(0.0, 0.0), *rim] if m >= 7 else rim


HEXAGON = 0.72
"""Radius of a ring of six within its disc; the rest separates the rings of neighbouring discs."""
TWIST = 0.27
"""Angle of the rings, chosen so that links between rings pass beside other nodes."""


def _star(topology: Any) -> tuple[Floats, Floats]:
    ranks = np.arange(topology.order, dtype=np.int64)
    x, y, size = np.zeros(topology.order), np.zeros(topology.order), 1.0
    for m in range(topology.n, 3, -1):
        radius, centres = _level(m)
        where = np.array(centres)[ranks // factorial(m - 1) % m]
        x, y, size = x + size * where[:, 0], y + size * where[:, 1], size * radius
    around = np.empty(6)
    rank = 0
    for place in range(6):  # ports 0 and 1 in turn lead around the first block of six
        around[rank] = place * pi / 3
        rank = topology.neighbour(rank, place % 2)
    angle = around[ranks % 6] + TWIST
    return x + size * HEXAGON * np.cos(angle), y + size * HEXAGON * np.sin(angle)


def _star_spacing(n: int) -> float:
    """Return the smaller of the side of a ring of six and the gap between two rings."""
    size = min(HEXAGON, 2 * (1 - HEXAGON))
    for m in range(n, 3, -1):
        size *= _level(m)[0]
    return size


# --- hypercubes ------------------------------------------------------------------------------------------------------


def _hypercube_layout(topology: Hypercube) -> Layout:
    return _scaled(*_grid(topology.n), 1.0)


def _hypercube_shapes(topology: Hypercube, senders: Ranks, _: Ranks, receivers: Ranks) -> Shapes:
    return replace(_straight(senders), bow=_arcs(topology, senders, receivers))


def _hypercube_blocks(topology: Hypercube) -> list[int]:
    return [1 << m for m in range(topology.n)]


def _places(bits: int) -> Floats:
    """Return the position of each word in the Gray code of `bits` bits, with gaps after every 4 words and wider ones
    after every 16.
    """
    words = np.arange(1 << bits, dtype=np.int64)
    code = words ^ (words >> 1)
    place = np.empty(1 << bits, dtype=np.float64)
    place[code] = words + 0.35 * (words // 4) + 0.65 * (words // 16)
    return place


def _halves(bits: int) -> tuple[int, int]:
    """Return the number of bits in a row number and in a column number."""
    return bits // 2, bits - bits // 2


def _grid(bits: int) -> tuple[Floats, Floats]:
    """Return the column and row of every word."""
    words = np.arange(1 << bits, dtype=np.int64)
    rows, columns = _halves(bits)
    return _places(columns)[words & ((1 << columns) - 1)], _places(rows)[words >> columns]


def _arcs(topology: Any, senders: Ranks, receivers: Ranks) -> Floats:
    """Return the bows of links: 0 for neighbours on the grid, else higher for longer links, but below the next row.

    Both directions of a link lie on the same side. Even and odd bits lie on different sides.
    """
    rows, columns = _halves(topology.n)
    low = (1 << columns) - 1
    across, down = _places(columns), _places(rows)
    along = (across[receivers & low] - across[senders & low]) + (down[receivers >> columns] - down[senders >> columns])
    length = np.abs(along)
    longest = max(float(across.max()), float(down.max()))
    lift = 0.34 + 0.24 * length / longest
    bit = np.log2((senders ^ receivers).astype(np.float64)).round().astype(np.int64)
    side = np.where(bit % 2 == 0, 1.0, -1.0) * np.sign(along)
    return np.where(length < 2.5, 0.0, side * lift / length)


# --- rings of bits ---------------------------------------------------------------------------------------------------

RING = 0.34
"""Radius of a ring of positions, where neighbouring words of the grid are one apart."""


def _rings_layout(topology: Any) -> Layout:
    """Lay out a ring of the n positions at the place of every word on the grid of the hypercube."""
    x, y = (np.repeat(places, topology.n) for places in _grid(topology.n))
    # A quarter of the angle between two positions more: no two are at the same height or in the same column, so links
    # between words do not run over other nodes.
    angle = 2 * pi * (np.arange(topology.order) % topology.n + 0.25) / topology.n
    spacing = min(2 * RING * sin(pi / topology.n), 1 - 2 * RING)
    return _scaled(x + RING * np.sin(angle), y - RING * np.cos(angle), spacing)


def _rings_shapes(topology: Any, senders: Ranks, _: Ranks, receivers: Ranks) -> Shapes:
    """Bow the links between words like the links of the hypercube."""
    words, others = senders // topology.n, receivers // topology.n
    between = words != others
    bow = np.zeros(len(senders))
    bow[between] = _arcs(topology, words[between], others[between])
    return replace(_straight(senders), bow=bow)


# --- Eisenstein-Jacobi networks --------------------------------------------------------------------------------------


def _hexagon_layout(topology: EisensteinJacobi) -> Layout:
    return _scaled(*_hexagons(topology), 1.0)


def _hexagon_shapes(topology: EisensteinJacobi, senders: Ranks, ports: Ranks, receivers: Ranks) -> Shapes:
    # Links of higher dimensions bow around the hexagons between their ends.
    bow = np.where(ports >= 6, np.where(senders < receivers, 0.12, -0.12), 0.0)
    return Shapes(bow, *_wraps(topology, senders, ports, receivers))


def _hexagon_blocks(topology: EisensteinJacobi) -> list[int]:
    return [topology.modulus**m for m in range(topology.dimensions)]


def _pairs(topology: EisensteinJacobi) -> NDArray[np.int64]:
    """Return the canonical pairs of the one-dimensional indices."""
    return np.array([topology.coordinates(index) for index in range(topology.modulus)], dtype=np.int64)


def _sizes(topology: EisensteinJacobi, pairs: NDArray[np.int64]) -> list[float]:
    """Return the lattice unit of each dimension, such that the hexagons of the dimension below fit side by side."""
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
    """Return unit vectors of links that leave their hexagon on one side and return on the other; 0 for other links."""
    pairs, units = _pairs(topology), np.array(UNITS, dtype=np.int64)
    place = np.array([topology.modulus**d for d in range(topology.dimensions)], dtype=np.int64)[ports // 6]
    step = pairs[receivers // place % topology.modulus] - pairs[senders // place % topology.modulus]
    unit = units[ports % 6]
    wraps = (step != unit).any(axis=1)
    x, y = unit[:, 0] + unit[:, 1] / 2, -unit[:, 1] * sqrt(3) / 2
    return np.where(wraps, x, 0.0), np.where(wraps, y, 0.0)


# --- meshes and tori -------------------------------------------------------------------------------------------------


def _grid_layout(topology: Topology) -> Layout:
    sizes = _sizes_of(topology)
    if len(sizes) > 2:
        return _computed_layout(topology)
    rows, columns = np.divmod(np.arange(topology.order, dtype=np.int64), sizes[0])
    return _scaled(columns.astype(np.float64), rows.astype(np.float64), 1.0)


def _sizes_of(topology: Topology) -> list[int]:
    """Return the sizes in the name of a mesh or torus, dimension 1 first."""
    return [int(size) for size in reversed(topology.name.partition(":")[2].split("x"))]


def _grid_shapes(topology: Topology, senders: Ranks, _: Ranks, receivers: Ranks) -> Shapes:
    """Draw links from one border of the grid to the other as stubs."""
    sizes = _sizes_of(topology)
    if len(sizes) > 2:
        return _straight(senders)
    across = receivers % sizes[0] - senders % sizes[0]
    down = receivers // sizes[0] - senders // sizes[0]
    wrap_x, wrap_y = (np.where(np.abs(step) > 1, -np.sign(step), 0).astype(np.float64) for step in (across, down))
    return replace(_straight(senders), wrap_x=wrap_x, wrap_y=wrap_y)


# --- registry --------------------------------------------------------------------------------------------------------

LAYOUTS: dict[str, FamilyLayout] = {
    "star": FamilyLayout(_star_layout, _star_shapes, _star_blocks),
    "pancake": FamilyLayout(_star_layout, _bowed, _star_blocks),
    "bubble-sort": FamilyLayout(_star_layout, _bowed, _star_blocks),
    "modified-bubble-sort": FamilyLayout(_star_layout, _bowed, _star_blocks),
    "transposition": FamilyLayout(_star_layout, _bowed, _star_blocks),
    "ccc": FamilyLayout(_rings_layout, _rings_shapes),
    "butterfly": FamilyLayout(_rings_layout, _rings_shapes),
    "hypercube": FamilyLayout(_hypercube_layout, _hypercube_shapes, _hypercube_blocks),
    "ej": FamilyLayout(_hexagon_layout, _hexagon_shapes, _hexagon_blocks),
    "ring": CIRCLE,
    "circulant": CIRCLE,
    "complete": CIRCLE,
    "mesh": FamilyLayout(_grid_layout, _grid_shapes),
    "torus": FamilyLayout(_grid_layout, _grid_shapes),
}
"""One line per family that has a layout of its own; the positions of other networks are computed from their links."""
