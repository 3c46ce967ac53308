"""Payloads: every byte is a pure function of (seed, origin, target, message), so every receiver can be checked."""

from functools import lru_cache
from hashlib import shake_128

from emunode.model import Rank

CACHE_BYTES = 32 * 2**20
"""Most payload bytes that a host caches for comparison."""


class Payloads:
    """The messages of one run, cut into numbered segments whose sizes differ by at most one byte.

    `message_bytes` is the size of one message in bytes. Segment numbers run over all messages of one (origin, target):
    number = message x segments_per_message + place in the message.
    """

    def __init__(self, seed: int, message_bytes: int, segments_per_message: int) -> None:
        self.message_bytes = message_bytes
        self.segments_per_message = segments_per_message
        self._seed = seed
        # A cache of segments that are compared again and again; bounded by bytes, and by entries for tiny segments.
        keep = max(4, min(65536, CACHE_BYTES * segments_per_message // max(1, message_bytes)))
        self.segment = lru_cache(maxsize=keep)(self._segment)
        self._message = lru_cache(maxsize=max(4, keep // segments_per_message))(self.message)

    def message(self, origin: Rank, target: Rank, number: int) -> bytes:
        """Message `number` of `origin` for `target`: `message_bytes` bytes."""
        # The name is the whole input, so any host computes the same bytes without having met the sender.
        name = f"{self._seed}/{origin}/{target}/{number}".encode()
        # An extendable-output function gives any length in one call; security plays no part here.
        return shake_128(name, usedforsecurity=False).digest(self.message_bytes)

    def segment_bytes(self, number: int) -> int:
        """Size in bytes of one segment; the first `message_bytes mod segments_per_message` segments are one byte longer."""
        size, longer = divmod(self.message_bytes, self.segments_per_message)
        return size + (number % self.segments_per_message < longer)

    def fold(self, one: int, other: int, segment: int) -> int:
        """Combine two contributions to a segment, as numbers.

        Exclusive or: associative, commutative, and the result is no longer. It does not see a contribution that is folded
        three times, so results are also judged by counts (`miscounted_results`).
        """
        del segment
        return one ^ other

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        message_number, place = divmod(segment, self.segments_per_message)
        size, longer = divmod(self.message_bytes, self.segments_per_message)
        # Segments before `place` have `size` bytes, and the first `longer` of them one more.
        start = place * size + min(place, longer)
        return self._message(origin, target, message_number)[start : start + size + (place < longer)]
