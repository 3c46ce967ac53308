"""Lemmas 3 to 7 of Tseng and Sheu 1997, counted in the hops of runs."""

from collections.abc import Callable, Iterator
from math import gcd

import polars as pl

from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import compared, marked, stated
from coordinator.annexes.papers.tseng_sheu.cost_tables import ALLGATHER_BYTES, broadcast
from emunode.algorithms.claims import Value
from emunode.topologies.star import StarGraph


def greedy_tree(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Check lemmas 3 and 4: L in a broadcast; its shifts in reduces to rho^i(r), whose packets follow the arcs to the
    root.
    """
    star = StarGraph(n)
    shifts = [star.identity[-i:] + star.identity[:-i] for i in range(1, n)]
    trial = broadcast(cache, n, "greedy-tree", 60, segments=1)
    trials = [_reduce_to(cache, n, star.label(star.rank_of(shift))) for shift in shifts]
    if cache.rehearsing:
        return
    row = _stated(star, levels=star.distance_distribution()[1:])
    yield row("reached", tuple(trial.series("receivers_per_step")), trial)
    arcs = trial.journal().select("sender", "receiver").collect().rows()
    yield row("closer", sum(star.weight(sender) == star.weight(receiver) - 1 for sender, receiver in arcs), trial)
    links = pl.concat([trial.table("links") for trial in trials]).group_by("sender", "port")
    used = links.agg(pl.col("segments").sum())["segments"].to_list()
    yield row("shifts", max(used), *trials)
    yield row("arcs", sum(used), *trials)


def _stated(star: StarGraph, **names: Value) -> Callable[..., dict[str, object]]:
    row = stated("tseng_sheu_lemmas", n=star.n, f=star.order, **names)
    return lambda key, measured, *trials, **more: {"n": star.n} | row(key, measured, *trials, **more)


def _reduce_to(cache: RunCache, n: int, root: str) -> CachedRun:
    """Run a reduce that combines the data of all nodes along L(root)."""
    return cache.run(f"star:{n}", "reduce", "greedy-tree", source=root, message_bytes=60, segments=1)


def heights(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Check lemmas 5 and 6. A height is the last step of a tree's deliveries; congestion counts one segment per tree.

    The path p_i is as long as the level of its end rho^i(r) in tree i: the step when that tree reaches it.
    """
    star = StarGraph(n)
    trial = broadcast(cache, n, "congestion2-trees", 60, segments=1)
    if cache.rehearsing:
        return
    row = _stated(star)
    for i in range(1, n):
        goal = star.rank_of(star.identity[-i:] + star.identity[:-i])
        arrival = trial.journal().filter(pl.col("tree") == i - 1, pl.col("receiver") == goal).collect()["step"]
        yield row("path", int(arrival.item()), trial, i=i, g=gcd(n, i))
    last = dict(trial.journal().group_by("tree").agg(pl.col("step").max()).collect().iter_rows())
    for i in range(1, n):
        # lemma 5 is wrong for n = 3, i = 2
        height, wrong = star.diameter + n + gcd(n, i) - 2, (n, i) == (3, 2)
        paper = marked(height, erratum=True) if wrong else height
        yield compared(height - wrong, last[i - 1], trial, paper=paper, n=n, quantity=f"height of Lhat, i = {i}")
    yield row("congestion", trial.number("max_link_segments"), trial)


def level_loads(cache: RunCache, n: int) -> dict[str, object]:
    """Check lemma 7: segments on each directed link in each step."""
    trial = cache.run(f"star:{n}", "allgather", "rotated-trees", port_model="all-port", message_bytes=ALLGATHER_BYTES)
    nodes = StarGraph(n).distance_distribution()[1:]
    links = trial.table("links")["segments"]
    found = tuple(trial.series("heaviest_link_segments_per_step"))
    about: dict[str, object] = {"n": n, "least on a link": links.min(), "most on a link": links.max()}
    return about | compared(nodes, found, trial, paper="|D_t|, t = 1..D_n")
