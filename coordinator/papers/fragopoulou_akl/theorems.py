"""Theorems 3, 5 to 10 of Fragopoulou and Akl 1993, counted over whole networks and in the journals of runs.

Theorems on cycle rotation are counted over the network, with the rotation implemented as in definition 5. Theorems on trees
are counted in the runs that use them: the message to a node crosses the root's link of the subtree with that node, and every
hop is an arc of the tree.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import factorial

import polars as pl

from coordinator.papers.base import Section
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import ERRATUM, Table, compared, notes
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.star.necklace import NecklaceTree
from emunode.trees.star.rotation import necklace_count

NOTES = notes("fragopoulou_akl", "theorems")

MESSAGE_BYTES = 60
EXCEPTIONS_8_3 = {3: 2}
"""Number of nodes for which the printed condition of theorem 8.3 fails, by n; 1 for larger n."""


def theorems(cache: RunCache) -> Iterator[Section]:
    """A table for the rotation, and one for each of the three trees."""
    for title, rows, notes_below in (
        ("Theorems 3 and 5 to 7: cycle rotation and necklaces", _rotation, NOTES["rotation"]),
        ("Theorem 8: the tree MBST", _mbst, NOTES["theorem_8"]),
        ("Theorem 9: the tree balanced to within a constant factor", _near_balanced, NOTES["theorem_9"]),
        ("Theorem 10: the perfectly balanced tree with repeated nodes", _replicated, NOTES["theorem_10"]),
    ):
        yield Table(title, [{"n": n, **row} for n in cache.sizes for row in rows(cache, n)], notes_below)


def _row(
    theorem: str, quantity: str, predicted: Value, measured: Value, *trials: Trial, paper: str, relation: str = "=="
) -> dict[str, object]:
    return compared(predicted, measured, *trials, paper=paper, relation=relation, theorem=theorem, quantity=quantity)


# Rotation.


def rotate(symbols: bytes) -> bytes:
    """R(x) by definition 5: every symbol of the cycle notation becomes r of it, so x'_{r(i)} = r(x_i)."""
    n = len(symbols)

    def r(i: int) -> int:
        return i if i == 1 else (i - 1) % (n - 1) + 2

    rotated = bytearray(n)
    for position, symbol in enumerate(symbols, 1):
        rotated[r(position) - 1] = r(symbol)
    return bytes(rotated)


def necklace_of(symbols: bytes) -> list[bytes]:
    """The node and its rotations, up to the first repetition."""
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
    yield _row("3.1", "directed links whose rotation is a link", len(links), connected, paper="all: n!(n-1)")
    yield _row("3.2", "of these, of type (t-1) mod (n-1) + 2", len(links), kept, paper="all: n!(n-1)")
    necklaces = {frozenset(necklace_of(star.permutation(rank))) for rank in star.ranks()}
    sizes = sorted({len(necklace) for necklace in necklaces})
    yield _row("5", "nodes of the largest necklace", n - 1, sizes[-1], paper="at most n-1")
    others = sum((n - 1) % size != 0 for size in sizes)
    yield _row("5", "sizes of necklaces that do not divide n-1", 0, others, paper="none")
    yield _row("5", "necklaces", necklace_count(n) + 1, len(necklaces), paper="at most 2(n-1)! with the root's own")
    if n == 5:
        period = len(necklace_of(bytes((1, 4, 3, 2, 5))))
        yield _row("5", "period of 14325", 2, period, paper=f"2, in S_4 {ERRATUM}")
    full = sum(len(necklace) for necklace in necklaces if len(necklace) == n - 1 and min(necklace)[0] != 1)
    yield _row(
        "6", "nodes with x_1 != 1 in necklaces of n-1", (n - 1) * factorial(n - 1), full, paper="all: (n-1)(n-1)!"
    )
    distance = distances(star)
    same = sum(distance[rank] == distance[turned[rank]] for rank in star.ranks())
    yield _row("7", "nodes as far from 12..n as their rotation", star.order, same, paper="all: n!")


def distances(topology: Topology) -> list[int]:
    """Distances from rank 0, by breadth-first search."""
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
    types = trial.journal().group_by("origin", "step").agg(links=pl.len(), types=pl.col("port").n_unique())
    repeated = types.filter(pl.col("links") > pl.col("types")).collect()
    yield _row("8.1", "sources and steps with two links of one type", 0, len(repeated), trial, paper="none")
    hops = trial.journal().filter(pl.col("origin") == 0).select("receiver", "sender", "step").collect()
    arcs = {receiver: (sender, step) for receiver, sender, step in hops.rows()}
    distance = distances(star)
    closer = sum(distance[sender] == distance[receiver] - 1 for receiver, (sender, _) in arcs.items())
    yield _row("8.2", "nodes whose parent is closer to 12..n", star.order - 1, closer, trial, paper="all: n!-1")
    place = {rank: m for m, rank in enumerate(NecklaceTree(star).order)}
    near = sum(bool(sender) and place[receiver] - place[sender] < n - 1 for receiver, (sender, _) in arcs.items())
    exceptions = EXCEPTIONS_8_3.get(n, 1)
    quantity = "nodes with m(x) - m(x') < n-1, x' not the root"
    yield _row("8.3", quantity, exceptions, near, trial, paper=f"none {ERRATUM}")
    earlier = sum(not sender or arcs[sender][1] < step for sender, step in arcs.values())
    yield _row(
        "8.3", "nodes whose parent receives in an earlier step", star.order - 1, earlier, trial, paper="all: n!-1"
    )


