"""Special properties of single families: huge members, random networks, switches, distances beyond the expected numbers."""

import tracemalloc
from collections import Counter
from itertools import combinations_with_replacement, permutations, product

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.testing import to_networkx
from emunode.topologies.base import SEARCH_LIMIT, breadth_first_distances
from emunode.topologies.finite_fields import FiniteField, prime_power
from emunode.topologies.jellyfish import Links, SplitMix64, random_regular_graph
from emunode.topologies.registry import descriptions, parse_topology

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


@pytest.mark.parametrize(
    "name", ["augmented-cube:6", "folded-hypercube:5", "gaussian:1+3^2", "hyper-petersen:5", "bubble-sort:5"]
)
def test_numbers_by_distance_agree_with_search(name: str) -> None:
    topology = parse_topology(name)
    distances = list(breadth_first_distances(topology, 0))
    assert topology.distribution_from(0) == tuple(distances.count(distance) for distance in range(max(distances) + 1))


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


@pytest.mark.parametrize("name", ["alternating-graph:5", "alternating-network:5"])
def test_nodes_of_alternating_groups_are_the_even_permutations(name: str) -> None:
    def is_even(symbols: tuple[int, ...]) -> bool:
        return sum(one > other for i, one in enumerate(symbols) for other in symbols[i + 1 :]) % 2 == 0

    topology = parse_topology(name)
    even = {"".join(map(str, symbols)) for symbols in permutations(range(1, 6)) if is_even(symbols)}
    assert {topology.label(rank) for rank in topology.ranks()} == even


# Jellyfish.


def drawn_literally(order: int, degree: int, seed: int) -> Links:
    """Return the procedure in its words: every list is made anew for every link."""
    random = SplitMix64(seed)
    while True:
        links = _one_attempt(order, degree, random)
        ends = [(one, other) for link in links for one, other in (link, link[::-1])]
        graph = tuple(tuple(sorted(other for one, other in ends if one == rank)) for rank in range(order))
        reached = {0}
        while grown := {other for rank in reached for other in graph[rank]} - reached:
            reached |= grown
        if links and len(reached) == order:
            return graph


def _one_attempt(order: int, degree: int, random: SplitMix64) -> list[tuple[int, int]]:
    links: list[tuple[int, int]] = []
    linked: list[set[int]] = [set() for _ in range(order)]

    def add(one: int, other: int) -> None:
        links.append((min(one, other), max(one, other)))
        linked[one].add(other)
        linked[other].add(one)

    while len(links) < order * degree // 2:
        free = [rank for rank in range(order) if len(linked[rank]) < degree]
        pairs = [(u, v) for u in free for v in free if u < v and v not in linked[u]]
        if pairs:
            add(*pairs[random.below(len(pairs))])
            continue
        p = free[0]
        q = p if degree - len(linked[p]) >= 2 else free[1]
        candidates = [
            (index, s, t)
            for index, (x, y) in enumerate(links)
            for s, t in ((x, y), (y, x))
            if s not in linked[p] | {p, q} and t not in linked[q] | {p, q}
        ]
        if not candidates:
            return []
        index, s, t = candidates[random.below(len(candidates))]
        links[index] = links[-1]
        del links[-1]
        linked[s].remove(t)
        linked[t].remove(s)
        add(p, s)
        add(q, t)
    return links


