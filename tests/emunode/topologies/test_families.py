"""Special properties of single families: huge members, random networks, switches, distances beyond the expected numbers."""

import tracemalloc
from collections import Counter
from itertools import combinations_with_replacement

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.testing import to_networkx
from emunode.topologies.base import SEARCH_LIMIT, breadth_first_distances
from emunode.topologies.digest import links_sha256
from emunode.topologies.jellyfish import SplitMix64, random_regular_graph
from emunode.topologies.registry import descriptions, parse_topology
from emunode.topologies.slim_fly import FiniteField, prime_power
from tests.helpers.support import golden_rows

REPEATABLE = settings(derandomize=True, deadline=None, database=None)

HUGE = [
    *("pancake:20", "burnt-pancake:16", "bubble-sort:20", "modified-bubble-sort:20", "transposition:20"),
    *("transposition-tree:1-2,2-3,2-4,4-5,5-6,5-7,7-8,8-9,9-10,10-11,11-12", "alternating-graph:20"),
    *("alternating-network:20", "ring:999999999", "torus:1000x1000x1000", "torus:3037000499x3037000499"),
    *("circulant:9000000000000000000:1,3037000499", "gaussian:2000000000+2000000001", "gaussian:1+2^27"),
    *("twisted-torus:1000000000x1000000000:500000000", "complete:999999999", "hamming:1000x1000x1000x1000"),
    *("xor:40:" + ",".join(str(1 << bit) for bit in range(40)), "folded-hypercube:62", "augmented-cube:62"),
    *("balanced-hypercube:31", "ccc:57", "butterfly:57", "crossed-cube:62", "locally-twisted-cube:62"),
    *("moebius-cube:62,1", "twisted-cube:61", "mesh:3037000499x3037000499", "nk-star:1000000,3", "nk-star:20,19"),
    *("arrangement:1000000,3", "debruijn:2,62", "debruijn:30,12", "kautz:2,62", "petersen:4000000000000000000,7"),
    *(
        "hyper-petersen:62",
        "dragonfly:1000000,1000",
        "slimfly:9973",
        "slimfly:8192",
        "fat-tree:3000000",
        "dragonfly:1000000,1000,1000",
    ),
]


def test_every_family_without_a_table_has_a_huge_member() -> None:
    tested = {name.partition(":")[0] for name in HUGE}
    assert {family.family for family in descriptions()} - tested == {"star", "hypercube", "ej", "jellyfish"}


