"""Trees, paths and cycles of the star graph: the papers' examples, golden tables, and the theorems over ranges of n."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from math import factorial

import pytest

from emunode.model import Port, Rank
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, levels
from emunode.trees.star.balanced import BalancedTree, NearBalancedTree, ReplicatedTrees, ScatterTrees
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees, ShortestPathGraph
from emunode.trees.star.greedy import CongestionTwoTrees, GreedyTree
from emunode.trees.star.hamiltonian import RotatedPaths, ehrlich, hamiltonian_cycle
from emunode.trees.star.necklace import NecklaceTree
from emunode.trees.star.rotation import Rotation, necklace_count
from emunode.trees.statistics import arc_congestion, arc_loads, shared_rank
from tests.helpers.support import golden_rows

golden = partial(golden_rows, "star")
SCATTER: dict[str, type[ScatterTrees]] = {"5.1": BalancedTree, "5.2": NearBalancedTree, "Def15": ReplicatedTrees}


TREES: dict[str, Callable[[StarGraph], Trees]] = {
    "L": GreedyTree,
    "Lhat": CongestionTwoTrees,
    "EDT": EdgeDisjointTrees,
    "MBST": NecklaceTree,
    "T5.1": BalancedTree,
    "T5.2": NearBalancedTree,
    "Def15": ReplicatedTrees,
}
"""Trees by their names in the tables of parents."""


@pytest.fixture
def star(n: int) -> StarGraph:
    """Provide the star graph of a test with the parameter `n`."""
    return StarGraph(n)


def numbers(text: str) -> list[int]:
    """Return `3 2 4` as numbers."""
    return [int(word) for word in text.split()]


def rotate_types(types: list[int], n: int) -> list[int]:
    return [(t - 1) % (n - 1) + 2 for t in types]


# The papers' examples.


def test_label_shift_of_the_paper() -> None:
    """rho^1(1234) = 4123 is where the path p_1 of S_4 ends."""
    star = StarGraph(4)
    assert star.label(walk(star, CongestionTwoTrees(star).turned_path(1))[-1]) == "4123"


def test_word_of_s4_in_the_two_phase_broadcast() -> None:
    """Ehrlich's path of S_3, one type up, behind link 2."""
    assert [port + 2 for port in RotatedPaths(StarGraph(4)).word] == [2, 3, 4, 3, 4, 3]


def test_generators_of_mbst() -> None:
    """TR 93-346, appendix B, n = 6: g_5 is one cycle, g_6 and g_7 have two-cycles too; D_6 of S_5 has no generator."""
    star = StarGraph(6)
    tree = NecklaceTree(star)
    named = {k: (star.label(found[0]), found[1] + 2) for k in range(1, 8) if (found := tree.generator(k))}
    assert named[1] == ("213456", 2)
    assert named[5] == ("612345", 6)
    assert named[6] == ("412365", 5)
    assert named[7] == ("214365", 3)
    assert NecklaceTree(StarGraph(5)).generator(6) is None


# Golden tables.


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("name", TREES)
def test_trees_are_golden(star: StarGraph, n: int, name: str) -> None:
    trees = TREES[name](star)
    first = {"Lhat": 1, "EDT": 2}.get(name)
    expected = [
        (row["tree"], row["node"], row["parent"], int(row["link_type"]) - 2)
        for row in golden(f"trees_n{n}")
        if row["parent"] and row["tree"].partition("_")[0] == name
    ]
    found = []
    for rank in range(1, star.order):
        for tree in range(trees.copies(rank) if isinstance(trees, ScatterTrees) else trees.count):
            port = trees.parent(rank, tree)
            full_name = name if first is None else f"{name}_{tree + first}"
            found.append((full_name, star.label(rank), star.label(star.neighbour(rank, port)), port))
    assert sorted(found) == sorted(expected)
    if name == "Def15":
        assert len(found) == (n - 1) * necklace_count(n)
    else:
        assert len(found) == (star.order - 1) * (1 if first is None else n - 1)


@pytest.mark.parametrize("n", range(3, 7))
def test_heights_paths_and_congestion_of_congestion_two_trees(star: StarGraph, n: int) -> None:
    trees = CongestionTwoTrees(star)
    (row,) = golden("lhat_congestion", n=n)
    loads = arc_loads(trees)
    times = Counter(loads.values())
    assert times[1] == int(row["links_used_1"])
    assert times[2] == int(row["links_used_2"])
    assert star.order * star.degree - len(loads) == int(row["links_used_0"])
    assert max(times) == int(row["max_congestion_paper"]) == 2
    rows = golden("lhat_heights", n=n)
    assert len(rows) == n - 1
    for tree, row in enumerate(rows):
        assert int(row["i"]) == tree + 1
        assert [port + 2 for port in trees.turned_path(tree + 1)] == numbers(row["p_i_link_types(1-based)"])
        assert trees.height(tree) == Trees.height(trees, tree) == int(row["height_measured"])
        assert trees.height(tree) <= int(row["height_paper"]), "lemma 5; less for n = 3, i = 2 alone"
        assert [port + 2 for port in trees.children(0, tree)] == numbers(row["root_child_link_types_measured(1-based)"])


