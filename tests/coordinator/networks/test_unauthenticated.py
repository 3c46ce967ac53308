"""Authentication over real sockets: wrong token, version, host, run or rank, repeated hellos and malformed messages."""

import json
import os
import socket
from ast import literal_eval
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
import trio.testing

from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from emunode import __version__
from emunode.errors import FrameError, RunError
from emunode.host import process
from emunode.host.process import CANNOT_JOIN, Invitation, join, run_host
from emunode.host.session import serve
from emunode.logging import MOST_REFUSALS, logging_to
from emunode.model import ANY_HOST, Collective, CollectiveSpec
from emunode.net import wire
from emunode.net.protocol import HostConfig
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

PATIENCE_SECONDS = 240.0
SECRET = b"the secret of a run"
RUN = 77
FLOOD = fields("star:3 broadcast flood")


class Attempt(NamedTuple):
    """A coordinator that waits for two hosts."""

    network: HostNetwork
    port: int
    failures: list[BaseException]
    failed: trio.Event
    streams: AsyncExitStack

    async def connect(self) -> tuple[trio.SocketStream, bytes]:
        """Return a connection, closed after the test, and the challenge that comes over it."""
        stream = await self.streams.enter_async_context(await trio.open_tcp_stream("127.0.0.1", self.port))
        return stream, await receive(stream)

    def no_host_joined(self) -> bool:
        """Return whether it still waits for both hosts."""
        return self.network.pids == [] and self.failures == []

    async def say_hello(self, *hello: object, token: bytes | None = None) -> tuple[trio.SocketStream, bytes]:
        """Greet it as a host would; its answer, empty if it closes the connection."""
        stream, challenge = await self.connect()
        nonce = os.urandom(wire.NONCE_BYTES)
        await stream.send_all(wire.host_hello(token or self.network._token, challenge, nonce, *hello))
        return stream, await receive(stream)

    async def join(self) -> trio.SocketStream:
        """Join as host 0."""
        stream, answer = await self.say_hello("hello", __version__, 0, 9, "here")
        assert len(answer) == wire.PROOF_BYTES
        return stream


class NoLaunch(Launch):
    """Starts nothing: the test plays the hosts."""

    def __init__(self, joined: bool = False) -> None:
        self.hosts_outlive_run = joined

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self.port = port
        self.readable, self.never = socket.socketpair()
        return self.readable.fileno()

    def addresses(self, host: int) -> tuple[str, str]:
        return "127.0.0.1", ""

    def check(self) -> None:
        """Nothing can have ended."""

    async def stop(self) -> None:
        await trio.lowlevel.checkpoint()
        self.readable.close()
        self.never.close()


def malformed(receiver: str) -> list[tuple[object, ...]]:
    """Return the malformed messages for a receiver."""
    return [literal_eval(row["message"]) for row in golden_rows("", "malformed_messages", receiver=receiver)]


async def receive(stream: trio.SocketStream) -> bytes:
    """Return the next frame; empty at the end."""
    data = b""
    while len(data) < 4 or len(data) < 4 + wire.LENGTH.unpack_from(data)[0]:
        try:
            more = await stream.receive_some(4096)
        except trio.BrokenResourceError:  # a reset is an end, too
            more = b""
        if not more:
            return b""
        data += more
    return data[4:]


# --- a coordinator ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def coordinator(joined: bool = False) -> AsyncIterator[Attempt]:
    """Provide a coordinator that waits for two hosts."""
    plan = Case(FLOOD, driver="local", ranks_per_host=3).plan
    launch, failures = NoLaunch(joined), list[BaseException]()
    network, failed = HostNetwork(plan, launch), trio.Event()

    async def wait() -> None:
        try:
            await network.open(lambda *_: None)
        except RunError as error:
            failures.append(error)
            failed.set()

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            async with AsyncExitStack() as streams:
                yield Attempt(network, launch.port, failures, failed, streams)
            nursery.cancel_scope.cancel()
        await network.close()


@pytest.mark.parametrize("row", golden_rows("", "refused_hellos"), ids=lambda row: row["case"])
async def test_a_host_with_an_invalid_hello_is_refused(row: dict[str, str]) -> None:
    hello = literal_eval(row["hello"].replace("VERSION", repr(__version__)))
    async with coordinator(joined=row["driver"] == "join") as attempt:
        assert (await attempt.say_hello(*hello, token=row["token"].encode() or None))[1] == b""
        assert attempt.no_host_joined()


