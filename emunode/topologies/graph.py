"""Checks on any topology, by looking at all of its links: for small networks and tests, never for a run."""

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from emunode.errors import EmulatorError
from emunode.model import Rank
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import networkx  # type: ignore[import-untyped, unused-ignore]  # stubs are a separate package


class ContractError(EmulatorError, AssertionError):
    """A topology or a tree breaks its contract: ours."""


def breadth_first_distances(topology: Topology, root: Rank) -> list[int]:
    """Distance of every rank from `root`, by rank, found link by link; -1 where there is no path."""
    distances = [-1] * topology.order
    distances[root] = 0
    queue = [root]
    for rank in queue:
        for neighbour in topology.neighbours(rank):
            if distances[neighbour] < 0:
                distances[neighbour] = distances[rank] + 1
                queue.append(neighbour)
    return distances


def to_networkx(topology: Topology) -> "networkx.Graph[Rank]":
    """The network as an undirected graph of its ranks.

    Nodes carry `label`; links carry `lower_port` and `upper_port`, the ports at the end of lower and of higher rank.
    """
    import networkx  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415 - hosts never need it

    graph: networkx.Graph[Rank] = networkx.Graph(name=topology.name)
    graph.add_nodes_from((rank, {"label": topology.label(rank)}) for rank in topology.ranks())
    graph.add_edges_from(
        (rank, neighbour, {"lower_port": port, "upper_port": reverse})
        for rank, port, neighbour, reverse in topology.links()
    )
    return graph


def check(topology: Topology) -> None:
    """Hold every answer of `topology` against its links: O(order^2 degree).

    Raises ContractError with the first promise that is broken.
    """
    _check_labels(topology)
    _check_links(topology)
    _check_distances(topology)
    _check_translations(topology)


def _check_labels(topology: Topology) -> None:
    for rank in topology.ranks():
        if topology.rank(topology.label(rank)) != rank:
            raise ContractError(f"{topology.name}: label {topology.label(rank)!r} does not lead back to rank {rank}")


def _check_links(topology: Topology) -> None:
    """Simple, regular, and every port of a link is the reverse of the other."""
    for rank in topology.ranks():
        neighbours = topology.neighbours(rank)
        if len(set(neighbours)) != topology.degree or rank in neighbours:
            raise ContractError(f"{topology.name}: rank {rank} has not {topology.degree} neighbours: {neighbours}")
        for port, neighbour in enumerate(neighbours):
            if topology.neighbour(neighbour, topology.reverse_port(port)) != rank:
                raise ContractError(f"{topology.name}: port {port} of rank {rank} does not lead back")


def _check_distances(topology: Topology) -> None:
    distances = breadth_first_distances(topology, 0)
    for rank, distance in enumerate(distances):
        if topology.weight(rank) != distance:
            raise ContractError(f"{topology.name}: rank {rank} has weight {topology.weight(rank)}, not {distance}")
    if max(distances) != topology.diameter:
        raise ContractError(f"{topology.name}: diameter {topology.diameter}, not {max(distances)}")
    counts = Counter(distances)
    if topology.distance_distribution() != tuple(counts[distance] for distance in range(topology.diameter + 1)):
        raise ContractError(f"{topology.name}: wrong distance distribution {topology.distance_distribution()}")
    same_side = any((distances[one] - distances[other]) % 2 == 0 for one, _, other, _ in topology.links())
    if topology.bipartite == same_side:
        raise ContractError(f"{topology.name}: bipartite is {topology.bipartite}")


def _check_translations(topology: Topology) -> None:
    """`relative` and `absolute` are inverse, carry the root to 0, and keep every port."""
    for root, rank in product(topology.ranks(), topology.ranks()):
        relative = topology.relative(rank, root)
        if topology.absolute(relative, root) != rank or (relative == 0) != (rank == root):
            raise ContractError(f"{topology.name}: rank {rank} seen from root {root} is {relative} and does not return")
        for port in range(topology.degree):
            if topology.relative(topology.neighbour(rank, port), root) != topology.neighbour(relative, port):
                raise ContractError(f"{topology.name}: seen from root {root}, rank {rank} changes port {port}")
