"""The spanning graphs of Johnsson and Ho 1986, section 3: table 1, measured as loads of links.

When every node uses the translate of one graph, all links of dimension d carry the same: in an all-to-all broadcast over n
ports cycle l loads them with ew_ld, in all-to-all personalised communication with sw_ld (concurrent postorder) or, from
the last cycle back, rw_ld (reverse breadth first).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import polars as pl

from coordinator.papers.base import Reproduction, Section
from coordinator.papers.johnsson_ho.common import ALL, MESSAGE_BYTES, ONE, PAPER, text
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import VERDICT, Table, notes, row_verdict
from emunode.topologies.hypercube import Hypercube
from emunode.trees import statistics as measure
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees

NOTES = notes("johnsson_ho", "graphs")

SIZES = range(2, 6)
Printed = Callable[[int, int, int], Fraction | int]
"""An entry of table 1: of n, l and d."""
Loads = dict[tuple[int, int], Fraction]
"""By (l, d); what is missing is 0."""


@dataclass(frozen=True)
class Graph:
    """One line of table 1, and the algorithms whose links show it."""

    name: str
    trees: Callable[[Hypercube], Trees]
    edges: Printed
    subtrees: Printed
    descendants: Printed
    allgather: str
    postorder: str
    levels: str | None
    """None where no schedule in reverse breadth first order is published."""
    ports: str = ALL
    height: Callable[[int], int] = lambda n: n


def _transition(position: int) -> int:
    """The dimension of hop l of a Gray code path."""
    return (~position & position + 1).bit_length() - 1


def _gray(value: Callable[[int, int], int]) -> Printed:
    return lambda n, level, d: value(n, level) if d == _transition(level) else 0


def _above(n: int, level: int, _: int = 0) -> Fraction:
    """Sum over i > l of C(n, i), n-ths."""
    return Fraction(sum(comb(n, i) for i in range(level + 1, n + 1)), n)


def _disjoint_edges(n: int, level: int, _: int) -> Fraction:
    return Fraction((1, n - 1)[level] if level < 2 else comb(n, level), n)


def _disjoint_nodes(n: int, level: int, _: int) -> Fraction:
    order = 2**n
    return Fraction((order - 1, order - 2)[level], n) if level < 2 else _above(n, level - 1)


def _gray_descendants(n: int, level: int, d: int) -> int:
    """N / 2^(d+1) - ceil((l - 2^d + 1) / 2^(d+1))."""
    return int(2 ** (n - d - 1) + (2**d - level - 1) // 2 ** (d + 1))


GRAPHS = (
    Graph(
        "BRG",
        GrayPaths,
        _gray(lambda _n, _level: 1),
        _gray(lambda n, level: 2**n - level - 1),
        _gray_descendants,
        "brg",
        "brg",
        None,
        ONE,
        lambda n: 2**n - 1,
    ),
    Graph(
        "nRBRG",
        lambda cube: GrayPaths(cube, cube.degree),
        lambda n, _level, _d: Fraction(1, n),
        lambda n, level, _d: Fraction(2**n - level - 1, n),
        lambda n, level, _d: Fraction(2**n - level - 1, n),
        "nrbrg",
        "nrbrg",
        "nrbrg-rbf",
        height=lambda n: 2**n - 1,
    ),
    Graph(
        "SBT",
        BinomialTree,
        lambda _n, level, d: comb(d, level),
        lambda n, level, d: comb(d, level) * 2 ** (n - d - 1),
        lambda n, level, d: comb(n - d - 1, level) * 2**d,
        "sbt",
        "sbt",
        "sbt-rbf",
    ),
    Graph(
        "nRSBT",
        RotatedBinomialTrees,
        lambda n, level, _d: Fraction(comb(n, level + 1), n),
        _above,
        _above,
        "nrsbt",
        "nrsbt-postorder",
        "nrsbt-rbf",
    ),
    Graph(
        "nESBT",
        EdgeDisjointBinomialTrees,
        _disjoint_edges,
        _disjoint_nodes,
        _disjoint_nodes,
        "nesbt",
        "nesbt",
        "nesbt-rbf",
        height=lambda n: n + 1,
    ),
    Graph(
        "SBnT",
        lambda cube: BalancedTrees(cube, cube.degree),
        lambda n, level, _d: Fraction(comb(n, level + 1), n),
        _above,
        _above,
        "sbntc",
        "sbntc",
        "sbntc-rbf",
    ),
)


def loads_of(trial: Trial, *, backwards: bool = False) -> tuple[Loads, bool]:
    """What a link of dimension d carries in each cycle, in messages; whether all links of a dimension carry the same."""
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
                _row(graph, n, name, printed, walked(trees), trial, backwards=backwards)
                for name, printed, walked, trial, backwards in (
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
    return cache.run(
        topology=f"hypercube:{n}",
        collective=collective,
        algorithm=algorithm,
        port_model=ports,
        message_bytes=MESSAGE_BYTES,
    )


def _row(
    graph: Graph, n: int, name: str, printed: Printed, walked: measure.Table, trial: Trial | None, *, backwards: bool
) -> dict[str, object]:
    levels = range(graph.height(n))
    expected = {(level, d): Fraction(printed(n, level, d)) for level in levels for d in range(n)}
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
    """Entry by entry."""
    return all(found.get(key, 0) == value for key, value in expected.items()) and set(found) <= set(expected)


def _by_level(loads: measure.Table, levels: range) -> str:
    """The largest of all dimensions, level by level; long rows are cut short."""
    largest = [max((value for (at, _), value in loads.items() if at == level), default=Fraction(0)) for level in levels]
    shown = [text(value) for value in largest[:8]]
    return ", ".join(shown + [".."] * (len(largest) > 8))


def _edges(name: str, n: int) -> list[Fraction]:
    """Ew_d as printed, dimension 0 first."""
    if name == "BRG":
        return [Fraction(2 ** (n - d - 1)) for d in range(n)]
    if name == "SBT":
        return [Fraction(2**d) for d in range(n)]
    return [Fraction(2**n - 1, n)] * n


def _totals(cache: RunCache) -> Iterator[dict[str, object]]:
    """E_d: what a link of dimension d carries over a whole all-to-all broadcast."""
    for graph in GRAPHS:
        for n in cache.sizes:
            trial = _run(cache, n, "allgather", graph.allgather, graph.ports)
            expected = _edges(graph.name, n)
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


REPRODUCTION = Reproduction(
    name="johnsson-ho-graphs",
    title="Spanning graphs of a hypercube",
    paper=f"{PAPER}, section 3, table 1",
    description="Edges, subtrees and descendants of six spanning graphs, by level and dimension: in trees and on links.",
    build=build,
    sizes=SIZES,
)
