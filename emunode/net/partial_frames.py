"""Frames that have arrived or left in part. A stream whose last read ended with a whole frame takes no memory.

Bytes that a non-blocking socket does not take at once are kept until it is writable.
"""

import os
import select
from collections.abc import Callable, Iterable, Iterator

from emunode.errors import FrameError
from emunode.net.wire import FRAME_LIMIT, LENGTH


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


READ = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
WRITE = READ | select.EPOLLOUT


class BlockedWrites:
    """The unwritten ends of frames, by descriptor; their streams are registered with `epoll` for writing too."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._blocked: dict[int, bytearray] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._blocked

    def __len__(self) -> int:
        return len(self._blocked)

    def forget(self, fd: int) -> None:
        """Drop the unwritten bytes of a stream."""
        self._blocked.pop(fd, None)

    def send_all(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Write each frame to its stream, or as much as the socket takes; the rest follows when the socket is writable.

        A frame for a stream that has ended is dropped: the poller reports ends, this call never does. FrameError for a frame
        that no peer would accept.
        """
        blocked, write = self._blocked, os.write
        for fd, frame in frames:
            # Bytes of this stream are waiting already: anything written now would overtake them.
            if blocked and fd in blocked:
                blocked[fd] += frame
                continue
            try:
                done = write(fd, frame)
            # The socket's buffer is full, so nothing of this frame was taken.
            except BlockingIOError:
                done = 0
            # The poller reports the end of the stream; the frame would be lost in any case.
            except OSError:
                continue
            if done != len(frame):
                self._block(fd, frame, done)

    def _block(self, fd: int, frame: bytes, done: int) -> None:
        """Keep the part of a frame that the socket did not take."""
        if len(frame) > FRAME_LIMIT + LENGTH.size:
            raise FrameError(
                f"frame of {len(frame)} bytes cannot be sent: at most {FRAME_LIMIT} cross a stream at once"
            )
        # Only now a copy: a frame that was written whole needs no buffer.
        self._blocked[fd] = bytearray(memoryview(frame)[done:])
        self._epoll.modify(fd, WRITE)

    def flush(self, fd: int) -> None:
        """Write more to a stream that is writable again; OSError if that fails."""
        rest = self._blocked[fd]
        try:
            done = os.write(fd, rest)
        except BlockingIOError:
            return
        del rest[:done]
        if not rest:
            del self._blocked[fd]
            # Writing is no longer of interest: the poller would report a writable socket at every turn.
            self._epoll.modify(fd, READ)
