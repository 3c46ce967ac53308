"""Theorems 1 to 10 of Fragopoulou and Akl 1993, counted over whole networks and in the journals of runs.

Theorems on cycle rotation are counted over the network, with the rotation implemented as in definition 5. Theorems on trees
are counted in the runs that use them: the message to a node crosses the root's link of the subtree with that node, and every
hop is an arc of the tree.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import factorial

import polars as pl

from coordinator.annexes.papers.base import Section
from coordinator.annexes.papers.fragopoulou_akl.translation import translation, ways_closer
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import Table, notes, stated
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.star.necklace import NecklaceTree
from emunode.trees.star.rotation import necklace_count

NOTES = notes("fragopoulou_akl", "theorems")

MESSAGE_BYTES = 60
EXCEPTIONS_8_3 = {3: 2}
"""Number of nodes that break the printed condition of theorem 8.3, by n; 1 for larger n."""


def theorems(cache: RunCache) -> Iterator[Section]:
    """Yield a table for translations, for the rotation, for the ways to the root, and for each of the three trees."""
    for title, rows, notes_below in (
        ("Theorems 1, 2 and 4, and rule 1: translation and rotated paths", translation, NOTES["translation"]),
        ("Theorems 3 and 5 to 7: cycle rotation and necklaces", _rotation, NOTES["rotation"]),
        ("Rules 2 to 4: the links that lead closer", _ways_closer, NOTES["rules"]),
        ("Theorem 8: the tree MBST", _mbst, NOTES["theorem_8"]),
        ("Theorem 9: the tree balanced to within a constant factor", _near_balanced, NOTES["theorem_9"]),
        ("Theorem 10: the perfectly balanced tree with repeated nodes", _replicated, NOTES["theorem_10"]),
    ):
        yield Table(title, [{"n": n, **row} for n in cache.sizes for row in rows(cache, n)], notes_below)


def _stated(n: int, **names: Value) -> Callable[..., dict[str, object]]:
    return stated("fragopoulou_akl_1993_theorems", n=n, f=factorial(n), **names)


# Rotation.


def rotate(symbols: bytes) -> bytes:
    """Rotate x by definition 5: R(x) replaces every symbol of the cycle notation by r of it, so x'_{r(i)} = r(x_i)."""
    n = len(symbols)

    def r(i: int) -> int:
        return i if i == 1 else (i - 1) % (n - 1) + 2

    rotated = bytearray(n)
    for position, symbol in enumerate(symbols, 1):
        rotated[r(position) - 1] = r(symbol)
    return bytes(rotated)


def necklace_of(symbols: bytes) -> list[bytes]:
    """Return the node and its rotations, up to the first repetition."""
    orbit = [symbols]
    while (following := rotate(orbit[-1])) != symbols:
        orbit.append(following)
    return orbit


def _rotation(_: RunCache, n: int) -> Iterator[dict[str, object]]:
    star = StarGraph(n)
    turned = [star.rank_of(rotate(star.permutation(rank))) for rank in star.ranks()]
    links = [(rank, port) for rank in star.ranks() for port in range(star.degree)]
    images = {(rank, port): turned[star.neighbour(rank, port)] for rank, port in links}
    connected = sum(image in star.neighbours(turned[rank]) for (rank, _), image in images.items())
    kept = sum(
        star.neighbour(turned[rank], (port + 1) % star.degree) == image for (rank, port), image in images.items()
    )
    row = _stated(n, necklaces=necklace_count(n))
    yield row("links", connected)
    yield row("types", kept)
    necklaces = {frozenset(necklace_of(star.permutation(rank))) for rank in star.ranks()}
    sizes = sorted({len(necklace) for necklace in necklaces})
    yield row("largest necklace", sizes[-1])
    yield row("sizes", sum((n - 1) % size != 0 for size in sizes))
    yield row("necklaces", len(necklaces))
    if n == 5:  # the proof of theorem 5 names this node as one of S_4
        yield row("period", len(necklace_of(bytes((1, 4, 3, 2, 5)))))
    full = sum(len(necklace) for necklace in necklaces if len(necklace) == n - 1 and min(necklace)[0] != 1)
    yield row("full necklaces", full)
    distance = distances(star)
    yield row("distances", sum(distance[rank] == distance[turned[rank]] for rank in star.ranks()))


def _ways_closer(_: RunCache, n: int) -> Iterator[dict[str, object]]:
    return ways_closer(distances(StarGraph(n)), n)


def distances(topology: Topology) -> list[int]:
    """Return the distances from rank 0, by breadth-first search."""
    found = {0: 0}
    queue = [0]
    for rank in queue:
        for neighbour in topology.neighbours(rank):
            if neighbour not in found:
                found[neighbour] = found[rank] + 1
                queue.append(neighbour)
    return [found[rank] for rank in topology.ranks()]


# Trees.


