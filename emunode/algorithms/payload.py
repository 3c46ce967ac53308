"""What sources send: every byte is a pure function of (seed, origin, target, message), so any receiver can be judged."""

from functools import lru_cache
from hashlib import shake_128

from emunode.model import Rank

CACHE_BYTES = 32 * 2**20
"""Bound on the payload bytes a host keeps for comparison."""


class Payloads:
    """The messages of one run, cut into `pieces` numbered pieces whose sizes differ by at most one byte.

    `message_bytes` is the size of one message in bytes. Piece numbers run over all messages of one (origin, target):
    number = message x pieces + piece.
    """

    def __init__(self, seed: int, message_bytes: int, pieces: int) -> None:
        self.message_bytes = message_bytes
        self.pieces = pieces
        self._seed = seed
        keep = max(4, min(65536, CACHE_BYTES * pieces // max(1, message_bytes)))
        self.piece = lru_cache(maxsize=keep)(self._piece)
        self._message = lru_cache(maxsize=max(4, keep // pieces))(self.message)

    def message(self, origin: Rank, target: Rank, number: int) -> bytes:
        """Message `number` of `origin` for `target`: `message_bytes` bytes."""
        name = f"{self._seed}/{origin}/{target}/{number}".encode()
        return shake_128(name, usedforsecurity=False).digest(self.message_bytes)

    def piece_bytes(self, piece: int) -> int:
        """Size in bytes of one piece: the first `message_bytes mod pieces` are one byte longer."""
        return self.message_bytes // self.pieces + (piece % self.pieces < self.message_bytes % self.pieces)

    def _piece(self, origin: Rank, target: Rank, segment: int) -> bytes:
        number, piece = divmod(segment, self.pieces)
        message = self._message(origin, target, number)
        size, longer = divmod(self.message_bytes, self.pieces)
        start = piece * size + min(piece, longer)
        return message[start : start + size + (piece < longer)]
