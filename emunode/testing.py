"""Conformance suites for topologies, spanning trees and algorithms: the properties that the rest of the software relies on.

`check_topology` and `check_trees` look at every rank: use them on small networks. `check_topology_at` and `check_trees_at`
look at one rank of a network of any size. Every check raises a ContractError that names the first rank to break a
promise. In a test file of a plug-in:

    @pytest.mark.parametrize("name", Torus.small_examples)
    def test_torus(name: str) -> None:
        check_topology(parse_topology(name))

`check_algorithm` runs an algorithm under every port model; `check_locality` holds that its rules depend on nothing but what
a rank may know.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emunode.algorithms.conformance import check_algorithm as check_algorithm  # noqa: PLC0414  # part of this module
from emunode.errors import ContractError
from emunode.locality import check_locality as check_locality  # noqa: PLC0414  # part of this module
from emunode.model import Rank
from emunode.topologies.base import ABSENT, CayleyTopology, Topology, breadth_first_distances
from emunode.trees.base import Trees, levels

if TYPE_CHECKING:
    import networkx

# --- topologies ------------------------------------------------------------------------------------------------------


def check_topology(topology: Topology) -> None:
    """Check every answer of `topology` against its links: O(order^2 degree)."""
    _check_name(topology)
    for rank in topology.ranks():
        _check_label(topology, rank)
        _check_links_at(topology, rank)
    neighbours = [topology.neighbours(rank) for rank in topology.ranks()]
    for root in topology.ranks():
        # The view of a rank needs the addresses of its neighbours too.
        address = [topology.relative(rank, root) for rank in topology.ranks()].__getitem__
        for rank in topology.ranks():
            _check_view(topology, rank, root, neighbours[rank], address)
    _check_distances(topology)


def check_topology_at(topology: Topology, rank: Rank, root: Rank) -> None:
    """Check the answers of `topology` that concern `rank`, its links, and its address and distance seen from `root`."""
    _check_name(topology)
    _check_label(topology, rank)
    _check_links_at(topology, rank)
    _check_view(topology, rank, root, topology.neighbours(rank), lambda each: topology.relative(each, root))
    distance = topology.distance(rank, root)
    if distance != topology.distance(root, rank) or not 0 <= distance <= topology.eccentricity(root):
        raise ContractError(f"{topology.name}: wrong distance {distance} between ranks {rank} and {root}")
    for _, neighbour in topology.adjacent(rank):
        if topology.distance(rank, neighbour) != 1 or abs(topology.distance(neighbour, root) - distance) > 1:
            raise ContractError(
                f"{topology.name}: ranks {rank} and {neighbour} are neighbours, but their distances say otherwise"
            )


def _check_name(topology: Topology) -> None:
    """Require that the name leads back to an equal network of the same family."""
    if not topology.defined_by_name:
        return
    family, _, parameters = topology.name.partition(":")
    again = topology.parse(parameters)
    # A scenario stores the name and a host parses it: it has to lead back to the same network.
    if family != topology.family or (again.name, again.order) != (topology.name, topology.order):
        raise ContractError(f"{topology.name}: parsing its name gives {again.name} of {again.order} ranks")


def _check_label(topology: Topology, rank: Rank) -> None:
    """Require that the label leads back to the rank."""
    label = topology.label(rank)
    if topology.rank(label) != rank:
        raise ContractError(f"{topology.name}: label {label!r} does not lead back to rank {rank}")


def _check_links_at(topology: Topology, rank: Rank) -> None:
    """Require different neighbours at the ports that `rank` has; the other end of each link names this end."""
    neighbours = topology.neighbours(rank)
    # A set: no link may lead back to the rank itself, and no two to the same neighbour.
    present = [neighbour for neighbour in neighbours if neighbour != ABSENT]
    if len(neighbours) != topology.degree or (isinstance(topology, CayleyTopology) and ABSENT in neighbours):
        raise ContractError(f"{topology.name}: rank {rank} needs {topology.degree} neighbours, but has {neighbours}")
    if len(set(present) - {rank}) != len(present) or not all(0 <= other < topology.order for other in present):
        raise ContractError(
            f"{topology.name}: rank {rank} is linked to itself, twice to a rank, or to none: {neighbours}"
        )
    if list(topology.ports(rank)) != [port for port, _ in topology.adjacent(rank)]:
        raise ContractError(
            f"{topology.name}: rank {rank} has ports {topology.ports(rank)} and neighbours {neighbours}"
        )
    for port, neighbour in topology.adjacent(rank):
        there, its_port = topology.end(rank, port)
        if there != neighbour or topology.end(there, its_port) != (rank, port):
            raise ContractError(f"{topology.name}: port {port} of rank {rank} does not lead back")


def _check_view(
    topology: Topology, rank: Rank, root: Rank, neighbours: Sequence[Rank], address: Callable[[Rank], Rank]
) -> None:
    """Require that `relative` and `absolute` are inverse, carry the root to 0, and keep every port of `rank` in
    `seen_from(root)`; `address` is `relative` to the root.
    """
    view = topology.seen_from(root)
    relative = address(rank)
    if topology.absolute(relative, root) != rank or (relative == 0) != (rank == root):
        raise ContractError(
            f"{topology.name}: seen from root {root}, rank {rank} is {relative}, and absolute() does not lead back"
        )
        # The translation has to keep ports, or one local rule could not serve every root.
    for port, neighbour in enumerate(neighbours):
        seen = ABSENT if neighbour == ABSENT else address(neighbour)
        if view.neighbour(relative, port) != seen:
            raise ContractError(f"{topology.name}: seen from root {root}, rank {rank} changes port {port}")


def _check_distances(topology: Topology) -> None:
    """Require the distances, their distribution, the diameter and `bipartite` of breadth-first searches."""
    largest = 0
    # One root stands for all of a Cayley graph, since translations keep links.
    for root in [0] if isinstance(topology, CayleyTopology) else topology.ranks():
        distances = breadth_first_distances(topology, root)
        view = topology.seen_from(root)
        for rank, expected in enumerate(distances):
            found = view.weight(topology.relative(rank, root)), topology.distance(rank, root)
            if found != (expected, expected):
                raise ContractError(
                    f"{topology.name}: rank {rank} has weight and distance {found} seen from {root}, expected {expected}"
                )
        counts = Counter(distances)
        if topology.distribution_from(root) != tuple(counts[distance] for distance in range(max(distances) + 1)):
            raise ContractError(f"{topology.name}: wrong distance distribution {topology.distribution_from(root)}")
        if topology.eccentricity(root) != max(distances):
            raise ContractError(f"{topology.name}: eccentricity of {root} is {topology.eccentricity(root)}")
        largest = max(largest, *distances)
    if largest != topology.diameter:
        raise ContractError(f"{topology.name}: diameter is {topology.diameter}, expected {largest}")
    distances = breadth_first_distances(topology, 0)
    # Two neighbours at distances of the same parity close an odd cycle.
    odd_cycle = any((distances[one] - distances[other]) % 2 == 0 for one, _, other, _ in topology.links())
    if topology.bipartite == odd_cycle:
        raise ContractError(f"{topology.name}: bipartite is {topology.bipartite}, expected {not odd_cycle}")
    if topology.link_count != sum(1 for _ in topology.links()):
        raise ContractError(f"{topology.name}: link_count is {topology.link_count}")


def to_networkx(topology: Topology) -> "networkx.Graph[Rank]":
    """Return the network as an undirected networkx graph of its ranks, for comparison with an independent
    implementation.

    Nodes carry `label`; links carry `lower_port` and `upper_port`, the ports at the ends of lower and of higher rank.
    """
    import networkx  # noqa: PLC0415  # most checks run without it, and it takes a quarter of a second to import

    graph: networkx.Graph[Rank] = networkx.Graph(name=topology.name)
    graph.add_nodes_from((rank, {"label": topology.label(rank)}) for rank in topology.ranks())
    graph.add_edges_from(
        (rank, neighbour, {"lower_port": port, "upper_port": reverse})
        for rank, port, neighbour, reverse in topology.links()
    )
    return graph


# --- trees -----------------------------------------------------------------------------------------------------------


def check_trees(trees: Trees) -> None:
    """Check that every tree spans the network without a cycle, and that every closed form agrees with the parents.

    Walks `count` whole trees.
    """
    topology = trees.topology
    for tree in range(trees.count):
        where = f"tree {tree} of {topology.name}"
        found = levels(trees, tree)
        if len(found) != topology.order:
            raise ContractError(f"{where} spans {len(found)} of {topology.order} ranks")
        for rank, level in found.items():
            # `levels` has visited every rank, so each is checked from above and from below.
            check_trees_at(trees, rank, tree)
            if trees.level(rank, tree) != level or len(trees.route(rank, tree)) != level:
                raise ContractError(
                    f"{where}: {topology.label(rank)} is on level {level}, not {trees.level(rank, tree)}"
                )
            if trees.shortest and level != topology.weight(rank):
                raise ContractError(f"{where}: the path to {topology.label(rank)} is not a shortest one")
        if trees.height(tree) != max(found.values()):
            raise ContractError(f"{where} has height {max(found.values())}, not {trees.height(tree)}")


def check_trees_at(trees: Trees, rank: Rank, tree: int) -> None:
    """Check that the parent and the children of `rank` in `tree` agree with the rules of its neighbours."""
    topology = trees.topology
    where = f"tree {tree} of {topology.name}: {topology.label(rank)}"
    if rank:
        port = trees.parent(rank, tree)
        above, its_port = topology.end(rank, port)
        if its_port not in trees.children(above, tree):
            raise ContractError(f"{where} is not a child of its parent")
    elif _has_parent(trees, rank, tree):
        raise ContractError(f"{where}, the root, has a parent")
    # Called on the base class: the neighbours' parents are the definition, the closed form the claim.
    if tuple(sorted(trees.children(rank, tree))) != Trees.child_ports(trees, rank, tree):
        raise ContractError(f"{where} has other children than the neighbours whose parent it is")


def _has_parent(trees: Trees, rank: Rank, tree: int) -> bool:
    try:
        trees.parent(rank, tree)
    except ValueError:
        return False
    return True
