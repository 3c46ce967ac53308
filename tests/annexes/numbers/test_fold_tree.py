"""Fold trees: canonical texts, depths and where two trees part, against recorded trees of the usual algorithms."""

import numpy as np
import pytest

from coordinator.annexes.numbers.fold_tree import FoldTree, additions_at, fold_in_order, parting_node
from coordinator.annexes.numbers.probe import every_tree
from emunode.annexes.numbers.contributions import generated
from emunode.annexes.numbers.float_types import FLOAT_TYPES
from tests.annexes.numbers.support import TREES, evaluated, tree_of_text
from tests.helpers.support import golden_rows

ROWS = golden_rows("additions", "results", rule="rank")


@pytest.mark.parametrize("name", TREES)
def test_trees_and_depths_are_as_recorded(name: str) -> None:
    rows = [row for row in ROWS if row["algorithm"] == name]
    assert rows
    for row in rows:
        count = int(row["P"])
        trees = [TREES[name](count, chunk) for chunk in range(count)]
        if row["tree_of_element_0"]:
            assert trees[0].canonical == tree_of_text(row["tree_of_element_0"]).canonical
        assert all(tree.is_complete(range(count)) for tree in trees)
        assert max(tree.depth for tree in trees) == int(row["max_depth"])
        assert f"{np.mean([tree.mean_depth for tree in trees]):.4f}" == row["mean_depth"]
        assert len({tree.digest for tree in trees}) == int(row["trees_over_chunks"])


def test_canonical_text_ignores_the_order_of_operands() -> None:
    one, other = tree_of_text("((2+0)+(3+1))"), tree_of_text("((1+3)+(0+2))")
    assert one.text != other.text
    assert one.canonical == other.canonical == "((0+2)+(1+3))"
    assert one.digest == other.digest


def test_repeated_and_missing_leaves_are_seen() -> None:
    tree = tree_of_text("((0+1)+0)")
    assert not tree.is_complete(range(2))
    assert not tree_of_text("(0+1)").is_complete(range(3))
    assert dict(tree_of_text("((0+1)+2)").leaf_depths()) == {0: 2, 1: 2, 2: 1}


def test_deep_trees_need_no_recursion() -> None:
    tree = fold_in_order([FoldTree(rank) for rank in range(5000)])
    assert tree.depth == 4999
    assert tree.is_complete(range(5000))
    assert tree.canonical.endswith("+4999)")
    assert "5000 contributions" in repr(tree)


def test_trees_part_at_the_first_different_addition() -> None:
    one, other = tree_of_text("((0+(1+(2+3)))+4)"), tree_of_text("((0+((1+2)+3))+4)")
    nodes = parting_node(one, other)
    assert nodes is not None
    assert [node.canonical for node in nodes] == ["(1+(2+3))", "((1+2)+3)"]
    assert parting_node(one, tree_of_text("(4+(((3+2)+1)+0))")) is None


def test_additions_are_counted_by_place() -> None:
    tree = tree_of_text("((0+1)+(2+3))")
    assert tree.left is not None
    assert tree.right is not None
    assert additions_at(tree, {tree: 0, tree.left: 0, tree.right: 2}) == {0: 2, 2: 1}


@pytest.mark.parametrize(
    "row", golden_rows("additions", "bracketings", P="5", element="0"), ids=lambda row: row["values"]
)
def test_all_bracketings_give_the_recorded_results(row: dict[str, str]) -> None:
    kind, count, element = FLOAT_TYPES[row["values"]], int(row["P"]), int(row["element"])
    contributions = [
        kind.rounded(generated(int(row["seed"]), rank, range(element, element + 1))) for rank in range(count)
    ]
    trees = every_tree(range(count))
    assert len({tree.canonical for tree in trees}) == len(trees) == int(row["bracketings"])
    words = {evaluated(tree, contributions, kind).tobytes()[::-1].hex() for tree in trees}
    assert len(words) == int(row["distinct_results"])
    assert words == set(row["bits"].split())
