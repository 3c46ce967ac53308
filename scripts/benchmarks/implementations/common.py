"""Shared by all implementations: echoing processes, and memory growth. Standard library only."""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

BUFFER_BYTES = 256 * 1024
ORDER = bytes(24)
"""A message of about the size of an order to open a step, or of the report of an idle step."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER value that makes close() leave no socket in TIME_WAIT for the next measurement."""


class Growth:
    """Growth of the proportional set size of this process since construction, in bytes."""

    def __init__(self) -> None:
        self._before = _private_bytes()

    def for_each(self, count: int) -> float:
        """Return growth divided by `count`; 0 if the process shrank."""
        return max(0, _private_bytes() - self._before) / count


def _private_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError("no Pss in smaps_rollup")


@contextlib.contextmanager
def echoing(hosts: int, echo: Callable[[socket.socket], None]) -> Iterator[list[socket.socket]]:
    """Provide connections to `hosts` forked processes; in each, `echo` serves the connection until that ends."""
    near: list[socket.socket] = []
    pids: list[int] = []
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            for _ in range(hosts):
                ours = socket.create_connection(listener.getsockname())
                its, _ = listener.accept()
                for stream in (ours, its):
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pid = os.fork()
                if not pid:
                    _serve(echo, its, [listener, ours, *near])
                near.append(ours)
                pids.append(pid)
                its.close()
        yield near
    finally:
        for stream in near:
            with contextlib.suppress(OSError):  # a loop may have closed it
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()
        for pid in pids:
            os.waitpid(pid, 0)


def _serve(echo: Callable[[socket.socket], None], own: socket.socket, others: list[socket.socket]) -> None:
    """Run `echo` in this forked process; does not return."""
    status = 1
    try:
        for other in others:
            other.close()
        echo(own)
        status = 0
    finally:
        os._exit(status)