@pytest.mark.parametrize("name", HUGE, ids=lambda name: name[:30])
def test_huge_network_answers_for_one_rank_without_a_table(name: str) -> None:
    tracemalloc.start()
    try:
        topology = parse_topology(name)
        for rank in (0, topology.order // 3, topology.order - 1):
            for port in (topology.ports(rank)[0], topology.ports(rank)[-1]):
                there, its_port = topology.end(rank, port)
                assert there == topology.neighbour(rank, port)
                assert topology.end(there, its_port) == (rank, port)
            assert topology.rank(topology.label(rank)) == rank
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert topology.name == name
    assert topology.order > SEARCH_LIMIT
    assert peak < 1 << 21


def test_numbers_by_distance_need_a_formula_or_a_small_network() -> None:
    assert sum(parse_topology("augmented-cube:40").distribution_from(0)) == 2**40
    with pytest.raises(ScenarioError, match="no formula for the numbers of nodes by distance"):
        parse_topology("ccc:40").distribution_from(0)
    with pytest.raises(ScenarioError, match="no distance formula"):
        parse_topology("pancake:12").distance(0, 1)


def test_facts_of_a_huge_network_are_immediate() -> None:
    facts = parse_topology("torus:1000x1000x1000").facts()
    assert (facts["diameter"], facts["average_distance"]) == (1500, pytest.approx(750, abs=1e-5))
    assert parse_topology("ccc:40").facts()["average_distance"] is None
    assert parse_topology("mesh:100x100x100").facts()["average_distance"] == pytest.approx(99.99, abs=1e-3)
    assert parse_topology("pancake:20").facts()["diameter"] is None


# Gaussian networks.


@given(st.tuples(st.integers(0, 12), st.integers(2, 12)).map(sorted).filter(lambda pair: pair[1] > 1))
@REPEATABLE
def test_gaussian_distances_agree_with_search(alpha: list[int]) -> None:
    a, b = alpha
    if a * a + b * b < 5:
        return
    network = parse_topology(f"gaussian:{a}+{b}")
    distances = breadth_first_distances(network, 0)
    assert [network.weight(rank) for rank in network.ranks()] == list(distances)
    assert network.diameter == max(distances)
    assert sum(network.distribution_from(0)) == network.order


@given(st.integers(3, 12), st.integers(3, 7), st.integers(0, 11))
@REPEATABLE
def test_twisted_torus_distances_agree_with_search(columns: int, rows: int, twist: int) -> None:
    network = parse_topology(f"twisted-torus:{columns}x{rows}:{twist % columns}")
    assert [network.weight(rank) for rank in network.ranks()] == list(breadth_first_distances(network, 0))


# Permutation groups.


# Jellyfish.


def test_random_numbers_are_those_of_splitmix64() -> None:
    random = SplitMix64(0)
    assert [random.next() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    random = SplitMix64(1)
    assert [random.below(10) for _ in range(12)] == [5, 9, 0, 5, 1, 8, 5, 3, 0, 0, 7, 0]


def test_random_networks_are_those_of_the_literal_procedure() -> None:
    """The golden file has the networks that another program draws, which lists all pairs anew for every link."""
    for row in golden_rows("networks", "jellyfish"):
        expected = tuple(tuple(map(int, each.split(","))) for each in row["neighbours"].split())
        assert random_regular_graph(int(row["order"]), int(row["degree"]), int(row["seed"])) == expected


# Slim Fly.


@pytest.mark.parametrize("row", golden_rows("networks", "slimfly"), ids=lambda row: row["q"])
def test_slim_fly_is_the_graph_of_mckay_miller_and_siran(row: dict[str, str]) -> None:
    """Its links are those of the definition, in fields whose elements are polynomials, multiplied without logarithms."""
    q = int(row["q"])
    topology = parse_topology(f"slimfly:{q}")
    assert links_sha256(topology) == row["links_sha256"]
    assert (topology.order, topology.degree) == (2 * q * q, (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2)
    for rank in topology.ranks() if q < 10 else (0, 1, q * q, q * q + q + 2):
        distances = breadth_first_distances(topology, rank)
        assert max(distances) == topology.diameter == 2
        assert [topology.distance(rank, other) for other in topology.ranks()] == list(distances)


def test_fields_have_prime_powers_of_elements() -> None:
    powers = {p**k: (p, k) for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29) for k in range(1, 5) if p**k < 31}
    assert {number: prime_power(number) for number in range(31)} == {number: powers.get(number) for number in range(31)}
    with pytest.raises(ValueError, match="no field has 6 elements"):
        FiniteField(6, 1)


# Dragonfly, fat tree.


@pytest.mark.parametrize(
    ("a", "h", "between", "diameter"),
    [(4, 2, 1, 3), (4, 2, 2, 3), (4, 2, 4, 2), (2, 1, 2, 2), (6, 3, 2, 3), (6, 2, 3, 3), (4, 3, 3, 3), (5, 3, 5, 2)],
)
def test_dragonfly_has_as_many_links_between_any_two_groups(a: int, h: int, between: int, diameter: int) -> None:
    topology = parse_topology(f"dragonfly:{a},{h},{between}")
    graph = to_networkx(topology)
    groups = a * h // between + 1
    assert topology.name == f"dragonfly:{a},{h}" + (f",{between}" if between > 1 else "")
    assert topology.order == len(graph) == a * groups
    assert {degree for _, degree in graph.degree} == {a - 1 + h} == {topology.degree}
    pairs = Counter(tuple(sorted((one // a, other // a))) for one, other in graph.edges)
    assert pairs == {
        (one, other): between if one < other else a * (a - 1) // 2
        for one, other in combinations_with_replacement(range(groups), 2)
    }
    assert topology.diameter == networkx.diameter(graph) == diameter
    for root, distances in networkx.all_pairs_shortest_path_length(graph):
        assert all(topology.distance(root, other) == length for other, length in distances.items())
        assert all(topology.end(there, port) == (root, own) for own, there, port in topology.ends(root))


def test_switches_of_a_fat_tree() -> None:
    topology = parse_topology("fat-tree:4")
    switches = [topology.label(rank) for rank in topology.ranks() if topology.is_switch(rank)]
    assert len(switches) == 20
    assert {label[0] for label in switches} == {"e", "a", "c"}
    assert [topology.label(rank) for rank in range(3)] == ["h0/0/0", "h0/0/1", "h0/1/0"]


@pytest.mark.parametrize("k", [2, 4, 6])
def test_fat_tree_distances_agree_with_search(k: int) -> None:
    topology = parse_topology(f"fat-tree:{k}")
    for root in topology.ranks():
        distances = breadth_first_distances(topology, root)
        assert [topology.distance(rank, root) for rank in topology.ranks()] == list(distances)
        assert topology.eccentricity(root) == max(distances)
