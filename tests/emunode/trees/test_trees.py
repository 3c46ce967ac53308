"""Spanning trees: the papers' examples, golden parents, and the same checks on every tree of every family."""

import csv
from collections import Counter
from math import comb
from pathlib import Path

import pytest

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, levels
from emunode.trees.eisenstein_jacobi.sectors import SectorTree, improved_broadcast
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.star.greedy import GreedyTree

GOLDEN = Path(__file__).parents[2] / "golden"


def golden(family: str, name: str) -> list[dict[str, str]]:
    """The rows of one file of expected numbers."""
    with (GOLDEN / family / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def step_counts(tree: Trees) -> list[tuple[int, int]]:
    """(senders, receivers) of each step of a broadcast in which everybody passes on all at once, from step 1."""
    found = levels(tree, 0)
    receivers = Counter(found.values())
    senders = Counter(level for rank, level in found.items() if tree.children(rank, 0))
    return [(senders[step - 1], receivers[step]) for step in range(1, max(receivers) + 1)]


# The papers' examples.


def test_two_dimensional_example_of_the_improved_broadcast() -> None:
    """Hussain, worked example: EJ_{2+3rho}^(2)."""
    tree = SectorTree(EisensteinJacobi(2, 3, 2))
    assert step_counts(tree) == [(1, 12), (12, 60), (48, 144), (72, 144)]
    rows = [row for row in golden("ej", "worked_example_EJ2+3rho_2D") if row["algorithm"] == "improved"]
    for row in rows:
        assert step_counts(tree)[int(row["step"]) - 1] == (int(row["sending"]), int(row["receiving"]))


def test_table_2_of_the_improved_broadcast() -> None:
    """Hussain, table 2: EJ_{3+4rho}^(3), 50,653 nodes."""
    tree = SectorTree(EisensteinJacobi(3, 4, 3))
    counts = step_counts(tree)
    rows = [row for row in golden("ej", "table2_improved_EJ3+4rho_3D") if row["step"]]
    assert len(counts) == 9
    assert len(rows) == 18
    for row in rows:
        assert counts[int(row["step"]) - 1] == (int(row["sending"]), int(row["receiving"]))


@pytest.mark.parametrize("dimensions", [1, 2])
def test_table_3_of_the_improved_broadcast(dimensions: int) -> None:
    rows = [row for row in golden("ej", "table3_total_senders_EJ3+4rho") if row["n"] == str(dimensions)]
    total = sum(senders for senders, _ in step_counts(SectorTree(EisensteinJacobi(3, 4, dimensions))))
    assert {int(row["improved_total_senders"]) for row in rows} == {total}


@pytest.mark.parametrize("n", range(2, 8))
def test_binomial_tree_edges_by_level_and_dimension(n: int) -> None:
    """Johnsson and Ho, lemma 3.17: C(d, l) edges of dimension d leave level l; root port d leads to 2^(n-d-1)."""
    tree = BinomialTree(Hypercube(n))
    found = levels(tree, 0)
    edges = Counter((level, port) for rank, level in found.items() for port in tree.children(rank, 0))
    assert edges == Counter({(level, d): comb(d, level) for d in range(n) for level in range(d + 1)})
    subtrees = Counter(tree.route(rank, 0)[0] for rank in found if rank)
    assert subtrees == Counter({d: 2 ** (n - d - 1) for d in range(n)})


# Golden parents.


@pytest.mark.parametrize("n", [3, 4])
def test_greedy_tree_is_golden(n: int) -> None:
    star = StarGraph(n)
    tree = GreedyTree(star)
    rows = [row for row in golden("star", f"trees_n{n}") if row["tree"] == "L" and row["parent"]]
    assert len(rows) == star.order - 1
    for row in rows:
        port = tree.parent(star.rank(row["node"]), 0)
        assert port == int(row["link_type"]) - 2
        assert star.label(star.neighbour(star.rank(row["node"]), port)) == row["parent"]


def test_binomial_tree_is_golden() -> None:
    rows = [row for row in golden("hypercube", "tree_parents_s0") if row["graph"] == "SBT" and row["parent"]]
    assert len(rows) == 4 - 1 + 8 - 1 + 16 - 1 + 32 - 1
    for row in rows:
        cube = Hypercube(int(row["n"]))
        tree = BinomialTree(cube)
        rank = int(row["node"])
        assert cube.neighbour(rank, tree.parent(rank, 0)) == int(row["parent"])
        assert tree.level(rank, 0) == int(row["level"])


# The counters of the printed algorithm.


@pytest.mark.parametrize(
    "name", ["ej:1+2", "ej:2+3", "ej:3+4", "ej:4+5", "ej:1+2^2", "ej:2+3^2", "ej:1+2^3", "ej:1+2^4"]
)
def test_sector_tree_is_the_printed_algorithm(name: str) -> None:
    network = parse_topology(name)
    assert isinstance(network, EisensteinJacobi)
    tree = SectorTree(network)
    events = list(improved_broadcast(network))
    local = {
        (network.weight(rank) + 1, rank, port, network.neighbour(rank, port))
        for rank in network.ranks()
        for port in tree.children(rank, 0)
    }
    assert len(events) == len(local) == network.order - 1
    assert set(events) == local
    steps = [step for step, _, _, _ in events]
    assert steps == sorted(steps)
    assert steps[-1] == network.diameter


@pytest.mark.parametrize("name", ["ej:2+3", "ej:1+2^2", "ej:3+4^2"])
def test_children_are_served_in_the_printed_order(name: str) -> None:
    network = parse_topology(name)
    assert isinstance(network, EisensteinJacobi)
    printed: dict[Rank, list[Port]] = {}
    for _, rank, port, _ in improved_broadcast(network):
        printed.setdefault(rank, []).append(port)
    tree = SectorTree(network)
    assert all(list(tree.children(rank, 0)) == printed.get(rank, []) for rank in network.ranks())


def test_printed_counters_need_neighbouring_a_and_b() -> None:
    with pytest.raises(ScenarioError, match=r"a \+ \(a\+1\) rho"):
        next(improved_broadcast(EisensteinJacobi(2, 4)))


def test_route_and_path_lead_from_the_root() -> None:
    star = StarGraph(4)
    tree = GreedyTree(star)
    rank = star.rank("2143")
    assert [star.label(between) for between in tree.path(rank, 0)] == ["1234", "3214", "4213", "1243", "2143"]
    assert tree.route(rank, 0) == (1, 2, 1, 0)
    assert tree.route(0, 0) == ()
    assert tree.path(0, 0) == (0,)


def test_memory_of_children_is_bounded() -> None:
    tree = GreedyTree(StarGraph(9))
    cache = tree._children
    assert hasattr(cache, "cache_info")
    assert cache.cache_info().maxsize <= 1 << 16
