"""The results of a reduction of real numbers: one array of the bits that ranks ended with."""

from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emunode.model import NumberType


class ResultArray(NamedTuple):
    """The results that ranks ended with."""

    numbers: NDArray[Any]
    """Of shape (rows, elements): a row for each rank that owns data, or one row where each element is at one rank. A
    missing element has a word of ones: this is no number of any sum."""
    type: NumberType

    @property
    def words(self) -> NDArray[Any]:
        """The bits of the numbers."""
        return self.numbers.view(f"<u{self.numbers.dtype.itemsize}")

    @property
    def missing_elements(self) -> int:
        """The number of elements that ranks do not have."""
        if not self.numbers.strides[0]:
            return int(is_missing(self.numbers[0]).sum()) * len(self.numbers)
        return sum(int(is_missing(row).sum()) for row in self.numbers)

    @property
    def hash(self) -> str:
        """The SHA-256 of the bytes of all rows, the lowest rank first."""
        digest = sha256()
        for row in self.numbers:
            digest.update(np.ascontiguousarray(row).data)
        return digest.hexdigest()

    @property
    def distinct_rows(self) -> list[NDArray[Any]]:
        """The rows with different bits: two NaN are equal here, and +0 and -0 are not."""
        if not self.numbers.strides[0]:
            return [self.numbers[0]]
        return list({sha256(np.ascontiguousarray(row).data).digest(): row for row in self.numbers}.values())


def is_missing(row: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each element of a row is missing."""
    words = row.view(f"<u{row.dtype.itemsize}")
    missing: NDArray[np.bool_] = words == ~np.zeros((), words.dtype)
    return missing
