"""The lemmas of Fragopoulou and Akl 1996, counted over the network and in runs over all n - 1 trees.

The only available text has lost its formulas and the numbers of its lemmas. S^k is the set of nodes with symbol 1 at
position k, I the set with x_1 = 1. Tree l of EDT reaches S^l by the arcs of SPT, and every node of I from its neighbour over
link l, as SPG does, so one run over all trees shows all three.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import factorial

import numpy as np
import polars as pl

from coordinator.annexes.papers.fragopoulou_akl.theorems import distances, necklace_of, rotate
from coordinator.annexes.papers.fragopoulou_akl.translation import translations
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import Table, notes, stated
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank
from emunode.topologies.star import StarGraph
from emunode.trees.star.edge_disjoint import ShortestPathGraph

NOTES = notes("fragopoulou_akl", "lemmas")

ParentByRank = Mapping[Rank, tuple[Rank, Port]]
"""The parent of every node of a tree, and the parent's port."""


def lemmas(cache: RunCache) -> Table:
    """Return one table over all sizes."""
    parts = (_operations, _rows, _child_order)
    rows = [{"n": n, **row} for n in cache.sizes for part in parts for row in part(cache, n)]
    return Table("The lemmas on translation, necklaces, SPT, SPG, EDT and the order of children", rows, NOTES["lemmas"])


def _operations(_: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Count translation, rotation and necklaces over the whole network."""
    star = StarGraph(n)
    row = stated("fragopoulou_akl_1996_lemmas", n=n, f=star.order)
    neighbours = np.array([star.neighbours(rank) for rank in star.ranks()])
    kept = sum(int((neighbours[moved] == moved[neighbours]).sum()) for moved in translations(star))
    yield row("translated", kept)
    turned = np.array([star.rank_of(rotate(star.permutation(rank))) for rank in star.ranks()])
    yield row("rotated", int((np.roll(neighbours[turned], -1, axis=1) == turned[neighbours]).sum()))
    distance = np.array(distances(star))
    yield row("distance", int((distance[turned] == distance).sum()))
    necklaces = {frozenset(necklace_of(star.permutation(rank))) for rank in range(1, star.order)}
    places = [sorted(symbols.index(1) for symbols in necklace) for necklace in necklaces]
    yield row("one of each", sum(found == [*range(1, n)] for found in places))
    yield row("at home", sum(len(found) for found in places if not any(found)))
    yield row("divisors", len({len(found) for found in places if (n - 1) % len(found)}))


def _child_order(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Yield the order of children, in the depth-first traversal that depends on it."""
    star = StarGraph(n)
    trial = cache.run(star, "allgather", "edt-dfs", messages=1, redundancy=n - 1)
    if cache.rehearsing:
        return
    row = stated("fragopoulou_akl_1996_lemmas", n=n, f=star.order)
    by_step = trial.journal().group_by("origin", "step").agg(links=pl.len(), ports=pl.col("port").n_unique())
    yield row("dimensions", by_step.filter(pl.col("links") > pl.col("ports")).select(pl.len()).collect().item(), trial)
    hops = (
        trial.journal().filter(pl.col("origin") == 0).sort("step").select("tree", "step", "sender", "port", "receiver")
    )
    reached: list[dict[Rank, int]] = [{} for _ in range(n - 1)]
    served: dict[tuple[int, Rank], list[int]] = {}
    for tree, step, sender, port, receiver in hops.collect().iter_rows():
        reached[tree][receiver] = step
        served.setdefault((tree, sender), []).append((port - tree) % (n - 1))
    together = sum(
        reached[(tree + 1) % (n - 1)].get(star.rank_of(rotate(star.permutation(rank)))) == step
        for tree, steps in enumerate(reached)
        for rank, step in steps.items()
    )
    yield row("in step", together, trial)
    yield row("order", sum(one > other for places in served.values() for one, other in pairwise(places)), trial)


def surpluses(n: int) -> tuple[int, int, int]:
    """Return the number of nodes of one tree, without the root, whose path is 0, 2 and 4 links longer than their
    distance.
    """
    both, apart = (n - 2) * factorial(n - 1), 2 * factorial(n - 2) - 2
    return factorial(n) - 1 - both, (both + apart) // 2, (both - apart) // 2


def _rows(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    star = StarGraph(n)
    trial = cache.run(star, "broadcast", "edt", messages=1, redundancy=n - 1)
    if cache.rehearsing:
        return
    trees = [_parents(trial, tree) for tree in range(n - 1)]
    paths = [{rank: _path(parents, rank) for rank in parents} for parents in trees]
    distance = distances(star)
    position = {rank: star.permutation(rank).index(1) for rank in range(1, star.order)}
    own = [(rank, place - 1) for rank, place in position.items() if place]
    lengths = tuple((n - 1) * count for count in surpluses(n))
    statement = stated("fragopoulou_akl_1996_lemmas", n=n, f=factorial(n), own=len(own), lengths=lengths)

    def row(key: str, measured: Value) -> dict[str, object]:
        return statement(key, measured, trial)

    at_home = [(rank, tree) for rank, place in position.items() if not place for tree in range(n - 1)]
    # The root's child on a path comes second.
    yield row("behind", sum(position[paths[tree][rank][1]] == tree + 1 for rank, tree in own))
    yield row("shortest", sum(len(paths[tree][rank]) - 1 == distance[rank] for rank, tree in own))
    graph = ShortestPathGraph(star)
    yield row("parents", sum(trees[tree][rank][0] == star.neighbour(rank, graph.own(rank)) for rank, tree in own))

    yield row("by link", sum(trees[tree][rank][1] == tree for rank, tree in at_home))
    inside = [rank for rank, place in position.items() if not place]
    yield row("apart in I", sum(_are_disjoint([found[rank] for found in paths]) for rank in inside))
    longer = [len(paths[tree][rank]) - 1 - distance[rank] for rank, tree in at_home]
    yield row("lengths in I", (longer.count(0), longer.count(2)))
    least = sum(len(paths[tree][rank]) - 2 == distance[star.neighbour(rank, tree)] for rank, tree in at_home)
    yield row("last link", least)

    turned = sum(_rotated(star, trees[tree]) == _arcs(trees[(tree + 1) % (n - 1)]) for tree in range(n - 1))
    yield row("rotations", turned)
    yield row("apart", sum(_are_disjoint([found[rank] for found in paths]) for rank in position))
    more = [len(found[rank]) - 1 - distance[rank] for found in paths for rank in position]
    yield row("lengths", tuple(map(more.count, (0, 2, 4))))


def _parents(trial: CachedRun, tree: int) -> ParentByRank:
    hops = trial.journal().filter(pl.col("tree") == tree).select("receiver", "sender", "port").collect()
    return {receiver: (sender, port) for receiver, sender, port in hops.rows()}


def _path(parents: ParentByRank, rank: Rank) -> tuple[Rank, ...]:
    """Return the path from the root to a node."""
    path = [rank]
    while path[-1]:
        path.append(parents[path[-1]][0])
    return tuple(reversed(path))


def _are_disjoint(paths: list[tuple[Rank, ...]]) -> bool:
    inner = [rank for path in paths for rank in path[1:-1]]
    return len(set(inner)) == len(inner)


def _arcs(parents: ParentByRank) -> set[tuple[Rank, Port]]:
    return set(parents.values())


def _rotated(star: StarGraph, parents: ParentByRank) -> set[tuple[Rank, Port]]:
    return {(star.rank_of(rotate(star.permutation(rank))), (port + 1) % star.degree) for rank, port in parents.values()}
