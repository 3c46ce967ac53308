"""Arithmetic on bit rows: in a row of 64-bit words, bit t is a truth value of trial t.

A matrix of such rows has the shape (things, words). One operation of numpy on it decides 64 trials per word at once. A
number per trial is kept in planes: plane i of the shape (words,) or (things, words) holds bit i of every number.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Indices = NDArray[np.int64]
ALL: Final = np.uint64(2**64 - 1)


def words_for(trials: int) -> int:
    """Return the words of a row that holds this many trials."""
    return -(-trials // 64)


def no_trials(things: int, words: int) -> Bits:
    """Return rows with every bit 0."""
    return np.zeros((things, words), np.uint64)


def first_trials(trials: int) -> Bits:
    """Return a row with the bits of the first `trials` 1, and the others 0."""
    return packed(np.arange(words_for(trials) * 64) < trials)


def packed(flags: NDArray[np.bool_]) -> Bits:
    """Pack truth values along the last axis as bits, filled up with 0 to whole words."""
    # A negative remainder: the number of bits that are missing to a whole word.
    fill = -flags.shape[-1] % 64
    if fill:
        flags = np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, fill)])
    # The result keeps the order of axes in memory, and only whole words of the last one can be viewed.
    packed_bytes = np.ascontiguousarray(np.packbits(flags, axis=-1, bitorder="little"))
    # Little-endian bytes and bits, so that bit t of a row is trial t on every machine.
    return packed_bytes.view("<u8").astype(np.uint64, copy=False)


def packed_tables(flags: NDArray[np.bool_]) -> Bits:
    """Pack truth values along the last axis as bits, with all axes but the first and the last as one row."""
    words = packed(flags)
    return words.reshape(len(flags), prod(words.shape[1:]))


def unpacked(rows: Bits) -> NDArray[np.uint8]:
    """Unpack bits to 0 and 1, for whole words: the inverse of `packed`."""
    return np.unpackbits(np.ascontiguousarray(rows, "<u8").view(np.uint8), axis=-1, bitorder="little")


def mark(rows: Bits, things: Indices, trials: Indices) -> None:
    """Set the bit of each trial in the row of each thing; both arrays have the same shape."""
    # A view of the rows. Several trials of one thing may share a word, so the bits are added by `bitwise_or.at`;
    # indexing would keep the last one only.
    flat = rows.reshape(-1)
    places = things.astype(np.int64) * rows.shape[1] + (trials >> 6)
    np.bitwise_or.at(flat, places.ravel(), (np.uint64(1) << (trials & 63).astype(np.uint64)).ravel())


def total(rows: Bits) -> int:
    """Return the number of bits that are 1."""
    return int(np.bitwise_count(rows).sum(dtype=np.int64))


# --- numbers in planes -------------------------------------------------------------------------------------------------


def added(one: Sequence[Bits], other: Sequence[Bits]) -> list[Bits]:
    """Return the sum of two numbers per trial."""
    digits: list[Bits] = []
    carry: Bits | None = None
    for at in range(max(len(one), len(other))):
        bits = [number[at] for number in (one, other) if at < len(number)]
        if carry is not None:
            bits.append(carry)
        # The digit of a sum is the exclusive or of the digits and the carry.
        digits.append(reduce(np.bitwise_xor, bits))
        match bits:
            case [first, second, third]:
                # A carry comes from two ones: both numbers, or one of them and the carry from below.
                carry = (first & second) | (third & (first ^ second))
            case [first, second]:
                carry = first & second
            case _:
                carry = None
    return digits if carry is None else [*digits, carry]


def counted(rows: Bits) -> list[Bits]:
    """Count for every trial the rows that have its bit set, as planes of the shape (words,)."""
    if not len(rows):
        return []
    # Pairs are added, then pairs of sums, and so on: all pairs of one level in a few operations.
    planes = [rows]
    while len(planes[0]) > 1:
        if len(planes[0]) % 2:
            planes = [np.concatenate([plane, np.zeros_like(plane[:1])]) for plane in planes]
        planes = added([plane[::2] for plane in planes], [plane[1::2] for plane in planes])
    return [plane[0] for plane in planes]


def greater(one: Sequence[Bits], other: Sequence[Bits]) -> Bits:
    """Return the trials whose first number is greater than the second; one of the two has at least one plane."""
    like = (*one, *other)[0]
    zero = np.zeros_like(like)
    larger = zero
    # From the lowest plane up: a higher plane that differs overrules everything below it.
    for at in range(max(len(one), len(other))):
        digit = one[at] if at < len(one) else zero
        other_digit = other[at] if at < len(other) else zero
        # Where the planes differ, the 1 decides; where they agree, the lower planes have decided.
        larger = (digit & ~other_digit) | (larger & ~(digit ^ other_digit))
    return larger


def numbers(planes: Sequence[Bits], trials: int) -> NDArray[np.int64]:
    """Return the numbers in planes of the shape (words,), one per trial."""
    values = np.zeros(trials, np.int64)
    for at, plane in enumerate(planes):
        values += unpacked(plane)[:trials].astype(np.int64) << at
    return values


# --- groups of rows ----------------------------------------------------------------------------------------------------


class Groups:
    """Rows in groups, to be combined group by group.

    `members` has the indices of rows, the members of group 0 first; `sizes` has the size of every group, 1 or more.
    """

    def __init__(self, members: Indices, sizes: Indices) -> None:
        self.order: Indices = np.argsort(-sizes, kind="stable")
        """The groups in the order of the results: by descending size, so that the groups with a member i come first."""
        starts = (np.cumsum(sizes) - sizes)[self.order]
        sizes = sizes[self.order]
        # Member i of all groups is one array, so that a few operations of numpy combine any number of groups. The
        # groups are sorted by size, and `searchsorted` counts the groups with more than i members.
        self.columns: list[Indices] = [
            members[starts[: int(np.searchsorted(-sizes, -at))] + at] for at in range(int(sizes.max(initial=0)))
        ]
        """Column i: member i of every group that has more than i members, in the order of the results."""

    def __len__(self) -> int:
        return len(self.order)

    def members(self, group: int) -> list[int]:
        """Return the members of one group, numbered in the order of the results."""
        return [int(column[group]) for column in self.columns if group < len(column)]

    def any(self, rows: Bits) -> Bits:
        """Return for each group the trials where some member has its bit set."""
        return self.combined(np.bitwise_or, rows.__getitem__)

    def all(self, rows: Bits) -> Bits:
        """Return for each group the trials where every member has its bit set."""
        return self.combined(np.bitwise_and, rows.__getitem__)

    def combined(self, operation: np.ufunc, rows_of: Callable[[Indices], Bits]) -> Bits:
        """Combine the members of each group with `operation`.

        `rows_of` returns the rows of some members. It must return a fresh array, because the rows are changed in place.
        """
        if not self.columns:
            return rows_of(self.order)
        result = rows_of(self.columns[0])
        for column in self.columns[1:]:
            # Groups without this member keep their result: they are at the end.
            part = result[: len(column)]
            operation(part, rows_of(column), out=part)
        return result

    def counts(self, rows: Bits) -> list[Bits]:
        """Count for each group and trial the members that have their bit set, as planes."""
        planes: list[Bits] = []
        for column in self.columns:
            member = rows[column]
            if len(column) < len(self):
                # A group without this member has nothing to count.
                missing = np.zeros((len(self) - len(column), rows.shape[1]), np.uint64)
                member = np.concatenate([member, missing])
            planes = added(planes, [member])
        return planes


def grouped(keys: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Return the rows sorted by keys (the first decides first), and the sizes of the groups with equal keys."""
    order = np.lexsort(tuple(reversed(keys)))
    if not len(order):
        return order, order
    new = np.zeros(len(order), np.bool_)
    # A group begins where any key differs from the row before.
    new[0] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    return order, np.diff(np.append(np.flatnonzero(new), len(order)))
