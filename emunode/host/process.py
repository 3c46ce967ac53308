"""Host processes: a single one, or many forked from a warm parent before any event loop starts.

A host never outlives its run: it asks the kernel for SIGKILL when its parent ends, and exits when its control connection
ends. The coordinator handles terminal signals; a host that it started ignores Ctrl-C and is stopped by an order.
"""

import contextlib
import gc
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import trio

from emunode import __version__
from emunode import runtime as libc
from emunode.errors import FrameError
from emunode.host.placement import placement_of
from emunode.host.session import serve
from emunode.host.warmup import warm_up
from emunode.logging import log
from emunode.model import ANY_HOST
from emunode.net import wire
from emunode.net.framed_streams import end_without_answer
from emunode.net.protocol import HostConfig
from emunode.runtime import collect_seldom
from emunode.topologies.base import Topology

try:
    from setproctitle import setproctitle
except ImportError:  # images of hosts do without it
    setproctitle = None  # type: ignore[assignment]

JOIN_SECONDS = 10.0
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_NO_NEW_PRIVS = 1, 15, 38
KEEP_ENVIRONMENT: Final = "SPT_NOENV"
"""If it is set when the library is first called, a title takes the place of the command line, not of the environment too."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 64 * 2**20
RETRY_SECONDS, MOST_RETRY_SECONDS = 0.2, 2.0
"""The pause before the second attempt to reach the coordinator, and the longest pause. It doubles every time."""
FAILED = 4
"""Exit status of `emunode` unless the run that it joined ended normally."""
CANNOT_JOIN, INTERRUPTED = 64, 130
"""Exit statuses of a forked host that its parent distinguishes."""
LINGER_SECONDS = 0.1
"""How late a host's own deadlines, of seconds, may be noticed."""
NAME_LETTERS = 64


class Invitation(NamedTuple):
    """The coordinator that a host joins, and how."""

    address: str
    port: int
    secret: bytes
    deadline: float = 0.0
    """Until when a coordinator that cannot be reached yet is tried again, on the monotonic clock."""
    advertise: str = ""
    """Where peers dial the host; empty: at the address that it reaches the coordinator from."""
    allow_plugins: bool = False
    """Whether the host executes plug-ins that the coordinator sends."""
    node: str = ""
    """The name that the host gives to its machine; empty: the name of the machine."""

    @property
    def coordinator(self) -> str:
        """The endpoint of the coordinator as text."""
        return f"{self.address}:{self.port}"


def run_host(invitation: Invitation, index: int = ANY_HOST) -> int:
    """Run one host until its run is over; return 0 if the run ended normally, else CANNOT_JOIN or FAILED."""
    try:
        control = join(invitation, index)
    except (OSError, FrameError) as error:
        log("host cannot join", coordinator=invitation.coordinator, error=_describe(error))
        return CANNOT_JOIN
    keep_memory()
    collect_seldom()
    problem = trio.run(
        serve,
        control,
        invitation.secret,
        LINGER_SECONDS,
        invitation.advertise,
        invitation.allow_plugins,
        show_title,
    )
    if problem:
        log("run did not end normally for this host", coordinator=invitation.coordinator, error=problem)
    return FAILED if problem else 0


def forgo_privileges() -> None:
    """Keep programs that this process starts from gaining privileges, such as by a setuid bit.

    Docker swarm has no option for this, so a process in a container asks for it itself.
    """
    with contextlib.suppress(OSError):
        libc.call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def keep_memory() -> None:
    """Make the C library keep freed memory, since the packets of each step need as much as the packets of the step before.

    By default it returns the top of the heap after every step, and the kernel has to clear and map it again.
    """
    if libc.has("mallopt"):
        # Either option also ends the C library's own adjustment of both thresholds (mallopt(3)), so both have to be
        # set.
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            libc.call("mallopt", option, KEPT_BYTES)


def join(invitation: Invitation, index: int) -> int:
    """Connect to the coordinator and authenticate both sides; return the descriptor of the connection.

    Each side proves on the other's nonce that it knows the secret, before either parses anything. OSError or FrameError
    if a proof or the connection fails. Connecting ends at the deadline, each exchange takes at most JOIN_SECONDS.
    """
    secret = invitation.secret
    with _connect(invitation) as stream:
        # Frames of the handshake wait for each other, so they must leave at once.
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_without_answer(stream)
        challenge = _receive_frame(stream)
        nonce = os.urandom(wire.NONCE_BYTES)
        name = (invitation.node or socket.gethostname())[:NAME_LETTERS]
        advertise = [invitation.advertise] if invitation.advertise else []
        hello = ["hello", __version__, index, os.getpid(), name, *advertise]
        stream.sendall(wire.host_hello(secret, challenge, nonce, *hello))
        # Mutual: a host must not obey whatever listens at this address.
        if not wire.proves(_receive_frame(stream), secret, b"coordinator", nonce):
            raise FrameError("the coordinator does not know the run's secret")
        # From here on the stream belongs to the session's poller, which never waits for one stream.
        stream.setblocking(False)
        return stream.detach()


