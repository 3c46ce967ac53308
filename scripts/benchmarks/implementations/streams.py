"""One trio SocketStream and one reading task per port, the obvious implementation with trio."""

import os
import socket
import time
from statistics import median

import trio
import trio.testing

from benchmarks.implementations.common import BUFFER_BYTES, ORDER, RESET, Growth, echoing
from benchmarks.worker import answer

DIALLING = 64
"""Links that are dialled and not yet accepted at any time; more would overflow the queue of the listener."""


def _stream(fd: int) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=fd)))


def packets(ends: list[int], size: int, rounds: int) -> float:
    """Return packets per CPU second: every end writes one and reads one, `rounds` times."""
    packet = bytes(size)

    async def main() -> float:
        owned = [_stream(fd) for fd in ends]
        got, due, all_in = 0, 0, trio.Event()

        async def reader(stream: trio.SocketStream) -> None:
            nonlocal got
            while True:
                data = await stream.receive_some(BUFFER_BYTES)
                got += len(data)
                if got == due:
                    all_in.set()

        async with trio.open_nursery() as nursery:
            for stream in owned:
                nursery.start_soon(reader, stream)
            await trio.testing.wait_all_tasks_blocked()
            began = time.process_time()
            for _ in range(rounds):
                due, all_in = due + size * len(owned), trio.Event()
                for stream in owned:
                    await stream.send_all(packet)
                await all_in.wait()
            spent = time.process_time() - began
            nursery.cancel_scope.cancel()
        return spent

    return len(ends) * rounds / trio.run(main)


def links(count: int) -> float:
    """Return links per second by `serve_listeners` and `open_tcp_stream`."""

    async def main() -> float:
        served: list[trio.SocketStream] = []
        dialled: list[trio.SocketStream] = []
        all_up, room = trio.Event(), trio.Semaphore(DIALLING)

        async def serve(stream: trio.SocketStream) -> None:
            room.release()
            served.append(stream)
            if len(served) == count:
                all_up.set()
            await trio.sleep_forever()

        async def dial(address: tuple[str, int], many: int) -> None:
            for _ in range(many):
                await room.acquire()
                stream = await trio.open_tcp_stream(*address)
                dialled.append(stream)

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=128)
        address = listeners[0].socket.getsockname()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            began = time.perf_counter()
            for dialler in range(DIALLING):
                nursery.start_soon(dial, address, (count + dialler) // DIALLING)
            await all_up.wait()
            spent = time.perf_counter() - began
            for stream in (*dialled, *served):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                stream.socket.close()
            nursery.cancel_scope.cancel()
        return spent

    return count / trio.run(main)


def idle(hosts: int, rounds: int) -> float:
    """Return milliseconds to send an order to each of `hosts` processes and receive all reports."""
    with echoing(hosts, lambda stream: trio.run(_echo, stream)) as near:
        return trio.run(_ask_all, near, rounds)


async def _echo(stream: socket.socket) -> None:
    stream.setblocking(False)
    own = trio.SocketStream(trio.socket.from_stdlib_socket(stream))
    while data := await own.receive_some(4096):
        await own.send_all(data)


async def _ask_all(near: list[socket.socket], rounds: int) -> float:
    owned = [_stream(os.dup(connected.fileno())) for connected in near]
    missing, all_in, times = 0, trio.Event(), []

    async def reader(stream: trio.SocketStream) -> None:
        nonlocal missing
        while True:
            data = await stream.receive_some(4096)
            missing -= len(data)
            if not missing:
                all_in.set()

    async with trio.open_nursery() as nursery:
        for stream in owned:
            nursery.start_soon(reader, stream)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(rounds):
            began = time.perf_counter()
            missing, all_in = len(owned) * len(ORDER), trio.Event()
            for stream in owned:
                await stream.send_all(ORDER)
            await all_in.wait()
            times.append(time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    for stream in owned:
        stream.socket.close()
    return median(times) * 1000


def memory(ends: list[int]) -> float:
    """Return bytes of user memory for each end with its stream and its waiting task."""

    async def main() -> float:
        growth = Growth()
        owned = [_stream(fd) for fd in ends]
        async with trio.open_nursery() as nursery:
            for stream in owned:
                nursery.start_soon(stream.receive_some, BUFFER_BYTES)
            await trio.testing.wait_all_tasks_blocked()
            grown = growth.for_each(len(ends))
            nursery.cancel_scope.cancel()
        return grown

    return trio.run(main)


if __name__ == "__main__":
    answer({"packets": packets, "links": links, "idle": idle, "memory": memory})
