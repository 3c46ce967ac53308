"""Topologies: the papers' examples, then closed forms against networkx and golden numbers."""

import itertools
from fractions import Fraction
from math import factorial

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.testing import to_networkx
from emunode.topologies.base import MAX_ORDER, breadth_first_distances, knows
from emunode.topologies.eisenstein_jacobi import UNITS, EisensteinJacobi, hexw, sector_of
from emunode.topologies.hypercube import LARGEST_N, Hypercube
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from tests.helpers.support import golden_rows

ALPHAS = [(a, b) for b in range(9) for a in range(b + 1) if a * a + a * b + b * b >= 7]
REPEATABLE = settings(derandomize=True, deadline=None, database=None)


# The papers' examples.


def test_translation_of_the_star_paper() -> None:
    star = StarGraph(3)
    assert star.label(star.absolute(star.rank("213"), star.rank("312"))) == "132"


def test_distance_of_a_permutation_with_two_cycles() -> None:
    star = StarGraph(6)
    assert star.weight(star.rank("341526")) == 5  # (1 3)(2 4 5): c + s - 2


@pytest.mark.parametrize(("one", "other"), [((3, 1), (0, -3)), ((4, 0), (-3, 3)), ((4, -1), (-3, 2))])
def test_congruences_of_the_eisenstein_jacobi_paper(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Example 2.1: 3 + rho = -3 rho, 4 = 3 rho^2 and 3 - rho^2 = -1 + 2 rho^2 modulo 3 + 4 rho."""
    network = EisensteinJacobi(3, 4)
    assert network.index(*one) == network.index(*other)


def test_hypercube_is_that_of_networkx() -> None:
    expected = networkx.hypercube_graph(5)
    cube = Hypercube(5)
    edges = {frozenset(tuple(map(int, cube.label(end))) for end in edge) for edge in to_networkx(cube).edges}
    assert edges == {frozenset(edge) for edge in expected.edges}


def test_the_smallest_hypercube_has_two_dimensions() -> None:
    with pytest.raises(ScenarioError, match="n >= 2"):
        Hypercube(1)


@pytest.mark.parametrize("a", range(1, 8))
def test_dense_eisenstein_jacobi_networks_are_circulant(a: int) -> None:
    """For b = a + 1 the indices are those of the circulant graph C_N(1, 3a+1, 3a+2)."""
    network = EisensteinJacobi(a, a + 1)
    expected = networkx.circulant_graph(network.order, [1, 3 * a + 1, 3 * a + 2])
    assert {frozenset(edge) for edge in to_networkx(network).edges} == {frozenset(edge) for edge in expected.edges}


# The star graph.


@pytest.mark.parametrize("n", [3, 4, 5])
def test_star_ranks_are_lexicographic_from_the_last_position(n: int) -> None:
    star = StarGraph(n)
    mirrored = sorted(itertools.permutations(range(1, n + 1)))
    for rank, symbols in enumerate(mirrored):
        permutation = bytes(n + 1 - symbol for symbol in reversed(symbols))
        assert star.rank_of(permutation) == rank
        assert star.permutation(rank) == permutation
    assert star.permutation(0) == star.identity


@pytest.mark.parametrize(
    ("name", "degree", "diameter"), [("star:12", 11, 16), ("hypercube:40", 40, 40), ("ej:1000+1001", 6, 1000)]
)
def test_large_networks_state_figures_without_a_search(name: str, degree: int, diameter: int) -> None:
    network = parse_topology(name)
    assert knows(network, "bipartite") or name.startswith("ej:")
    assert (knows(network, "diameter"), network.degree, network.diameter) == (True, degree, diameter)


def test_the_largest_hypercube_has_an_address_for_every_node() -> None:
    assert Hypercube(LARGEST_N).order == 2**LARGEST_N <= MAX_ORDER
    with pytest.raises(ScenarioError, match=f"n is at most {LARGEST_N}"):
        Hypercube(LARGEST_N + 1)


def test_star_distribution_is_golden() -> None:
    rows = golden_rows("star", "distance_distribution")
    for n in range(3, 8):
        counts = tuple(int(row["nodes"]) for row in rows if row["n"] == str(n))
        assert StarGraph(n).distance_distribution() == counts


@pytest.mark.parametrize("n", range(3, 21))
def test_star_distances_sum_to_the_formula(n: int) -> None:
    """n! (n + 2/n + H_n - 4), Akers, Harel and Krishnamurthy."""
    counts = StarGraph(n).distance_distribution()
    harmonic = sum(Fraction(1, i) for i in range(1, n + 1))
    assert sum(counts) == factorial(n)
    assert sum(d * count for d, count in enumerate(counts)) == factorial(n) * (n + Fraction(2, n) + harmonic - 4)


@pytest.mark.parametrize("impossible", [-1, 24, 10**9])
def test_star_refuses_impossible_ranks(impossible: int) -> None:
    with pytest.raises(ValueError, match="no rank"):
        StarGraph(4).permutation(impossible)


@pytest.mark.parametrize("impossible", [b"", b"\1\2\3", b"\1\2\3\3", b"\0\1\2\3", b"\1\2\3\4\5", b"1234"])
def test_star_refuses_impossible_permutations(impossible: bytes) -> None:
    with pytest.raises(ValueError, match=r"symbols|permutation"):
        StarGraph(4).rank_of(impossible)


# Eisenstein-Jacobi networks.


def test_networks_are_golden() -> None:
    rows = [row for row in golden_rows("ej", "networks") if int(row["N"]) >= 7]
    assert len(rows) > 80
    for row in rows:
        network = EisensteinJacobi(int(row["a"]), int(row["b"]))
        assert network.modulus == int(row["N"])
        assert network.diameter == int(row["diameter_bfs"])
        assert f"{float(network.average_distance):.6f}" == row["avg_distance_nonzero"]
        shift, rows_of_indices = int(row["index_s"]), int(row["index_d"])
        assert network.index(shift, rows_of_indices) == 0
        assert network.index(1, 0) == 1


def test_distribution_is_golden() -> None:
    counts: dict[tuple[int, int], list[int]] = {}
    for row in golden_rows("ej", "distance_distribution"):
        counts.setdefault((int(row["a"]), int(row["b"])), []).append(int(row["W_bfs"]))
    for (a, b), expected in counts.items():
        if a * a + a * b + b * b >= 7:
            assert EisensteinJacobi(a, b).distance_distribution() == tuple(expected)


def test_small_examples_are_every_alpha_up_to_six() -> None:
    of_one_dimension = [name for name in EisensteinJacobi.small_examples if "^" not in name]
    assert sorted(of_one_dimension) == sorted(f"ej:{a}+{b}" for a, b in ALPHAS if b <= 6)


@pytest.mark.parametrize(("a", "b"), ALPHAS)
def test_canonical_labels_are_shortest_and_closed(a: int, b: int) -> None:
    network = EisensteinJacobi(a, b)
    distances = breadth_first_distances(network, 0)
    for index in network.ranks():
        x, y = network.coordinates(index)
        assert network.index(x, y) == index
        assert hexw(x, y) == distances[index]
        if index:
            j, p, q = network.sector(index)
            major, minor = UNITS[j % 6], UNITS[j - 1]
            assert (x, y) == (p * major[0] + q * minor[0], p * major[1] + q * minor[1])
            for unit, count in ((major, p), (minor, q)):
                predecessor = (x - unit[0], y - unit[1])
                assert not count or network.canon(*predecessor) == predecessor


@given(st.tuples(st.integers(0, 40), st.integers(3, 40)).map(sorted), st.integers(-500, 500), st.integers(-500, 500))
@REPEATABLE
def test_canonical_pair_is_the_best_of_many(alpha: list[int], x: int, y: int) -> None:
    a, b = alpha
    network = EisensteinJacobi(a, b)
    best = network.canon(x, y)
    assert network.index(*best) == network.index(x, y)
    around = [(best[0] + u * a - v * b, best[1] + v * a + u * b + v * b) for u in range(-3, 4) for v in range(-3, 4)]
    assert best == max(around, key=lambda pair: (-hexw(*pair), pair))


@pytest.mark.parametrize("k", range(6))
def test_axis_belongs_to_its_sector(k: int) -> None:
    x, y = UNITS[k]
    assert sector_of(4 * x, 4 * y) == (k or 6, 4, 0)


def test_zero_lies_in_no_sector() -> None:
    with pytest.raises(ValueError, match="sector"):
        EisensteinJacobi(3, 4).sector(0)


def test_dimensions_are_counted_from_the_right_of_a_label() -> None:
    network = parse_topology("ej:3+4^3")
    rank = network.rank("1,-2/0,0/0,3")
    assert isinstance(network, EisensteinJacobi)
    assert [network.coordinates(index) for index in network.digits(rank)] == [(0, 3), (0, 0), (1, -2)]
    assert network.label(network.neighbour(0, 6 * 1 + 2)) == "0,0/-1,1/0,0"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("star:4", "permutation star graph S_4"),
        ("hypercube:5", "hypercube Q_5"),
        ("ej:1+2", "Eisenstein-Jacobi network EJ_{1+2rho}"),
        ("ej:1+2^2", "Eisenstein-Jacobi network EJ_{1+2rho}^(2)"),
        ("ej:1+2^3", "Eisenstein-Jacobi network EJ_{1+2rho}^(3)"),
    ],
)
def test_titles_of_families_with_their_dimensions(name: str, title: str) -> None:
    assert parse_topology(name).title == title


@pytest.mark.parametrize("name", ["pancake:8", "petersen:600000,2", "circulant:2000000:1,7", "ccc:4"])
def test_a_known_diameter_does_not_depend_on_earlier_searches(name: str) -> None:
    fresh, searched = parse_topology(name), parse_topology(name)
    known = fresh.known_diameter
    if searched.order < 1000:
        assert searched.diameter == known
    else:
        searched.__dict__["_searched_diameter"] = 99  # as a search would leave it
    assert searched.known_diameter == known


def test_views_know_the_diameter_that_the_network_knows() -> None:
    network = parse_topology("petersen:7,2")
    assert network.seen_from(3).known_diameter == network.known_diameter == 3
