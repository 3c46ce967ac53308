"""All-to-all broadcasting on the hypercube: Johnsson and Ho 1986, section 6, tables 10 to 14."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import polars as pl

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.johnsson_ho.common import MESSAGE_BYTES, ONE, SIZES, cost_tables, trial_of
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, notes, row_verdict, stated
from emunode.model import Port
from emunode.topologies.hypercube import Hypercube
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree, CubeTrees
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

NOTES = notes("johnsson_ho", "allgather")

# --- table 10: the fewest start-ups --------------------------------------------------------------------------------------


def shortest_labelling(trees: Trees) -> int:
    """Return the fewest cycles that take every tree to every node, if all nodes use the same dimension in a cycle.

    This is the length of the shortest common supersequence of the ports of all root paths. A breadth-first search goes over
    the progress that a sequence of dimensions makes on each path; every path advances whenever it can.
    """
    routes = {tuple(trees.route(rank, tree)) for tree in range(trees.count) for rank in range(1, trees.topology.order)}
    longest = sorted(route for route in routes if not any(_starts(other, route) for other in routes))
    states, cycles = {(0,) * len(longest)}, 0
    done = tuple(len(route) for route in longest)
    while done not in states:
        reached = {_child_delays(longest, state, port) for state in states for port in range(trees.topology.degree)}
        states, cycles = _furthest(reached), cycles + 1
    return cycles


def _starts(longer: Sequence[Port], route: Sequence[Port]) -> bool:
    return len(longer) > len(route) and longer[: len(route)] == route


def _child_delays(routes: Sequence[Sequence[Port]], state: tuple[int, ...], port: Port) -> tuple[int, ...]:
    return tuple(at + (at < len(route) and route[at] == port) for route, at in zip(routes, state, strict=True))


def _furthest(states: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return the states that no other state dominates on every path."""
    kept: list[tuple[int, ...]] = []
    for state in sorted(states, key=sum, reverse=True):
        if not any(all(one <= other for one, other in zip(state, better, strict=True)) for better in kept):
            kept.append(state)
    return set(kept)


@dataclass(frozen=True)
class Fewest:
    """One entry of table 10."""

    graph: str
    algorithm: str | None
    """The algorithm that is run; None if only a bound is known."""
    trees: Callable[[Hypercube], CubeTrees]
    printed: Callable[[int], int]
    searched: int
    """The largest n where all sequences of dimensions are searched."""


TABLE_10 = (
    Fewest("BRG", "brg", GrayPaths, lambda n: int(2**n) - 1, 6),
    Fewest("SBT", "sbt", BinomialTree, lambda n: n, 6),
    Fewest("nESBT", "nesbt", EdgeDisjointBinomialTrees, lambda n: 2 * n, 4),
    Fewest("nRSBT", "nrsbt", RotatedBinomialTrees, lambda n: 2 * n - 1, 5),
    Fewest("SBnT", "sbntc", lambda cube: BalancedTrees(cube, cube.degree), lambda n: 2 * n - 1, 5),
    Fewest("TCBT", None, TwoRootedTree, lambda n: 2 * n - 2, 4),
)


def _fewest(cache: RunCache) -> Iterator[dict[str, object]]:
    for entry in TABLE_10:
        for n in cache.sizes:
            trials = [_run(cache, entry, n)] if entry.algorithm else []
            if cache.rehearsing:  # the search takes seconds
                continue
            least = shortest_labelling(entry.trees(Hypercube(n))) if n <= entry.searched else None
            steps = int(trials[0].number("startups")) if trials else None
            if least is None and steps is None:
                continue
            bound = entry.algorithm is None
            found = [number for number in (steps, least) if number is not None]
            agrees = [entry.printed(n) <= number if bound else entry.printed(n) == number for number in found]
            yield {
                "graph": entry.graph,
                "n": n,
                "paper": f"{'>= ' if bound else ''}{entry.printed(n)}",
                "fewest of all": least,
                "measured": steps,
                VERDICT: row_verdict(*agrees, trials=trials),
            }


def _run(cache: RunCache, entry: Fewest, n: int) -> CachedRun:
    return trial_of(cache, "allgather", entry.algorithm or "", ONE, n)


ONE_PORT = (("BRG", "brg"), ("SBT", "sbt"), ("nESBT", "nesbt"), ("nRSBT", "nrsbt"), ("SBnT", "sbntc"))


def _one_dimension(cache: RunCache) -> Iterator[dict[str, object]]:
    """Check lemma 6.1: one dimension per cycle, equal loads on its edges, and therefore the least transfer, N - 1
    messages.
    """
    for (graph, algorithm), n in product(ONE_PORT, cache.sizes):
        trial = trial_of(cache, "allgather", algorithm, ONE, n)
        loads = trial.journal().group_by("step", "port", "sender").agg(pl.col("bytes").cast(pl.Int64).sum())
        if cache.rehearsing:
            continue
        steps = loads.group_by("step").agg(
            dimensions=pl.col("port").n_unique(),
            edges=pl.len(),
            least=pl.col("bytes").min(),
            most=pl.col("bytes").max(),
        )
        found = steps.collect()
        order = 1 << n
        about = {"graph": graph, "n": n}
        row = stated("johnsson_ho_lemma_6_1", N=order)
        yield about | row("dimensions", len(found.filter(pl.col("dimensions") > 1)), trial)
        uneven = found.filter((pl.col("edges") != order) | (pl.col("least") != pl.col("most")))
        yield about | row("uneven", len(uneven), trial)
        yield about | row("transfer", int(trial.number("transfer_bytes")) // MESSAGE_BYTES, trial)


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 10 to 14, and lemma 6.1."""
    yield Table("Table 10: the fewest start-ups over one port", _fewest(cache), NOTES["table_10"])
    yield Table("Lemma 6.1: one dimension per cycle over one port", _one_dimension(cache))
    yield from cost_tables(cache, "allgather", range(11, 15), NOTES)


REPRODUCTION = described("johnsson_ho", "allgather", build, SIZES)
