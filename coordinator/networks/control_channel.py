"""The control connections of a run: one poller for all of them, and waiting with deadlines.

The coordinator waits for conditions on the reports of hosts. A wait ends when its condition holds, when a host fails or
disconnects, or when no host has sent anything for a while, whichever comes first.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Iterable

import trio

from coordinator.networks.admission import Admission, ConnectedHost, HostRefusedError
from coordinator.networks.messages import HostHere, Message, read_message
from emunode.errors import EmulatorError, FrameError, RunError
from emunode.logging import RefusedConnections, log
from emunode.net import wire
from emunode.net.framed_streams import HELLO_SECONDS, FramedStreams, end_without_answer, listening_socket

STALL_SECONDS = 30.0
"""How long to wait without a message from any host."""
LISTEN_BACKLOG = 4096
LINGER_SECONDS = 0.002
"""How long a wait blocks the thread before it lets other tasks run."""


class ControlChannel:
    """Connections to the hosts of a run with `places` hosts.

    `on_message(host, message)` is called for every message of a host that was admitted, `on_joined(host)` for every host
    that takes a place.
    """

    def __init__(
        self,
        admission: Admission,
        places: int,
        on_message: Callable[[ConnectedHost, Message], None],
        on_joined: Callable[[ConnectedHost], None],
    ) -> None:
        self.hosts: dict[int, ConnectedHost] = {}
        """The hosts that have joined, by index."""
        self._admission = admission
        self._places = places
        self._on_message = on_message
        self._on_joined = on_joined
        self._by_fd: dict[int, ConnectedHost | None] = {}
        self._refused = RefusedConnections()
        """Admitted hosts by descriptor; None for hosts in reserve."""
        self._streams = FramedStreams(self._on_frame, self._on_end)
        self._listener: socket.socket | None = None
        self._error: EmulatorError | None = None
        self._heard = False
        """Whether a host has sent or joined since the wait last looked."""

    @property
    def in_order(self) -> list[ConnectedHost]:
        """The hosts that have joined, by ascending index."""
        return [host for _, host in sorted(self.hosts.items())]

    @property
    def active(self) -> list[ConnectedHost]:
        """The hosts whose processes are there and not stopped, by ascending index."""
        return [host for host in self.in_order if host.active]

    def listen(self, address: str, port: int) -> int:
        """Accept hosts at an address; return the port (chosen by the system if `port` is 0)."""
        try:
            listener = listening_socket(address, port, backlog=LISTEN_BACKLOG)
        except OSError as error:
            raise RunError(f"cannot listen for hosts at {address}:{port}: {error.strerror or error}") from None
        end_without_answer(listener)  # accepted connections inherit it
        self._listener = listener
        # The challenge is sent at once: a peer has to prove itself before it sends anything else.
        self._streams.listen(listener, lambda fd: self._streams.send(fd, self._admission.challenge(fd)))
        bound: int = listener.getsockname()[1]
        return bound

    def watch(self, fd: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` once, when a descriptor is readable during a wait."""

        def once() -> None:
            # Once: the launcher's descriptor stays readable, and would wake every wait.
            self._streams.unwatch(fd)
            on_readable()

        self._streams.watch(fd, once)

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, host: ConnectedHost, *message: object) -> None:
        """Send an order to a host."""
        self._streams.send(host.fd, wire.encode_control(*message))

    def send_to_all(self, hosts: Iterable[ConnectedHost], *message: object) -> None:
        """Send the same order to several hosts; it is encoded once."""
        frame = wire.encode_control(*message)
        self._streams.send_all([(host.fd, frame) for host in hosts])

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        stall_seconds: float | None = None,
        explain: Callable[[], str] = lambda: "",
        on_half_time: Callable[[], None] = lambda: None,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Process messages until `condition` holds.

        RunError if no host has sent anything for `stall_seconds` (STALL_SECONDS by default), with the explanation of
        `explain`; the error of a host, if one failed. `progress` is called after every batch of messages,
        `on_half_time` once half of that time is over.
        """
        last_message = trio.current_time()
        half_time = False
        stall_seconds = stall_seconds or STALL_SECONDS
        while not condition():
            if self._error:
                raise self._error
            # Hosts report a step within a fraction of a millisecond. A wait in trio would cost more than the reports.
            if not await self._streams.linger(LINGER_SECONDS):
                left = last_message + stall_seconds - trio.current_time()
                if left < stall_seconds / 2 and not half_time:
                    half_time = True
                    on_half_time()
                if left < 0:
                    problem = f"timed out: no message for {stall_seconds:g} s while waiting for {what}"
                    raise RunError("; ".join(filter(None, (problem, explain()))))
                with trio.move_on_after(min(left, HELLO_SECONDS)):
                    await trio.lowlevel.wait_readable(self._streams.fileno())
            self._streams.expire_unauthenticated()
            if self._heard:
                self._heard, last_message, half_time = False, trio.current_time(), False
            progress()
        if self._error:
            raise self._error

    async def look(self) -> None:
        """Process the messages that are there, without waiting."""
        await self._streams.linger(0)

    async def failure(self) -> EmulatorError:
        """Process messages until a host has failed or disconnected, however long that takes; return the error."""
        while self._error is None:
            with trio.move_on_after(HELLO_SECONDS):
                await trio.lowlevel.wait_readable(self._streams.fileno())
            try:
                await self._streams.linger(0)
            except EmulatorError as error:  # of a launcher whose processes have ended
                self.fail(error)
            self._streams.expire_unauthenticated()
        return self._error

    def fail(self, error: EmulatorError) -> None:
        """Let the current wait, or the next, raise `error`; the first error counts."""
        self._error = self._error or error

    # --- frames and ends -------------------------------------------------------------------------------------------

    def _on_frame(self, fd: int, frame: bytes) -> None:
        if fd not in self._by_fd:
            self._admit(fd, frame)
            return
        host = self._by_fd[fd]
        if host is None:
            raise FrameError("a host in reserve sent a message")
        message = read_message(frame, self._places)
        # An answer to a question is no progress.
        self._heard |= not isinstance(message, HostHere)
        self._on_message(host, message)

    def _admit(self, fd: int, frame: bytes) -> None:
        try:
            host, proof, unreachable = self._admission.admit(fd, frame, peer_address(fd), self.hosts)
        except HostRefusedError as error:
            self._streams.send(fd, error.reply)
            raise
        for index, reason in unreachable.items():
            self._dismiss(self.hosts.pop(index), reason)
        self._heard = True
        self._streams.mark_authenticated(fd)
        self._streams.send(fd, proof)
        if host.index < 0:
            self._by_fd[fd] = None
            log("host in reserve", name=host.name)
            return
        self._by_fd[fd] = self.hosts[host.index] = host
        self._on_joined(host)

    def _dismiss(self, host: ConnectedHost, reason: str) -> None:
        """Disconnect a host that another host cannot reach; the other host joined later."""
        log("host refused", name=host.name, why=reason)
        self._admission.refusals[reason] += 1
        self.send(host, "refused", reason)
        del self._by_fd[host.fd]
        self._streams.close(host.fd)

    def _on_end(self, fd: int, reason: str) -> None:
        if fd not in self._by_fd:
            self._admission.forget(fd, reason)
            self._refused.log(reason)
            return
        host = self._by_fd.pop(fd)
        if host is None:
            return
        host.alive = False
        if not host.end_expected:
            self.fail(RunError(f"host {host.index} (process {host.pid} on {host.name}) disconnected: {reason}"))

    # --- the end ---------------------------------------------------------------------------------------------------

    def close_pending(self) -> None:
        """Disconnect everything that has not been admitted."""
        for fd in self._admission.pending:
            self._streams.close(fd)

    def close(self, *, keep_hosts: bool) -> None:
        """Stop listening; disconnect the hosts unless they are to stay until this process ends."""
        if not keep_hosts:
            for host in self.hosts.values():
                if host.alive:
                    self._streams.close(host.fd)
        self._streams.close_poller()
        if self._listener is not None:
            self._listener.close()

    def send_last(self, *message: object) -> None:
        """Send a message to every connected host, hosts in reserve included, after `close`."""
        frame = wire.encode_control(*message)
        for fd in self._by_fd:
            with contextlib.suppress(OSError):  # a host that has left
                os.write(fd, frame)


def peer_address(fd: int) -> str:
    """Return the remote address of a connection."""
    with socket.socket(fileno=os.dup(fd)) as stream:
        address: str = stream.getpeername()[0]
        return address
