"""Lemmas 3.16, 3.22, 3.23 and 3.27, corollaries 3.2 and 3.5 and theorems 3.2 to 3.4 of Johnsson and Ho 1986.

Trees are read from the hops of runs: a broadcast down SBT and nRSBT, one with a packet for each tree of nESBT, and a
scatter down SBnT. That no n edge-disjoint trees are lower than nESBT (theorem 3.2) is searched for small cubes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import comb

import polars as pl

from coordinator.annexes.papers.johnsson_ho.common import ALL, MESSAGE_BYTES
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import stated
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank

ParentRanks = Mapping[Rank, Rank]
DirectedEdges = frozenset[tuple[Rank, Port]]
"""Directed edges: sender and dimension."""
SEARCHED = 3
"""The largest cube where all families of edge-disjoint trees are searched."""


def lemmas(cache: RunCache) -> Iterator[dict[str, object]]:
    """Yield every statement at every size."""
    for n in cache.sizes:
        about = {"port_model": ALL, "message_bytes": MESSAGE_BYTES}
        cube = f"hypercube:{n}"
        sbt, nrsbt = (cache.run(cube, "broadcast", name, **about) for name in ("sbt", "nrsbt"))
        nesbt = cache.run(cube, "broadcast", "nesbt", segments=n, **about)
        sbnt = cache.run(cube, "scatter", "sbnt", **about)
        if cache.rehearsing:
            continue
        rows = (*_subtrees(n, sbt, "SBT"), *_weights(n, nrsbt), *_disjoint(n, nesbt), *_balanced(n, sbnt))
        yield from ({"n": n, **row} for row in rows)


def _stated(n: int, graph: str, key: str, measured: Value, *trials: CachedRun, **names: Value) -> dict[str, object]:
    about = stated("johnsson_ho_lemmas", n=n, N=1 << n, **names)(key, measured, *trials)
    return {"graph": graph, **about}


def parents_of(trial: CachedRun, tree: int | None = None) -> dict[Rank, Rank]:
    """Read the parent of every rank from the hops of a run, in one tree or in its only one."""
    hops = trial.journal() if tree is None else trial.journal().filter(pl.col("tree") == tree)
    return dict(hops.select("receiver", "sender").unique().collect().iter_rows())


def nodes_behind(parents: ParentRanks) -> dict[Rank, Counter[int]]:
    """Count the nodes at each distance below every rank, itself at distance 0."""
    found = {rank: Counter({0: 1}) for rank in (0, *parents)}
    for rank in parents:
        above, distance = rank, 0
        while above:
            above, distance = parents[above], distance + 1
            found[above][distance] += 1
    return found


def level_sizes(parents: ParentRanks) -> tuple[int, ...]:
    """Return the number of nodes at each level from the root on."""
    sizes = nodes_behind(parents)[0]
    return tuple(sizes[level] for level in range(max(sizes) + 1))


def _subtrees(n: int, trial: CachedRun, graph: str) -> Iterator[dict[str, object]]:
    """Check lemmas 3.16 and 3.27: no child has more nodes at a distance than its parent."""
    parents = parents_of(trial)
    behind = nodes_behind(parents)
    more = sum(behind[child][far] > behind[rank][far] for child, rank in parents.items() for far in range(n + 1))
    yield _stated(n, graph, f"{graph} subtrees", more, trial)


def _weights(n: int, trial: CachedRun) -> Iterator[dict[str, object]]:
    """Check corollary 3.2: the parts that come in over all edges are the whole message."""
    received = trial.table("links").group_by("receiver").agg(pl.col("bytes").sum())
    whole = received.filter((pl.col("bytes") == MESSAGE_BYTES) & (pl.col("receiver") != 0))
    yield _stated(n, "nRSBT", "weights", len(whole), trial)


def rotated(address: int, steps: int, n: int) -> int:
    """Rotate an address of n bits to the left."""
    steps %= n
    return (address << steps | address >> (n - steps)) & ((1 << n) - 1)


def _disjoint(n: int, trial: CachedRun) -> Iterator[dict[str, object]]:
    trees = [parents_of(trial, tree) for tree in range(n)]
    turned = sum(
        {rotated(one, j - i, n): rotated(other, j - i, n) for one, other in trees[i].items()} == trees[j]
        for i, j in product(range(n), repeat=2)
    )
    yield _stated(n, "nESBT", "rotations", turned, trial)
    links = trial.table("links").filter(pl.col("segments") > 0).select("sender", "receiver").rows()
    out, into = (Counter(link[end] for link in links) for end in (0, 1))
    degrees = Counter((into[rank], out[rank]) for rank in range(1 << n))
    counts = degrees[n, n], degrees[n, n - 1], degrees[0, n]
    yield _stated(n, "nESBT", "degrees", counts, trial)
    yield _stated(n, "nESBT", "height", max(len(level_sizes(parents)) - 1 for parents in trees), trial)
    if n <= SEARCHED:
        yield _stated(n, "all", "lower families", families_of_height(n, n))
    wanted = (1, *(n - 1 if level == 2 else comb(n, level - 1) for level in range(1, n + 2)))
    same = sum(level_sizes(parents) == wanted for parents in trees)
    yield _stated(n, "nESBT", "levels", level_sizes(trees[0]), trial, levels=wanted)
    yield _stated(n, "nESBT", "all levels", same, trial)


def _balanced(n: int, trial: CachedRun) -> Iterator[dict[str, object]]:
    parents = parents_of(trial)
    hops = trial.journal().select("sender", "receiver").unique().collect().rows()
    away = sum((one & ~other) == 0 for one, other in hops)
    yield _stated(n, "SBnT", "one parent", (len(hops), len(parents), away), trial)
    yield from _subtrees(n, trial, "SBnT")
    if all(n % divisor for divisor in range(2, n)):
        subtrees = [_subtree(parents, port, (1 << n) - 1) for port in range(n)]
        turned = sum(
            {(rotated(one, j - i, n), rotated(other, j - i, n)) for one, other in subtrees[i]} == subtrees[j]
            for i, j in product(range(n), repeat=2)
        )
        yield _stated(n, "SBnT", "isomorphic", turned, trial)


def _subtree(parents: ParentRanks, port: Port, without: Rank) -> set[tuple[Rank, Rank]]:
    """Return the arcs (child, parent) behind the root's edge in a dimension, and that edge itself."""
    found = set()
    for rank in parents:
        top = rank
        while parents[top]:
            top = parents[top]
        if top == 1 << port and rank != without:
            found.add((rank, parents[rank]))
    return found