async def test_a_host_of_another_version_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = f"emunode 0.0.9 cannot join coordinator {__version__}: install the same version on both sides"
    monkeypatch.setattr(process, "__version__", "0.0.9")
    async with coordinator() as attempt:
        control = await trio.to_thread.run_sync(join, Invitation("127.0.0.1", attempt.port, attempt.network._token), 0)
        assert await serve(control, attempt.network._token) == f"refused by the coordinator: {reason}"
        assert attempt.network._admission.refusals == {reason: 1}
        assert attempt.no_host_joined()


async def test_junk_without_end_fills_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with log.open("w") as file, logging_to(file):
        async with coordinator() as attempt:
            for _ in range(600):
                async with await trio.open_tcp_stream("127.0.0.1", attempt.port) as stream:
                    with suppress(trio.BrokenResourceError):
                        await stream.send_all(b"\0\0\0\5junk!")
                    while await stream.receive_some():
                        pass
            assert attempt.no_host_joined()
    refused = [json.loads(line) for line in log.read_text().splitlines() if "connection refused" in line]
    assert [each.get("refused_so_far") for each in refused] == [*[None] * MOST_REFUSALS, 128, 256, 512]


async def test_a_host_joins_once() -> None:
    async with coordinator() as attempt:
        await attempt.join()
        assert (await attempt.say_hello("hello", __version__, 0, 10, "here"))[1] == b""
        assert attempt.network.pids == [9]


async def test_a_proof_is_valid_for_one_connection() -> None:
    """A stale host, or a recorded hello: the nonce is another one."""
    async with coordinator() as attempt:
        stream, challenge = await attempt.connect()
        nonce = wire.NONCE_BYTES * b"n"
        hello = wire.host_hello(attempt.network._token, challenge, nonce, "hello", __version__, 0, 9, "here")
        other, _ = await attempt.connect()
        await other.send_all(hello)
        assert await receive(other) == b""
        await stream.send_all(hello)
        assert len(await receive(stream)) == wire.PROOF_BYTES


@pytest.mark.parametrize("message", malformed("coordinator"), ids=str)
async def test_a_malformed_message_of_a_host_ends_the_run(message: tuple[object, ...]) -> None:
    async with coordinator() as attempt:
        stream = await attempt.join()
        await stream.send_all(wire.encode_control(*message))
        assert await receive(stream) == b""
        await attempt.failed.wait()
        assert str(attempt.failures[0]).startswith("host 0 (process 9")


@pytest.mark.parametrize("addresses", [("127.0.0.1", "10.0.0.9"), ("10.0.0.9", "127.9.9.9")])
async def test_a_joined_host_that_others_cannot_dial_is_refused(addresses: tuple[str, str]) -> None:
    refused = next(address for address in addresses if address.startswith("127."))
    reason = (
        f"it joined at {refused}, where the host at 10.0.0.9 cannot dial it; join by an address that other machines "
        "reach, or use emunode --advertise ADDRESS"
    )
    async with coordinator(joined=True) as attempt:
        streams, answers = {}, {}
        for address in addresses:
            hello = ("hello", __version__, ANY_HOST, 9, address, address)
            streams[address], answers[address] = await attempt.say_hello(*hello)
            assert answers[address]
        while more := await receive(streams[refused]):  # until it is disconnected
            answers[refused] += more
        assert answers[refused].endswith(wire.encode_control("refused", reason)[4:])
        assert [host.name for host in attempt.network._channel.in_order] == ["10.0.0.9"]
        assert attempt.network._admission.refusals == {reason: 1}
        assert attempt.failures == []


async def test_a_host_of_an_earlier_run_cannot_join() -> None:
    async with coordinator() as attempt:
        token = b"the token of yesterday"
        assert await trio.to_thread.run_sync(run_host, Invitation("127.0.0.1", attempt.port, token)) == CANNOT_JOIN
        assert attempt.no_host_joined()


# --- an impostor in place of a coordinator --------------------------------------------------------------------------


async def impostor(listener: trio.SocketListener, proof: bytes) -> None:
    """Greet a host as a coordinator would, without a valid proof."""
    stream = await listener.accept()
    async with stream:
        await stream.send_all(wire.frame(bytes(wire.NONCE_BYTES)))
        await receive(stream)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(wire.frame(proof))
            await stream.receive_some(1)


