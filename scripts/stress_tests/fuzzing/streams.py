"""Streams: frames split at arbitrary places, and written through sockets that accept few bytes."""

import select
from collections.abc import Callable

from emunode.net import blocked_writes, wire
from emunode.net import framed_streams as links
from stress_tests.fuzzing.decoders import PACKETS
from stress_tests.fuzzing.source import Target


def plain_frames(data: bytes) -> tuple[list[bytes], int]:
    """Return whole frames of a stream, read plainly, and where the rest begins."""
    found, start = [], 0
    while len(data) - start >= 4:
        stop = start + 4 + int.from_bytes(data[start : start + 4], "little")
        if stop > len(data):
            break
        found.append(data[start:stop])
        start = stop
    return found, start


class Descriptors:
    """Streams as buffers of arrived bytes, with their poller and the system calls on them."""

    def __init__(self) -> None:
        self.arrived: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.written: dict[int, bytes] = {}
        self.events: list[tuple[int, int]] = []
        self.most = 1
        """Bytes accepted per write; every other write accepts none."""
        self.full = False

    def poll(self, _seconds: float, _most: int) -> list[tuple[int, int]]:
        """Return events since the last call."""
        events, self.events = self.events, []
        return events

    def register(self, fd: int, mask: int) -> None:
        """Watch a stream."""

    modify = register

    def unregister(self, fd: int) -> None:
        """Stop watching a stream."""

    def read(self, fd: int, size: int) -> bytes:
        """Return arrived bytes; raises BlockingIOError while none arrived, and returns no bytes at the end."""
        data, self.arrived[fd] = self.arrived[fd][:size], self.arrived[fd][size:]
        if not data and fd not in self.ended:
            raise BlockingIOError
        return data

    def readv(self, fd: int, buffers: list[memoryview]) -> int:
        """Return the same into a buffer."""
        data = self.read(fd, len(buffers[0]))
        buffers[0][: len(data)] = data
        return len(data)

    def write(self, fd: int, data: bytes) -> int:
        """Accept a part of the bytes."""
        self.full = not self.full
        if self.full:
            raise BlockingIOError
        self.written[fd] = self.written.get(fd, b"") + bytes(data[: self.most])
        return min(len(data), self.most)

    def close(self, fd: int) -> None:
        """Close a stream."""


ENDS = (1_000_000, 1_000_001)
"""Two unused descriptor numbers."""
SMALL_BUFFER = 600
"""Bytes of the shared buffer: small enough for frames to be longer."""


def make_fuzz_streams() -> Callable[[bytes], None]:  # noqa: PLR0915  # one scene
    """Two streams with the same bytes, cut differently, give the same frames and keep only the incomplete one.

    A stream with an oversized frame ends there. All written bytes arrive, however few the socket accepts at once.
    """
    system = Descriptors()
    links.os = blocked_writes.os = system  # type: ignore[assignment]
    links.BUFFER_BYTES = SMALL_BUFFER
    frames: dict[int, list[bytes]] = {}
    ends: dict[int, str] = {}
    streams = links.FramedStreams(lambda fd, frame: frames[fd].append(frame), lambda fd, why: ends.update({fd: why}))
    streams._epoll.close()
    streams._epoll = streams._blocked._epoll = system  # type: ignore[assignment]

    def fuzz_streams(data: bytes) -> None:
        if len(data) < 3:
            return
        least = 1 + len(data) // 32  # a limited number of parts: more would test nothing new
        flags, cuts, data = data[0], (least + data[1], least + 8 * data[2]), data[3:]
        frames.update({fd: [] for fd in ENDS})
        ends.clear()
        streams._reading = links.READ_BYTES
        limit = wire.HELLO_LIMIT if flags & 1 else wire.FRAME_LIMIT
        for fd in ENDS:
            streams.add(fd, authenticated=not flags & 1)
        fed = feed(data, cuts, hang_up=bool(flags & 2))
        for fd in ENDS:
            expected, rest = plain_frames(data[: fed[fd]])
            found, kept = frames[fd], bytes(streams._partial._partial.get(fd, b""))
            if ends.get(fd, "").startswith("frame of"):
                assert found == expected[: len(found)]
                assert not kept
                at = sum(map(len, found))
                assert int.from_bytes(data[at : at + 4], "little") > limit
            else:
                assert found == expected
                assert not system.arrived[fd]
                assert kept == (b"" if fd in ends else data[rest : fed[fd]])
                assert (fd in ends) == bool(flags & 2)
        if flags & 4 and ENDS[0] not in ends:
            answer(frames[ENDS[0]], least + flags)
        for fd in ENDS:
            streams._forget(fd)
        streams.poll()
        assert streams.idle
        assert not streams.unauthenticated
        streams._special.clear()

    def feed(data: bytes, cuts: tuple[int, ...], *, hang_up: bool) -> dict[int, int]:
        """Deliver everything; the number of bytes per stream."""
        system.arrived, system.ended = dict.fromkeys(ENDS, b""), set()
        fed = dict.fromkeys(ENDS, 0)
        while any(fed[fd] < len(data) and fd not in ends for fd in ENDS):
            for fd, cut in zip(ENDS, cuts, strict=True):
                if fed[fd] < len(data) and fd not in ends:
                    system.arrived[fd] = data[fed[fd] : fed[fd] + cut]
                    fed[fd] = min(fed[fd] + cut, len(data))
                    system.events.append((fd, select.EPOLLIN))
            streams.poll()
        if hang_up:
            system.ended = set(ENDS)
            system.events = [(fd, select.EPOLLIN | select.EPOLLRDHUP) for fd in ENDS if fd not in ends]
            streams.poll()
        return fed

    def answer(sent: list[bytes], most: int) -> None:
        """Write frames through a socket that accepts few bytes."""
        fd = ENDS[0]
        system.written, system.most, system.full = {}, most, False
        streams.send_all((fd, frame) for frame in sent)
        while fd in streams._blocked:
            system.events.append((fd, select.EPOLLOUT))
            streams.poll()
        assert system.written.get(fd, b"") == b"".join(sent)

    return fuzz_streams


def seeds() -> list[bytes]:
    """Return frames of all sizes, split at several places."""
    long = wire.frame(b"y" * 700)
    return [
        bytes((flags, cut, 255 - cut)) + b"".join(frames)
        for flags, cut in ((0, 3), (1, 9), (4, 40), (6, 200), (7, 100))
        for frames in (PACKETS, (wire.frame(b"x" * 300), wire.frame(b"")), (long, *PACKETS, long))
    ]


TARGETS = {"streams": Target(make_fuzz_streams, 1_000_000, seeds)}
