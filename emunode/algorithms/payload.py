"""Payloads: every byte is a pure function of (seed, origin, target, message), so every receiver can be checked."""

from collections.abc import Container, Sequence
from functools import lru_cache
from hashlib import shake_128

from emunode.model import ALL_RANKS, EvenParts, Rank

CACHE_BYTES = 32 * 2**20
"""Most payload bytes that a host caches for comparison."""


def block_owner(origin: Rank, target: Rank) -> Rank:
    """Return the rank whose block a segment belongs to: its target, or for a finished block on its way to all, its
    origin.
    """
    return origin if target == ALL_RANKS else target


class Payloads:
    """The messages of one run, cut into numbered segments whose sizes differ by at most one element, here a byte.

    `message_bytes` is the size of one message in bytes; the blocks of the ranks in `short` are one element shorter. Segment
    numbers run over all messages of one (origin, target): number = message x segments_per_message + place in the message.
    """

    element_bytes = 1
    """Bytes that are never cut apart."""
    ordered = False
    """Whether results depend on the order of folds."""

    def __init__(self, seed: int, message_bytes: int, segments_per_message: int, short: Container[Rank] = ()) -> None:
        self.message_bytes = message_bytes
        self.segments_per_message = segments_per_message
        self._seed = seed
        self._short = short
        elements = message_bytes // self.element_bytes
        self._cuts = [EvenParts(elements - short, segments_per_message, self.element_bytes) for short in range(2)]
        # A cache of segments that are compared again and again; bounded by bytes, and by entries for tiny segments.
        keep = max(4, min(65536, CACHE_BYTES * segments_per_message // max(1, message_bytes)))
        self.segment = lru_cache(maxsize=keep)(self._segment)
        self._message = lru_cache(maxsize=max(4, keep // segments_per_message))(self.message)

    def message(self, origin: Rank, target: Rank, number: int) -> bytes:
        """Return message `number` of `origin` for `target`."""
        # The name is the whole input, so any host computes the same bytes without having met the sender.
        name = self.message_name(origin, target, number)
        # An extendable-output function gives any length in one call; security plays no part here.
        return shake_128(name.encode(), usedforsecurity=False).digest(self.size(block_owner(origin, target)))

    def message_name(self, origin: Rank, target: Rank, number: int) -> str:
        """Return the input that a message is computed from."""
        return f"{self._seed}/{origin}/{target}/{number}"

    def size(self, owner: Rank) -> int:
        """Return the size in bytes of a message, or of the block of `owner`."""
        return self.message_bytes - (owner in self._short) * self.element_bytes

    def cut(self, owner: Rank) -> EvenParts:
        """Return how a message, or the block of `owner`, is cut into segments."""
        return self._cuts[owner in self._short]

    def segment_bytes(self, owner: Rank, number: int) -> int:
        """Return the size in bytes of a segment of the block of `owner`, or of any message where the vector stays
        whole.
        """
        return self.cut(owner).size(number % self.segments_per_message)

    def fold(self, one: int, other: int, owner: Rank, segment: int) -> int:
        """Combine two contributions to a segment of the block of `owner`, as numbers.

        Exclusive or: associative, commutative, and the result is no longer. It does not see a contribution that is folded
        three times, so results are also judged by counts (`miscounted_results`).
        """
        del owner, segment
        return one ^ other

    def folded(self, operands: Sequence[bytes], owner: Rank, segment: int) -> bytes:
        """Return the fold of contributions and partial results from the left; without operands, the neutral element."""
        if len(operands) == 1:
            return operands[0]
        total = 0
        for operand in operands:
            total = self.fold(total, int.from_bytes(operand), owner, segment)
        return total.to_bytes(self.segment_bytes(owner, segment))

    def result(self, folded: bytes, owner: Rank, segment: int) -> bytes:
        """Return the result that a rank ends with, of the fold of everything that it has."""
        del owner, segment
        return folded

    def operand(self, rank: Rank, target: Rank, segment: int) -> bytes:
        """Return the contribution of a rank to a segment of the block of `target`, in the form that `folded` takes."""
        return self.segment(rank, target, segment)

    def first_element(self, owner: Rank, number: int) -> int:
        """Return the place of a segment in its message or block, in elements."""
        return self.cut(owner).start(number % self.segments_per_message)

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        owner = block_owner(origin, target)
        start = self.first_element(owner, segment)
        message = self._message(origin, target, segment // self.segments_per_message)
        return message[start : start + self.segment_bytes(owner, segment)]
