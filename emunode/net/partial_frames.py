"""Frames that have arrived in part. A stream whose last read ended with a whole frame takes no memory."""

from collections.abc import Callable, Iterator

from emunode.errors import FrameError
from emunode.net.wire import LENGTH


class PartialFrames:
    """The beginnings of frames, by descriptor."""

    def __init__(self) -> None:
        self._partial: dict[int, bytearray] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._partial

    def __len__(self) -> int:
        return len(self._partial)

    def forget(self, fd: int) -> None:
        """Drop the partial frame of a stream."""
        self._partial.pop(fd, None)

    def split(self, fd: int, data: bytes | memoryview, limit: Callable[[int], int]) -> Iterator[bytes]:
        """Yield every frame that `data` completes, its length included, and keep the rest.

        FrameError as soon as the header of an incomplete frame exceeds `limit(fd)`. The limit is looked up late, since a
        hello raises it for the frames behind it. The rest is kept only when the iterator is exhausted.
        """
        whole: bytes | bytearray | memoryview = data
        if fd in self._partial:
            # Taken out while frames are handed over: an owner that raises FrameError leaves no half-read frame
            # behind.
            whole = self._partial.pop(fd)
            whole += data
            if _missing(whole, limit(fd)) > 0:  # return early: otherwise a long frame would be copied at every read
                self._partial[fd] = whole
                return
        start = 0
        while len(whole) - start >= LENGTH.size:
            stop = start + LENGTH.size + LENGTH.unpack_from(whole, start)[0]
            if stop > len(whole):
                break
            # Bytes for the same reason: the owner keeps the payload of a frame beyond the next read.
            yield bytes(whole[start:stop])
            start = stop
        if start < len(whole):
            # A copy: `data` may be a view of the shared buffer, which the next read of any stream overwrites.
            rest = bytearray(whole[start:])
            # For its check of the limit; how much is missing does not matter here.
            _missing(rest, limit(fd))
            self._partial[fd] = rest


def _missing(rest: bytearray, limit: int) -> int:
    """Return a lower bound of the bytes that the first frame still lacks; FrameError if it would be longer than
    `limit`.
    """
    if len(rest) < LENGTH.size:
        return LENGTH.size - len(rest)
    length: int = LENGTH.unpack_from(rest)[0]
    if length > limit:
        raise FrameError(f"frame of {length} bytes; at most {limit} are allowed here")
    return LENGTH.size + length - len(rest)
