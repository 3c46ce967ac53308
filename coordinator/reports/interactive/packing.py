"""Integers as short text: fixed numbers of base-64 digits, about a quarter of the same numbers in JSON."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
"""The same as in `templates/report/packing.js`."""
_CODES: Final = np.frombuffer(DIGITS.encode(), dtype=np.uint8)


def pack(values: ArrayLike) -> str:
    """Write the values, each at least -1, as text: the digits of a value, then the digits of every value plus 1."""
    shifted = np.asarray(values, dtype=np.int64).ravel() + 1
    if len(shifted) and shifted.min() < 0:
        raise ValueError(f"cannot pack {shifted.min() - 1}: expected values from -1")
    width = 1
    while len(shifted) and shifted.max() >= 64**width:
        width += 1
    digits = np.stack([(shifted >> (6 * place)) & 63 for place in reversed(range(width))], axis=-1)
    return f"{width}{_CODES[digits].tobytes().decode()}"


def unpack(text: str) -> list[int]:
    """Read the values that `pack` wrote. Raises ValueError if the text is malformed."""
    width, digits = int(text[0]), text[1:]
    if len(digits) % width:
        raise ValueError(f"{len(digits)} digits cannot be divided into numbers of {width}")
    values = []
    for at in range(0, len(digits), width):
        value = 0
        for digit in digits[at : at + width]:
            value = 64 * value + DIGITS.index(digit)
        values.append(value - 1)
    return values
