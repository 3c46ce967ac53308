"""Bit rows against plain numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator.theory.dependence.bit_rows import (
    Groups,
    added,
    counted,
    first_trials,
    greater,
    grouped,
    mark,
    no_trials,
    numbers,
    packed,
    unpacked,
)

TRIALS = 128
MATRICES = st.integers(0, 2**32).map(np.random.default_rng)


def flags(chance: np.random.Generator, things: int) -> np.ndarray:
    """Return truth values by thing and trial; some rows are rare, so that sums have many values."""
    return chance.random((things, TRIALS)) < chance.random((things, 1))


@given(MATRICES, st.integers(0, 21), st.integers(0, 9))
def test_sums_and_comparisons_are_those_of_numbers(chance: np.random.Generator, one: int, other: int) -> None:
    left, right = flags(chance, one), flags(chance, other)
    sums = counted(packed(left)), counted(packed(right))
    assert numbers(sums[0], TRIALS).tolist() == left.sum(axis=0).tolist()
    both = added(*sums)
    assert numbers(both, TRIALS).tolist() == (left.sum(axis=0) + right.sum(axis=0)).tolist()
    if one or other:
        larger = unpacked(greater(*sums)).astype(bool)
        assert larger.tolist() == (left.sum(axis=0) > right.sum(axis=0)).tolist()


@given(MATRICES, st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_groups_combine_their_members(chance: np.random.Generator, sizes: list[int]) -> None:
    rows = flags(chance, 30)
    members = chance.integers(0, 30, sum(sizes))
    groups = Groups(members, np.array(sizes))
    bounds = np.cumsum([0, *sizes])
    parts = [rows[members[bounds[at] : bounds[at + 1]]] for at in groups.order]
    bits = packed(rows)
    assert unpacked(groups.any(bits)).tolist() == [part.any(axis=0).tolist() for part in parts]
    assert unpacked(groups.all(bits)).tolist() == [part.all(axis=0).tolist() for part in parts]
    planes = groups.counts(bits)
    for place, part in enumerate(parts):
        assert numbers([plane[place] for plane in planes], TRIALS).tolist() == part.sum(axis=0).tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1)), max_size=20))
def test_grouped_rows_have_equal_keys(keys: list[tuple[int, int]]) -> None:
    columns = [np.array([key[at] for key in keys], np.int64) for at in range(2)]
    order, sizes = grouped(columns)
    found = [keys[at] for at in order.tolist()]
    assert found == sorted(keys)
    assert sizes.tolist() == [keys.count(key) for key in sorted(set(keys))]


def test_marks_are_set_once_each() -> None:
    rows = no_trials(3, 2)
    mark(rows, np.array([0, 2, 2, 2]), np.array([127, 0, 63, 64]))
    assert np.argwhere(unpacked(rows)).tolist() == [[0, 127], [2, 0], [2, 63], [2, 64]]
    assert unpacked(first_trials(65)).sum() == 65
