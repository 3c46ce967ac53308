"""Generated contributions against their check values, and the numbers of a probe."""

import numpy as np
import pytest

from coordinator.annexes.numbers.feature import MOST_PROBED
from emunode.annexes.numbers.contributions import (
    generated,
    probe_contribution,
    probe_numbers,
    probe_pairs,
)
from emunode.annexes.numbers.float_types import FLOAT32, FLOAT_TYPES, FloatType
from emunode.model import MOST_ELEMENTS, Rounding

WORD = 2**64


def split_mix(seed: int, rank: int, element: int) -> float:
    """Return one element in Python's integers, by the published formula."""
    z = (seed * 2**48 + rank * 2**24 + element + 1) * 0x9E3779B97F4A7C15 % WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    z ^= z >> 31
    return float(((z >> 11) - 2**52) * 2.0 ** ((z % 8) - 56))


@pytest.mark.parametrize("seed", [0, 1, 2**16 - 1, 2**63 - 1])
def test_elements_follow_the_formula(seed: int) -> None:
    for rank in (0, 1, 5039):
        expected = [split_mix(seed, rank, element) for element in range(7, 40)]
        assert generated(seed, rank, range(7, 40)).tolist() == expected


def test_elements_of_two_ranks_have_different_numbers() -> None:
    # The last element of a rank, and the first one of the next rank.
    last, first = generated(0, 0, range(MOST_ELEMENTS - 1, MOST_ELEMENTS)), generated(0, 1, range(1))
    assert last.tolist() == [split_mix(0, 0, MOST_ELEMENTS - 1)]
    assert first.tolist() == [split_mix(0, 1, 0)] != last.tolist()


def test_first_elements_have_the_known_bits() -> None:
    first = [generated(1, rank, range(1)) for rank in range(4)]
    singles = [int(FLOAT32.rounded(value).view("<u4")[0]) for value in first]
    assert singles == [0x3DA117EA, 0x3C7E23A9, 0xBC8156C5, 0xBF1DE20A]
    halves = [int(FLOAT_TYPES["bfloat16"].rounded(value)[0]) for value in first]
    assert halves == [0x3DA1, 0x3C7E, 0xBC81, 0xBF1E]


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
def test_a_probe_swallows_small_numbers(kind: FloatType, rounding: Rounding) -> None:
    if rounding is Rounding.END and kind.item_bytes > 2:
        pytest.skip("only 16-bit types are rounded at the end")
    adding = FLOAT32 if rounding is Rounding.END else kind
    large, small = probe_numbers(kind, rounding)
    pair = adding.rounded(np.array([large, small * (MOST_PROBED - 2)]))
    assert adding.exact(adding.add(pair[:1], pair[1:])).tolist() == [large]
    # The numbers themselves, and every multiple of the small one, are exact in the type.
    multiples = np.array([large, -large, *(small * count for count in range(MOST_PROBED - 1))])
    assert kind.exact(kind.rounded(multiples)).tolist() == multiples.tolist()


def test_each_pair_has_an_element() -> None:
    assert probe_pairs([3, 0, 1]) == [(0, 1), (0, 3), (1, 3)]
    kind = FLOAT_TYPES["float32"]
    assert probe_contribution(kind, Rounding.EACH, [0, 1, 3], 1).tolist() == [-(2.0**30), 1.0, 2.0**30]
