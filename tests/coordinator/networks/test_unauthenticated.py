"""Who may come in, over real sockets: wrong token, version, place, run or rank, twice, and nonsense."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode import __version__
from emunode.errors import FrameError, RunError
from emunode.host import process
from emunode.host.process import ANY_HOST, CANNOT_JOIN, join, run_host
from emunode.host.session import serve
from emunode.model import Collective, CollectiveSpec
from emunode.net import wire
from emunode.net.protocol import HostConfig

PATIENCE_SECONDS = 30.0
SECRET = b"the secret of a run"
RUN = 77


class NoLaunch(Launch):
    """Starts nothing: the test is all hosts."""

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


async def receive(stream: trio.SocketStream) -> bytes:
    """The next frame; empty at the end."""
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
async def coordinator(
    joined: bool = False,
) -> AsyncIterator[tuple[HostNetwork, int, list[BaseException], trio.Event]]:
    """A coordinator that waits for two hosts; its port, and what it fails with."""
    plan = make_plan(
        make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "ranks_per_host": 3})
    )
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
            yield network, launch.port, failures, failed
            nursery.cancel_scope.cancel()
        await network.close()


async def say_hello(port: int, token: bytes, *hello: object) -> tuple[trio.SocketStream, bytes]:
    """Greet a coordinator as a host would; its answer, empty if it closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    challenge = await receive(stream)
    nonce = os.urandom(wire.NONCE_BYTES)
    await stream.send_all(wire.host_hello(token, challenge, nonce, *hello))
    return stream, await receive(stream)


@pytest.mark.parametrize(
    ("token", "hello"),
    [
        (b"another token", ("hello", __version__, 0, 9, "here")),
        (None, ("hello", __version__, 2, 9, "here")),
        (None, ("hello", __version__, -7, 9, "here")),
        (None, ("hello", __version__, 0, 0, "here")),
        (None, ("hello", __version__, 0, -1, "here")),
        (None, ("hello", __version__, "0", 9, "here")),
        (None, ("hullo",)),
    ],
    ids=["token", "host", "negative host", "process 0", "every process", "no number", "no hello"],
)
async def test_a_host_that_will_not_do_is_refused(token: bytes | None, hello: tuple[object, ...]) -> None:
    async with coordinator() as (network, port, failures, _):
        stream, answer = await say_hello(port, token or network._token, *hello)
        assert answer == b""
        await stream.aclose()
        assert network.pids == []
        assert failures == []


async def test_a_host_of_another_version_is_refused_with_the_reason_on_both_sides() -> None:
    reason = f"emunode 0.0.9 cannot join coordinator {__version__}: install the same version on both sides"
    async with coordinator() as (network, port, failures, _):
        stream, answer = await say_hello(port, network._token, "hello", "0.0.9", 0, 9, "here")
        while more := await receive(stream):
            answer += more
        assert answer.endswith(wire.body(wire.encode_control("refused", reason)))
        await stream.aclose()
        assert network.pids == []
        assert network._admission.refusals == {reason: 1}
        assert failures == []


async def test_an_old_host_that_is_refused_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "__version__", "0.0.9")
    async with coordinator() as (network, port, _, _):
        control = await trio.to_thread.run_sync(join, "127.0.0.1", port, network._token, 0)
        problem = await serve(control, network._token)
    assert problem == (
        "refused by the coordinator: emunode 0.0.9 cannot join coordinator "
        f"{__version__}: install the same version on both sides"
    )


async def test_a_place_is_given_once_and_then_there_is_none() -> None:
    async with coordinator() as (network, port, _, _):
        first, answer = await say_hello(port, network._token, "hello", __version__, 0, 9, "here")
        assert len(answer) == wire.PROOF_BYTES
        again, answer = await say_hello(port, network._token, "hello", __version__, 0, 10, "here")
        assert answer == b""
        assert network.pids == [9]
        await first.aclose()
        await again.aclose()


async def test_a_proof_is_good_for_one_connection() -> None:
    """A stale host, or somebody who listened: the nonce is another one."""
    async with coordinator() as (network, port, _, _):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        challenge = await receive(stream)
        said = wire.host_hello(network._token, challenge, wire.NONCE_BYTES * b"n", "hello", __version__, 0, 9, "here")
        other = await trio.open_tcp_stream("127.0.0.1", port)
        await receive(other)
        await other.send_all(said)
        assert await receive(other) == b""
        await stream.send_all(said)
        assert len(await receive(stream)) == wire.PROOF_BYTES
        await other.aclose()
        await stream.aclose()