# --- theorem 3.2 ---------------------------------------------------------------------------------------------------------


def families_of_height(n: int, height: int) -> int:
    """Count the families of n edge-disjoint spanning trees from node 0 of at most this height, by trying all."""
    trees = [arcs for arcs in spanning_trees(n, height) if sum(not sender for sender, _ in arcs) <= n]

    def families(chosen: Sequence[DirectedEdges], first: int) -> int:
        if len(chosen) == n:
            return 1
        used = frozenset[tuple[Rank, Port]]().union(*chosen)
        fitting = (at for at in range(first, len(trees)) if not used & trees[at])
        return sum(families([*chosen, trees[at]], at + 1) for at in fitting)

    return families([], 0)


def spanning_trees(n: int, height: int) -> list[DirectedEdges]:
    """List the spanning trees from node 0 of at most this height, by their directed edges."""
    found: set[DirectedEdges] = set()

    def extend(levels: Mapping[Rank, int], arcs: DirectedEdges, border: Sequence[Rank]) -> None:
        # level by level: every set of the nodes next to the border may be its children, over any of their edges
        depth = levels[border[0]]
        reachable = sorted({rank ^ 1 << port for rank in border for port in range(n)} - {*levels})
        if len(levels) == 1 << n:
            found.add(arcs)
        if depth == height or not reachable:
            return
        choices = [
            [None, *((rank, port) for rank in border for port in range(n) if rank ^ 1 << port == child)]
            for child in reachable
        ]
        for chosen in product(*choices):
            new = [child for child, arc in zip(reachable, chosen, strict=True) if arc is not None]
            if new:
                below = {**levels, **dict.fromkeys(new, depth + 1)}
                extend(below, arcs | {arc for arc in chosen if arc is not None}, new)

    extend({0: 0}, frozenset(), [0])
    return sorted(found, key=sorted)
