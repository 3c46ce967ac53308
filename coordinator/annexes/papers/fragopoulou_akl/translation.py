"""Theorems 1, 2 and 4 and rules 1 to 4 of Fragopoulou and Akl 1993, counted in runs and over the whole network.

Theorem 1: the links of the message of q in step i are the links of 12..n, translated by F_q. Theorem 2: if they are of
different types, no link carries two messages in a step. Theorem 4 and rule 1 are on the two phases of the first
algorithm; rules 2 to 4 name the links that lead closer to 12..n.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import factorial, perm

import numpy as np
import polars as pl

from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import stated
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank
from emunode.topologies.star import StarGraph

MESSAGE_BYTES = 60
ALGORITHMS = ("rotated-hamiltonian", "mbst")
"""The two algorithms of section 3."""
Arcs = Mapping[Rank, tuple[Rank, Port]]
"""The sender of each receiver, and its port."""


def translations(star: StarGraph) -> Iterator[np.ndarray]:
    """Yield F_q for every node q in the order of ranks: for each rank x, the rank of q composed with x (definition 2)."""
    labels = np.array([[*star.permutation(rank)] for rank in star.ranks()])
    weights = (star.n + 1) ** np.arange(star.n)
    codes = labels @ weights
    order = np.argsort(codes)
    for label in labels:
        composed = label[labels - 1] @ weights
        yield order[np.searchsorted(codes, composed, sorter=order)]


def translation(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Check theorems 1 and 2 in both algorithms, then theorem 4 and rule 1 in the first one."""
    star = StarGraph(n)
    trials = {name: _allgather(cache, star, name) for name in ALGORITHMS}
    if cache.rehearsing:
        return
    row = _stated(star)
    for name, trial in trials.items():
        hops = trial.journal().select("step", "sender", "port", "receiver", "origin").collect()
        yield {"algorithm": name} | row("translated", _translated(star, hops), trial)
        shared = hops.group_by("step", "sender", "port").agg(pl.col("origin").n_unique()).filter(pl.col("origin") > 1)
        yield {"algorithm": name} | row("shared", len(shared), trial)
        if name == ALGORITHMS[0]:
            yield from ({"algorithm": name} | found for found in _two_phases(star, hops, trial))


def _allgather(cache: RunCache, star: StarGraph, algorithm: str) -> CachedRun:
    return cache.run(star, "allgather", algorithm, port_model="all-port", message_bytes=MESSAGE_BYTES, messages=1)


def _stated(star: StarGraph, **names: Value) -> Callable[..., dict[str, object]]:
    # nodes with one cycle only, including symbol 1: sequences of 1..n-1 other symbols
    single = sum(perm(star.n - 1, length) for length in range(1, star.n))
    shares = ((star.n - 2) * star.order, star.order)
    known: dict[str, Value] = {"n": star.n, "f": star.order, "single": single, "shares_of_rule_1": shares}
    return stated("fragopoulou_akl_1993_theorems", **known, **names)


def _translated(star: StarGraph, hops: pl.DataFrame) -> int:
    """Count the hops that are a hop of the message of 12..n in the same step, translated to their origin."""
    of_origin = {origin: part for (origin,), part in hops.partition_by("origin", as_dict=True).items()}
    first, ends = of_origin[0], star.order * star.degree
    found = 0
    for origin, moved in enumerate(translations(star)):
        own = of_origin[origin]
        expected = (first["step"] * ends).to_numpy() + moved[first["sender"].to_numpy()] * star.degree + first["port"]
        actual = (own["step"] * ends + own["sender"] * star.degree + own["port"]).to_numpy()
        found += int(np.isin(actual, expected).sum())
    return found


def _two_phases(star: StarGraph, hops: pl.DataFrame, trial: CachedRun) -> Iterator[dict[str, object]]:
    row = _stated(star)
    labels = [star.permutation(rank) for rank in star.ranks()]
    root = {receiver: (sender, port) for receiver, sender, port in _of_root(hops) if labels[receiver][0] != 1}
    paths = {port: _path(star, root, port) for port in range(star.degree)}
    hamiltonian = sum(
        len(path) == len({*path}) == factorial(star.n - 1) and all(labels[rank][port + 1] == 1 for rank in path)
        for port, path in paths.items()
    )
    yield row("hamiltonian", hamiltonian, trial)
    ports = {port: [root[rank][1] for rank in path] for port, path in paths.items()}
    turned = sum([(by + turn) % star.degree for by in ports[0]] == ports[turn] for turn in range(1, star.degree))
    yield row("rotated paths", turned, trial)
    second = [
        (labels[receiver], labels[sender], labels[origin], receiver, port)
        for sender, port, receiver, origin in hops.select("sender", "port", "receiver", "origin").iter_rows()
        if labels[receiver][0] == labels[origin][0]
    ]
    yield row("rule 1", sum(sender[0] == origin[-1] for _, sender, origin, _, _ in second), trial)
    over = Counter((receiver, port) for *_, receiver, port in second)
    shares = Counter(over[receiver, port] for receiver in star.ranks() for port in range(star.degree))
    yield row("rule 1 shares", (shares[factorial(star.n - 2)], shares[factorial(star.n - 2) - 1]), trial)


def _of_root(hops: pl.DataFrame) -> Iterator[tuple[Rank, Rank, Port]]:
    yield from hops.filter(pl.col("origin") == 0).select("receiver", "sender", "port").iter_rows()


def _path(star: StarGraph, arcs: Arcs, port: Port) -> list[Rank]:
    """Follow the arcs from the root's link `port` as long as every node has one child; return the nodes in order."""
    below: dict[Rank, list[Rank]] = {}
    for receiver, (sender, _) in arcs.items():
        below.setdefault(sender, []).append(receiver)
    path = [star.neighbour(0, port)]
    while len(below.get(path[-1], ())) == 1 and len(path) <= star.order:
        path.append(below[path[-1]][0])
    return path


def ways_closer(distance: list[int], n: int) -> Iterator[dict[str, object]]:
    """Check rules 2 to 4: the number of links of a node that lead closer, by its cycle notation."""
    star, row = StarGraph(n), _stated(StarGraph(n))
    right = Counter[str]()
    for rank in range(1, star.order):
        symbols = star.permutation(rank)
        closer = {port + 2 for port, peer in star.adjacent(rank) if distance[peer] < distance[rank]}
        cycles = cycle_notation(symbols)
        apart = {symbol for cycle in cycles if 1 not in cycle for symbol in cycle}
        if symbols[0] == 1:
            right["rule 2"] += closer == apart
        elif len(cycles) == 1:
            right["rule 3"] += closer == {symbols[0]}
        else:
            right["rule 4"] += closer == {symbols[0], *apart}
    yield from (row(rule, right[rule]) for rule in ("rule 2", "rule 3", "rule 4"))


def cycle_notation(symbols: bytes) -> list[tuple[int, ...]]:
    """Return the cycles of two or more symbols: each symbol is at the position of the next symbol (definition 3)."""
    left, cycles = {*symbols}, []
    while left:
        cycle = [min(left)]
        while (following := symbols[cycle[-1] - 1]) != cycle[0]:
            cycle.append(following)
        left -= {*cycle}
        cycles += [tuple(cycle)] * (len(cycle) > 1)
    return cycles