def _scatter(cache: RunCache, n: int, algorithm: str, messages: int) -> Trial:
    return cache.run(
        f"star:{n}", "scatter", algorithm, port_model="all-port", message_bytes=MESSAGE_BYTES, messages=messages
    )


def _subtrees(trial: Trial) -> dict[Rank, set[Port]]:
    """The ports by which the messages for each node leave the root."""
    root = trial.journal().filter(pl.col("sender") == 0).select("target", "port").unique().collect()
    found: dict[Rank, set[Port]] = {}
    for target, port in root.rows():
        found.setdefault(target, set()).add(port)
    return found


def _common(theorem: int, trial: Trial, star: StarGraph, messages: int) -> Iterator[tuple[str, dict[str, object]]]:
    """The parts that theorems 9 and 10 share, by name: part 1, the leaves and the shortest paths."""
    n = star.n
    subtrees = _subtrees(trial)
    own = sum(
        subtrees[rank] == {position - 1}
        for rank in range(1, star.order)
        if (position := star.permutation(rank).index(1))
    )
    printed = f"all: (n-1)(n-1)! {ERRATUM}" if theorem == 9 else "all: (n-1)(n-1)!"
    quantity = "nodes of S^i, i = 2..n, in subtree i - 1"
    yield "own", _row(f"{theorem}.1", quantity, (n - 1) * factorial(n - 1), own, trial, paper=printed)
    hops = trial.journal().select("sender", "target", "segment").collect()
    at_home = [rank for rank in range(1, star.order) if star.permutation(rank)[0] == 1]
    passed = len(hops.filter(pl.col("sender").is_in(at_home)))
    part = 3 if theorem == 9 else 4
    yield (
        "leaves",
        _row(f"{theorem}.{part}", "messages that nodes with x_1 = 1 pass on", 0, passed, trial, paper="none"),
    )
    distance = distances(star)
    lengths = hops.group_by("target", "segment").agg(hops=pl.len())
    shortest = sum(distance[target] == length for target, length in lengths.select("target", "hops").rows())
    quantity, part = "messages that take a shortest path", part + 1
    expected = messages * (star.order - 1)
    yield "shortest", _row(f"{theorem}.{part}", quantity, expected, shortest, trial, paper="all: M(n!-1)")


def _near_balanced(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, trial = StarGraph(n), _scatter(cache, n, "near-balanced-tree", 1)
    common = dict(_common(9, trial, star, 1))
    subtrees = _subtrees(trial)
    displaced = sum(subtrees[rank] == {displacement(star.permutation(rank))} for rank in range(1, star.order))
    yield common["own"]
    yield _row("9.2", "nodes of displacement d in subtree d + 1", star.order - 1, displaced, trial, paper="all: n!-1")
    yield common["leaves"]
    yield common["shortest"]
    sizes = [sum(ports == {port} for ports in subtrees.values()) for port in range(n - 1)]
    full = factorial(n - 1)
    yield _row("9.5", "largest subtree", 2 * full - 1, max(sizes), trial, paper="at most 2(n-1)! - 1", relation="<=")
    yield _row("9.5", "smallest subtree", full, min(sizes), trial, paper="at least (n-1)!", relation=">=")


def _replicated(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star, messages = StarGraph(n), n - 1
    trial = _scatter(cache, n, "replicated-balanced-tree", messages)
    common = dict(_common(10, trial, star, messages))
    subtrees = _subtrees(trial)
    others = range(1, star.order)
    period = {rank: len(necklace_of(star.permutation(rank))) for rank in others}
    often = sum(len(subtrees[rank]) == (n - 1) // period[rank] for rank in others)
    places = sum(
        subtrees[rank] == set(range(displacement(star.permutation(rank)), n - 1, period[rank])) for rank in others
    )
    yield common["own"]
    yield _row("10.2", "nodes of period p in (n-1)/p subtrees", len(others), often, trial, paper="all: n!-1")
    yield _row("10.3", "nodes in the subtrees ip + d + 1", len(others), places, trial, paper="all: n!-1")
    yield common["leaves"]
    yield common["shortest"]
    root = trial.journal().filter(pl.col("sender") == 0).select("port").collect()["port"].value_counts()
    shares = tuple(root.sort("port")["count"])
    balanced = (messages * (star.order - 1) // (n - 1),) * (n - 1)
    yield _row("10.6", "messages by each of the root's links", balanced, shares, trial, paper="M(n!-1)/(n-1), M = n-1")
    arcs = _arcs_by_subtree(trial)
    turned = {
        port: {(star.rank_of(rotate(star.permutation(rank))), (by + 1) % star.degree) for rank, by in found}
        for port, found in arcs.items()
    }
    images = sum(turned[port] == arcs[(port + 1) % star.degree] for port in arcs)
    yield _row("10.7", "subtrees that the next one is a rotation of", n - 1, images, trial, paper="all: n-1")


def _arcs_by_subtree(trial: Trial) -> Mapping[Port, set[tuple[Rank, Port]]]:
    """The arcs (sender, port) behind each of the root's ports."""
    journal = trial.journal()
    first = journal.filter(pl.col("sender") == 0).select("target", "segment", subtree="port")
    hops = journal.join(first, ["target", "segment"]).select("subtree", "sender", "port").unique().collect()
    found: dict[Port, set[tuple[Rank, Port]]] = {}
    for subtree, sender, port in hops.rows():
        found.setdefault(subtree, set()).add((sender, port))
    return found


@lru_cache(1 << 16)
def displacement(symbols: bytes) -> int:
    """Rotations that lead from the generator of the necklace to this node (definitions 7 and 8)."""
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