def test_random_numbers_are_those_of_splitmix64() -> None:
    random = SplitMix64(0)
    assert [random.next() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    random = SplitMix64(1)
    assert [random.below(10) for _ in range(12)] == [5, 9, 0, 5, 1, 8, 5, 3, 0, 0, 7, 0]


@pytest.mark.parametrize("order", range(3, 12))
def test_counted_pairs_draw_the_same_network_as_listed_ones(order: int) -> None:
    for degree in range(2, order):
        for seed in range(5) if order * degree % 2 == 0 else ():
            assert random_regular_graph(order, degree, seed) == drawn_literally(order, degree, seed)


def test_links_of_a_jellyfish_network() -> None:
    links = "0-3 0-4 0-5 1-2 1-3 1-6 2-7 2-9 3-5 4-7 4-8 5-6 6-9 7-8 8-9"
    topology = parse_topology("jellyfish:10,3,0")
    assert " ".join(f"{one}-{other}" for one, _, other, _ in topology.links()) == links


# Slim Fly.

PRIME_POWERS = {
    4: ([1, 1], 2),
    8: ([1, 1, 0], 2),
    9: ([1, 1], 3),
    16: ([1, 1, 0, 0], 2),
    25: ([3, 1], 5),
    27: ([2, 1, 0], 3),
}
"""For q = p^k: the coefficients of x^k, the constant first, in a field where x is primitive; and p."""


def pairs_below(q: int) -> list[tuple[int, int]]:
    return list(product(range(q), range(q)))


def tables_of_field(q: int) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int], list[int]]:
    """Return sums, products and powers of a primitive element: polynomials multiplied and reduced, no logarithms."""
    if q not in PRIME_POWERS:
        root = next(each for each in range(1, q) if len({each**power % q for power in range(q)}) == q - 1)
        pairs = pairs_below(q)
        powers = [root**power % q for power in range(q - 1)]
        return {(a, b): (a + b) % q for a, b in pairs}, {(a, b): a * b % q for a, b in pairs}, powers
    reduced, p = PRIME_POWERS[q]
    k = len(reduced)
    # The constant of a polynomial is the last digit of its number in base p.
    polynomials = {sum(c * p**at for at, c in enumerate(word)): word for word in product(range(p), repeat=k)}
    number = {word: each for each, word in polynomials.items()}
    sums, products = {}, {}
    for (a, one), (b, other) in product(polynomials.items(), repeat=2):
        sums[a, b] = number[tuple((c + d) % p for c, d in zip(one, other, strict=True))]
        long = [0] * (2 * k - 1)
        for (i, c), (j, d) in product(enumerate(one), enumerate(other)):
            long[i + j] += c * d
        while len(long) > k:
            leading = long.pop()
            for at, c in enumerate(reduced, len(long) - k):
                long[at] += leading * c
        products[a, b] = number[tuple(c % p for c in long)]
    powers = [1]
    for _ in range(q - 2):
        powers.append(products[powers[-1], p])
    return sums, products, powers


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 16, 25, 27])
def test_slim_fly_is_the_graph_of_mckay_miller_and_siran(q: int) -> None:
    sums, products, powers = tables_of_field(q)
    assert sorted(powers) == list(range(1, q))
    delta = {0: 0, 1: 1, 3: -1}[q % 4]
    half = (q + 1) // 2
    exponents = range(0, q - 1, 2) if delta >= 0 else [*range(0, half, 2), *range(half - 1, q - 1, 2)]
    steps = [{powers[(exponent + side) % (q - 1)] for exponent in exponents} for side in range(2)]
    links = {((side, x, y), (side, x, sums[y, s])) for side in range(2) for x, y in pairs_below(q) for s in steps[side]}
    links |= {((0, x, sums[products[m, x], c]), (1, m, c)) for x, m, c in product(range(q), repeat=3)}
    links |= {(other, one) for one, other in links}

    topology = parse_topology(f"slimfly:{q}")
    node = [tuple(map(int, topology.label(rank).split(","))) for rank in topology.ranks()]
    assert {(node[one], node[other]) for one in topology.ranks() for other in topology.neighbours(one)} == links
    assert topology.order == 2 * q * q
    assert (
        {len(set(topology.neighbours(rank))) for rank in topology.ranks()}
        == {topology.degree}
        == {(3 * q - delta) // 2}
    )
    for rank in topology.ranks() if q < 10 else (0, 1, q * q, q * q + q + 2):
        assert all(topology.end(there, port) == (rank, own) for own, there, port in topology.ends(rank))
        distances = breadth_first_distances(topology, rank)
        assert max(distances) == topology.diameter == 2
        assert [topology.distance(rank, other) for other in topology.ranks()] == list(distances)

    # A map that exchanges the sides exists for q = 4w + 1 and for 3. Maps that move the columns make each side one orbit.
    root = powers[1]
    minus = next(each for each in range(q) if sums[each, 1] == 0)
    turned = {
        **{(0, x, y): (1, x, products[root, y]) for x, y in pairs_below(q)},
        **{(1, m, c): (0, products[minus, products[root, m]], products[root, c]) for m, c in pairs_below(q)},
    }
    assert ({(turned[one], turned[other]) for one, other in links} == links) == (delta == 1 or q == 3)


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


@pytest.mark.parametrize(("name", "shorter"), [("dragonfly:4,2", 36), ("dragonfly:3,2", 14), ("dragonfly:4,1", 0)])
def test_two_global_links_may_be_shorter_than_one(name: str, shorter: int) -> None:
    """The number of ordered pairs with three links by local-global-local, but with distance 2."""
    topology = parse_topology(name)
    routers = int(name.partition(":")[2].split(",")[0])

    def one_global_link(rank: int, other: int) -> int:
        group, other_group = rank // routers, other // routers
        gates = (
            (gate, end)
            for gate, _, end, _ in topology.links()
            if {gate // routers, end // routers} == {group, other_group}
        )
        ((gate, end),) = gates
        gate, end = (gate, end) if gate // routers == group else (end, gate)
        return (rank != gate) + 1 + (other != end)

    apart = [
        (one, other) for one in topology.ranks() for other in topology.ranks() if one // routers != other // routers
    ]
    assert sum(topology.distance(*pair) < one_global_link(*pair) for pair in apart) == shorter


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
