"""Networks and trees of `tests/golden/any`, and every small connected graph."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import networkx as nx

from emunode.topologies.table import TableTopology
from emunode.trees.any_network.checks import NO_PARENT
from tests.helpers.support import GOLDEN


@cache
def golden_json(name: str) -> Any:  # each file has its own structure
    """Return the content of `tests/golden/any/<name>.json`."""
    return json.loads((GOLDEN / "any" / f"{name}.json").read_text())


@cache
def golden_network(name: str) -> TableTopology:
    """Return the network called `name` in the golden files; its labels are its ranks."""
    graph = golden_json("graphs")[name]
    return TableTopology(name, map(str, range(graph["n"])), map(tuple, graph["edges"]))


def hub(leaves: int) -> TableTopology:
    """Return the tree of one node with `leaves` neighbours."""
    return TableTopology("hub", map(str, range(leaves + 1)), ((0, leaf) for leaf in range(1, leaves + 1)))


def network_of_graph(graph: "nx.Graph[int]", name: str = "graph") -> TableTopology:
    """Return a graph whose nodes are 0, 1, .. as a network."""
    return TableTopology(name, map(str, range(len(graph))), graph.edges)


def connected_graphs(largest: int) -> Iterator["nx.Graph[int]"]:
    """Return every connected graph of 2 to `largest` nodes, up to isomorphism and not to be changed; at most 7."""
    return (graph for graph in _connected_graphs() if len(graph) <= largest)


@cache
def _connected_graphs() -> Sequence["nx.Graph[int]"]:
    return [graph for graph in nx.graph_atlas_g() if len(graph) >= 2 and nx.is_connected(graph)]


def rooted(links: Iterable[Sequence[int]], order: int, root: int = 0) -> list[int]:
    """Return the parents of a tree that is given as a set of links."""
    tree: nx.Graph[int] = nx.Graph(map(tuple, links))
    parents = [NO_PARENT] * order
    for parent, child in nx.bfs_edges(tree, root):
        parents[child] = parent
    return parents
