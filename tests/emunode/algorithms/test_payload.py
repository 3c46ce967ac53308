"""Payloads of sources: deterministic, different for every message, and cut into segments without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.algorithms.payload import CACHE_BYTES, Payloads
from emunode.model import ALL_RANKS


@given(st.integers(1, 500), st.integers(1, 20), st.integers(0, 5))
def test_segments_join_and_differ_by_at_most_one_byte(size: int, pieces: int, number: int) -> None:
    payloads = Payloads(seed=1, message_bytes=size, segments_per_message=pieces)
    cut = [payloads.segment(3, 9, number * pieces + piece) for piece in range(pieces)]
    assert b"".join(cut) == payloads.message(3, 9, number)
    assert [len(piece) for piece in cut] == [
        payloads.segment_bytes(0, number * pieces + piece) for piece in range(pieces)
    ]
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_blocks_of_short_owners_are_one_element_shorter() -> None:
    payloads = Payloads(seed=1, message_bytes=8, segments_per_message=1, short={2, 3})
    assert [payloads.size(owner) for owner in range(4)] == [8, 8, 7, 7]
    assert [len(payloads.message(0, owner, 0)) for owner in range(1, 4)] == [8, 7, 7]


@given(st.lists(st.binary(min_size=9, max_size=9), min_size=1, max_size=5))
def test_a_fold_is_the_exclusive_or_of_every_byte(operands: list[bytes]) -> None:
    expected = [0] * 9
    for operand in operands:
        expected = [total ^ byte for total, byte in zip(expected, operand, strict=True)]
    assert Payloads(seed=1, message_bytes=9, segments_per_message=1).folded(operands, 0, 0) == bytes(expected)


def test_message_depends_only_on_its_identity() -> None:
    asked, other = Payloads(7, 64, 4), Payloads(7, 64, 1)
    asked.segment(1, 2, 3)
    assert asked.message(0, ALL_RANKS, 5) == other.message(0, ALL_RANKS, 5) == other.segment(0, ALL_RANKS, 5)


def test_every_field_of_the_identity_changes_the_message() -> None:
    names = [(0, 1, 2, 3), (1, 1, 2, 3), (0, 11, 2, 3), (0, 1, -1, 3), (0, 1, 2, 0), (0, 1, 23, 3), (0, 12, 3, 3)]
    messages = {Payloads(seed, 32, 1).message(*name) for seed, *name in names}
    assert len(messages) == len(names)


def test_a_known_message() -> None:
    """Changing what is sent would change no journal, and yet every comparison with stored payloads."""
    assert Payloads(0, 8, 1).message(0, ALL_RANKS, 0).hex() == "ecea9b3c693059c2"


@pytest.mark.parametrize(
    ("size", "pieces"), [(1, 1), (64, 1), (2**20, 1), (2**25, 1), (2**25, 2), (2**25, 4096), (2**20, 2**20)]
)
def test_segment_cache_is_bounded(size: int, pieces: int) -> None:
    payloads = Payloads(0, size, pieces)
    kept = payloads.segment.cache_info().maxsize
    assert kept is not None
    largest = payloads.segment_bytes(0, 0)
    assert 4 <= kept <= 65536
    assert min(CACHE_BYTES, 65536 * largest) <= kept * largest <= max(CACHE_BYTES, 4 * largest)
