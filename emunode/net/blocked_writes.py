"""Writing to non-blocking streams: bytes that a socket does not take at once are kept until it is writable."""

import os
import select
from collections.abc import Iterable

from emunode.errors import FrameError
from emunode.net.wire import FRAME_LIMIT, LENGTH

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