def _connect(invitation: Invitation) -> socket.socket:
    pause, chance = RETRY_SECONDS, random.Random(os.getpid())
    while True:
        try:
            stream = socket.create_connection((invitation.address, invitation.port), JOIN_SECONDS)
            # Where nothing listens, the kernel may give a connection within one machine the very port that it dials.
            if stream.getsockname() != stream.getpeername():
                return stream
            stream.close()
        except OSError:
            if time.monotonic() > invitation.deadline:
                raise
        # The coordinator may still be starting; a refused connection costs it nothing. Many hosts that start together
        # spread their attempts.
        time.sleep(pause * (1 + chance.random()) / 2)
        pause = min(2 * pause, MOST_RETRY_SECONDS)


def _receive_frame(stream: socket.socket) -> bytes:
    (length,) = wire.LENGTH.unpack(_receive_exactly(stream, wire.LENGTH.size))
    # Before anything is proven, no length from the peer is believed beyond this.
    if length > wire.HELLO_LIMIT:
        raise FrameError(f"the first frame of the coordinator is too long: {length} bytes")
    return _receive_exactly(stream, length)


def _receive_exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise FrameError("the coordinator refused this host: wrong token, another version, or no place left")
        data += more
    return data


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def fork_hosts(
    invitation: Invitation, hosts: int, first: int = ANY_HOST, goes_on: Callable[[], bool] | None = None
) -> int:
    """Fork `hosts` hosts of indices `first`, `first` + 1, .. (or of any free places), wait for all and return the exit
    status.

    The status is 0 if at least one host joined and the run ended normally for every host that joined; 4 otherwise, or
    if a fork fails. A launcher ends all of its processes if one ends early, so with `goes_on` this process stays after a
    kill of its hosts as long as the run goes on, and the kill is no failure: the coordinator judges it.
    """
    if first != ANY_HOST:  # the coordinator started this process, and stops it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up(hosts)
    # Moves all objects out of the collector's reach, which would write to their pages in every child.
    gc.freeze()  # no collection before: children would fill the holes that it leaves, and so copy shared pages
    me, living = os.getpid(), set()
    # A KeyboardInterrupt would be lost in the functions that Python runs after a fork.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Before any event loop: trio's poller and wake-up pipe must not be shared by parent and child.
    for number in range(hosts):
        index = ANY_HOST if first == ANY_HOST else first + number
        try:
            pid = os.fork()
        except OSError as error:
            log("cannot fork", host=number, hosts=hosts, error=_describe(error))
            return FAILED  # the hosts forked so far end with this process
        if not pid:
            # Ends the child, which therefore forks no hosts of its own.
            _child(me, index, partial(run_host, invitation, index))
        living.add(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    statuses = []
    while living:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            living.discard(pid)
            # Negative for a host that a signal has ended, which is a failure too.
            statuses.append(os.waitstatus_to_exitcode(status))
    if goes_on is not None and -signal.SIGKILL in statuses:
        while goes_on():
            time.sleep(RETRY_SECONDS)
        statuses = [0 if status == -signal.SIGKILL else status for status in statuses]
    # More hosts than the run has places: a host without a place is no failure.
    joined = [status for status in statuses if status != CANNOT_JOIN]
    return FAILED if not joined or any(joined) else 0


def _child(parent: int, index: int, run: Callable[[], int]) -> None:
    """Become one host: run it and end this process; never return."""
    # EX_SOFTWARE of sysexits.h, unless the run returns.
    status = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        # Asked for again: a fork does not inherit the parent-death signal.
        die_with_parent()
        # The parent may have died before the request, and then the signal would never come.
        if os.getppid() == parent:
            status = run()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException as error:  # any exception: a forked child must not continue in its parent's code
        log("host died", host=index, error=_describe(error), traceback=traceback.format_exc())
    finally:
        sys.stderr.flush()
        # `_exit`: no handlers or buffers of the parent may run in the child.
        os._exit(status)


def die_with_parent() -> None:
    """Ask for SIGKILL at the death of the parent; RunError where the kernel cannot do that."""
    libc.require("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def title_of(config: HostConfig, topology: Topology) -> str:
    """Return a title such as "emunode: host 1 of 2, nodes 3124 to 4321 of star:4"."""
    ranks = placement_of(config, topology.order).ranks(config.host)
    first, last = topology.label(ranks[0]), topology.label(ranks[-1])
    between = "to" if isinstance(ranks, range) else ".."
    nodes = f"node {first}" if len(ranks) == 1 else f"nodes {first} {between} {last}"
    return f"emunode: host {config.host} of {config.hosts}, {nodes} of {topology.name}"


def show_title(config: HostConfig, topology: Topology) -> None:
    """Name this process after its host: its command line where the library exists, and its short name."""
    if setproctitle is not None:
        given = os.environ.get(KEEP_ENVIRONMENT)
        os.environ[KEEP_ENVIRONMENT] = given or "1"
        setproctitle(title_of(config, topology))
        if given is None:
            # Programs that this host starts must not inherit a setting that the user did not make.
            del os.environ[KEEP_ENVIRONMENT]
    # The library takes the first letters of the title, and may cut off the number of the host.
    if libc.has("prctl"):
        libc.call("prctl", PR_SET_NAME, f"emunode {config.host}".encode(), 0, 0, 0)
