"""One protocol per port on the loop of uvloop. Standard library and uvloop only, so that another interpreter can run it."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from statistics import median

import uvloop

from benchmarks.implementations.common import BUFFER_BYTES, ORDER, RESET, Growth, echoing
from benchmarks.worker import answer

DIALLING = 64
"""Links that are dialled and not yet accepted at any time; more would overflow the queue of the listener."""
BUFFER = bytearray(BUFFER_BYTES)


class Port(asyncio.BufferedProtocol):
    """Counts received bytes; all ports read into one buffer."""

    __slots__ = ("_on_bytes", "_on_up", "transport")

    def __init__(self, on_bytes: Callable[[int], None], on_up: Callable[[], None] = lambda: None) -> None:
        self._on_bytes = on_bytes
        self._on_up = on_up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._on_up()

    def get_buffer(self, _hint: int) -> bytearray:
        return BUFFER

    def buffer_updated(self, size: int) -> None:
        self._on_bytes(size)


class Echo(asyncio.Protocol):
    """Sends back what comes in."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)


class Round:
    """Number of bytes still expected, and an event that is set when they have arrived."""

    def __init__(self) -> None:
        self._missing = 0
        self._all_in = asyncio.Event()

    def begin(self, missing: int) -> None:
        self._missing, self._all_in = missing, asyncio.Event()

    def take(self, size: int) -> None:
        self._missing -= size
        if not self._missing:
            self._all_in.set()

    async def end(self) -> None:
        await self._all_in.wait()


async def _own(fds: list[int], on_bytes: Callable[[int], None]) -> list[Port]:
    """Return a port on each of these connected descriptors."""
    loop, ports = asyncio.get_running_loop(), []
    for fd in fds:
        _, port = await loop.create_connection(lambda: Port(on_bytes), sock=socket.socket(fileno=fd))
        ports.append(port)
    return ports


def packets(ends: list[int], size: int, rounds: int) -> float:
    """Return packets per CPU second: every end writes one and reads one, `rounds` times."""
    packet = bytes(size)

    async def main() -> float:
        current = Round()
        ports = await _own(ends, current.take)
        began = time.process_time()
        for _ in range(rounds):
            current.begin(size * len(ports))
            for port in ports:
                port.transport.write(packet)
            await current.end()
        return time.process_time() - began

    return len(ends) * rounds / float(uvloop.run(main()))


def links(count: int) -> float:
    """Return links per second by `create_server` and `create_connection`."""

    async def main() -> float:
        loop, current = asyncio.get_running_loop(), Round()
        served: list[Port] = []
        dialled: list[Port] = []

        room = asyncio.Semaphore(DIALLING)

        def ignore(_size: int) -> None: ...

        def accepted() -> None:
            room.release()
            current.take(1)

        def serve() -> Port:
            served.append(Port(ignore, accepted))
            return served[-1]

        async def dial(address: tuple[str, int], many: int) -> None:
            for _ in range(many):
                await room.acquire()
                _, port = await loop.create_connection(lambda: Port(ignore), *address)
                dialled.append(port)

        server = await loop.create_server(serve, "127.0.0.1", 0, backlog=128)
        current.begin(count)
        began = time.perf_counter()
        address = server.sockets[0].getsockname()
        await asyncio.gather(*(dial(address, (count + dialler) // DIALLING) for dialler in range(DIALLING)))
        await current.end()
        spent = time.perf_counter() - began
        for port in (*dialled, *served):
            port.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            port.transport.abort()
        server.close()
        return spent

    return count / float(uvloop.run(main()))


def idle(hosts: int, rounds: int) -> float:
    """Return milliseconds to send an order to each of `hosts` processes and receive all reports."""

    async def echo(stream: socket.socket) -> None:
        _, protocol = await asyncio.get_running_loop().create_connection(Echo, sock=stream)
        await protocol.ended

    async def ask_all(fds: list[int]) -> float:
        current, times = Round(), []
        ports = await _own(fds, current.take)
        for _ in range(rounds):
            began = time.perf_counter()
            current.begin(len(ports) * len(ORDER))
            for port in ports:
                port.transport.write(ORDER)
            await current.end()
            times.append(time.perf_counter() - began)
        for port in ports:
            port.transport.abort()
        return median(times) * 1000

    with echoing(hosts, lambda stream: uvloop.run(echo(stream))) as near:
        return float(uvloop.run(ask_all([os.dup(stream.fileno()) for stream in near])))


def memory(ends: list[int]) -> float:
    """Return bytes of user memory for each end with its transport and protocol."""

    async def main() -> float:
        growth = Growth()
        ports = await _own(ends, lambda _size: None)
        return growth.for_each(len(ports))

    return float(uvloop.run(main()))


if __name__ == "__main__":
    answer({"packets": packets, "links": links, "idle": idle, "memory": memory})
