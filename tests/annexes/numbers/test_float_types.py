"""Addition and rounding of every type against exact rationals, and the results of whole reductions as recorded bits."""

from fractions import Fraction
from hashlib import sha256
from math import copysign, inf, isinf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.annexes.numbers.contributions import generated
from emunode.annexes.numbers.float_types import (
    FLOAT32,
    FLOAT64,
    FLOAT_TYPES,
    PIECE,
    FloatArray,
    FloatType,
    sum_in_order,
)
from tests.annexes.numbers.support import TREES, kind_of, reduced
from tests.helpers.support import golden_rows

ROWS = [row for row in golden_rows("additions", "results", rule="rank") if row["algorithm"] in TREES]
BFLOAT16 = FLOAT_TYPES["bfloat16"]
EXPONENT_BITS = {"float64": 11, "float32": 8, "bfloat16": 8, "float16": 5}


def nearest(value: Fraction, kind: FloatType) -> Fraction | None:
    """Return a rational rounded to the nearest number of a type, ties to even; None for an overflow."""
    if not value:
        return value
    largest = 2 ** (EXPONENT_BITS[kind.name] - 1) - 1
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, 1 - largest) - kind.precision + 1)
    # `round` of a Fraction takes the even one of two neighbours.
    rounded = round(value / unit) * unit
    return None if abs(rounded) >= Fraction(2) ** (largest + 1) else rounded


def random_numbers(kind: FloatType, seed: int, count: int) -> FloatArray:
    """Return numbers of all sizes, zeros and subnormals included, without NaN and infinities."""
    words = np.random.default_rng(seed).integers(0, 2 ** (8 * kind.item_bytes), count, f"u{kind.item_bytes}")
    numbers = words.astype(f"<u{kind.item_bytes}").view(kind.storage)
    # Half of them of similar size, so that digits overlap.
    numbers[::2] = kind.rounded(np.random.default_rng(seed).normal(size=len(numbers[::2])))
    return numbers[np.isfinite(kind.exact(numbers))]


@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
def test_sums_are_rounded_once(kind: FloatType) -> None:
    left, right = random_numbers(kind, 1, 2000), random_numbers(kind, 2, 2000)
    count = min(len(left), len(right))
    left, right = left[:count], right[:count]
    sums = kind.exact(kind.add(left, right)).tolist()
    for one, other, total in zip(kind.exact(left).tolist(), kind.exact(right).tolist(), sums, strict=True):
        expected = nearest(Fraction(one) + Fraction(other), kind)
        assert (None if np.isinf(total) else Fraction(total)) == expected


@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
def test_doubles_are_rounded_once(kind: FloatType) -> None:
    numbers = np.concatenate([random_numbers(FLOAT64, 3, 1000) % 70000, np.random.default_rng(4).normal(size=1000)])
    rounded = kind.exact(kind.rounded(numbers)).tolist()
    for number, found in zip(numbers.tolist(), rounded, strict=True):
        assert (None if np.isinf(found) else Fraction(found)) == nearest(Fraction(number), kind)


@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
def test_a_rounding_errs_by_one_unit_at_most(kind: FloatType) -> None:
    u = kind.unit_roundoff
    # 1 + u lies half way between 1, which is even, and the next number.
    assert kind.exact(kind.rounded(np.array([1 + u, 1 + 2 * u]))).tolist() == [1.0, 1 + 2 * u]


def test_double_to_bfloat16_does_not_round_twice() -> None:
    assert BFLOAT16.exact(BFLOAT16.rounded(np.array([1 + 2**-8 + 2**-40, 1 + 2**-8]))).tolist() == [1.0078125, 1.0]


def test_bfloat16_adds_as_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    left, right = random_numbers(BFLOAT16, 5, 50_000), random_numbers(BFLOAT16, 6, 50_000)
    count = min(len(left), len(right))
    theirs = left[:count].view(ml_dtypes.bfloat16) + right[:count].view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(BFLOAT16.add(left[:count], right[:count]), theirs.view("<u2"))


def test_results_have_the_recorded_bits() -> None:
    assert len(ROWS) == 180
    for row in ROWS:
        kind, rounding = kind_of(row)
        result = reduced(row["algorithm"], int(row["P"]), kind, rounding, int(row["seed"]))
        words = result.view(f"<u{kind.item_bytes}")
        expected = [int(row[name], 16) for name in ("e0", "e1", "e120", "e239")]
        assert [int(words[place]) for place in (0, 1, 120, 239)] == expected, row
        assert sha256(result.tobytes()).hexdigest() == row["sha256_rank_0"], row


def scalar_sum(kind: FloatType, one: float, other: float) -> float | Fraction | None:
    """Return the sum of two numbers by the definition of IEEE 754; None for NaN."""
    if isnan(one) or isnan(other) or (isinf(one) and isinf(other) and one != other):
        return None
    if isinf(one) or isinf(other):
        return one if isinf(one) else other
    total = Fraction(one) + Fraction(other)
    if not total:
        # Only two negative zeros have a negative sum.
        return -0.0 if copysign(1, one) < 0 and copysign(1, other) < 0 else 0.0
    rounded = nearest(total, kind)
    return copysign(inf, total) if rounded is None else copysign(float(rounded), total)


@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
@given(data=st.data())
def test_sums_follow_the_definition_bit_by_bit(kind: FloatType, data: st.DataObject) -> None:
    size = 8 * kind.item_bytes
    # All words: NaN of every sign and payload, infinities, zeros and subnormal numbers among them.
    special = [
        0,
        1,
        1 << size - 1,
        *(int(kind.rounded(np.array([x])).view(f"<u{size // 8}")[0]) for x in (inf, -inf, 1, nan)),
    ]
    word = st.integers(0, 2**size - 1) | st.sampled_from(special)
    words = data.draw(st.lists(st.lists(word, min_size=3, max_size=3), min_size=2, max_size=5))
    operands = [np.array(each, f"<u{size // 8}").view(kind.storage) for each in words]
    total = kind.read(sum_in_order(kind, operands))
    rows = [kind.exact(each).tolist() for each in operands]
    for place, found in enumerate(total.view(f"<u{size // 8}").tolist()):
        expected: float | Fraction | None = rows[0][place]
        for row in rows[1:]:
            expected = None if expected is None else scalar_sum(kind, float(expected), row[place])
        right = kind.nan if expected is None else kind.rounded(np.array([float(expected)]))
        assert found == int(np.atleast_1d(right).view(f"<u{size // 8}")[0])


@pytest.mark.parametrize("kind", FLOAT_TYPES.values(), ids=str)
def test_long_vectors_are_added_one_by_one(kind: FloatType) -> None:
    # Longer than a piece, and with an odd rest.
    count = 2 * PIECE + 77
    operands = [kind.rounded(generated(1, rank, range(count))) for rank in range(24)]
    expected = operands[0]
    for operand in operands[1:]:
        expected = kind.add(expected, operand)
    np.testing.assert_array_equal(kind.read(sum_in_order(kind, operands)), expected)
    if kind is FLOAT32:
        # `np.sum` adds in pairs along a contiguous axis.
        pairwise = np.sum(np.ascontiguousarray(np.array(operands).T), axis=1)
        assert (pairwise != expected).mean() > 0.5
