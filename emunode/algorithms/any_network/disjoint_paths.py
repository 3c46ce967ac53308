"""Node-disjoint paths of least total length between two nodes, for every number of paths."""

from collections import deque
from itertools import pairwise

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

OutgoingLink = tuple[Rank, Port]
"""A link of a path, as (sender, port)."""
Side = tuple[Rank, bool]
"""A rank split in two: where paths come in (False) and where they leave (True), joined by an arc for one path."""


def disjoint_families(topology: Topology, target: Rank) -> list[list[list[OutgoingLink]]]:
    """Return k node-disjoint paths of least total length from rank 0 to `target`, for k = 1, 2, .. up to the largest
    number.

    Successive shortest paths in the residual network (Suurballe 1974). The sum of the lengths is unique; the single
    lengths are not, and depend on the order of the ports.
    """
    families: list[list[list[OutgoingLink]]] = []
    onward: dict[Rank, Rank] = {}
    # Rank 0 begins several paths, so its successors are kept apart; every other rank is on one path at most.
    first: list[Rank] = []
    while (found := _shortest_augmentation(topology, target, onward, first)) is not None:
        onward, first = found
        families.append(_paths(topology, target, onward, first))
    return families


def _shortest_augmentation(
    topology: Topology, target: Rank, onward: dict[Rank, Rank], first: list[Rank]
) -> tuple[dict[Rank, Rank], list[Rank]] | None:
    """Return the flow with one path more, as successors of ranks and of rank 0; None if there is no further path."""
    before = {onward[rank]: rank for rank in onward if onward[rank] != target} | dict.fromkeys(
        (rank for rank in first if rank != target), 0
    )
    cost: dict[Side, int] = {(0, True): 0}
    came: dict[Side, Side] = {}
    # Bellman and Ford with a queue: arcs of the flow are taken back at cost -1.
    queue = deque([(0, True)])
    waiting = {(0, True)}
    while queue:
        side = queue.popleft()
        waiting.discard(side)
        for other, length in _residual(topology, before, onward, first, side):
            if other not in cost or cost[side] + length < cost[other]:
                cost[other], came[other] = cost[side] + length, side
                if other not in waiting and other != (target, False):
                    waiting.add(other)
                    queue.append(other)
    if (target, False) not in cost:
        return None
    added: set[tuple[Rank, Rank]] = set()
    removed: set[tuple[Rank, Rank]] = set()
    side = (target, False)
    while side != (0, True):
        tail = came[side]
        if tail[0] != side[0]:
            # From where paths leave to where they come in is a new link; the other way round one is taken back.
            (added if tail[1] else removed).add((tail[0], side[0]) if tail[1] else (side[0], tail[0]))
        side = tail
    links = set(onward.items()) | {(0, rank) for rank in first}
    links = (links - removed) | added
    return {rank: peer for rank, peer in links if rank}, sorted(peer for rank, peer in links if not rank)


def _residual(
    topology: Topology, before: dict[Rank, Rank], onward: dict[Rank, Rank], first: list[Rank], side: Side
) -> list[tuple[Side, int]]:
    """Return the arcs out of one half of a rank, with their costs."""
    rank, leaving = side
    on_path = rank in before
    if leaving:
        used = set(first) if not rank else {onward[rank]} if on_path else set()
        found = [((peer, False), 1) for _, peer in topology.adjacent(rank) if peer and peer not in used]
        # Take back that a path goes through this rank.
        return [*found, ((rank, False), 0)] if on_path else found
    if not on_path:
        return [((rank, True), 0)]
    # A path comes in already: the way on is back along it.
    return [((before[rank], True), -1)]


def _paths(topology: Topology, target: Rank, onward: dict[Rank, Rank], first: list[Rank]) -> list[list[OutgoingLink]]:
    """Return the paths of a flow, the shortest first."""
    found = []
    for begin in first:
        ranks = [0, begin]
        while ranks[-1] != target:
            ranks.append(onward[ranks[-1]])
        found.append([(one, topology.neighbours(one).index(other)) for one, other in pairwise(ranks)])
    return sorted(found, key=lambda path: (len(path), path))


def closed_lengths(topology: Topology, target: Rank) -> tuple[list[int], str] | None:
    """Return the lengths of all disjoint paths from rank 0, ascending, and who states them; None where no formula is
    known.
    """
    match topology:
        case Hypercube():
            differing = target.bit_count()
            lengths = [differing] * differing + [differing + 2] * (topology.degree - differing)
            return lengths, "Saad and Schultz 1988"
        case StarGraph():
            return _star_lengths(topology, target)
    return None


def _star_lengths(star: StarGraph, target: Rank) -> tuple[list[int], str] | None:
    home = {symbol: place for place, symbol in enumerate(star.permutation(0))}
    next_place = [home[symbol] for symbol in star.permutation(target)]
    displaced = [place for place, after in enumerate(next_place) if place != after]
    cycles, seen = 0, set[int]()
    for place in displaced:
        cycles += place not in seen
        here = place
        while here not in seen:
            seen.add(here)
            here = next_place[here]
    n = star.n
    moved, distance = len(displaced), star.weight(target)
    source = "Day and Tripathi 1994"
    if 0 not in displaced:
        return [distance] * moved + [distance + 2] * (n - 1 - moved), source
    direct = {0: 1, 1: 2, 2: 4}.get(cycles - 1)
    if direct is None:
        return None
    lengths = [distance] * direct + [distance + 2] * (moved - 1 - direct) + [distance + 4] * (n - moved)
    return lengths, source