def _mbst(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star = StarGraph(n)
    trial = cache.run(star, "allgather", "mbst", port_model="all-port", message_bytes=MESSAGE_BYTES, messages=1)
    if cache.rehearsing:
        return
    row = _stated(n, exceptions=EXCEPTIONS_8_3.get(n, 1))
    types = trial.journal().group_by("origin", "step").agg(links=pl.len(), types=pl.col("port").n_unique())
    repeated = types.filter(pl.col("links") > pl.col("types")).collect()
    yield row("types in a step", len(repeated), trial)
    hops = trial.journal().filter(pl.col("origin") == 0).select("receiver", "sender", "step").collect()
    arcs = {receiver: (sender, step) for receiver, sender, step in hops.rows()}
    distance = distances(star)
    closer = sum(distance[sender] == distance[receiver] - 1 for receiver, (sender, _) in arcs.items())
    yield row("closer", closer, trial)
    place = {rank: m for m, rank in enumerate(NecklaceTree(star).order)}
    near = sum(bool(sender) and place[receiver] - place[sender] < n - 1 for receiver, (sender, _) in arcs.items())
    yield row("near", near, trial)
    earlier = sum(not sender or arcs[sender][1] < step for sender, step in arcs.values())
    yield row("earlier", earlier, trial)


def _scatter(cache: RunCache, n: int, algorithm: str, messages: int) -> CachedRun:
    return cache.run(
        f"star:{n}", "scatter", algorithm, port_model="all-port", message_bytes=MESSAGE_BYTES, messages=messages
    )


def _subtrees(trial: CachedRun) -> dict[Rank, set[Port]]:
    """Return the ports of the root for the messages to each node."""
    root = trial.journal().filter(pl.col("sender") == 0).select("target", "port").unique().collect()
    found: dict[Rank, set[Port]] = {}
    for target, port in root.rows():
        found.setdefault(target, set()).add(port)
    return found


def _common(theorem: int, trial: CachedRun, star: StarGraph) -> Iterator[dict[str, object]]:
    """Yield the parts that theorems 9 and 10 share: part 1, the leaves and the shortest paths."""
    row, subtrees = _stated(star.n), _subtrees(trial)
    own = sum(
        subtrees[rank] == {position - 1}
        for rank in range(1, star.order)
        if (position := star.permutation(rank).index(1))
    )
    yield row(f"{theorem} own", own, trial)
    hops = trial.journal().select("sender", "target", "segment").collect()
    at_home = [rank for rank in range(1, star.order) if star.permutation(rank)[0] == 1]
    yield row(f"{theorem} leaves", len(hops.filter(pl.col("sender").is_in(at_home))), trial)
    distance = distances(star)
    lengths = hops.group_by("target", "segment").agg(hops=pl.len())
    shortest = sum(distance[target] == length for target, length in lengths.select("target", "hops").rows())
    yield row(f"{theorem} shortest", shortest, trial)


def _near_balanced(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, trial = StarGraph(n), _scatter(cache, n, "near-balanced-tree", 1)
    if cache.rehearsing:
        return
    row, subtrees = _stated(n), _subtrees(trial)
    own, leaves, shortest = _common(9, trial, star)
    displaced = sum(subtrees[rank] == {displacement(star.permutation(rank))} for rank in range(1, star.order))
    yield from (own, row("9 displaced", displaced, trial), leaves, shortest)
    sizes = [sum(ports == {port} for ports in subtrees.values()) for port in range(n - 1)]
    yield row("largest subtree", max(sizes), trial)
    yield row("smallest subtree", min(sizes), trial)


def _replicated(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, messages = StarGraph(n), n - 1
    trial = _scatter(cache, n, "replicated-balanced-tree", messages)
    if cache.rehearsing:
        return
    row, subtrees = _stated(n, shares=(messages * (star.order - 1) // (n - 1),) * (n - 1)), _subtrees(trial)
    own, leaves, shortest = _common(10, trial, star)
    others = range(1, star.order)
    period = {rank: len(necklace_of(star.permutation(rank))) for rank in others}
    often = sum(len(subtrees[rank]) == (n - 1) // period[rank] for rank in others)
    places = sum(
        subtrees[rank] == set(range(displacement(star.permutation(rank)), n - 1, period[rank])) for rank in others
    )
    yield from (own, row("10 often", often, trial), row("10 places", places, trial), leaves, shortest)
    root = trial.journal().filter(pl.col("sender") == 0).select("port").collect()["port"].value_counts()
    yield row("10 shares", tuple(root.sort("port")["count"]), trial)
    arcs = _arcs_by_subtree(trial)
    turned = {
        port: {(star.rank_of(rotate(star.permutation(rank))), (by + 1) % star.degree) for rank, by in found}
        for port, found in arcs.items()
    }
    images = sum(turned[port] == arcs[(port + 1) % star.degree] for port in arcs)
    yield row("10 rotations", images, trial)


def _arcs_by_subtree(trial: CachedRun) -> Mapping[Port, set[tuple[Rank, Port]]]:
    """Return the arcs (sender, port) behind each of the root's ports."""
    journal = trial.journal()
    first = journal.filter(pl.col("sender") == 0).select("target", "segment", subtree="port")
    hops = journal.join(first, ["target", "segment"]).select("subtree", "sender", "port").unique().collect()
    found: dict[Port, set[tuple[Rank, Port]]] = {}
    for subtree, sender, port in hops.rows():
        found.setdefault(subtree, set()).add((sender, port))
    return found


@lru_cache(1 << 16)
def displacement(symbols: bytes) -> int:
    """Count the rotations that lead from the generator of the necklace to this node (definitions 7 and 8)."""
    orbit = necklace_of(symbols)
    generator = next((x for x in orbit if x[1] == 1), None)
    if generator is None:
        generator = min((x for x in orbit if x[1] != 2), key=lambda x: (_cycle_of_2(x), x))
    return -orbit.index(generator) % len(orbit)


def _cycle_of_2(symbols: Sequence[int]) -> tuple[int, ...]:
    cycle = [2]
    while (following := symbols[cycle[-1] - 1]) != 2:
        cycle.append(following)
    return tuple(cycle)
