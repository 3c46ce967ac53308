"""Every algorithm for any network on every connected graph of at most six nodes: local rules, port models, claims."""

from collections.abc import Iterator

from stress_tests.common import Budget, Row

LARGEST = 6
"""Nodes of the largest graphs: 142 graphs up to isomorphism."""


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield one row per algorithm."""
    from emunode.algorithms.base import ANY_FAMILY
    from emunode.algorithms.registry import ALGORITHMS

    networks = list(small_networks(budget.times(LARGEST, 4)))
    for entry in ALGORITHMS.values():
        if entry.family == ANY_FAMILY and not entry.traits.negative_control:
            row = Row(f"{entry.collective} {entry.name}")
            for network in networks:
                row.add(problems(entry, network))
            yield row


def small_networks(largest: int) -> Iterator[object]:
    """Yield every connected graph of 2 to `largest` nodes as a network."""
    import networkx as nx

    from emunode.topologies.table import TableTopology

    for number, graph in enumerate(nx.graph_atlas_g()):
        if 2 <= len(graph) <= largest and nx.is_connected(graph):
            yield TableTopology(f"graph{number}", map(str, range(len(graph))), graph.edges)


def problems(entry: type, network: object) -> list[str]:
    """Return mistakes of an algorithm on a network; none if it refuses the network."""
    from emunode.algorithms.conformance import check_algorithm
    from emunode.errors import ContractError

    try:
        check_algorithm(entry, network)  # type: ignore[arg-type]
    except ContractError as error:
        # Some algorithms need links that a network lacks, two disjoint trees, or at least three nodes.
        return [] if "refuses every job" in str(error) else [str(error)]
    return []
