"""The spanning graphs of Johnsson and Ho 1986, section 3: table 1, measured as loads of links.

When every node uses the translate of one graph, all links of dimension d carry the same: in an all-to-all broadcast over n
ports cycle l loads them with ew_ld, in all-to-all personalised communication with sw_ld (concurrent postorder) or, from
the last cycle back, rw_ld (reverse breadth first).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from coordinator.papers.base import Section, described
from coordinator.papers.formulas import Number, evaluate
from coordinator.papers.johnsson_ho.common import MESSAGE_BYTES, text
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import VERDICT, Table, notes, printed, row_verdict
from emunode.topologies.hypercube import Hypercube
from emunode.trees import statistics as measure
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees

NOTES = notes("johnsson_ho", "graphs")

SIZES = range(2, 6)
Printed = Callable[[int, int, int], Number]
"""An entry of table 1, as a function of n, l and d."""
Loads = dict[tuple[int, int], Fraction]
"""By (l, d); missing entries are 0."""


@dataclass(frozen=True)
class Graph:
    """One line of table 1, and the algorithms whose link loads show it."""

    name: str
    trees: Callable[[Hypercube], Trees]
    edges: Printed
    subtrees: Printed
    descendants: Printed
    edges_of: Printed
    """Ew_d, which does not depend on l."""
    height: Printed
    """Number of levels, which depends only on n."""
    ports: str
    allgather: str
    postorder: str
    levels: str
    """Empty if no reverse breadth-first schedule is published."""


def _transition(position: int) -> int:
    """The dimension of hop l of a Gray code path."""
    return (~position & position + 1).bit_length() - 1


def _formula(text: str) -> Printed:
    """A printed formula in n, N, l and d; t is the dimension of hop l of a Gray code path."""
    return lambda n, level, d: evaluate(text, n=n, N=1 << n, l=level, d=d, t=_transition(level))


TREES: Mapping[str, Callable[[Hypercube], Trees]] = {
    "BRG": GrayPaths,
    "nRBRG": lambda cube: GrayPaths(cube, cube.degree),
    "SBT": BinomialTree,
    "nRSBT": RotatedBinomialTrees,
    "nESBT": EdgeDisjointBinomialTrees,
    "SBnT": lambda cube: BalancedTrees(cube, cube.degree),
}
GRAPHS = [
    Graph(
        row["graph"],
        TREES[row["graph"]],
        _formula(row["edges"]),
        _formula(row["subtrees"]),
        _formula(row["descendants"]),
        _formula(row["edges of d"]),
        _formula(row["height"]),
        ports=row["ports"],
        allgather=row["allgather"],
        postorder=row["postorder"],
        levels=row["levels"],
    )
    for row in printed("johnsson_ho_table_1")
]


def loads_of(trial: Trial, *, backwards: bool = False) -> tuple[Loads, bool]:
    """The load of a link of dimension d in each cycle, in messages, and whether all links of a dimension carry the same."""
    links = (
        trial.journal()
        .group_by("step", "port", "sender")
        .agg(pl.col("bytes").cast(pl.Int64).sum())
        .group_by("step", "port")
        .agg(least=pl.col("bytes").min(), most=pl.col("bytes").max(), links=pl.len())
        .collect()
    )
    last = int(trial.number("steps"))
    loads: Loads = {}
    alike = True
    for step, port, least, most, count in links.iter_rows():
        loads[last - step if backwards else step - 1, port] = Fraction(most, MESSAGE_BYTES)
        alike &= least == most and count == trial.plan.topology.order
    return loads, alike


def _rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for graph in GRAPHS:
        for n in cache.sizes:
            trees = graph.trees(Hypercube(n))
            yield from (
                _row(graph, n, name, entry, walked(trees), trial, backwards=backwards)
                for name, entry, walked, trial, backwards in (
                    (
                        "edges ew_ld",
                        graph.edges,
                        measure.edges_by_level_and_port,
                        _run(cache, n, "allgather", graph.allgather, graph.ports),
                        False,
                    ),
                    (
                        "subtrees sw_ld",
                        graph.subtrees,
                        measure.subtrees_by_level_and_port,
                        _run(cache, n, "alltoall", graph.postorder, graph.ports),
                        False,
                    ),
                    (
                        "descendants rw_ld",
                        graph.descendants,
                        measure.descendants_by_distance_and_port,
                        _run(cache, n, "alltoall", graph.levels, graph.ports) if graph.levels else None,
                        True,
                    ),
                )
            )


def _run(cache: RunCache, n: int, collective: str, algorithm: str, ports: str) -> Trial:
    return cache.run(f"hypercube:{n}", collective, algorithm, port_model=ports, message_bytes=MESSAGE_BYTES)


def _row(
    graph: Graph, n: int, name: str, entry: Printed, walked: measure.Table, trial: Trial | None, *, backwards: bool
) -> dict[str, object]:
    levels = range(int(graph.height(n, 0, 0)))
    expected = {(level, d): Fraction(entry(n, level, d)) for level in levels for d in range(n)}
    loads, alike = loads_of(trial, backwards=backwards) if trial else (None, True)
    agree = [_same(expected, walked), loads is None or _same(expected, loads), alike]
    return {
        "graph": graph.name,
        "n": n,
        "of": name,
        "paper": _by_level(expected, levels),
        "in the trees": _by_level(walked, levels),
        "on the links": _by_level(loads, levels) if loads is not None else None,
        VERDICT: row_verdict(*agree, trials=[trial] if trial else []),
    }


def _same(expected: Loads, found: measure.Table) -> bool:
    return all(found.get(key, 0) == value for key, value in expected.items()) and set(found) <= set(expected)


def _by_level(loads: measure.Table, levels: range) -> str:
    """The largest entry over all dimensions per level; long rows are truncated."""
    largest = [max((value for (at, _), value in loads.items() if at == level), default=Fraction(0)) for level in levels]
    shown = [text(value) for value in largest[:8]]
    return ", ".join(shown + [".."] * (len(largest) > 8))


def _totals(cache: RunCache) -> Iterator[dict[str, object]]:
    """E_d: the load of a link of dimension d over a whole all-to-all broadcast."""
    for graph in GRAPHS:
        for n in cache.sizes:
            trial = _run(cache, n, "allgather", graph.allgather, graph.ports)
            expected = [Fraction(graph.edges_of(n, 0, d)) for d in range(n)]
            links = trial.table("links")
            found = [
                [Fraction(carried, MESSAGE_BYTES) for carried in links.filter(pl.col("port") == d)["bytes"].unique()]
                for d in range(n)
            ]
            yield {
                "graph": graph.name,
                "n": n,
                "paper": ", ".join(map(text, expected)),
                "measured": ", ".join("/".join(map(text, values)) for values in found),
                VERDICT: row_verdict(found == [[value] for value in expected], trials=[trial]),
            }


def build(cache: RunCache) -> Iterator[Section]:
    """Table 1 in two parts."""
    yield Table(
        "Table 1: Ew_d, weighted edges by dimension",
        list(_totals(cache)),
        NOTES["edges"],
    )
    yield Table(
        "Table 1: weighted edges, subtrees and descendants by level and dimension",
        list(_rows(cache)),
        NOTES["levels"],
        measurement="on the links",
    )


REPRODUCTION = described("johnsson_ho", "graphs", build, SIZES)
