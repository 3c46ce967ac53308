"""The baseline: bare system calls in one edge-triggered epoll loop. Standard library only."""

import contextlib
import os
import random
import select
import socket
import time
from statistics import median

from benchmarks.implementations.common import BUFFER_BYTES, ORDER, RESET, Growth, echoing
from benchmarks.worker import answer

EVENTS = 1024


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
    with echoing(hosts, _echo) as streams:
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


def _echo(stream: socket.socket) -> None:
    epoll, fd = select.epoll(), stream.fileno()
    epoll.register(fd, select.EPOLLIN)
    while True:
        epoll.poll()
        data = os.read(fd, 4096)
        if not data:
            return
        os.write(fd, data)


def memory(ends: list[int]) -> float:
    """Return bytes of user memory for each end that is registered and idle."""
    growth = Growth()
    epoll = select.epoll()
    for fd in ends:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    return growth.for_each(len(ends))


if __name__ == "__main__":
    answer({"packets": packets, "links": links, "idle": idle, "memory": memory})