def test_heights_of_s7_in_closed_form() -> None:
    trees = CongestionTwoTrees(StarGraph(7))
    assert [trees.height(tree) for tree in range(6)] == [15] * 6


@pytest.mark.parametrize("n", [*range(3, 7), pytest.param(7, marks=pytest.mark.slow)])
def test_edge_disjoint_trees_are_golden(star: StarGraph, n: int) -> None:
    trees = EdgeDisjointTrees(star)
    (row,) = golden("edt", n=n)
    sizes = [int(row["nodes"]) for row in golden("edt_levels", n=n)]
    for tree in range(trees.count):
        found = levels(trees, tree)
        assert [size for _, size in sorted(Counter(found.values()).items())] == sizes
        assert trees.height(tree) == max(found.values()) == int(row["depth_measured"]) == star.diameter + 3 - n % 2
        assert sum(found.values()) == int(row["sum_of_depths_per_tree_measured"])
    assert len(arc_loads(trees)) == int(row["arcs_expected"]) == (n - 1) * (star.order - 1)
    assert arc_congestion(trees) == 1
    assert shared_rank(trees) is None, "n-1 vertex-disjoint paths to every node"


@pytest.mark.parametrize("n", [3, 4])
def test_preorder_of_edge_disjoint_trees(star: StarGraph, n: int) -> None:
    trees = EdgeDisjointTrees(star)
    for tree in range(trees.count):
        rows = golden(f"edt_children_order_n{n}", tree=tree + 2)
        expected = [(row["node"], int(row["link_type_to_parent"]) - 2) for row in rows]
        assert [(star.label(rank), trees.parent(rank, tree)) for rank in preorder(trees, tree)[1:]] == expected


def preorder(trees: Trees, tree: int) -> list[Rank]:
    """Return ranks as a depth-first traversal reaches them."""
    order: list[Rank] = []
    waiting = [0]
    while waiting:
        order.append(rank := waiting.pop())
        waiting += [trees.topology.neighbour(rank, port) for port in reversed(trees.children(rank, tree))]
    return order


@pytest.mark.parametrize("n", [3, 4])
def test_mbst_is_golden(star: StarGraph, n: int) -> None:
    tree = NecklaceTree(star)
    rows = golden(f"mbst_n{n}")
    assert [star.label(rank) for rank in tree.order] == [row["node"] for row in rows]
    assert [tree.step(rank) for rank in tree.order] == [int(row["step_received"]) for row in rows]


@pytest.mark.parametrize("n", [3, 4, 5])
def test_hamiltonian_words_are_golden(star: StarGraph, n: int) -> None:
    cycle = [int(row["link_type_to_next"]) - 2 for row in golden(f"ham_cycle_n{n}")]
    assert hamiltonian_cycle(star) == cycle
    word = [port + 2 for port in RotatedPaths(star).word]
    for subtree in range(2, n + 1):
        rows = golden(f"rot_ham_words_n{n}", subtree=subtree)
        assert [int(row["link_type"]) for row in rows] == word
        word = rotate_types(word, n)


@pytest.mark.parametrize("n", range(3, 8))
def test_necklaces(star: StarGraph, n: int) -> None:
    rotation = Rotation(star)
    found = rotation.necklaces()
    assert len(found) == necklace_count(n) <= 2 * factorial(n - 1) - 1
    assert sorted(rank for necklace in found for rank in necklace) == list(range(1, star.order))
    sizes = Counter((star.permutation(necklace[0])[0] == 1, len(necklace)) for necklace in found)
    rows = golden("necklaces", n=n)
    assert sizes == {(row["class"] == "starts_with_1", int(row["period"])): int(row["necklaces"]) for row in rows}


@pytest.mark.parametrize("n", range(3, 8))
@pytest.mark.parametrize("name", [*SCATTER, "MBST"])
def test_root_subtree_sizes(star: StarGraph, name: str, n: int) -> None:
    (row,) = golden("root_subtree_sizes", n=n, tree=name)
    if name == "MBST":
        tree = NecklaceTree(star)
        sizes = Counter(tree.route(rank, 0)[0] for rank in range(1, star.order))
    else:
        trees = SCATTER[name](star)
        sizes = Counter(
            trees.subtree(rank, copy) for rank in range(1, star.order) for copy in range(trees.copies(rank))
        )
    assert [sizes[port] for port in range(n - 1)] == numbers(row["sizes_for_link_types_2..n"])


