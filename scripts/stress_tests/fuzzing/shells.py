"""A host and a coordinator without sockets: authenticated peers send valid and malformed messages in any order."""

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Self

from coordinator.networks import control_channel as control
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.planning.plan import make_plan
from coordinator.scenario import model as scenario
from emunode import __version__
from emunode.errors import EmulatorError, FrameError
from emunode.faults.kinds import Crash, to_record
from emunode.host import link_table, session
from emunode.model import Collective, CollectiveSpec
from emunode.net import framed_streams, wire
from emunode.net.protocol import HostConfig
from stress_tests.fuzzing.source import NONCE, RUN, SECRET, Source, Target

FIRST = 10
"""The first descriptor number of a fake socket."""


class FakeSocket:
    """A socket that accepts what a real one accepts, and is not connected."""

    numbers: Iterator[int] = count(FIRST)

    def __init__(self, *_: object) -> None:
        self.number = next(self.numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ignore(self, *_: object) -> None:
        """Do nothing."""

    setsockopt = bind = ignore

    def connect_ex(self, address: tuple[str, int]) -> int:
        """Refuse malformed addresses as a real socket does."""
        name, port = address
        if not isinstance(name, str) or not isinstance(port, int):
            raise TypeError("an address is (str, int)")
        if not 0 <= port < 65536:
            raise OverflowError("port must be 0-65535")
        return 0

    def detach(self) -> int:
        """Return the number of an unused descriptor."""
        return self.number

    def getsockname(self) -> tuple[str, int]:
        """Return a fixed address."""
        return "127.0.0.1", 4000


class FakeStreams(framed_streams.FramedStreams):
    """Streams whose descriptors are unused numbers."""

    def _end(self, fd: int, why: str) -> None:
        self._forget(fd)
        self._on_end(fd, why)

    def send(self, fd: int, frame: bytes) -> None:
        assert len(frame) >= wire.LENGTH.size

    def close(self, fd: int, *, reset: bool = False) -> None:
        self._forget(fd)

    def add(self, fd: int, *, authenticated: bool) -> None:
        if not authenticated:
            self._unauthenticated[fd] = 0.0

    def ignore(self, *_: object) -> None:
        """Do nothing: no connection is accepted."""

    listen = watch = ignore


CONTROL = 5
JOB = CollectiveSpec("star:3", Collective.BROADCAST, "flood", 0, messages=2)
CONFIG = HostConfig(RUN, 0, 2, JOB, "127.0.0.1", "", 9, 9.0)
MESSAGES = (
    ["listening", 4000, NONCE, [0, 1]],
    ["links", 0, 1, 1, 0],
    ["rows", b"rows"],
    ["report", 1, {0: 1}, {1: 1}, 2, b""],
    ["received", 1, {1: 2}],
    ["tree_joined", 1],
    ["subtree", 1, 1, {0: 1}, 1, {1: 2}, b""],
    ["subtree_received", 1, 1],
    ["here"],
    ["failed", "RuleError", "it did"],
)
"""Messages of a host."""


def order(source: Source, nonces: int) -> bytes:
    """Return an order of a coordinator, valid or nearly valid."""
    step = source.number(0, 4)
    crash = to_record(Crash(step, source.number(0, 5)))
    match source.number(0, 6):
        case 0:
            message = ["step", step, [crash] if source.flag() else []]
        case 5:
            message = ["tree", ["127.0.0.1", 4000, NONCE] if source.flag() else None, source.number(0, 2)]
        case 6:
            message = ["tree_step", step, [crash]]
        case 1:
            message = ["drain", step, [crash]]
        case 2:
            message = ["connect", source.number(0, 2), 4, 4, [["127.0.0.1", 4000, NONCE]] * nonces]
        case 3:
            message = ["assign", *CONFIG.to_record()]
        case _:
            message = ["shutdown"]
    return wire.encode_control(*source.spoiled(message))


def make_fuzz_host() -> Callable[[bytes], None]:  # noqa: PLR0915  # one scene
    """Return a configured host that receives orders, packets and hellos, malformed or not, in any order."""
    link_table.socket.socket = FakeSocket
    session.listening_socket = lambda *_, **__: FakeSocket()
    session.trio.lowlevel.notify_closing = lambda _: None
    session.trio.lowlevel.reschedule = lambda _: None
    session.log = lambda *_, **__: None
    session.os.close = lambda _: None
    session.FramedStreams = FakeStreams
    good = wire.encode_control("assign", *CONFIG.to_record())

    def fuzz_host(data: bytes) -> None:
        source = Source(data)
        FakeSocket.numbers = count(FIRST)
        one = session.Session(CONTROL, SECRET, SimpleNamespace(start_soon=lambda *_: None))  # type: ignore[arg-type]
        try:
            one._on_other_frame(CONTROL, good)
            _, links, engine, _ = one._require_parts()
            links.nonce = NONCE
            engine._tasks = dict.fromkeys(links.ranks)  # type: ignore[arg-type]
            if source.flag():
                listeners = [["127.0.0.1", 4000, NONCE]] * len(links._to_dial)
                engine.on_frame(CONTROL, wire.encode_control("connect", 0, 99, 99, listeners))
            for _ in range(source.number(1, 6)):
                receive(source, one)
        finally:
            one._streams.close_poller()

    def receive(source: Source, one: session.Session) -> None:
        _, links, engine, _ = one._require_parts()
        kind = source.number(0, 5)
        fd = CONTROL
        try:
            if kind == 0:
                engine.on_frame(CONTROL, wire.frame(source.some_bytes(200)))
            elif kind <= 2:
                engine.on_frame(CONTROL, order(source, len(links._to_dial)))
                for rank in sorted(engine._inbox) if engine.working else ():
                    with contextlib.suppress(EmulatorError):  # as the task of a rank does
                        engine.run_node(rank)
                engine.working = 0
            elif kind == 3:
                fd = next((fd for fd in links.descriptors if fd >= 0), -1)
                if fd >= 0:
                    segments = tuple((source.number(0, 6), -1, 0, n, b"x") for n in range(source.pick(1, 2)))
                    frame = wire.encode_packet(source.number(0, 3), segments)
                    engine.on_frame(fd, frame if source.flag() else frame[: source.number(4, 44)])
            else:
                fd = next(FakeSocket.numbers)
                links.register(fd)
                fields = [source.pick(RUN, 8), *(source.number(0, 7) for _ in range(4))]
                if kind == 4:
                    fields[1:] = [source.number(0, top) for top in (2**64 - 1, 2**16 - 1, 2**64 - 1, 2**16 - 1)]
                run, *rest = fields
                engine.on_frame(fd, wire.link_hello(SECRET, run, NONCE, *rest))
        except FrameError:
            if fd < len(links.slots):
                one._on_end(fd, "refused")

    return fuzz_host


class NoLaunch(Launch):
    """Starts no hosts."""

    def addresses(self, host: int) -> tuple[str, str]:
        return "127.0.0.1", ""

    def start(self, port: int, token: bytes, hosts: int) -> int:
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError


def make_fuzz_coordinator() -> Callable[[bytes], None]:
    """Return a coordinator: unauthenticated connections, and authenticated hosts that send arbitrary messages."""
    control.trio = SimpleNamespace(current_time=time.monotonic)
    control.listening_socket = lambda *_, **__: FakeSocket()
    control.log = lambda *_, **__: None
    control.peer_address = lambda _: "127.0.0.1"
    control.FramedStreams = FakeStreams
    plan = make_plan(scenario.make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood"}))

    def fuzz_coordinator(data: bytes) -> None:
        source = Source(data)
        one = HostNetwork(plan, NoLaunch())
        try:
            for number in range(source.number(1, 5)):
                fd = 10 + number
                one._admission.challenge(fd)
                try:
                    introduce(source, one, fd)
                except FrameError:
                    one._channel._on_end(fd, "refused")
            assert len(one._channel.hosts) <= plan.hosts
            assert not set(one._channel._by_fd) & set(one._admission.pending)
            assert all(host.pid > 0 for host in one._channel.hosts.values())
        finally:
            one._channel.close(keep_hosts=True)

    def introduce(source: Source, one: HostNetwork, fd: int) -> None:
        if source.number(0, 4) == 0:
            one._channel._on_frame(fd, wire.frame(source.some_bytes(200)))
            raise AssertionError("a host without proof was admitted")
        hello = source.spoiled(["hello", __version__, source.number(-2, 3), 99, "name"])
        one._channel._on_frame(fd, wire.host_hello(one._token, one._admission._challenges[fd], NONCE, *hello))
        for _ in range(source.number(0, 4)):
            kind = source.number(0, len(MESSAGES))
            if kind == len(MESSAGES):
                one._channel._on_frame(fd, wire.frame(source.some_bytes(100)))
                continue
            one._channel._on_frame(fd, wire.encode_control(*source.spoiled([*MESSAGES[kind]])))
            one._absent()
            one.barrier._missing(1)

    return fuzz_coordinator


TARGETS = {"host": Target(make_fuzz_host, 100_000), "coordinator": Target(make_fuzz_coordinator, 100_000)}
