"""Warming up the parent process: it runs a complete small network before it forks hosts.

A fork shares pages until one side writes to them, and Python writes to a page when it creates, caches or specialises an
object there. Children need not repeat what the parent has done often enough. Measured with one process per rank: start-up
takes half the time and two thirds of the memory.
"""

import codecs
import math
import socket

import trio

from emunode.host.session import serve
from emunode.model import Collective, CollectiveSpec
from emunode.net import wire
from emunode.net.protocol import HostConfig

SECRET = b"warm-up"
CONFIG = HostConfig(
    run=0,
    host=0,
    hosts=1,
    spec=CollectiveSpec("star:3", Collective.BROADCAST, "flood", 0),
    listen_address="127.0.0.1",
    dial_address="127.0.0.1",
    backlog=16,
    setup_seconds=10.0,
)
STEPS = 5
HOSTS_PER_TIME, MOST_TIMES = 10, 12
"""The first time saves children most of their page faults, and costs as much as it saves two of them. The next ones save
much less; Python 3.11 specialises the byte code that a step runs within the twelve."""


def warm_up(hosts: int) -> None:
    """Bring up a network of six ranks, flood it and take it down, as often as pays for this number of hosts."""
    # Encodings are imported on first use, which would happen in every child.
    codecs.lookup("idna")
    for _ in range(min(MOST_TIMES, math.ceil((hosts - 1) / HOSTS_PER_TIME))):
        trio.run(_run_once)


async def _run_once() -> None:
    ours, its = socket.socketpair()
    its.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, its.detach(), SECRET)
        nursery.start_soon(_coordinate, trio.SocketStream(trio.socket.from_stdlib_socket(ours)))


async def _coordinate(control: trio.SocketStream) -> None:
    """Send, and wait for, the least that a coordinator has to."""
    async with control:
        await control.send_all(wire.encode_control("assign", *CONFIG.to_record()))
        port, nonce, _ = await _receive(control, "listening")
        await control.send_all(wire.encode_control("connect", 0, 16, 16, [["127.0.0.1", port, nonce]]))
        while True:
            _, dialled, accepted, _ = await _receive(control, "links")
            if dialled == accepted:
                break
        for step in range(1, STEPS):
            await control.send_all(wire.encode_control("step", step, []))
            # As the coordinator does: the step ends when the counts agree.
            _, sent, received, _, _ = await _receive(control, "report")
            while sent != received:
                _, received = await _receive(control, "received")
        await control.send_all(wire.encode_control("shutdown"))
        # The host closes this connection last: the next network finds no links of this one.
        await control.receive_some()


async def _receive(control: trio.SocketStream, name: str) -> list[object]:
    while True:
        prefix = await _exactly(control, wire.LENGTH.size)
        received, *fields = wire.decode_control(prefix + await _exactly(control, *wire.LENGTH.unpack(prefix)))
        if received == name:
            return fields


async def _exactly(control: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await control.receive_some(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