@pytest.mark.parametrize("n", range(3, 8))
def test_rotation_is_an_automorphism_of_period_n_minus_1(star: StarGraph, n: int) -> None:
    rotation = Rotation(star)
    for rank in range(0, star.order, 1 + star.order // 200):
        assert rotation.rotate(rank, n - 1) == rank == rotation.rotate(rotation.rotate(rank, 2), -2)
        for port in range(n - 1):
            turned = rotation.rotate(star.neighbour(rank, port), 1)
            assert turned == star.neighbour(rotation.rotate(rank, 1), rotation.port(port, 1))


@pytest.mark.parametrize("n", range(3, 7))
def test_spt_and_spg(star: StarGraph, n: int) -> None:
    graph = ShortestPathGraph(star)
    for rank in star.ranks():
        symbols = star.permutation(rank)
        if rank and symbols[0] != 1:
            parent = star.neighbour(rank, graph.own(rank))
            assert star.weight(parent) == star.weight(rank) - 1
            assert not parent or star.permutation(parent)[0] != 1
        if rank and symbols[0] == 1:
            routes = [graph.route(rank, subtree) for subtree in range(n - 1)]
            for subtree, route in enumerate(routes):
                assert route[0] == subtree
                assert len(route) == star.weight(rank) + 2 * (symbols[subtree + 1] == subtree + 2)
            inner = [between for route in routes for between in walk(star, route)[:-1]]
            assert len(set(inner)) == len(inner), "vertex-disjoint"
        elif rank:
            assert len(graph.route(rank, symbols.index(1) - 1)) == star.weight(rank)
    with pytest.raises(ValueError, match="not in the subtree"):
        graph.route(star.neighbour(0, 0), 1)


def walk(star: StarGraph, route: Iterable[Port]) -> list[Rank]:
    """Return the ranks after each link of a route from the root."""
    ranks = [0]
    for port in route:
        ranks.append(star.neighbour(ranks[-1], port))
    return ranks[1:]


@pytest.mark.parametrize("n", range(3, 8))
def test_mbst_is_a_multinode_broadcast(star: StarGraph, n: int) -> None:
    """Theorem 8: one link of each type per step, closer to the root, from a node reached in an earlier step.

    Erratum: the printed m(x) - m(parent) >= n-1 fails for the first node of the first necklace of D_2; for n = 3, for one
    more node.
    """
    tree = NecklaceTree(star)
    place = {rank: m for m, rank in enumerate(tree.order)}
    weights_of_exceptions = []
    for m, rank in enumerate(tree.order[1:], 1):
        port = tree.parent(rank, 0)
        parent = star.neighbour(rank, port)
        assert port == (m - 1) % (n - 1)
        assert star.weight(parent) == star.weight(rank) - 1
        assert tree.step(parent) < tree.step(rank) == -(-m // (n - 1))
        if parent and m - place[parent] < n - 1:
            weights_of_exceptions.append(star.weight(rank))
    assert weights_of_exceptions == ([2, 3] if n == 3 else [2])


@pytest.mark.parametrize("n", range(3, 8))
def test_hamiltonian_cycle_and_ehrlich_path_visit_every_node(star: StarGraph, n: int) -> None:
    cycle = walk(star, hamiltonian_cycle(star))
    assert cycle[-1] == 0
    assert len(set(cycle)) == len(cycle) == star.order
    path = {0, *walk(star, [t - 2 for t in ehrlich(n)])}
    assert len(path) == star.order


@pytest.mark.parametrize("n", range(3, 7))
def test_rotated_paths_cover_their_substars(star: StarGraph, n: int) -> None:
    trees = RotatedPaths(star, n)
    words = [[Rotation(star).port(port, path) for port in trees.word] for path in range(n - 1)]
    for path, word in enumerate(words):
        visited = walk(star, word)
        assert {rank for rank in star.ranks() if star.permutation(rank)[path + 1] == 1} == set(visited)
        assert [trees.step(rank) for rank in visited] == list(range(1, factorial(n - 1) + 1))
    for types in zip(*words, strict=True):
        assert len(set(types)) == n - 1
    for tree in range(n):
        for rank in range(1, star.order):
            if star.permutation(rank)[0] == 1:
                parent = star.permutation(star.neighbour(rank, trees.parent(rank, tree)))
                assert parent[0] == trees.leaf_symbol(tree), "rule 1, with p_c for n"


@pytest.mark.parametrize("n", range(3, 8))
def test_replicated_subtrees_are_rotations(star: StarGraph, n: int) -> None:
    trees = ReplicatedTrees(star)
    rotation = Rotation(star)
    for rank in range(1, star.order, 1 + star.order // 400):
        hooks = [trees.subtree(rank, copy) for copy in range(trees.copies(rank))]
        turned = [trees.subtree(rotation.rotate(rank, 1), copy) for copy in range(trees.copies(rank))]
        assert sorted(rotation.port(port, 1) for port in hooks) == sorted(turned)
        if len(hooks) > 1:
            assert not any(trees.children(rank, tree) for tree in range(n - 1))
        for copy, port in enumerate(hooks):
            assert trees.route(rank, copy)[0] == port
