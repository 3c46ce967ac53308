"""The spanning graphs of Johnsson and Ho 1986, section 3: table 1, measured as loads of links.

When every node uses the translate of one graph, all links of dimension d carry the same: in an all-to-all broadcast over n
ports cycle l loads them with ew_ld, in all-to-all personalised communication with sw_ld (concurrent postorder) or, from
the last cycle back, rw_ld (reverse breadth first).
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product

import polars as pl

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.formulas import Number, evaluate
from coordinator.annexes.papers.johnsson_ho.common import MESSAGE_BYTES, text
from coordinator.annexes.papers.johnsson_ho.lemmas import lemmas
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, notes, printed, row_verdict
from emunode.topologies.hypercube import Hypercube
from emunode.trees import statistics as measure
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees

NOTES = notes("johnsson_ho", "graphs")

SIZES = range(2, 6)
LoadTable = dict[tuple[int, int], Fraction]
"""By (l, d); missing entries are 0."""


TREES: Mapping[str, Callable[[Hypercube], Trees]] = {
    "BRG": GrayPaths,
    "nRBRG": lambda cube: GrayPaths(cube, cube.degree),
    "SBT": BinomialTree,
    "nRSBT": RotatedBinomialTrees,
    "nESBT": EdgeDisjointBinomialTrees,
    "SBnT": lambda cube: BalancedTrees(cube, cube.degree),
}
GRAPHS = {row["graph"]: row for row in printed("johnsson_ho_table_1")}
"""The lines of table 1: the printed formulas, and the algorithms whose link loads show them.

`levels` is empty where no reverse breadth-first schedule is published.
"""
PARTS = (
    ("edges ew_ld", "edges", measure.edges_by_level_and_port, "allgather", "allgather"),
    ("subtrees sw_ld", "subtrees", measure.subtrees_by_level_and_port, "alltoall", "postorder"),
    ("descendants rw_ld", "descendants", measure.descendants_by_distance_and_port, "alltoall", "levels"),
)
"""The entries of a line: name, column of the formula, count in the trees, collective, column of the algorithm."""


def entry(graph: str, column: str, n: int, level: int = 0, d: int = 0) -> Number:
    """Return an entry of table 1: its formula in n, N, l and d, and t, the dimension of hop l of a Gray code path."""
    hop = (~level & level + 1).bit_length() - 1
    return evaluate(GRAPHS[graph][column], n=n, N=1 << n, l=level, d=d, t=hop)


def loads_of(trial: CachedRun, *, backwards: bool = False) -> tuple[LoadTable, bool]:
    """Return the load of a link of dimension d in each cycle, in messages, and whether all links of a dimension carry
    the same.
    """
    links = (
        trial.journal()
        .group_by("step", "port", "sender")
        .agg(pl.col("bytes").cast(pl.Int64).sum())
        .group_by("step", "port")
        .agg(least=pl.col("bytes").min(), most=pl.col("bytes").max(), links=pl.len())
        .collect()
    )
    last = int(trial.number("steps"))
    loads: LoadTable = {}
    alike = True
    for step, port, least, most, count in links.iter_rows():
        loads[last - step if backwards else step - 1, port] = Fraction(most, MESSAGE_BYTES)
        alike &= least == most and count == trial.plan.topology.order
    return loads, alike


def _run(cache: RunCache, n: int, collective: str, graph: str, column: str) -> CachedRun | None:
    row = GRAPHS[graph]
    about = {"port_model": row["ports"], "message_bytes": MESSAGE_BYTES}
    return cache.run(f"hypercube:{n}", collective, row[column], **about) if row[column] else None


def _rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for graph, n, (name, column, count, collective, algorithm) in product(GRAPHS, cache.sizes, PARTS):
        walked, trial = count(TREES[graph](Hypercube(n))), _run(cache, n, collective, graph, algorithm)
        levels = range(int(entry(graph, "height", n)))
        expected = {(level, d): Fraction(entry(graph, column, n, level, d)) for level in levels for d in range(n)}
        # reverse breadth first sends the data of level 0 in the last cycle (section 3)
        loads, alike = loads_of(trial, backwards=column == "descendants") if trial else (None, True)
        agree = [_same(expected, walked), loads is None or _same(expected, loads), alike]
        yield {
            "graph": graph,
            "n": n,
            "of": name,
            "paper": _by_level(expected, levels),
            "in the trees": _by_level(walked, levels),
            "on the links": _by_level(loads, levels) if loads is not None else None,
            VERDICT: row_verdict(*agree, trials=[trial] if trial else []),
        }


def _same(expected: LoadTable, found: measure.LevelTable) -> bool:
    return all(found.get(key, 0) == value for key, value in expected.items()) and set(found) <= set(expected)


def _by_level(loads: measure.LevelTable, levels: range) -> str:
    """Return the largest entry over all dimensions per level; long rows are truncated."""
    largest = [max((value for (at, _), value in loads.items() if at == level), default=Fraction(0)) for level in levels]
    shown = [text(value) for value in largest[:8]]
    return ", ".join(shown + [".."] * (len(largest) > 8))


def _totals(cache: RunCache) -> Iterator[dict[str, object]]:
    """Check E_d: the load of a link of dimension d over a whole all-to-all broadcast."""
    for graph, n in product(GRAPHS, cache.sizes):
        trial = _run(cache, n, "allgather", graph, "allgather")
        assert trial is not None
        expected = [Fraction(entry(graph, "edges of d", n, d=d)) for d in range(n)]
        links = trial.table("links")
        found = [
            [Fraction(carried, MESSAGE_BYTES) for carried in links.filter(pl.col("port") == d)["bytes"].unique()]
            for d in range(n)
        ]
        yield {
            "graph": graph,
            "n": n,
            "paper": ", ".join(map(text, expected)),
            "measured": ", ".join("/".join(map(text, values)) for values in found),
            VERDICT: row_verdict(found == [[value] for value in expected], trials=[trial]),
        }


def build(cache: RunCache) -> Iterator[Section]:
    """Yield table 1 in two parts, and the statements on the graphs."""
    yield Table("Table 1: Ew_d, weighted edges by dimension", _totals(cache), NOTES["edges"])
    title = "Table 1: weighted edges, subtrees and descendants by level and dimension"
    yield Table(title, _rows(cache), NOTES["levels"], measurement="on the links")
    yield Table("Lemmas 3.16 to 3.27, corollaries 3.2 and 3.5, theorems 3.2 to 3.4", lemmas(cache), NOTES["lemmas"])


REPRODUCTION = described("johnsson_ho", "graphs", build, SIZES)
