"""Host processes: one alone, or many forked from a warm parent before any event loop starts.

A child of a run dies with it: it asks the kernel for SIGKILL when its parent goes, and leaves when its control
connection ends. Terminal signals are the coordinator's to handle; a host ignores Ctrl-C and is told to stop.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
import time
import traceback

import trio

from emunode import __version__, libc, wire
from emunode.errors import FrameError
from emunode.host import serve
from emunode.log import log
from emunode.rehearsal import rehearse

JOIN_SECONDS = 10.0
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 64 * 2**20
ANY_HOST = -1
"""The index of a host that takes whatever place the coordinator has left."""
RETRY_SECONDS = 0.2
CANNOT_JOIN = 4
"""Exit status of a host that cannot reach the coordinator, or is refused by it."""
LINGER_SECONDS = 0.1
"""How late a host's own deadlines, of seconds, may be noticed."""
NAME_LETTERS = 64


def run_host(address: str, port: int, secret: bytes, index: int = ANY_HOST, patience: float = 0.0) -> int:
    """Run one host until its run is over; exit status 0, or 4 when the coordinator cannot be reached or refuses.

    A coordinator that does not listen, or has no address, yet is tried again for `patience` seconds.
    """
    try:
        control = join(address, port, secret, index, patience)
    except (OSError, FrameError) as error:
        log("host cannot join", coordinator=f"{address}:{port}", error=_describe(error))
        return CANNOT_JOIN
    keep_memory()
    collect_seldom()
    trio.run(serve, control, secret, LINGER_SECONDS)
    return 0


def keep_memory() -> None:
    """Have the C library keep what is freed: what packets of one step took, those of the next take again.

    By default it gives the top of the heap back after every step, for the kernel to clear and map anew.
    """
    if libc.has("mallopt"):
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            libc.call("mallopt", option, KEPT_BYTES)


def collect_seldom() -> None:
    """Let Python look for cycles rarely: a step makes records by the thousand, and none of them in cycles."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)


def join(address: str, port: int, secret: bytes, index: int, patience: float = 0.0) -> int:
    """Connect to the coordinator and let both sides prove that they know the secret; the connection's descriptor.

    Each proves itself on the other's nonce before either parses anything. Raises OSError or FrameError; takes at most
    JOIN_SECONDS for each of the few exchanges, after `patience` seconds at most for the connection.
    """
    with _connect(address, port, patience) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        challenge = _receive_frame(stream)
        nonce = os.urandom(wire.NONCE_BYTES)
        name = socket.gethostname()[:NAME_LETTERS]
        stream.sendall(wire.host_hello(secret, challenge, nonce, "hello", __version__, index, os.getpid(), name))
        if not wire.proves(_receive_frame(stream), secret, b"coordinator", nonce):
            raise FrameError("the coordinator does not know the run's secret")
        stream.setblocking(False)
        return stream.detach()


def _connect(address: str, port: int, patience: float) -> socket.socket:
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((address, port), JOIN_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def _receive_frame(stream: socket.socket) -> bytes:
    (length,) = wire.LENGTH.unpack(_receive_exactly(stream, wire.LENGTH.size))
    if length > wire.HELLO_LIMIT:
        raise FrameError(f"a greeting of {length} bytes")
    return _receive_exactly(stream, length)


def _receive_exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise FrameError("the coordinator closed the connection: it refused this host, or has no place for it")
        data += more
    return data


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def fork_hosts(address: str, port: int, secret: bytes, hosts: int) -> int:
    """Fork `hosts` hosts of indices 0..hosts-1 and wait for all; exit status 0 whatever became of them.

    4 when the system refuses one more process.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rehearse()
    gc.freeze()  # and no collection before it: holes that children fill are pages that they copy
    me = os.getpid()
    living = set()
    for index in range(hosts):
        try:
            pid = os.fork()
        except OSError as error:
            log("cannot fork", host=index, hosts=hosts, error=_describe(error))
            return 4  # and the hosts forked so far die with this process
        if not pid:
            _child(me, address, port, secret, index)
        living.add(pid)
    while living:
        with contextlib.suppress(InterruptedError):
            pid, _status = os.wait()
            living.discard(pid)
    return 0


def _child(parent: int, address: str, port: int, secret: bytes, index: int) -> None:
    """Become one host and never return."""
    status = 70
    try:
        die_with_parent()
        if os.getppid() == parent:
            status = run_host(address, port, secret, index)
    except BaseException as error:  # whatever it is, a forked child must not run its parent's code
        log("host died", host=index, error=_describe(error), traceback=traceback.format_exc())
    finally:
        sys.stderr.flush()
        os._exit(status)


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent dies; raises RunError where the kernel cannot do that."""
    libc.require("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
