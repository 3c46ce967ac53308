"""Edge colourings: the golden ones link by link, and validity and the number of colours on many graphs."""

import networkx
import pytest
from networkx.generators.atlas import graph_atlas_g

from emunode.topologies.edge_colouring import (
    LinkList,
    edge_colouring,
    greedy_colouring,
    konig_colouring,
    misra_gries_colouring,
)
from emunode.topologies.registry import parse_topology
from tests.helpers.support import golden_rows

GRAPHS = {
    "petersen": networkx.petersen_graph,
    "K4": lambda: networkx.complete_graph(4),
    "K5": lambda: networkx.complete_graph(5),
    "K7": lambda: networkx.complete_graph(7),
    "C5": lambda: networkx.cycle_graph(5),
    "path5": lambda: networkx.path_graph(5),
    "wheel6": lambda: networkx.wheel_graph(6),
    "grid3x3": lambda: networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(3, 3)),
    "karate": networkx.karate_club_graph,
}
"""The golden graphs that are no networks of a family."""


def links_of(graph: "networkx.Graph[int]") -> LinkList:
    return sorted((min(link), max(link)) for link in graph.edges)


def colour_count(links: LinkList, colours: list[int]) -> int:
    """Return how many colours there are; fails if two links at one node have the same."""
    used: set[tuple[int, int]] = set()
    for link, colour in zip(links, colours, strict=True):
        for end in link:
            assert (end, colour) not in used
            used.add((end, colour))
    assert set(colours) == set(range(max(colours) + 1))
    return max(colours) + 1


@pytest.mark.parametrize("row", golden_rows("networks", "networks_colouring"), ids=lambda row: row["graph"])
def test_golden_colourings(row: dict[str, str]) -> None:
    name = row["graph"]
    links = [(one, other) for one, _, other, _ in parse_topology(name).links()] if name not in GRAPHS else []
    links = sorted(links) or list(links_of(GRAPHS[name]()))
    assert len(links) == int(row["links"])
    for algorithm in (greedy_colouring, misra_gries_colouring):
        column = algorithm.__name__.removesuffix("_colouring")
        colours = algorithm(links)
        assert " ".join(map(str, colours)) == row[column]
        assert colour_count(links, colours) == int(row[f"{column}_colours"])


def test_colours_of_all_small_graphs() -> None:
    """The 1,245 graphs of the atlas with a link: how many need how many colours more than their largest degree."""
    beyond: dict[str, dict[int, int]] = {"greedy": {}, "misra_gries": {}, "best": {}}
    bipartite = 0
    for graph in graph_atlas_g():
        links = links_of(graph)
        if not links:
            continue
        degree = max(degree for _, degree in graph.degree)
        counts = {
            "greedy": colour_count(links, greedy_colouring(links)),
            "misra_gries": colour_count(links, misra_gries_colouring(links)),
        }
        counts["best"] = min(counts.values())
        assert colour_count(links, edge_colouring(links, bipartite=False)) == counts["best"]
        for name, count in counts.items():
            beyond[name][count - degree] = beyond[name].get(count - degree, 0) + 1
        if networkx.is_bipartite(graph):
            bipartite += 1
            assert colour_count(links, konig_colouring(links)) == degree
    assert beyond["misra_gries"] == {0: 389, 1: 856}
    assert beyond["greedy"] == {0: 679, 1: 436, 2: 122, 3: 8}
    assert beyond["best"] == {0: 847, 1: 398}
    assert bipartite == 142


@pytest.mark.parametrize("name", ["hypercube:6", "star:5"])
def test_bipartite_networks_need_as_many_colours_as_ports(name: str) -> None:
    topology = parse_topology(name)
    links = sorted((one, other) for one, _, other, _ in topology.links())
    assert colour_count(links, edge_colouring(links, bipartite=True)) == topology.degree
    assert colour_count(links, misra_gries_colouring(links)) == topology.degree + 1


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("seed", range(20))
def test_large_random_graphs(seed: int) -> None:
    graph = networkx.gnm_random_graph(60, 100 + 60 * seed, seed=seed)
    links = links_of(graph)
    assert colour_count(links, misra_gries_colouring(links)) <= max(degree for _, degree in graph.degree) + 1


def test_an_odd_cycle_is_not_bipartite() -> None:
    with pytest.raises(ValueError, match="not bipartite"):
        konig_colouring([(0, 1), (0, 2), (1, 2)])
