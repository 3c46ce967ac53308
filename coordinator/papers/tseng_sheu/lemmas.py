"""Lemmas 3 to 7 of Tseng and Sheu 1997, counted in the hops of runs."""

from collections.abc import Iterator
from math import gcd

import polars as pl

from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import compared, marked
from coordinator.papers.tseng_sheu.cost_tables import ALLGATHER_BYTES, broadcast
from emunode.topologies.star import StarGraph


def greedy_tree(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Lemmas 3 and 4: L in a broadcast; its shifts in reduces to rho^i(r), whose packets follow the arcs to the root."""
    star = StarGraph(n)
    trial = broadcast(cache, n, "greedy-tree", 60, segments=1)
    quantity = "nodes reached in step t = 1..D_n"
    reached, paper = tuple(trial.series("receivers_per_step")), "lemma 3: greedy, spanning"
    yield compared(star.distance_distribution()[1:], reached, trial, paper=paper, n=n, quantity=quantity)
    arcs = trial.journal().select("sender", "receiver").collect().rows()
    closer = sum(star.weight(sender) == star.weight(receiver) - 1 for sender, receiver in arcs)
    quantity = "arcs that lead closer to the root"
    yield compared(star.order - 1, closer, trial, paper="lemma 3: all n! - 1", n=n, quantity=quantity)
    shifts = [star.identity[-i:] + star.identity[:-i] for i in range(1, n)]
    trials = [_reduce_to(cache, n, star.label(star.rank_of(shift))) for shift in shifts]
    links = pl.concat([trial.table("links") for trial in trials]).group_by("sender", "port")
    used = links.agg(pl.col("segments").sum())["segments"].to_list()
    quantity, paper = "congestion of L(rho^1(r)), .., L(rho^{n-1}(r))", "lemma 4: at most 2"
    yield compared(2, max(used), *trials, paper=paper, relation="<=", n=n, quantity=quantity)
    arcs_of_trees = (n - 1) * (star.order - 1)
    yield compared(arcs_of_trees, sum(used), *trials, paper="(n-1)(n!-1)", n=n, quantity="arcs of these trees")


def _reduce_to(cache: RunCache, n: int, root: str) -> Trial:
    """The data of all nodes, combined along L(root)."""
    return cache.run(f"star:{n}", "reduce", "greedy-tree", source=root, message_bytes=60, segments=1)


def heights(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Lemmas 5 and 6. A height is the last step in which a tree delivers; congestion counts one segment per tree.

    The path p_i is as long as the level of its end rho^i(r) in tree i: the step in which that tree reaches it.
    """
    star = StarGraph(n)
    trial = broadcast(cache, n, "congestion2-trees", 60, segments=1)
    for i in range(1, n):
        goal = star.rank_of(star.identity[-i:] + star.identity[:-i])
        arrival = trial.journal().filter(pl.col("tree") == i - 1, pl.col("receiver") == goal).collect()["step"]
        length, quantity = n + gcd(n, i) - 2, f"length of p_i, i = {i}"
        yield compared(length, int(arrival.item()), trial, paper="n + gcd(n, i) - 2", n=n, quantity=quantity)
    last = dict(trial.journal().group_by("tree").agg(pl.col("step").max()).collect().iter_rows())
    for i in range(1, n):
        height, wrong = star.diameter + n + gcd(n, i) - 2, (n, i) == (3, 2)
        paper = marked(height, erratum=True) if wrong else height
        yield compared(height - wrong, last[i - 1], trial, paper=paper, n=n, quantity=f"height of Lhat, i = {i}")
    congestion, quantity = trial.number("max_link_segments"), "congestion of directed links"
    yield compared(2, congestion, trial, paper="at most 2", relation="<=", n=n, quantity=quantity)


def level_loads(cache: RunCache, n: int) -> dict[str, object]:
    """Lemma 7: segments on each directed link in each step."""
    trial = cache.run(f"star:{n}", "allgather", "rotated-trees", port_model="all-port", message_bytes=ALLGATHER_BYTES)
    nodes = StarGraph(n).distance_distribution()[1:]
    links = trial.table("links")["segments"]
    found = tuple(trial.series("heaviest_link_segments_per_step"))
    about: dict[str, object] = {"n": n, "least on a link": links.min(), "most on a link": links.max()}
    return about | compared(nodes, found, trial, paper="|D_t|, t = 1..D_n")
