"""The baseline: bare system calls in one edge-triggered epoll loop. Standard library only."""

import contextlib
import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.worker import answer

EVENTS = 1024
BUFFER_BYTES = 256 * 1024
ORDER = bytes(24)
"""A message of about the size of an order to open a step, or of the report of an idle step."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER value that makes close() leave no socket in TIME_WAIT for the next measurement."""


def packets(ends: list[int], size: int, rounds: int) -> float:
    """Return packets per CPU second: every end writes one and reads one, `rounds` times."""
    epoll, packet = select.epoll(), bytes(size)
    for fd in ends:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    buffer = memoryview(bytearray(BUFFER_BYTES))
    began = time.process_time()
    for _ in range(rounds):
        for fd in ends:
            if os.write(fd, packet) != size:
                raise SystemExit("a socket buffer is too small for this benchmark")
        missing = len(ends) * size
        while missing:
            for fd, _event in epoll.poll(-1, EVENTS):
                while True:
                    try:
                        got = os.readv(fd, [buffer])
                    except BlockingIOError:
                        break
                    missing -= got
                    if got < len(buffer):
                        break
    return len(ends) * rounds / (time.process_time() - began)


def links(count: int) -> float:
    """Return links per second by connect and accept in one process, source ports bound as ours are."""
    ends = []
    near, far = (f"127.{random.randrange(100, 250)}.{random.randrange(256)}.{end}" for end in (1, 2))
    with socket.create_server((near, 0), backlog=64) as listener:
        address = listener.getsockname()
        began = time.perf_counter()
        for port in range(1024, 1024 + count):
            stream = socket.socket()
            with contextlib.suppress(OSError):  # another program may listen on this port at every address
                stream.bind((far, port))
            stream.connect(address)
            ends += [stream, listener.accept()[0]]
        spent = time.perf_counter() - began
    for stream in ends:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        stream.close()
    return count / spent


def idle(hosts: int, rounds: int) -> float:
    """Return milliseconds to send an order to each of `hosts` processes and receive all reports."""
    with _echoing(hosts) as streams:
        epoll = select.epoll()
        fds = [stream.fileno() for stream in streams]
        for fd in fds:
            epoll.register(fd, select.EPOLLIN)
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            for fd in fds:
                os.write(fd, ORDER)
            missing = len(fds) * len(ORDER)
            while missing:
                for fd, _event in epoll.poll(-1, EVENTS):
                    missing -= len(os.read(fd, 4096))
            times.append(time.perf_counter() - began)
        epoll.close()
    return median(times) * 1000


@contextlib.contextmanager
def _echoing(hosts: int) -> Iterator[list[socket.socket]]:
    """Provide connections to `hosts` forked processes, each of which sends back what it gets until its connection ends."""
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
                    _echo(its, [listener, ours, *near])
                near.append(ours)
                pids.append(pid)
                its.close()
        yield near
    finally:
        for stream in near:
            stream.shutdown(socket.SHUT_RDWR)
            stream.close()
        for pid in pids:
            os.waitpid(pid, 0)


def _echo(stream: socket.socket, others: list[socket.socket]) -> None:
    """Send back what arrives, in this forked process; does not return."""
    status = 1
    try:
        for other in others:
            other.close()
        epoll, fd = select.epoll(), stream.fileno()
        epoll.register(fd, select.EPOLLIN)
        while data := epoll.poll() and os.read(fd, 4096):
            os.write(fd, data)
        status = 0
    finally:
        os._exit(status)


def memory(ends: list[int]) -> float:
    """Return bytes of user memory for each end that is registered and idle; 0 if the process shrank."""
    before = _private_bytes()
    epoll = select.epoll()
    for fd in ends:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    return max(0, _private_bytes() - before) / len(ends)


def _private_bytes() -> int:
    """Return the proportional set size of this process."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError("no Pss in smaps_rollup")


if __name__ == "__main__":
    answer({"packets": packets, "links": links, "idle": idle, "memory": memory})
