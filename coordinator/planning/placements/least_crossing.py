"""Few links between hosts, by recursive bisection.

To place ranks such that the fewest links cross hosts is NP-hard. The heuristic: halve the hosts, and the ranks with them;
improve the halves by exchanges (B. W. Kernighan and S. Lin, An efficient heuristic procedure for partitioning graphs, Bell
System Technical Journal 49, 1970) from three beginnings, and keep the one with the fewest links between the halves: ranks in
order, ranks by distance from the first, ranks at random with a fixed seed. Halve again until each part is one host. Then
exchange ranks between pairs of hosts as long as that helps. Hosts are as large as with blocks, and if the heuristic finds
nothing better, blocks are the result.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Final

from coordinator.planning.placements.base import RankPlacement, require_links
from emunode.host.placement import Placement
from emunode.model import Rank
from emunode.registry import register
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    from networkx import Graph

MOST_LINK_ENDS: Final = 40_000
"""Most order x degree: some seconds."""
ROUNDS: Final = 4
"""How often all pairs of hosts are improved at most."""


@register
class LeastCrossing(RankPlacement):
    """Hosts of the same size as blocks, with few links between them."""

    name = "least-crossing"
    form = "least-crossing"
    meaning = "few links cross hosts: recursive bisection with exchanges, never worse than blocks"

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        require_links(self.name, topology, MOST_LINK_ENDS)
        import networkx as nx  # noqa: PLC0415  # other placements do without

        graph: Graph[Rank] = nx.Graph()
        graph.add_nodes_from(topology.ranks())
        graph.add_edges_from((one, other) for one, _, other, _ in topology.links())
        blocks = Placement(topology.order, hosts)
        parts = _bisect(graph, list(topology.ranks()), blocks.sizes)
        _improve_pairs(graph, parts)
        found = [0] * topology.order
        # Hosts are numbered by their lowest rank.
        for host, part in enumerate(sorted(parts, key=min)):
            for rank in part:
                found[rank] = host
        crossing = sum(found[one] != found[other] for one, other in graph.edges)
        if crossing >= sum(blocks.host(one) != blocks.host(other) for one, other in graph.edges):
            return None
        return found


def _bisect(graph: "Graph[Rank]", ranks: Sequence[Rank], sizes: Sequence[int]) -> list[set[Rank]]:
    """Divide ranks into parts of these sizes."""
    if len(sizes) == 1:
        return [set(ranks)]
    middle = len(sizes) // 2
    first = sum(sizes[:middle])
    inside = graph.subgraph(ranks)
    mixed = list(ranks)
    Random(first).shuffle(mixed)
    beginnings = (ranks, _by_distance(inside, ranks), mixed)
    halves = min(
        (_exchange(inside, set(each[:first]), set(each[first:])) for each in beginnings),
        key=lambda each: _crossing(inside, each[0]),
    )
    return [
        part
        for half, count in zip(halves, (sizes[:middle], sizes[middle:]), strict=True)
        for part in _bisect(graph, sorted(half), count)
    ]


def _improve_pairs(graph: "Graph[Rank]", parts: list[set[Rank]]) -> None:
    """Exchange ranks between pairs of parts as long as fewer links cross."""
    for _ in range(ROUNDS):
        improved = False
        for one, other in combinations(range(len(parts)), 2):
            # Only links between the two parts change: all others of an exchanged rank cross before and after.
            inside = graph.subgraph(parts[one] | parts[other])
            before = _crossing(inside, parts[one])
            if not before:
                continue
            pair = _exchange(inside, parts[one], parts[other])
            if _crossing(inside, pair[0]) < before:
                parts[one], parts[other] = pair
                improved = True
        if not improved:
            return


def _exchange(graph: "Graph[Rank]", one: set[Rank], other: set[Rank]) -> tuple[set[Rank], set[Rank]]:
    """Return two parts of the same sizes with at most as many links between them."""
    from networkx.algorithms.community import kernighan_lin_bisection  # noqa: PLC0415  # see `host_of_each`

    first, second = kernighan_lin_bisection(graph, (one, other))
    # The library may exchange the roles of the parts, whose sizes may differ.
    return (first, second) if len(first) == len(one) else (second, first)


def _crossing(graph: "Graph[Rank]", part: set[Rank]) -> int:
    """Count the links between a part and the rest of a graph."""
    return sum(other not in part for rank in part for other in graph.adj[rank])


def _by_distance(graph: "Graph[Rank]", ranks: Iterable[Rank]) -> list[Rank]:
    """Return ranks in the order of a breadth-first search; each further component follows from its lowest rank."""
    found: dict[Rank, None] = {}
    for start in ranks:
        if start in found:
            continue
        found[start] = None
        queue = [start]
        for rank in queue:
            new = [other for other in sorted(graph.adj[rank]) if other not in found]
            found.update(dict.fromkeys(new))
            queue += new
    return list(found)
