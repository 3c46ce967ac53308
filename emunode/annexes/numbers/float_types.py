"""Floating-point types of contributions: storage, precision, rounding and addition, on little-endian arrays.

An addition rounds to nearest, ties to even. A NaN of a sum is the positive quiet NaN without payload, because processors
differ in payload and sign. bfloat16 is stored as 16-bit words, the upper halves of float32; numpy cannot add them.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

PIECE: Final = 2**14
"""Elements that are added together: they stay in the cache from one addition to the next."""
FloatArray = NDArray[Any]
"""Numbers of one type in storage form: floats, or the 16-bit words of bfloat16."""
Doubles = NDArray[np.float64]


class FloatType:
    """A type of numbers: its storage, its addition and the numbers of its probe."""

    def __init__(self, name: str, storage: str, precision: int, large: float, small: float) -> None:
        self.name = name
        self.storage: np.dtype[Any] = np.dtype(storage)
        """The little-endian type of its arrays."""
        self.precision = precision
        """Bits of the significand, p."""
        self.large, self.small = large, small
        """(M, e) of a probe: M + e == M, however many of at most 24 ranks contribute e."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def item_bytes(self) -> int:
        """Bytes of one number."""
        return int(self.storage.itemsize)

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of one rounding, u = 2^-p."""
        return 2.0**-self.precision

    @cached_property
    def nan(self) -> FloatArray:
        """The one NaN of results, as an array of shape ()."""
        words = {8: 0x7FF8 << 48, 4: 0x7FC0 << 16, 2: 0x7E00}
        return np.array(words[self.item_bytes], f"<u{self.item_bytes}").view(self.storage)

    def read(self, payload: bytes | memoryview) -> FloatArray:
        """Return the numbers of a payload, without a copy."""
        return np.frombuffer(payload, self.storage)

    def add(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the sums, each rounded once, with every NaN replaced by `nan`."""
        total = np.empty_like(left)
        self.add_in_order([left, right], total)
        return total

    def add_in_order(self, operands: Sequence[FloatArray], total: FloatArray) -> None:
        """Put the left-deep sum of at least two arrays into `total`: the first and the second, then the third, and so on.

        Each addition rounds once. Every NaN of the sum is replaced by `nan`.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, len(total), PIECE):
                place = slice(start, start + PIECE)
                self._add_piece([each[place] for each in operands], total[place])

    def _add_piece(self, operands: Sequence[FloatArray], total: FloatArray) -> None:
        first, second, *others = operands
        np.add(first, second, out=total)
        for other in others:
            np.add(total, other, out=total)
        # Once, at the end: what is added to a NaN is a NaN, whatever its payload.
        undefined = self.undefined(total)
        if undefined.any():
            np.copyto(total, self.nan, where=undefined)

    def negative_zeros(self, count: int) -> FloatArray:
        """Return -0, the neutral element of addition, `count` times."""
        return self.rounded(np.full(count, -0.0))

    def undefined(self, numbers: FloatArray) -> NDArray[np.bool_]:
        """Return whether each number is a NaN."""
        return np.isnan(numbers)

    def canonical(self, numbers: FloatArray) -> FloatArray:
        """Return the numbers with every NaN replaced by `nan`; the same array if it has no NaN."""
        undefined = self.undefined(numbers)
        if undefined.any():
            numbers = np.where(undefined, self.nan, numbers)
        return numbers

    def rounded(self, numbers: Doubles) -> FloatArray:
        """Return float64 numbers, rounded once to this type."""
        with np.errstate(over="ignore"):
            return self.canonical(numbers.astype(self.storage))

    def of(self, numbers: Sequence[float]) -> FloatArray:
        """Return an array of numbers, rounded once to this type; OverflowError for a whole number beyond float64."""
        return self.rounded(np.array(numbers, np.float64))

    def exact(self, numbers: FloatArray) -> Doubles:
        """Return the numbers as float64: it holds all numbers of every type."""
        with np.errstate(invalid="ignore"):
            return numbers.astype("<f8")


class Bfloat16(FloatType):
    """The upper half of float32, in 16-bit words."""

    def __init__(self) -> None:
        super().__init__("bfloat16", "<u2", 8, 2.0**20, 1.0)

    @cached_property
    def nan(self) -> FloatArray:
        return np.array(0x7FC0, "<u2")

    def _add_piece(self, operands: Sequence[FloatArray], total: FloatArray) -> None:
        left, *others = operands
        for other in others:
            # 24 >= 2 * 8 + 2 bits: rounding the float32 sum again gives the sum rounded once.
            left = self._from_single(_single(left) + _single(other))
        total[...] = left

    def undefined(self, numbers: FloatArray) -> NDArray[np.bool_]:
        undefined: NDArray[np.bool_] = (numbers & 0x7FFF) > 0x7F80
        return undefined

    def rounded(self, numbers: Doubles) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            single = numbers.astype("<f4")
            # Rounding to nearest twice may go wrong at ties. The first rounding therefore goes to the neighbour with an
            # odd significand if it is inexact: the last bit then remembers the side of a tie that the number lies on.
            apart = numbers - single
            even = (single.view("<u4") & 1) == 0
            moved = np.nextafter(single, np.copysign(np.float32(np.inf), apart).astype("<f4"))
            return self._from_single(np.where((apart != 0) & even & ~np.isnan(apart), moved, single))

    def exact(self, numbers: FloatArray) -> Doubles:
        with np.errstate(invalid="ignore"):
            return _single(numbers).astype("<f8")

    def _from_single(self, numbers: NDArray[np.float32]) -> FloatArray:
        """Return float32 numbers rounded to the upper half, ties to even."""
        bits = numbers.view("<u4")
        # Adding just below half a unit, or half for an odd last bit, carries into the upper half where rounding goes up.
        upper = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")
        undefined = np.isnan(numbers)
        return np.where(undefined, self.nan, upper) if undefined.any() else upper


def _single(words: FloatArray) -> NDArray[np.float32]:
    """Return 16-bit words as the float32 numbers whose upper halves they are."""
    return (words.astype("<u4") << 16).view("<f4")


FLOAT64: Final = FloatType("float64", "<f8", 53, 2.0**60, 1.0)
FLOAT32: Final = FloatType("float32", "<f4", 24, 2.0**30, 1.0)
FLOAT_TYPES: Final = {
    kind.name: kind for kind in (FLOAT64, FLOAT32, Bfloat16(), FloatType("float16", "<f2", 11, 2.0**15, 2.0**-4))
}
"""The types by name."""
PROBED_AT_END: Final = {"bfloat16": (2.0**30, 1.0), "float16": (2.0**15, 2.0**-15)}
"""(M, e) of probes with `Rounding.END`, by type: M swallows e in float32, and the result is exact in the type."""


def sum_in_order(kind: FloatType, operands: Iterable[FloatArray]) -> bytes:
    """Return the bytes of the left-deep sum of at least one array: the first and the second, then the third, and so on."""
    # Not from zero (-0 would become +0), and not by `np.sum` (it adds in pairs).
    arrays = list(operands)
    if len(arrays) == 1:
        return arrays[0].tobytes()
    # Added where the bytes are to be: a copy of the sum would take longer than its additions.
    payload = BytesIO(bytes(arrays[0].nbytes))
    with payload.getbuffer() as buffer:
        kind.add_in_order(arrays, np.frombuffer(buffer, kind.storage))
    return payload.getvalue()