@pytest.mark.parametrize(
    "message",
    [
        ("listening",),
        ("listening", "4000", b"", [0]),
        ("links", 1),
        ("report", 1, {7: 1}, {}, 0, b""),
        ("report", 1, {0: -1}, {}, 0, b""),
        ("report", 1, {}, {}, 0, b"no row"),
        ("rows", b"x"),
        ("rows",),
        ("altered_copies", [[1, 2]]),
        ("altered_copies", 5),
        ("failed", 1, 2),
        ("what",),
        (5,),
    ],
    ids=str,
)
async def test_a_host_that_says_nonsense_ends_the_run_and_not_the_coordinator(message: tuple[object, ...]) -> None:
    async with coordinator() as (network, port, failures, failed):
        stream, _ = await say_hello(port, network._token, "hello", __version__, 0, 9, "here")
        await stream.send_all(wire.encode_control(*message))
        assert await receive(stream) == b""
        await failed.wait()
        assert str(failures[0]).startswith("host 0 (process 9")
        await stream.aclose()


# --- a coordinator that is none --------------------------------------------------------------------------------------


async def impostor(listener: trio.SocketListener, proof: bytes) -> None:
    """Greet whoever comes as a coordinator would, and prove nothing."""
    stream = await listener.accept()
    async with stream:
        await stream.send_all(wire.frame(bytes(wire.NONCE_BYTES)))
        await receive(stream)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(wire.frame(proof))
            await stream.receive_some(1)


@pytest.mark.parametrize("proof", [b"", bytes(wire.PROOF_BYTES), bytes(wire.HELLO_LIMIT + 1)], ids=len)
async def test_a_host_joins_nobody_who_does_not_know_the_secret(proof: bytes) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(impostor, listener, proof)
            port = listener.socket.getsockname()[1]
            with pytest.raises(FrameError):
                await trio.to_thread.run_sync(join, "127.0.0.1", port, SECRET, 0)
            await listener.aclose()


@pytest.mark.parametrize("addresses", [("127.0.0.1", "10.0.0.9"), ("10.0.0.9", "127.9.9.9")])
async def test_a_joined_host_that_others_cannot_dial_is_refused_whoever_comes_first(addresses: tuple[str, str]) -> None:
    async with coordinator(joined=True) as (network, port, failures, _):
        streams, heard = {}, {}
        for address in addresses:
            hello = ("hello", __version__, ANY_HOST, 9, address, address)
            streams[address], heard[address] = await say_hello(port, network._token, *hello)
            assert heard[address]
        refused = next(address for address in addresses if address.startswith("127."))
        while more := await receive(streams[refused]):  # until it is disconnected
            heard[refused] += more
        assert heard[refused].endswith(wire.encode_control("refused", unreachable(refused))[4:])
        assert [host.name for host in network._channel.in_order] == ["10.0.0.9"]
        assert network._admission.refusals == {unreachable(refused): 1}
        assert failures == []
        for stream in streams.values():
            await stream.aclose()


def unreachable(local: str) -> str:
    """What the host at `local` is told."""
    return (
        f"it joined at {local}, where the host at 10.0.0.9 cannot dial it; join by an address that other machines reach, "
        "or use emunode --advertise ADDRESS"
    )


@pytest.mark.parametrize("address", [7, "", "host", "1.2.3", "::1", b"10.0.0.9"])
async def test_a_host_that_advertises_no_address_is_refused(address: object) -> None:
    async with coordinator(joined=True) as (network, port, failures, _):
        stream, answer = await say_hello(port, network._token, "hello", __version__, 0, 9, "here", address)
        assert answer == b""
        await stream.aclose()
        assert network.pids == []
        assert failures == []


async def test_a_host_of_an_earlier_run_is_told_that_it_is_refused() -> None:
    async with coordinator() as (network, port, _, _):
        assert await trio.to_thread.run_sync(run_host, "127.0.0.1", port, b"the token of yesterday") == CANNOT_JOIN
        assert network.pids == []


# --- a host ----------------------------------------------------------------------------------------------------------

JOB = CollectiveSpec("star:3", Collective.BROADCAST, "flood", 0)


@asynccontextmanager
async def host() -> AsyncIterator[tuple[int, bytes, trio.SocketStream]]:
    """Host 1 of two, which runs ranks 3 to 5 and waits for links; its port, its nonce, and its control connection."""
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
    """(sender, port, receiver, its port) of a link that comes from host 0."""
    topology = make_plan(
        make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood"})
    ).topology
    return next(link for link in topology.links() if link[0] < 3 <= link[2])


async def test_a_link_is_made_by_its_own_end_of_its_own_run_and_once() -> None:
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


@pytest.mark.parametrize(
    "order",
    [
        ("step",),
        ("step", "1", []),
        ("step", 1, [["crash"]]),
        ("connect", 0),
        ("connect", 0, 1, 1, [5]),
        ("what",),
    ],
    ids=str,
)
async def test_an_order_that_cannot_be_obeyed_is_answered(order: tuple[object, ...]) -> None:
    async with host() as (_, _, control):
        await control.send_all(wire.encode_control(*order))
        name, kind, *_ = wire.decode_control(wire.frame(await receive(control)))
        assert (name, kind) == ("failed", "FrameError")
