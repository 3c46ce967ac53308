"""Statements of Hussain about Eisenstein-Jacobi networks: distances, their distribution, products, and planarity.

Distances are measured by flooding: a node receives in the step that is its distance. That a network is not planar is shown
by a subgraph of it that is K5 or K3,3 with some edges replaced by paths (Kuratowski's theorem), checked here edge by edge.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import networkx as nx

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.hussain.distances import distances, products
from coordinator.annexes.papers.hussain.node_counts import name_of
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, compared, notes, row_verdict
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

NOTES = notes("hussain", "network")

LARGEST = 6
ALPHAS = [(a, b) for b in range(1, LARGEST + 1) for a in range(b + 1) if a * a + a * b + b * b >= 7]
"""a, b of the networks of eqs. (1), (2) and (10): every 0 <= a <= b <= 6 with at least 7 nodes."""
PLANAR = ((1, 2, 1), (2, 2, 1), (0, 3, 1), (2, 3, 1), (3, 4, 1), (5, 6, 1), (1, 2, 2))
"""a, b, n of the networks that are tested for planarity."""


def formula_10(a: int, b: int, *, floored: bool = False) -> tuple[Fraction, ...]:
    """Return W(0), W(1), .. up to the diameter by eq. (10), T and M as exact fractions; `floored` takes their integer
    parts.

    Where s = T = M, the line of T applies: it takes the remaining nodes.
    """
    nodes = a * a + a * b + b * b
    middle, most = Fraction(a + b, 2), Fraction(a + 2 * b, 3)
    if floored:
        middle, most = Fraction(middle.__floor__()), Fraction(most.__floor__())
    counts = [_line(s, middle, most) for s in range(most.__floor__() + 1)]
    if middle.denominator == 1 and middle <= most:
        counts[int(middle)] = Fraction(0)
        counts[int(middle)] = nodes - sum(counts, Fraction(0))
    return tuple(counts)


def _line(s: int, middle: Fraction, most: Fraction) -> Fraction:
    """Return the line of eq. (10) for s other than T."""
    if s == 0:
        return Fraction(1)
    if s < middle:
        return Fraction(6 * s)
    return Fraction(2) if s == most else 18 * (most - s)


def _distances(cache: RunCache) -> Iterator[dict[str, object]]:
    for a, b in ALPHAS:
        network = EisensteinJacobi(a, b, 1)
        trial = cache.run(network, "broadcast", "flood")
        found = (1, *trial.series("receivers_per_step"))
        printed, floored = formula_10(a, b), formula_10(a, b, floored=True)
        yield {
            "network": name_of(network),
            "T": str(Fraction(a + b, 2)),
            "M": str(Fraction(a + 2 * b, 3)),
            "T and M rounded down": "same" if floored == printed else ", ".join(map(str, floored)),
        } | compared(tuple(map(int, printed)), found, trial, paper=", ".join(map(str, printed)))


def graph_of(network: EisensteinJacobi) -> nx.Graph:
    """Return the network as an undirected graph."""
    graph = nx.Graph()
    graph.add_edges_from((rank, near) for rank in network.ranks() for near in network.neighbours(rank))
    return graph


def kuratowski(graph: nx.Graph, within: nx.Graph) -> str | None:
    """Return "K5" or "K3,3" if `graph` is one of them with edges replaced by paths and lies within another graph, else
    None.
    """
    if not all(within.has_edge(*edge) for edge in graph.edges):
        return None
    branching = [node for node, degree in graph.degree if degree != 2]
    small = nx.Graph()
    for node in branching:
        for near in graph.neighbors(node):
            before, here = node, near
            while here not in branching:
                before, here = here, next(other for other in graph.neighbors(here) if other != before)
            small.add_edge(node, here)
    # paths that replace edges must not meet; then contracting them preserves edges minus nodes
    if graph.number_of_edges() - graph.number_of_nodes() != small.number_of_edges() - small.number_of_nodes():
        return None
    if nx.is_isomorphic(small, nx.complete_graph(5)):
        return "K5"
    return "K3,3" if nx.is_isomorphic(small, nx.complete_bipartite_graph(3, 3)) else None


def _planarity(cache: RunCache) -> Iterator[dict[str, object]]:
    for a, b, n in PLANAR:
        if n not in cache.sizes or cache.rehearsing:
            continue
        network = EisensteinJacobi(a, b, n)
        graph = graph_of(network)
        # contracts edge by edge: seconds for 100 nodes, a minute for 400
        planar, proof = nx.check_planarity(graph, counterexample=True)
        obstacle = None if planar else kuratowski(proof, graph)
        nodes, links = graph.number_of_nodes(), graph.number_of_edges()
        yield {
            "network": name_of(network),
            "nodes": nodes,
            "links": links,
            "most links of a planar graph": 3 * nodes - 6,
            "paper": f"planar {ERRATUM}",
            "predicted": "not planar",
            "measured": "planar" if planar else f"contains {obstacle} over {proof.number_of_nodes()} nodes",
            VERDICT: row_verdict(not planar, obstacle is not None, links == 3 * n * nodes, links > 3 * nodes - 6),
        }


def genus_of_torus(network: EisensteinJacobi) -> int:
    """Return the genus of the surface whose faces are the triangles x, x + rho^k, x + rho^(k+1), by Euler's formula."""
    triangles = {
        frozenset((rank, network.neighbour(rank, unit), network.neighbour(rank, (unit + 1) % 6)))
        for rank in network.ranks()
        for unit in range(6)
    }
    edges = {frozenset(pair) for triangle in triangles for pair in combinations(triangle, 2)}
    return (2 - (network.order - len(edges) + len(triangles))) // 2


def _notes_planar() -> Sequence[str]:
    network = EisensteinJacobi(3, 4, 1)
    genus = genus_of_torus(network)
    return (
        *NOTES["planarity"],
        f"In one dimension the networks lie on a torus: {name_of(network)} with its triangles has genus {genus}.",
    )


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the sections on distances, their distribution, products and planarity."""
    if 1 in cache.sizes:
        yield Table("Eq. (10): nodes at each distance", _distances(cache), NOTES["distances"])
        rows = (row for a, b in ALPHAS for row in distances(cache, a, b))
        yield Table("Eqs. (1) and (2): distances as least sums of units", rows, NOTES["weights"])
    if 2 in cache.sizes:
        yield Table("Eq. (11): the product of networks", products(cache), NOTES["products"])
    yield Table("Planarity", _planarity(cache), _notes_planar())


REPRODUCTION = described("hussain", "network", build, range(1, 3))
