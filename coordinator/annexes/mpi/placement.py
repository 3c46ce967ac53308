"""Traffic placed on a network: what a table of messages costs on links by shortest paths."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.annexes.mpi.rules.base import PairCount, PairCounts
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import Topology

MOST_HOPS: Final = 20_000_000
"""Most hops of all paths of a table, one path for each pair."""
MOST_NODES: Final = 100_000
RANDOM: Final = re.compile(r"random:(\d{1,18})", re.ASCII)
ALLOWED: Final = "in-order, random:SEED, or a label for each rank, separated by semicolons"


@dataclass(frozen=True)
class PlacedTraffic:
    """The load of each directed link, (node, port), if every pair sends along one shortest path."""

    topology: Topology
    nodes: Sequence[Rank]
    """Node of each rank of the table."""
    links: Mapping[tuple[Rank, int], PairCount]
    hops: int
    """Links of all messages together."""
    farthest: int
    """Links between the two farthest nodes that exchange messages."""

    @property
    def busiest(self) -> tuple[tuple[Rank, int] | None, PairCount]:
        """The directed link with the most bytes, then messages; of equal ones the first."""
        if not self.links:
            return None, PairCount(0, 0)
        link = min(self.links, key=lambda each: (-self.links[each].bytes, -self.links[each].messages, each))
        return link, self.links[link]

    @property
    def congestion(self) -> int:
        """Messages on the link with the most messages."""
        return max((count.messages for count in self.links.values()), default=0)

    @property
    def least_steps(self) -> int:
        """Steps at least along these paths, if a link carries one message in a step."""
        return max(self.congestion, self.farthest)

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        link, load = self.busiest
        topology = self.topology
        between = None if link is None else [topology.label(link[0]), topology.label(topology.neighbour(*link))]
        return {
            "topology": topology.name,
            "links_used": len(self.links),
            "busiest_link": between,
            "busiest_link_messages": load.messages,
            "busiest_link_bytes": load.bytes,
            "congestion": self.congestion,
            "hops": self.hops,
            "steps_at_least": self.least_steps,
        }


def place(topology: Topology, nodes: Sequence[Rank], counts: PairCounts) -> PlacedTraffic:
    """Send all messages of each pair along the shortest path that takes the lowest port first."""
    links: dict[tuple[Rank, int], PairCount] = {}
    hops = farthest = walked = 0
    for (source, target), count in counts.items():
        path = shortest_path(topology, nodes[source], nodes[target])
        walked += len(path)
        if walked > MOST_HOPS:
            raise ScenarioError("topology", topology.name, f"the paths have more than {MOST_HOPS:,} links together")
        farthest = max(farthest, len(path))
        hops += len(path) * count.messages
        for link in path:
            before = links.get(link, PairCount(0, 0))
            links[link] = PairCount(before.messages + count.messages, before.bytes + count.bytes)
    return PlacedTraffic(topology, nodes, links, hops, farthest)


def shortest_path(topology: Topology, source: Rank, target: Rank) -> list[tuple[Rank, int]]:
    """Return the directed links of a shortest path; of several, the one with the lowest ports."""
    path = []
    node = source
    while node != target:
        left = topology.distance(node, target)
        port, node_after = next(
            (port, neighbour)
            for port, neighbour in topology.adjacent(node)
            if topology.distance(neighbour, target) < left
        )
        path.append((node, port))
        node = node_after
    return path


def nodes_of(topology: Topology, ranks: int, placement: str) -> list[Rank]:
    """Return the node of each rank; ScenarioError for a placement that does not name a node of its own for each."""
    hosts = list(topology.data_ranks)
    if len(hosts) > MOST_NODES:
        raise ScenarioError("topology", topology.name, f"a network of at most {MOST_NODES:,} nodes")
    if len(hosts) < ranks:
        raise ScenarioError("topology", topology.name, f"a network with a node for each of {ranks} ranks")
    if placement == "in-order":
        return hosts[:ranks]
    if match := RANDOM.fullmatch(placement):
        random.Random(int(match[1])).shuffle(hosts)
        return hosts[:ranks]
    if ";" not in placement:
        raise ScenarioError("placement", placement, ALLOWED)
    nodes = [topology.rank(label) for label in placement.split(";")]
    if len(nodes) != ranks or len(set(nodes)) != ranks:
        raise ScenarioError("placement", placement, f"different labels for {ranks} ranks")
    return nodes
