"""Trees of MPI libraries: properties for all small sizes, and examples from the sources."""

import pytest

from coordinator.annexes.mpi.rules.trees import (
    binary_tree,
    binomial_tree,
    chains,
    in_order_binary_tree,
    in_order_binomial_tree,
    k_nomial_tree,
)

TREES = {
    "binary": binary_tree,
    "binomial": binomial_tree,
    "in-order binomial": in_order_binomial_tree,
    "4-nomial": lambda ranks: k_nomial_tree(ranks, 4),
    "4 chains": lambda ranks: chains(ranks, 4),
    "1 chain": lambda ranks: chains(ranks, 1),
    "in-order binary": in_order_binary_tree,
}


@pytest.mark.parametrize("name", TREES)
def test_every_rank_reaches_the_one_root(name: str) -> None:
    for ranks in range(2, 40):
        parents = TREES[name](ranks)
        assert (len(parents), parents.count(-1)) == (ranks, 1)
        for rank in range(ranks):
            above, steps = rank, 0
            while parents[above] >= 0:
                above, steps = parents[above], steps + 1
                assert steps < ranks


def subtree(parents: list[int], top: int) -> set[int]:
    """Return the ranks at and below a rank."""
    found = {top}
    for rank, parent in enumerate(parents):
        if parent == top:
            found |= subtree(parents, rank)
    return found


@pytest.mark.parametrize("name", ["in-order binomial", "in-order binary", "4 chains"])
def test_subtrees_of_in_order_trees_are_ranges(name: str) -> None:
    for ranks in range(2, 20):
        parents = TREES[name](ranks)
        for rank in range(ranks):
            members = subtree(parents, rank)
            assert max(members) - min(members) == len(members) - 1


def test_trees_have_the_shapes_of_the_library() -> None:
    assert binary_tree(8) == [-1, 0, 0, 1, 2, 1, 2, 3]
    assert binomial_tree(6) == [-1, 0, 0, 1, 0, 1]
    assert in_order_binomial_tree(6) == [-1, 0, 0, 2, 0, 4]
    assert k_nomial_tree(7, 4) == [-1, 0, 0, 0, 0, 4, 4]
    assert chains(7, 4) == [-1, 0, 1, 0, 3, 0, 0]
    assert in_order_binary_tree(5) == [1, 4, 3, 4, -1]


def test_the_k_nomial_tree_of_radix_two_is_binomial() -> None:
    for ranks in range(2, 30):
        assert k_nomial_tree(ranks, 2) == in_order_binomial_tree(ranks)
