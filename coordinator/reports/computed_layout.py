"""Positions of the nodes of any network, computed from its links: the same for every run of the same network.

1. Distances from a few pivots, spread over the network, are reduced to the two directions where nodes differ most (U.
Brandes and C. Pich, "Eigensolver Methods for Progressive Multidimensional Scaling of Large Data", 2006). Grids and
rings come out as such.
2. In networks small enough to be drawn with links, forces improve this: links pull, all other pairs push apart
   (T. Fruchterman and E. Reingold, 1991).
"""

from collections import OrderedDict
from math import pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emunode.topologies.base import Topology
from emunode.topologies.digest import links_sha256

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]

PIVOTS: Final = 24
LARGEST_WITH_FORCES: Final = 1_050
"""The largest network, in nodes, whose links are drawn."""
ROUNDS: Final = 60
KEPT_LAYOUTS: Final = 16
GOLDEN_ANGLE: Final = pi * (3 - sqrt(5))
CLOSEST: Final = 0.45
"""Closer nodes push each other apart in the end; a distance as a share of the side of a node's own square."""

_layouts: OrderedDict[str, Floats] = OrderedDict()
"""The latest layouts of this process, by the digest of the links."""


def computed_positions(topology: Topology) -> Floats:
    """Return one row (x, y) for every rank; the mean area of a node is 1."""
    key = links_sha256(topology)
    if key not in _layouts:
        _layouts[key] = _place(topology)
        if len(_layouts) > KEPT_LAYOUTS:
            _layouts.popitem(last=False)
    return _layouts[key]


def _place(topology: Topology) -> Floats:
    order = topology.order
    links = np.array([(one, other) for one, _, other, _ in topology.links()], dtype=np.int64)
    start, heads = _neighbour_lists(order, links)
    positions = _scaled(_pivot_positions(order, start, heads))
    # Nodes at the same distances from all pivots are at one point: a spiral tells them apart.
    ranks = np.arange(order)
    spiral = np.sqrt((ranks + 0.5) / order)
    positions += 0.3 * np.stack([np.cos(GOLDEN_ANGLE * ranks), np.sin(GOLDEN_ANGLE * ranks)], axis=1) * spiral[:, None]
    if order <= LARGEST_WITH_FORCES:
        positions = _scaled(_relaxed(positions, links))
        positions = _spread(positions)
    return positions


def _neighbour_lists(order: int, links: Ranks) -> tuple[Ranks, Ranks]:
    """Return the neighbours of all ranks, one list after the other, and where each list starts."""
    tails, heads = np.concatenate([links, links[:, ::-1]]).T
    by_tail = np.argsort(tails, kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=order))]), heads[by_tail]


def _pivot_positions(order: int, start: Ranks, heads: Ranks) -> Floats:
    columns: list[Floats] = []
    closest = np.full(order, np.inf)
    pivot = 0
    for _ in range(min(order, PIVOTS)):
        distances = _distances(order, start, heads, pivot)
        columns.append(distances)
        closest = np.minimum(closest, distances)
        pivot = int(closest.argmax())
    squares = np.stack(columns, axis=1) ** 2
    centred = squares.mean(axis=0) + squares.mean(axis=1, keepdims=True) - squares - squares.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    positions = centred @ vectors[:, -1:-3:-1] if squares.shape[1] > 1 else centred
    # An eigenvector has two signs: the first node that is not in the middle is on the positive side.
    for axis in range(positions.shape[1]):
        aside = positions[np.abs(positions[:, axis]) > 1e-9, axis]
        positions[:, axis] *= -1 if len(aside) and aside[0] < 0 else 1
    return np.asarray(positions, dtype=np.float64)


def _distances(order: int, start: Ranks, heads: Ranks, root: int) -> Floats:
    """Return the distance of every rank from `root`, a whole level at once."""
    distances = np.full(order, -1, dtype=np.int64)
    distances[root] = 0
    level = np.array([root], dtype=np.int64)
    depth = 0
    while len(level):
        depth += 1
        lengths = start[level + 1] - start[level]
        first = np.repeat(start[level] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        reached = heads[first + np.arange(lengths.sum())]
        level = np.unique(reached[distances[reached] < 0])
        distances[level] = depth
    return distances.astype(np.float64)


def _scaled(positions: Floats) -> Floats:
    """Return the positions around the origin, with a mean area of 1 for a node."""
    positions = positions - positions.mean(axis=0)
    spread = float(np.sqrt((positions**2).sum(axis=1).mean())) or 1.0
    return np.asarray(positions * (sqrt(len(positions) / (2 * pi)) / spread), dtype=np.float64)


def _relaxed(positions: Floats, links: Ranks) -> Floats:
    """Return the positions after some rounds when nodes follow the forces on them, ever more slowly."""
    one, other = links.T
    for round_number in range(ROUNDS):
        force = _away(positions, 1 / (_squared_distances(positions) + 1e-4))
        along = positions[other] - positions[one]
        pull = along * np.sqrt((along**2).sum(axis=1, keepdims=True))
        np.add.at(force, one, pull)
        np.add.at(force, other, -pull)
        length = np.sqrt((force**2).sum(axis=1, keepdims=True)) + 1e-9
        step = 0.1 * sqrt(len(positions)) * (1 - round_number / ROUNDS)
        positions = positions + force / length * np.minimum(length, step)
    return positions


def _spread(positions: Floats) -> Floats:
    """Return the positions after pairs that are too close have pushed each other apart."""
    for _ in range(ROUNDS):
        distance = np.sqrt(_squared_distances(positions)) + 1e-9
        short = np.maximum(CLOSEST - distance, 0.0)
        np.fill_diagonal(short, 0.0)
        if not short.any():
            break
        positions = positions + _away(positions, 0.55 * short / distance)
    return positions


def _squared_distances(positions: Floats) -> Floats:
    """Return the squared distances between all pairs of nodes."""
    squares = (positions**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares - 2 * positions @ positions.T, 0.0), dtype=np.float64)


def _away(positions: Floats, weights: Floats) -> Floats:
    """Return for every node the sum of the vectors from all others to it, with a weight for each pair."""
    return np.asarray(positions * weights.sum(axis=1, keepdims=True) - weights @ positions, dtype=np.float64)
