"""Every family against expected numbers, computed from the definitions by a separate program."""

from itertools import combinations

import networkx
import pytest

from emunode.testing import to_networkx
from emunode.topologies.base import CayleyTopology, Topology, VertexTransitiveTopology
from emunode.topologies.digest import links_sha256, network_sha256
from emunode.topologies.registry import descriptions, parse_topology
from tests.helpers.support import golden_rows

ROWS = {row["topology"]: row for row in golden_rows("networks", "networks")}


def yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def reverse_port_depends_on_the_port_alone(topology: Topology) -> bool:
    """Return whether a port leads to the same port number at every rank that has it."""
    reverse: dict[int, set[int]] = {}
    for rank in topology.ranks():
        for port, _, its_port in topology.ends(rank):
            reverse.setdefault(port, set()).add(its_port)
    return all(len(ports) == 1 for ports in reverse.values())


def test_every_family_has_expected_numbers() -> None:
    assert {name.partition(":")[0] for name in ROWS} == {family.family for family in descriptions()}
    assert len(ROWS) == 167


@pytest.mark.parametrize("name", ROWS)
def test_network_is_golden(name: str) -> None:
    topology, row = parse_topology(name), ROWS[name]
    degrees = [len(topology.ports(rank)) for rank in topology.ranks()]
    found = {
        "topology": topology.name,
        "order": str(topology.order),
        "degree_min": str(min(degrees)),
        "degree_max": str(max(degrees)),
        "links": str(topology.link_count),
        "diameter": str(topology.diameter),
        "distances_from_rank_0": " ".join(map(str, topology.distribution_from(0))),
        "bipartite": yes_or_no(topology.bipartite),
        "cayley": "yes" if isinstance(topology, CayleyTopology) else "",
        "reverse_port_rank_free": yes_or_no(reverse_port_depends_on_the_port_alone(topology)),
        "links_sha256": links_sha256(topology),
        "network_sha256": network_sha256(topology),
    }
    assert found == {column: row[column] for column in found}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "row", golden_rows("networks", "neighbours"), ids=lambda row: f"{row['topology']}-{row['rank']}"
)
def test_neighbours_are_golden(row: dict[str, str]) -> None:
    topology, rank = parse_topology(row["topology"]), int(row["rank"])
    neighbours, reverse_ports = (row[column].split() for column in ("neighbours", "reverse_ports"))
    expected = [
        (port, int(neighbour), int(its_port))
        for port, (neighbour, its_port) in enumerate(zip(neighbours, reverse_ports, strict=True))
        if neighbour != "-"
    ]
    labels = [topology.label(neighbour) for _, neighbour in topology.adjacent(rank)]
    assert list(topology.ends(rank)) == expected
    assert topology.label(rank) == row["label"]
    assert labels == [label for label in row["neighbour_labels"].split() if label != "-"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", ROWS)
def test_stated_connectivity_is_golden(name: str) -> None:
    connectivity, kappa = parse_topology(name).connectivity, ROWS[name]["kappa"]
    assert connectivity is None or not kappa or connectivity == int(kappa)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", ROWS)
def test_only_vertex_transitive_networks_are_called_so(name: str) -> None:
    transitive = isinstance(parse_topology(name), VertexTransitiveTopology)
    assert ROWS[name]["vertex_orbits"] in {"1", ""} or not transitive


# Isomorphisms, and families that contain others.

DIFFERENT = {"crossed-cube:4", "locally-twisted-cube:4", "moebius-cube:4,1", "hypercube:4"}
"""Four-dimensional variants of the hypercube; no two are isomorphic."""


@pytest.mark.parametrize("row", golden_rows("networks", "families", relation="equal"), ids=lambda row: row["networks"])
def test_uniform_definitions_give_the_same_numbered_network(row: dict[str, str]) -> None:
    assert len({links_sha256(parse_topology(name)) for name in row["networks"].split()}) == 1


@pytest.mark.parametrize(
    "row", golden_rows("networks", "families", relation="isomorphic"), ids=lambda row: row["networks"]
)
def test_isomorphic_networks(row: dict[str, str]) -> None:
    graphs = [to_networkx(parse_topology(name)) for name in row["networks"].split()]
    assert all(networkx.is_isomorphic(graphs[0], other) for other in graphs[1:])


def test_variants_of_the_hypercube_differ() -> None:
    graphs = {name: to_networkx(parse_topology(name)) for name in DIFFERENT}
    assert not any(networkx.is_isomorphic(graphs[one], graphs[other]) for one, other in combinations(sorted(graphs), 2))


def test_slim_fly_of_five_is_the_hoffman_singleton_graph() -> None:
    assert networkx.is_isomorphic(to_networkx(parse_topology("slimfly:5")), networkx.hoffman_singleton_graph())


def test_petersen_graph_is_that_of_networkx() -> None:
    assert networkx.is_isomorphic(to_networkx(parse_topology("petersen:5,2")), networkx.petersen_graph())


# Digests.


def test_digest_depends_on_labels_only_if_they_are_asked_for() -> None:
    cube, other_labels = parse_topology("hypercube:3"), parse_topology("hamming:2x2x2")
    assert links_sha256(cube) == links_sha256(other_labels)
    assert network_sha256(cube) != network_sha256(other_labels)
