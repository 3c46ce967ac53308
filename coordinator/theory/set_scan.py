"""Every set of a given number of places of each part, thousands at once.

A set is extended place by place, and only by places after its last one in the same part. So every set is built exactly
once, in lexicographic order and without comparisons. Sets with equal beginnings share the work for them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from coordinator.theory.dependence.bit_rows import Bits, Indices

Sets = TypeVar("Sets", Bits, Indices)

SETS_AT_ONCE: Final = 2**12
WORDS_AT_ONCE: Final = 2**18
"""Words of united rows that are made at once: two megabytes, so that they fit into a cache."""


def sets_at_once(width: int) -> int:
    """Return how many sets to unite at once, for rows of `width` words."""
    return max(1, min(SETS_AT_ONCE, WORDS_AT_ONCE // max(1, width)))


class SetScan:
    """Every choice of `count` of `room` places for each part (room, count), in blocks of about `at_once` sets.

    Each part chooses for itself, so two parts for one kind of place may choose the same place; `without_repetition`
    finds these sets.
    """

    def __init__(self, choices: Sequence[tuple[int, int]], at_once: int = SETS_AT_ONCE) -> None:
        self._at_once = at_once
        # Each place leaves enough others for the rest of its part, so no beginning of a set is built in vain.
        self._ends = [(part, room - rest) for part, (room, count) in enumerate(choices) for rest in range(count)[::-1]]

    def indices(self) -> Iterator[Indices]:
        """Yield blocks of shape (sets, places): the indices of the places of each set, one part after the other."""

        def extended(sets: Indices, _: int, added: Indices) -> Indices:
            return np.concatenate([sets, added[:, None]], axis=1)

        yield from self._scanned(np.zeros((1, 0), np.int64), extended)

    def unions(self, tables: Sequence[Bits], given: Bits) -> Iterator[Bits]:
        """Yield blocks of shape (sets, words): for each set the rows of its places and the row `given`, united.

        `tables` has a row for each place, by part. The blocks have the same sets as the blocks of `indices`.
        """

        def extended(sets: Bits, part: int, added: Indices) -> Bits:
            sets |= tables[part][added]
            return sets

        yield from self._scanned(given.reshape(1, -1), extended)

    def _scanned(self, start: Sets, extended: Callable[[Sets, int, Indices], Sets]) -> Iterator[Sets]:
        """Yield all sets in blocks, each extended place by place from `start`.

        `extended` gets shorter sets, a part, and a place of that part to add to each set. The sets are copies: it may
        change them.
        """

        def level(depth: int) -> Iterator[tuple[Sets, Indices]]:
            if not depth:
                yield start, np.array([-1])
                return
            part, end = self._ends[depth - 1]
            is_first = depth == 1 or self._ends[depth - 2][0] != part
            for sets, last in level(depth - 1):
                # Each set is extended by every place after its last one.
                after = np.full(len(sets), 0) if is_first else last + 1
                more = np.maximum(end - after, 0)
                ends = np.cumsum(more)
                at = 0
                while at < len(sets):
                    # As many sets as have at most `at_once` extensions together, but at least one.
                    before = int(ends[at - 1]) if at else 0
                    until = max(at + 1, int(np.searchsorted(ends, before + self._at_once, side="right")))
                    counts = more[at:until]
                    total = int(ends[until - 1]) - before
                    # All extensions in one array, without a loop in Python: `repeat` takes off the extensions of the
                    # sets before, so that every set counts from its first place on.
                    shift = after[at:until] - (np.cumsum(counts) - counts)
                    added = np.arange(total) + np.repeat(shift, counts)
                    if total:
                        yield extended(np.repeat(sets[at:until], counts, axis=0), part, added), added
                    at = until

        for sets, _ in level(len(self._ends)):
            yield sets


def without_repetition(sets: Indices, kinds: Sequence[object]) -> NDArray[np.bool_]:
    """Return whether each set of places, given by indices, has no place twice; `kinds` has the kind of each place."""
    apart = np.ones(len(sets), np.bool_)
    for one, other in combinations(range(len(kinds)), 2):
        # Within a part, places are different by construction; a comparison costs little.
        if kinds[one] == kinds[other]:
            apart &= sets[:, one] != sets[:, other]
    return apart
