"""The checkers of spanning trees: they accept every golden packing, and name what is wrong with a changed one."""

import pytest

from emunode.topologies.registry import parse_topology
from emunode.trees.any_network.checks import (
    NO_PARENT,
    arc_disjoint_problem,
    complete_independence_problem,
    depths,
    edge_disjoint_problem,
    independence_problem,
    tree_problem,
)
from tests.emunode.trees.partitions import crossing_links, partition_problem
from tests.helpers.any_network_support import golden_json, golden_network, rooted
from tests.helpers.support import golden_rows


@pytest.mark.parametrize("name", golden_json("edst-packings"))
def test_golden_packings_are_edge_disjoint_trees(name: str) -> None:
    network = golden_network(name)
    trees = [rooted(links, network.order) for links in golden_json("edst-packings")[name]]
    assert [tree_problem(network, tree) for tree in trees] == [None] * len(trees)
    assert edge_disjoint_problem(network, trees) is None
    assert arc_disjoint_problem(network, trees) is None


@pytest.mark.parametrize("family", ["st-numbering", "independent3"])
def test_golden_independent_trees_are_independent(family: str) -> None:
    for name, packing in golden_json(family).items():
        network, trees = golden_network(name), packing["parents"]
        assert [tree_problem(network, tree) for tree in trees] == [None] * len(trees)
        assert independence_problem(network, trees) is None
        assert arc_disjoint_problem(network, trees) is None
        assert [max(depths(tree)) for tree in trees] == packing["depths"]


def test_golden_arborescences_are_arc_disjoint() -> None:
    for name, packing in golden_json("arborescences").items():
        network, trees = golden_network(name), packing["parents"]
        assert [tree_problem(network, tree) for tree in trees] == [None] * packing["rate"]
        assert arc_disjoint_problem(network, trees) is None
        assert [max(depths(tree)) for tree in trees] == packing["depths"]


def test_golden_completely_independent_trees_pass_at_every_root() -> None:
    for key, packing in golden_json("cist").items():
        network = golden_network(key.partition("/")[0])
        trees = [rooted(links, network.order) for links in packing["trees"]]
        assert complete_independence_problem(network, trees) is None
        for root in network.ranks():
            assert (
                independence_problem(network, [rooted(links, network.order, root) for links in packing["trees"]])
                is None
            )


def test_golden_partitions_into_single_nodes_prove_the_maximum() -> None:
    for row in golden_rows("any", "edst"):
        network, most = golden_network(row["graph"]), int(row["max_edge_disjoint_spanning_trees"])
        singletons = [[rank] for rank in network.ranks()]
        if row["certificate_part_sizes"] == "singletons":
            assert crossing_links(network, singletons) == int(row["certificate_crossing"])
            assert partition_problem(network, singletons, most + 1) is None
        assert "trees need only" in str(partition_problem(network, singletons, most))


RING = parse_topology("ring:4")
UP, DOWN = [NO_PARENT, 0, 1, 2], [NO_PARENT, 2, 3, 0]


@pytest.mark.parametrize(
    ("parents", "problem"),
    [
        ([NO_PARENT, 0, 1], "tree 0 has parents of 3 nodes; ring:4 has 4"),
        ([1, 2, 3, 0], "tree 0 has no root: every node has a parent"),
        ([NO_PARENT, 0, NO_PARENT, 0], "tree 0 has 2 roots, among them 0 and 2: it is not connected"),
        ([NO_PARENT, 0, 0, 0], "tree 0: the parent of 2 is 0, but there is no link 2~0"),
        ([NO_PARENT, 0, 9, 0], "tree 0: the parent of 2 is 9, but there is no link 2~9"),
        ([NO_PARENT, 2, 1, 0], "tree 0: the parents of 1 lead back to itself, so it is not connected to the root"),
        (UP, None),
    ],
)
def test_what_is_no_tree_is_named(parents: list[int], problem: str | None) -> None:
    assert tree_problem(RING, parents) == problem


def test_offending_links_and_nodes_are_named() -> None:
    assert independence_problem(RING, [UP, DOWN]) is None
    assert edge_disjoint_problem(RING, [UP, DOWN]) == "trees 0 and 1 both use the link 1~2"
    assert arc_disjoint_problem(RING, [UP, UP]) == "trees 0 and 1 both use the link 0>1 in this direction"
    assert independence_problem(RING, [UP, UP]) == "trees 0 and 1 both use the link 0>1"
    assert independence_problem(RING, [UP, [NO_PARENT, 0, 1, 0]]) == "trees 0 and 1 both use the link 0>1"
    assert independence_problem(RING, [UP, [1, NO_PARENT, 1, 0]]) == "tree 0 has root 0, tree 1 has root 1"
    square = parse_topology("complete:4")
    assert independence_problem(square, [[NO_PARENT, 0, 1, 1], [NO_PARENT, 2, 0, 1]]) == (
        "the paths to 3 in trees 0 and 1 both pass through 1"
    )
    assert complete_independence_problem(square, [[NO_PARENT, 0, 0, 0], [1, NO_PARENT, 1, 2]]) == (
        "trees 0 and 1 both use the link 0~1"
    )
    assert complete_independence_problem(
        parse_topology("complete:5"), [[NO_PARENT, 0, 0, 0, 3], [NO_PARENT, 3, 4, 2, 0]]
    ) == ("3 is an inner node of trees 0 and 1")


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([[0, 1], [2]], "the parts hold 3 nodes (3 different), not every node once"),
        ([[0, 1], [2, 2]], "the parts hold 4 nodes (3 different), not every node once"),
        ([[0, 1, 2, 3], []], "a part is empty"),
        ([[0, 1], [2, 3]], "2 links join the 2 parts, and 2 trees need only 2 of them"),
        ([[0], [1], [2], [3]], None),
    ],
)
def test_partitions_that_prove_nothing_are_refused(parts: list[list[int]], problem: str | None) -> None:
    assert partition_problem(RING, parts, 2) == problem