@pytest.mark.parametrize("proof", [b"", bytes(wire.PROOF_BYTES), bytes(wire.HELLO_LIMIT + 1)], ids=len)
async def test_a_host_joins_only_a_coordinator_that_knows_the_secret(proof: bytes) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(impostor, listener, proof)
            port = listener.socket.getsockname()[1]
            with pytest.raises(FrameError):
                await trio.to_thread.run_sync(join, Invitation("127.0.0.1", port, SECRET), 0)
            await listener.aclose()


def test_a_host_that_has_dialled_itself_dials_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dial_out = socket.create_connection

    def dial_itself(*_: object) -> socket.socket:
        monkeypatch.setattr(socket, "create_connection", dial_out)
        stream = socket.socket()
        stream.bind(("127.0.0.1", 0))
        stream.connect(stream.getsockname())
        return stream

    monkeypatch.setattr(socket, "create_connection", dial_itself)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        process._connect(Invitation("127.0.0.1", listener.getsockname()[1], b"")) as stream,
    ):
        assert stream.getpeername() == listener.getsockname()


# --- a host ----------------------------------------------------------------------------------------------------------

JOB = CollectiveSpec("star:3", Collective.BROADCAST, "flood", 0)


@asynccontextmanager
async def host() -> AsyncIterator[tuple[int, bytes, trio.SocketStream]]:
    """Provide host 1 of two with ranks 3 to 5, waiting for links; its port, its nonce, and its control
    connection.
    """
    ours, its = socket.socketpair()
    its.setblocking(False)
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, its.detach(), SECRET)
            control = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            order = HostConfig(RUN, 1, 2, JOB, "127.0.0.1", "127.0.0.1", 16, 60.0)
            await control.send_all(wire.encode_control("assign", *order.to_record()))
            _, port, nonce, _ = wire.decode_control(wire.frame(await receive(control)))
            assert isinstance(port, int)
            assert isinstance(nonce, bytes)
            yield port, nonce, control
            await control.aclose()


async def dial(port: int, hello: bytes) -> trio.SocketStream:
    """Say hello as a link."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(hello)
    return stream


def a_link() -> tuple[int, int, int, int]:
    """Return (sender, port, receiver, its port) of a link that comes from host 0."""
    return next(link for link in parse_topology("star:3").links() if link[0] < 3 <= link[2])


async def test_a_link_is_accepted_once_from_its_own_end() -> None:
    sender, its, receiver, port_there = a_link()
    async with host() as (port, nonce, _):
        wrong = [
            wire.link_hello(b"another secret", RUN, nonce, sender, its, receiver, port_there),
            wire.link_hello(SECRET, RUN + 1, nonce, sender, its, receiver, port_there),
            wire.link_hello(SECRET, RUN, bytes(wire.NONCE_BYTES), sender, its, receiver, port_there),
            wire.link_hello(SECRET, RUN, nonce, sender + 1, its, receiver, port_there),
            wire.link_hello(SECRET, RUN, nonce, sender, its + 1, receiver, port_there),
            wire.link_hello(SECRET, RUN, nonce, sender, its, 0, port_there),
            wire.link_hello(SECRET, RUN, nonce, sender, its, receiver, 9),
            wire.link_hello(SECRET, RUN, nonce, 2**64 - 1, 2**16 - 1, 2**64 - 1, 2**16 - 1),
        ]
        for hello in wrong:
            stream = await dial(port, hello)
            assert await receive(stream) == b""
            await stream.aclose()
        right = wire.link_hello(SECRET, RUN, nonce, sender, its, receiver, port_there)
        first = await dial(port, right)
        await trio.testing.wait_all_tasks_blocked(0.05)
        again = await dial(port, right)
        assert await receive(again) == b""
        with trio.move_on_after(0.05):
            raise AssertionError(await first.receive_some(1))
        await again.aclose()
        await first.aclose()


@pytest.mark.parametrize("order", malformed("host"), ids=str)
async def test_a_malformed_order_is_answered(order: tuple[object, ...]) -> None:
    async with host() as (_, _, control):
        await control.send_all(wire.encode_control(*order))
        name, kind, *_ = wire.decode_control(wire.frame(await receive(control)))
        assert (name, kind) == ("failed", "FrameError")
