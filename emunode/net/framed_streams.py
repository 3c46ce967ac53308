"""Framed TCP streams by the ten thousand: one edge-triggered epoll, no object and no task for a stream that is idle.

An idle stream costs its descriptor in the kernel, and an entry in each array that its owner indexes by descriptor. Bytes
are read until a read comes back short. A stream has a buffer only while a frame is partial (`PartialFrames`) or a write
is blocked (`BlockedWrites`). `FramedStreams` does not know the meaning of frames. It calls its owner with frames and
ends, by descriptor. Measured on two cores, this reaches more than 80 % of the rate of a bare epoll loop. One task and
one stream object per link reach 25 to 40 % (`scripts/bench core`).

Known weak spot: an owner that is called with a frame of a stream must not close that stream. It raises FrameError
instead.
"""

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from mmap import mmap
from struct import Struct

import trio

from emunode.errors import FrameError
from emunode.logging import log
from emunode.net.blocked_writes import READ, BlockedWrites
from emunode.net.partial_frames import PartialFrames
from emunode.net.wire import FRAME_LIMIT, HELLO_LIMIT, LENGTH

# With the header of a bytes object 512 bytes, the largest object of CPython's own allocator.
READ_BYTES = 479
"""Bytes that the first read of an event asks for, at least, into an object of its own.

CPython keeps free objects of this size ready. The number grows while longer frames arrive. Frames that are longer still
go through the shared buffer.
"""
BUFFER_BYTES = 256 * 1024
# Found by measurement on two cores; see the docstring for the two effects.
EVENTS = 64
"""Events per poll. Many save system calls. Few keep the data that they bring in the processor's cache."""
BATCH = 64
"""Frames written in a row: system calls of one kind find their code in the processor's cache."""
ACCEPTS = 1024
"""Connections accepted in a row before other streams are served."""
YIELD_SECONDS = 0.01
"""How long a busy poller keeps other tasks of the thread, timers and cancellation waiting."""
HELLO_SECONDS = 5.0
"""The time a peer has to authenticate itself."""
GONE_SECONDS = 60
"""The time after which a control connection ends if the peer's machine no longer answers."""
ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
READABLE = int(select.EPOLLIN)
RESET = Struct("ii").pack(1, 0)
"""SO_LINGER value that makes close() send a reset and leave no TIME_WAIT behind."""


