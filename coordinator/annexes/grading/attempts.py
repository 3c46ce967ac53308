"""Refused system calls of submissions, as the kernel tells them: a process cannot hide or forge one.

The filter of a process (`system_calls`) holds its attempts until the server has read them and answers with EPERM. The
process hands the descriptor of these notices to the server before it reads the submission, and keeps none.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
from collections.abc import Iterator
from struct import Struct
from typing import Final

NOTICE: Final = Struct("=QIIi60x")
"""struct seccomp_notif: number of the notice, process, flags, number of the system call, the rest of its data."""
REPLY: Final = Struct("=QqiI")
"""struct seccomp_notif_resp."""
RECEIVE, SEND = 0xC0502100, 0xC0182101
MOST_CALLS: Final = 16
"""Different calls of one process that are kept."""


class AttemptList:
    """The attempts of all processes of a server, and a loop that waits for them and for the server's orders."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._awaited: dict[int, tuple[socket.socket, int]] = {}
        """By descriptor: the connection that a process sends its listener over, and the process."""
        self._listeners: dict[int, int] = {}
        self._calls: dict[int, list[int]] = {}

    def taken(self, process: int) -> list[int]:
        """Return the numbers of the calls refused since the last time, each once; -1 in the places that are left."""
        found = self._calls.get(process, [])
        self._calls[process] = []
        return [*found, *[-1] * (MOST_CALLS - len(found))]

    def expect(self, process: int, connection: socket.socket) -> None:
        """Await the listener of a process over `connection`, and take ownership of that."""
        self._calls[process] = []
        self._awaited[connection.fileno()] = connection, process
        self._poll.register(connection, select.POLLIN)

    def orders(self) -> Iterator[None]:
        """Yield when there is something to read from the server's control connection."""
        while True:
            for descriptor, event in self._poll.poll():
                if descriptor == self._control.fileno():
                    yield
                elif descriptor in self._awaited:
                    self._take_listener(descriptor)
                elif event & select.POLLIN:
                    self._answer(descriptor)
                else:  # no process has this filter any more
                    self._poll.unregister(descriptor)
                    del self._listeners[descriptor]
                    os.close(descriptor)

    def _take_listener(self, descriptor: int) -> None:
        connection, process = self._awaited.pop(descriptor)
        self._poll.unregister(descriptor)
        with connection:
            # Nothing comes from a process that ended, or whose kernel does not tell.
            _, found, _, _ = socket.recv_fds(connection, 1, 1)
        for listener in found:
            self._listeners[listener] = process
            self._poll.register(listener, select.POLLIN)

    def _answer(self, listener: int) -> None:
        calls = self._calls[self._listeners[listener]]
        record = bytearray(NOTICE.size)
        # The process may end at any moment, and its notice with it.
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, RECEIVE, record)
            notice, _, _, number = NOTICE.unpack(record)
            if number not in calls and len(calls) < MOST_CALLS:
                calls.append(number)
            fcntl.ioctl(listener, SEND, REPLY.pack(notice, 0, -errno.EPERM, 0))
