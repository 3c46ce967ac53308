"""The fixed order: one tree from parts that come in any order, and the price, against a simulation of its own."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.annexes.numbers.fold_tree import FoldTree
from emunode.annexes.numbers.fixed_order import FixedTree
from emunode.annexes.numbers.payloads import FixedOrderPayloads
from emunode.model import Collective, CollectiveSpec, NumberType, RealNumbers
from tests.annexes.numbers.support import binomial

FEW = st.integers(2, 40)


def absorbed(tree: FixedTree, places: list[int]) -> dict[int, FoldTree]:
    parts: dict[int, FoldTree] = {}
    for place in places:
        tree.absorb(parts, tree.leaf(place), FoldTree(place), FoldTree.of)
    return parts


@given(FEW.flatmap(lambda count: st.permutations(range(count))))
def test_every_order_of_arrival_gives_the_binomial_tree(places: list[int]) -> None:
    parts = absorbed(FixedTree(len(places)), places)
    assert [tree.canonical for tree in parts.values()] == [binomial(len(places), 0).canonical]


@given(FEW, st.data())
def test_partial_results_meet_in_the_same_tree(count: int, data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    tree = FixedTree(count)
    whole: dict[int, FoldTree] = {}
    for group in data.draw(st.permutations(range(4))):
        for node, part in absorbed(tree, [place for place in range(count) if groups[place] == group]).items():
            tree.absorb(whole, node, part, FoldTree.of)
    assert [part.canonical for part in whole.values()] == [binomial(count, 0).canonical]


@pytest.mark.parametrize("count", range(1, 9))
def test_parts_are_as_few_as_nodes_allow(count: int) -> None:
    tree = FixedTree(count)
    for size in range(1, count + 1):
        for places in combinations(range(count), size):
            assert len(absorbed(tree, list(places))) == fewest_parts(
                set(places), 0, 1 << (count - 1).bit_length(), count
            )


def fewest_parts(places: set[int], first: int, width: int, count: int) -> int:
    """Count the largest groups of the tree that lie within a set of places, from the root down."""
    inside = set(range(first, min(first + width, count)))
    if not inside & places:
        return 0
    if inside <= places:
        return 1
    half = width // 2
    return fewest_parts(places, first, half, count) + fewest_parts(places, first + half, half, count)


def test_repeated_parts_are_left_out() -> None:
    tree = FixedTree(4)
    parts = absorbed(tree, [0, 1, 0, 2])
    assert {node: part.canonical for node, part in parts.items()} == {2: "(0+1)", 6: "2"}
    tree.absorb(parts, 1, FoldTree(9), FoldTree.of)
    assert len(parts) == 2


@given(st.binary(min_size=1, max_size=200))
def test_altered_partial_results_break_nothing(altered: bytes) -> None:
    payloads = make_payloads(5, 20)
    names = len(altered) // 24
    if not names:
        return
    whole = payloads.folded([altered[: 24 * names], payloads.operand(3, 0, 0)], 0, 0)
    assert len(whole) % 24 == 0 or len(whole) == 20
    assert len(payloads.result(whole, 0, 0)) == 20


def test_results_without_some_contributions_are_sums_by_rank() -> None:
    payloads = make_payloads(5, 20)
    folded = payloads.folded([payloads.operand(rank, 0, 0) for rank in (4, 0, 2)], 0, 0)
    vectors = [payloads.numbers(rank, range(5)) for rank in (0, 2, 4)]
    np.testing.assert_array_equal(
        np.frombuffer(payloads.result(folded, 0, 0), "<f4"), (vectors[0] + vectors[1]) + vectors[2]
    )


def test_ranks_with_nothing_to_add_change_nothing() -> None:
    payloads = make_payloads(3, 8)
    nothing = payloads.folded([], 0, 0)
    contributions = [payloads.operand(rank, 0, 0) for rank in range(3)]
    assert payloads.folded([nothing, *contributions], 0, 0) == payloads.folded(contributions, 0, 0)
    assert np.signbit(np.frombuffer(payloads.result(nothing, 0, 0), "<f4")).all()


def make_payloads(count: int, size: int) -> FixedOrderPayloads:
    numbers = RealNumbers(NumberType.FLOAT32, fixed_order=True)
    spec = CollectiveSpec("", Collective.REDUCE, "", 0, message_bytes=size, numbers=numbers)
    return FixedOrderPayloads(spec, range(count), 1, size, 1)