class FramedStreams:
    """A set of non-blocking framed streams, by descriptor.

    `on_frame(fd, frame)` is called for every whole frame, its length included. It may raise FrameError to close that
    stream. `on_end(fd, reason)` is called once for every stream that ends by itself or is closed for a malformed frame.
    It is never called after `close`. Until `mark_authenticated`, no more than HELLO_LIMIT bytes of a frame of an accepted
    stream are kept.
    """

    def __init__(self, on_frame: Callable[[int, bytes], None], on_end: Callable[[int, str], None]) -> None:
        self._on_frame = on_frame
        self._on_end = on_end
        self._epoll = select.epoll()
        self._view = memoryview(mmap(-1, BUFFER_BYTES))  # pages that nothing is read into cost nothing
        self._buffers = [self._view]
        # The size of the first read adapts to the frames that arrive: `_drain` enlarges it, `poll` shrinks it.
        self._reading = READ_BYTES
        self._partial = PartialFrames()
        self._blocked = BlockedWrites(self._epoll)
        self._unauthenticated: dict[int, float] = {}
        """Streams whose peers have not authenticated themselves, with the time of their acceptance; the oldest first."""
        self._watched: dict[int, Callable[[], None]] = {}
        self._gone: set[int] = set()
        """Descriptors closed during this batch of events.

        The kernel may have given the number to a new stream since.
        """
        self._yield_at = 0.0
        """From this time on other tasks of the thread have to run before the next poll."""
        self._special: set[int] = set()
        """Descriptors whose next event is not simply one whole frame.

        They are watched, partial or gone.
        """

    def fileno(self) -> int:
        """Return the epoll descriptor.

        It is readable whenever `poll` has something to do.
        """
        return self._epoll.fileno()

    @property
    def idle(self) -> bool:
        """Whether no frame is partly read or partly written."""
        return not self._partial and not self._blocked

    def set_frame_handler(self, on_frame: Callable[[int, bytes], None]) -> None:
        """Call `on_frame` for every whole frame from the next poll on."""
        self._on_frame = on_frame

    # --- which descriptors -----------------------------------------------------------------------------------------

    def listen(self, listener: socket.socket, on_accept: Callable[[int], None]) -> None:
        """Accept from a listening socket.

        Each new stream is unauthenticated until `mark_authenticated`.
        """
        listener.setblocking(False)
        self.watch(listener.fileno(), lambda: self._accept(listener, on_accept))

    def watch(self, fd: int, on_readable: Callable[[], None]) -> None:
        """Call back whenever a descriptor of the owner's is readable."""
        self._watched[fd] = on_readable
        self._special.add(fd)
        # Level-triggered, unlike streams: the owner need not read such a descriptor empty.
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Undo `watch`."""
        del self._watched[fd]
        self._leave(fd)
        self._epoll.unregister(fd)

    def add(self, fd: int, *, authenticated: bool) -> None:
        """Take over a connected, non-blocking descriptor."""
        if not authenticated:
            self._unauthenticated[fd] = time.monotonic()
        self._epoll.register(fd, READ)

    def mark_authenticated(self, fd: int) -> None:
        """Allow frames of any size from a peer that has authenticated itself."""
        self._unauthenticated.pop(fd, None)

    @property
    def unauthenticated(self) -> tuple[int, ...]:
        """Streams whose peers have not authenticated themselves, the oldest first."""
        return tuple(self._unauthenticated)

    def expire_unauthenticated(self, seconds: float = HELLO_SECONDS) -> None:
        """End the streams whose peers have not authenticated themselves within `seconds`."""
        # A copy, because `_end` takes streams out of the dictionary.
        for fd, since in list(self._unauthenticated.items()):
            # The dict is in order of acceptance, so the first young one ends the search.
            if time.monotonic() - since < seconds:
                return
            self._end(fd, f"no hello within {seconds:g} s")

    def close(self, fd: int, *, reset: bool = False) -> None:
        """Close a stream.

        With `reset`, the peer sees a reset instead of an orderly end.
        """
        self._forget(fd)
        if reset:
            # A reset is sent by close() only if SO_LINGER is set on the socket; a duplicate descriptor is enough to
            # set it.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as handle:
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        os.close(fd)

    def close_poller(self) -> None:
        """Close the poller. Descriptors handed to `watch` or `add` stay the owner's to close."""
        self._epoll.close()

    def _end(self, fd: int, reason: str) -> None:
        self._forget(fd)
        os.close(fd)
        self._on_end(fd, reason)

    def _forget(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        self._leave(fd)
        self._partial.forget(fd)
        self._blocked.forget(fd)
        self._unauthenticated.pop(fd, None)

    def _leave(self, fd: int) -> None:
        """Ignore further events of this batch for the number `fd`.

        It may belong to a new stream by now.
        """
        # Both sets until the next poll: the kernel gives a free number to the next stream at once, and `events` may
        # still hold an event of the old one.
        self._gone.add(fd)
        self._special.add(fd)

    def _accept(self, listener: socket.socket, on_accept: Callable[[int], None]) -> None:
        for _ in range(ACCEPTS):
            try:
                # Hot path; plain form: `accept`, which makes an object of every stream and asks the kernel for its address.
                fd, _address = listener._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                return
            except ConnectionError:  # the peer has left again
                continue
            # Out of descriptors (EMFILE) or memory.
            except OSError as error:
                self._evict_unauthenticated(listener, error.strerror)
                return
            os.set_blocking(fd, False)
            self.add(fd, authenticated=False)
            on_accept(fd)

    def _evict_unauthenticated(self, listener: socket.socket, reason: str | None) -> None:
        """Free a descriptor when they run out.

        The oldest unauthenticated stream ends. Without one, the listener stops accepting.
        """
        if self._unauthenticated:
            # The oldest has had the longest time to prove itself, so it is the least likely to do so.
            self._end(next(iter(self._unauthenticated)), f"no room: {reason}")
        else:  # the listener would stay readable, and every poll would fail again
            self.unwatch(listener.fileno())
            log("no more connections are accepted", reason=reason)

    # --- writing ---------------------------------------------------------------------------------------------------

    def send(self, fd: int, frame: bytes) -> None:
        """Write one frame, as `send_all` does."""
        self._blocked.send_all(((fd, frame),))

    def send_all(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Write each frame to its stream, as `BlockedWrites.send_all` does."""
        self._blocked.send_all(frames)

    def exchange(self, queue: list[tuple[int, bytes]]) -> None:
        """Write the frames of `queue` until it is empty, and read in between.

        Handlers of frames must not call this. A handler that ends a stream may remove its frames from the queue.
        """
        # Hot path; plain form: `send_all(queue)`. With thousands of streams every system call finds its socket outside the
        # processor's cache, unless what was just written is read before the next streams are touched.
        while queue:
            batch = queue[:BATCH]
            del queue[:BATCH]
            self.send_all(batch)
            self.poll()

    # --- reading ---------------------------------------------------------------------------------------------------

    async def wait(self, linger_seconds: float = 0.0) -> None:
        """Wait until something was read or written.

        Nothing else in this thread can run for the first `linger_seconds`.
        """
        # Lingering is for an owner that has the thread to itself. Letting trio's poller watch this one has a price: the
        # kernel first checks every stream, each arrival then wakes two pollers, and all processes that add streams contend
        # for one lock. As long as packets keep coming, it is cheaper to wait here.
        while not await self.linger(linger_seconds):
            await trio.lowlevel.wait_readable(self.fileno())
            # Takes this poller out of trio's until the next wait, for the reasons above.
            trio.lowlevel.notify_closing(self.fileno())

    async def linger(self, seconds: float) -> bool:
        """Poll once.

        Other tasks of this thread have a turn first, if they had none for YIELD_SECONDS.
        """
        # Hot path, at least once per step; plain form: a checkpoint before every poll. One checkpoint takes as long as
        # everything else that a host does in an idle step.
        if time.monotonic() >= self._yield_at:
            await trio.lowlevel.checkpoint()
            self._yield_at = time.monotonic() + YIELD_SECONDS
        return self.poll(seconds)

    def poll(self, seconds: float = 0.0) -> bool:
        """Read and write all streams that are ready now or within `seconds`.

        Returns whether there were any.
        """
        # Hot path, once per batch of packets. Plain form: `for fd, event in events: self._handle(fd, event)`.
        # 1. All reads come before all frames are handed over, so that first the kernel and then the owner find their code
        #    and data in the processor's cache.
        # 2. Nearly every event is one whole frame on an idle stream. One comparison and one look-up recognise it, and one
        #    read of `reading` bytes takes it: a read that comes back short has emptied the socket, as edge-triggered polling
        #    requires.
        events = self._epoll.poll(seconds, EVENTS)
        # An event of this batch may belong to a stream that an earlier event of the same batch has closed.
        special, gone = self._special, self._gone
        if gone:  # the events of the last batch have been handled: from now on these numbers mean new streams
            special -= {fd for fd in gone if fd not in self._watched and fd not in self._partial}
            gone.clear()
        read, reading, arrived = os.read, self._reading, []
        for fd, event in events:
            if event == READABLE and fd not in special:
                try:
                    data = read(fd, reading)
                except OSError as error:
                    self._read_failed(fd, error)
                    continue
                if len(data) < reading:
                    arrived.append((fd, data))
                else:
                    self._drain(fd, data)
            elif fd not in gone:
                self._handle(fd, event)
        on_frame, length_at = self._on_frame, LENGTH.unpack_from
        for fd, data in arrived:
            if gone and fd in gone:
                continue
            try:
                # Exactly one whole frame, nearly always: hand it over as it is.
                if len(data) > 4 and length_at(data)[0] + 4 == len(data):
                    on_frame(fd, data)
                else:
                    self._take(fd, data)
            except FrameError as error:
                self._end(fd, str(error))
        # `_drain` enlarges the read when longer frames arrive; here it shrinks again once they are short.
        if arrived and len(arrived[-1][1]) < reading // 4:
            self._reading = max(reading // 2, READ_BYTES)
        return bool(events)

    def _handle(self, fd: int, event: int) -> None:
        """Handle one event of any kind."""
        if fd in self._watched:
            self._watched[fd]()
            return
        if event & select.EPOLLOUT and fd in self._blocked:
            try:
                self._blocked.flush(fd)
            except OSError as error:
                self._end(fd, f"write failed: {error.strerror}")
        if event & ~select.EPOLLOUT and fd not in self._gone:
            self._drain(fd, ended=bool(event & ENDED))

    def _drain(self, fd: int, data: bytes = b"", *, ended: bool = False) -> None:
        """Read on after `data` until a read comes back short.

        If the stream has `ended`, read to its end. The end has to be read now, because an edge-triggered poller reports
        it only once.
        """
        try:
            while True:
                try:
                    size = os.readv(fd, self._buffers)
                except BlockingIOError:
                    if data:
                        self._take(fd, data)
                    return
                except OSError as error:
                    self._read_failed(fd, error)
                    return
                more = self._view[:size]
                if data and LENGTH.unpack_from(data)[0] + 4 == len(data) + size and fd not in self._partial:
                    # One byte more than the frame, so that the read comes back short and no second one is needed.
                    self._reading = min(len(data) + size + 1, BUFFER_BYTES)  # the next such frame is read at once
                    self._on_frame(fd, b"".join((data, more)))
                else:
                    if data:
                        self._take(fd, data)
                    self._take(fd, more)
                data = b""
                # A short read has emptied the socket; an ended stream is read until it returns nothing.
                if not size or (size < BUFFER_BYTES and not ended):
                    return
        except FrameError as error:
            self._end(fd, str(error))

    def _read_failed(self, fd: int, error: OSError) -> None:
        if not isinstance(error, BlockingIOError):
            self._end(fd, f"read failed: {error.strerror}")

    def _take(self, fd: int, data: bytes | memoryview) -> None:
        """Hand over the whole frames in `data`, and keep the rest."""
        # An empty read is the end of the stream.
        if not data:
            self._end(fd, "closed by its peer")
            return
        for frame in self._partial.split(fd, data, self._limit):
            self._on_frame(fd, frame)
        if fd in self._partial:
            self._special.add(fd)
        elif fd not in self._gone:
            self._special.discard(fd)

    def _limit(self, fd: int) -> int:
        """Return the largest frame, in bytes, that this stream may carry."""
        return HELLO_LIMIT if fd in self._unauthenticated else FRAME_LIMIT


def prepare(stream: socket.socket) -> None:
    """Set the options of a run's streams before they connect.

    Accepted streams inherit them from their listener.
    """
    # A packet is one small write: Nagle's algorithm would hold it back for an acknowledgement.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Acknowledgements ride on the answer: otherwise the kernel sends one of its own for each of the first packets.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


def end_without_answer(stream: socket.socket) -> None:
    """End a control connection when the kernel of its peer is silent for GONE_SECONDS.

    The kernels ask and answer by themselves, so a peer that is paused or busy stays connected. There is one exception:
    more data than fit in the kernels' buffers, some megabytes, wait for it as long.
    """
    options = (
        (socket.TCP_KEEPIDLE, GONE_SECONDS // 3),
        (socket.TCP_KEEPINTVL, GONE_SECONDS // 6),
        (socket.TCP_KEEPCNT, 4),
    )
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Keep-alives ask only while nothing is under way; the last option bounds the wait for an acknowledgement.
    for option, value in (*options, (socket.TCP_USER_TIMEOUT, 1000 * GONE_SECONDS)):
        stream.setsockopt(socket.IPPROTO_TCP, option, value)


def listening_socket(address: str, port: int = 0, *, backlog: int) -> socket.socket:
    """Return a TCP listener whose accepted streams inherit no-delay."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    prepare(listener)
    listener.bind((address, port))
    listener.listen(backlog)
    return listener
