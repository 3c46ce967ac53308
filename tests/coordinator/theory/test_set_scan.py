"""The scan of all sets of places, against itertools."""

from itertools import chain, combinations, product

import numpy as np
import pytest

from coordinator.theory.set_scan import SetScan, sets_at_once, without_repetition

CHOICES = [[], [(5, 0)], [(6, 3)], [(4, 4)], [(2, 3)], [(5, 2), (4, 1)], [(3, 1), (7, 2), (3, 2)], [(4, 0), (5, 2)]]


@pytest.mark.parametrize("at_once", [1, 3, 4096])
@pytest.mark.parametrize("choices", CHOICES)
def test_every_set_comes_once_in_lexicographic_order(choices: list[tuple[int, int]], at_once: int) -> None:
    scan = SetScan(choices, at_once)
    expected = [tuple(chain(*each)) for each in product(*(combinations(range(n), k) for n, k in choices))]
    assert [tuple(row) for block in scan.indices() for row in block.tolist()] == expected


@pytest.mark.parametrize("choices", CHOICES)
def test_unions_belong_to_the_sets_of_the_indices(choices: list[tuple[int, int]]) -> None:
    draw = np.random.default_rng(1)
    tables = [draw.integers(0, 2**63, (room, 2), np.uint64) for room, _ in choices]
    given = np.array([1, 2], np.uint64)
    scan = SetScan(choices, 5)
    parts = [part for part, (_, count) in enumerate(choices) for _ in range(count)]
    for sets, united in zip(scan.indices(), scan.unions(tables, given), strict=True):
        for row, union in zip(sets.tolist(), united, strict=True):
            rows = [tables[part][place] for part, place in zip(parts, row, strict=True)]
            assert (union == np.bitwise_or.reduce([given, *rows])).all()
    assert given.tolist() == [1, 2]


def test_blocks_have_no_more_sets_than_wanted() -> None:
    sizes = [len(block) for block in SetScan([(40, 2)], 100).indices()]
    assert sum(sizes) == 40 * 39 // 2
    assert max(sizes) <= 100


def test_wide_rows_are_united_in_small_blocks() -> None:
    assert sets_at_once(1) == 4096
    assert sets_at_once(2**30) == 1


def test_two_parts_do_not_share_a_place() -> None:
    sets = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]])
    assert without_repetition(sets, ["nodes", "nodes", "links"]).tolist() == [False, True, True, False]
