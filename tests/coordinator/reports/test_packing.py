"""Integers packed as text for the script of a report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.reports.interactive.packing import pack, unpack


@given(st.lists(st.integers(-1, 2**40)))
def test_packed_numbers_are_read_back(values: list[int]) -> None:
    assert unpack(pack(values)) == values


def test_packing_refuses_other_numbers() -> None:
    with pytest.raises(ValueError, match="cannot pack -2: expected values from -1"):
        pack([3, -2])
    with pytest.raises(ValueError, match="3 digits cannot be divided into numbers of 2"):
        unpack("2000")
