"""Framed streams: blocked writes, every order of ends, limits before authentication, and a full descriptor table."""

import errno
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from unittest.mock import Mock

import pytest

from emunode.errors import FrameError
from emunode.net.framed_streams import BATCH, FramedStreams, listening_socket
from emunode.net.wire import FRAME_LIMIT, HELLO_LIMIT, LENGTH, body, frame

LARGE = bytes(4 * 2**20)
"""More than any socket takes at once."""
DEADLINE_SECONDS = 240.0


class Owner:
    """A FramedStreams with all of its callbacks, in order; the reaction to a frame can be changed."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.ends: list[tuple[int, str]] = []
        self.react: Callable[[int, bytes], None] = lambda _fd, _body: None
        self.streams = FramedStreams(self._on_frame, self._on_end)
        self.open: set[int] = set()
        self.exits = ExitStack()
        self.exits.callback(self._close_all)

    def _on_frame(self, fd: int, whole: bytes) -> None:
        said = body(whole)
        assert frame(said) == whole
        self.frames.append((fd, said))
        self.react(fd, said)

    def _on_end(self, fd: int, why: str) -> None:
        self.open.discard(fd)
        self.ends.append((fd, why))

    def _close_all(self) -> None:
        for fd in list(self.open):
            self.close(fd)
        self.streams.close_poller()

    def close(self, fd: int, *, reset: bool = False) -> None:
        """Close a stream that has not ended."""
        self.streams.close(fd, reset=reset)
        self.open.remove(fd)

    def join(
        self, pair: tuple[socket.socket, socket.socket], *, authenticated: bool = True
    ) -> tuple[int, socket.socket]:
        """Hand one end of a pair to the streams; return its descriptor and the other end."""
        near, far = pair
        near.setblocking(False)
        far.settimeout(DEADLINE_SECONDS)
        fd = near.detach()
        self.streams.add(fd, authenticated=authenticated)
        self.open.add(fd)
        self.exits.enter_context(far)
        return fd, far

    def pair(self, *, authenticated: bool = True) -> tuple[int, socket.socket]:
        """Return a stream within this machine, and its other end."""
        return self.join(socket.socketpair(), authenticated=authenticated)

    def tcp(self, *, authenticated: bool = True) -> tuple[int, socket.socket]:
        """Return a stream over TCP, and its other end."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            far = socket.create_connection(listener.getsockname())
            return self.join((listener.accept()[0], far), authenticated=authenticated)

    def refused(self) -> tuple[int, socket.socket]:
        """Return a stream whose connection is refused, and an unconnected socket."""
        with listening_socket("127.0.0.1", backlog=1) as closed:
            address = closed.getsockname()
        dialled = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        dialled.connect_ex(address)
        return self.join((dialled, socket.socket()))

    def settle(self) -> None:
        """Transfer everything that is under way at this moment."""
        while self.streams.poll():
            pass

    def carry_until(self, done: Callable[[], bool]) -> None:
        """Transfer until a condition holds, which must happen."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not done():
            assert time.monotonic() < deadline, "the condition never held"
            select.select([self.streams], [], [], 0.1)
            self.streams.poll()

    def require_one_end(self, fd: int) -> None:
        """Transfer until this stream ends, which must be the only end."""
        self.carry_until(lambda: bool(self.ends))
        self.settle()
        assert [gone for gone, _ in self.ends] == [fd]


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    with made.exits:
        yield made


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pair", "tcp"])
def test_a_blocked_stream_completes_its_writes_in_order(owner: Owner, kind: str) -> None:
    fd, far = getattr(owner, kind)()
    sent = frame(LARGE) + frame(b"second") + frame(b"third")
    for said in (LARGE, b"second", b"third"):
        owner.streams.send(fd, frame(said))
    far.sendall(frame(b"hello"))
    owner.carry_until(lambda: bool(owner.frames))
    assert owner.frames == [(fd, b"hello")]
    assert not owner.streams.idle
    far.setblocking(False)
    got = bytearray()

    def read_all_there_is() -> bool:
        with suppress(BlockingIOError):
            while True:
                got.extend(far.recv(100_000))
        return len(got) >= len(sent)

    owner.carry_until(read_all_there_is)
    owner.settle()
    assert bytes(got) == sent
    assert owner.streams.idle


@pytest.mark.parametrize("kind", ["pair", "tcp", "refused"])
def test_blocked_stream_without_a_reader_ends_once(owner: Owner, kind: str) -> None:
    fd, far = getattr(owner, kind)()
    owner.streams.send(fd, frame(LARGE))
    far.close()
    owner.require_one_end(fd)
    assert owner.streams.idle


def test_sending_into_a_closed_stream_reports_one_end(owner: Owner) -> None:
    fd, far = owner.tcp()
    far.close()
    for _ in range(5):
        owner.streams.send(fd, frame(b"x"))
    assert owner.ends == []
    owner.require_one_end(fd)


def test_failed_reply_does_not_lose_later_frames(owner: Owner) -> None:
    fd, far = owner.pair()
    owner.react = lambda fd, said: owner.streams.send(fd, frame(said))
    far.sendall(frame(b"one") + frame(b"two") + frame(b"three"))
    far.close()
    owner.require_one_end(fd)
    assert [said for _, said in owner.frames] == [b"one", b"two", b"three"]


def test_an_exchange_reads_between_batches(owner: Owner) -> None:
    streams = [owner.pair() for _ in range(BATCH + 1)]
    queue = [(fd, frame(b"packet")) for fd, _ in streams]
    owner.react = lambda _fd, _body: queue.clear()
    (first, early), (_, late) = streams[0], streams[BATCH]
    early.sendall(frame(b"arrival"))
    owner.streams.exchange(queue)
    assert owner.frames == [(first, b"arrival")]
    assert early.recv(64) == frame(b"packet")
    late.setblocking(False)
    with pytest.raises(BlockingIOError):
        late.recv(64)


def test_oversized_frame_is_not_sent(owner: Owner) -> None:
    fd, _ = owner.pair()
    with pytest.raises(FrameError, match=f"at most {FRAME_LIMIT}"):
        owner.streams.send(fd, frame(bytes(FRAME_LIMIT + 1)))


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pair", "tcp"])
@pytest.mark.parametrize("last", [b"", frame(b"last words"), frame(b"a") + frame(bytes(300_000)), frame(b"cut")[:-1]])
def test_close_directly_after_the_last_bytes_is_detected(owner: Owner, kind: str, last: bytes) -> None:
    fd, far = getattr(owner, kind)()
    whole = [said for said in (b"last words", b"a", bytes(300_000)) if frame(said) in last]
    with far:
        sent = 0
        far.setblocking(False)
        while sent < len(last):
            try:
                sent += far.send(last[sent:])
            except BlockingIOError:
                owner.streams.poll()
    owner.carry_until(lambda: bool(owner.ends))
    assert owner.frames == [(fd, said) for said in whole]
    assert owner.ends == [(fd, "closed by its peer")]
    assert owner.streams.idle


def test_a_reset_is_sent_and_seen_as_a_reset(owner: Owner) -> None:
    fd, far = owner.tcp()
    other, its_far = owner.tcp()
    owner.close(fd, reset=True)
    with pytest.raises(ConnectionResetError):
        far.recv(1)
    its_far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    its_far.close()
    owner.carry_until(lambda: bool(owner.ends))
    assert owner.ends == [(fd, why) for fd, why in owner.ends if fd == other and "reset" in why.lower()]


def test_an_orderly_close_is_no_reset(owner: Owner) -> None:
    fd, far = owner.tcp()
    owner.streams.send(fd, frame(b"bye"))
    owner.close(fd)
    assert far.recv(100) == frame(b"bye")
    assert far.recv(100) == b""


def test_stream_closed_earlier_in_a_batch_delivers_nothing(owner: Owner) -> None:
    ends = [owner.pair() for _ in range(4)]
    survivors: list[int] = []

    def close_others(fd: int, _body: bytes) -> None:
        survivors.append(fd)
        for other in owner.open - {fd}:
            owner.close(other)

    owner.react = close_others
    for _, far in ends:
        far.sendall(frame(b"me first"))
    owner.settle()
    assert len(survivors) == 1
    assert owner.frames == [(survivors[0], b"me first")]
    assert owner.ends == []


def test_reused_descriptor_in_a_batch_is_a_new_stream(owner: Owner) -> None:
    first, first_far = owner.pair()
    second, second_far = owner.pair()
    reborn: list[socket.socket] = []

    def replace(fd: int, _body: bytes) -> None:
        """Close the other stream and give its number to a new one."""
        if reborn:
            return
        other = second if fd == first else first
        owner.close(other)
        number, far = owner.pair()
        assert number == other
        reborn.append(far)

    owner.react = replace
    first_far.sendall(frame(b"old"))
    second_far.sendall(frame(b"old"))
    owner.settle()
    reborn[0].sendall(frame(b"new"))
    owner.settle()
    assert [said for _, said in owner.frames] == [b"old", b"new"]
    assert {fd for fd, _ in owner.frames} == {first, second}


def test_a_bad_frame_ends_its_own_stream_only(owner: Owner) -> None:
    bad, bad_far = owner.pair()
    good, good_far = owner.pair()

    def refuse(fd: int, said: bytes) -> None:
        if said == b"bad":
            raise FrameError(f"stream {fd} sent nonsense")

    owner.react = refuse
    bad_far.sendall(frame(b"fine") + frame(b"bad") + frame(b"never read"))
    good_far.sendall(frame(b"fine"))
    owner.settle()
    assert owner.ends == [(bad, f"stream {bad} sent nonsense")]
    assert sorted(owner.frames) == sorted([(bad, b"fine"), (bad, b"bad"), (good, b"fine")])
    good_far.sendall(frame(b"again"))
    owner.settle()
    assert owner.frames[-1] == (good, b"again")


def test_closed_stream_makes_no_callbacks(owner: Owner) -> None:
    fd, far = owner.pair()
    far.sendall(frame(b"unread"))
    owner.streams.send(fd, frame(LARGE))
    owner.close(fd)
    owner.settle()
    assert not owner.frames
    assert not owner.ends
    assert owner.streams.idle


# --- before authentication --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authenticated", "limit", "length"),
    [(False, 256, 257), (True, 67_108_864, 67_108_865), (True, 67_108_864, 2**32 - 1)],
)
def test_frame_limit_is_smaller_before_authentication(
    owner: Owner, authenticated: bool, limit: int, length: int
) -> None:
    fd, far = owner.pair(authenticated=authenticated)
    known, its_far = owner.pair(authenticated=False)
    owner.streams.mark_authenticated(known)
    assert owner.streams.unauthenticated == (() if authenticated else (fd,))
    far.sendall(LENGTH.pack(length) + b"begin")
    its_far.sendall(LENGTH.pack(HELLO_LIMIT + 1) + b"begin")
    owner.settle()
    assert owner.ends == [(fd, f"frame of {length} bytes; at most {limit} are allowed here")]
    assert not owner.streams.unauthenticated


def test_unauthenticated_streams_expire(owner: Owner) -> None:
    silent, _ = owner.pair(authenticated=False)
    slow, far = owner.pair(authenticated=False)
    known, _ = owner.pair()
    far.sendall(b"\4\0\0")
    owner.settle()
    owner.streams.expire_unauthenticated(3600)
    assert owner.ends == []
    owner.streams.expire_unauthenticated(0)
    assert owner.ends == [(silent, "no hello within 0 s"), (slow, "no hello within 0 s")]
    assert owner.streams.unauthenticated == ()
    owner.streams.send(known, frame(b"still here"))
    assert owner.streams.idle


# --- listening -------------------------------------------------------------------------------------------------------


def test_listener_accepts_every_connection(owner: Owner) -> None:
    listener = owner.exits.enter_context(listening_socket("127.0.0.1", backlog=16))
    accepted: list[int] = []
    owner.streams.listen(listener, accepted.append)
    peers = [owner.exits.enter_context(socket.create_connection(listener.getsockname())) for _ in range(10)]
    owner.carry_until(lambda: len(accepted) == 10)
    owner.open.update(accepted)
    assert owner.streams.unauthenticated == tuple(accepted)
    for number, peer in enumerate(peers):
        peer.sendall(frame(b"%d" % number))
    owner.carry_until(lambda: len(owner.frames) == 10)
    assert sorted(said for _, said in owner.frames) == [b"%d" % number for number in range(10)]
    with socket.socket(fileno=accepted[0]) as one:
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        one.detach()


def test_the_oldest_unauthenticated_stream_is_evicted(owner: Owner, capfd: pytest.CaptureFixture[str]) -> None:
    unauthenticated = [owner.pair(authenticated=False)[0] for _ in range(3)]
    known, _ = owner.pair()
    near, far = socket.socketpair()
    full = Mock(socket.socket, fileno=near.fileno)
    full._accept.side_effect = OSError(errno.EMFILE, "Too many open files")
    with near, far:
        far.send(b"a connection waits")
        owner.streams.listen(full, lambda _: None)
        assert owner.streams.poll()
        assert owner.ends == [(unauthenticated[0], "no room: Too many open files")]
        owner.settle()  # which it can only if the listener does not stay ready for ever
    assert [fd for fd, _ in owner.ends] == unauthenticated
    owner.streams.send(known, frame(b"unharmed"))
    assert '"event": "no more connections are accepted"' in capfd.readouterr().err


def test_a_watched_descriptor_calls_back_until_it_is_unwatched(owner: Owner) -> None:
    near, far = socket.socketpair()
    heard: list[bytes] = []
    with near, far:
        owner.streams.watch(near.fileno(), lambda: heard.append(near.recv(1)))
        far.send(b"ab")
        owner.settle()
        assert heard == [b"a", b"b"]
        owner.streams.unwatch(near.fileno())
        far.send(b"c")
        assert not owner.streams.poll()
    assert heard == [b"a", b"b"]
