"""What the fuzzer throws bytes at: every decoder, every handshake, and the two shells behind them, without a socket.

One process fuzzes one target, under atheris (coverage-guided, libFuzzer inside): `python fuzz_targets.py TARGET [libFuzzer
options] [corpus folders]`. A target returns for what it takes and for what it refuses in the way that is documented
(FrameError, ScenarioError); anything else that is raised, a stall and memory that grows are findings, and end the process.
`python fuzz_targets.py -replay FOLDER` feeds every target what the folder of its name holds, and needs no atheris.
"""

import contextlib
import hashlib
import os
import select
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import tomli_w

INSTRUMENTED = [
    "emunode.wire",
    "emunode.links",
    "emunode.host",
    "emunode.assignment",
    "emunode.fault",
    "emunode.topology",
    "coordinator.control",
    "coordinator.hearing",
    "coordinator.faults",
    "coordinator.fault_sets",
    "coordinator.scenario",
    "coordinator.plan",
]
REPLAY = sys.argv[1:2] == ["-replay"]
if not REPLAY:
    import atheris  # type: ignore[import-untyped]

with contextlib.nullcontext() if REPLAY else atheris.instrument_imports(include=INSTRUMENTED):
    from coordinator import control, scenario
    from coordinator.fault_sets import parse_recipes
    from coordinator.faults import VALUES, parse_faults
    from coordinator.launch.base import Launch
    from coordinator.plan import make_plan
    from emunode import __version__, host, links, process, wire
    from emunode.assignment import Assignment
    from emunode.errors import EmulatorError, FrameError, ScenarioError
    from emunode.fault import KINDS, Crash, Faults, LinkFault, NodeFault, field_names, from_record, to_record
    from emunode.model import Collective, Job
    from emunode.topology.base import Topology
    from emunode.topology.registry import parse_topology

ORDER = 24
SECRET = b"a secret that the fuzzer does not know"
NONCE = bytes(range(wire.NONCE_BYTES))
RUN = 7

# --- decoders --------------------------------------------------------------------------------------------------------


def fuzz_packet(data: bytes) -> None:
    """A packet: what is accepted is in range, and comes back as it was when it is encoded again."""
    try:
        step, segments = wire.decode_packet(wire.frame(data), ORDER)
    except FrameError:
        return
    assert 0 <= step < 2**32
    for origin, target, tree, index, payload in segments:
        assert 0 <= origin < ORDER
        assert -1 <= target < ORDER
        assert 0 <= tree < 2**15
        assert 0 <= index < 2**31
        assert payload.__class__ is bytes
    assert wire.decode_packet(wire.encode_packet(step, segments), ORDER) == (step, segments)


def fuzz_control(data: bytes) -> None:
    """A control message: a tuple with a name, or refused."""
    try:
        message = wire.decode_control(wire.frame(data))
    except FrameError:
        return
    assert message.__class__ is tuple
    assert message[0].__class__ is str


def fuzz_hello(data: bytes) -> None:
    """A link's hello: nobody gets in without the secret, and who has it is understood."""
    with contextlib.suppress(FrameError):
        wire.read_link_hello(wire.frame(data), SECRET, RUN, NONCE)
        raise AssertionError("a hello without proof was taken")
    link = data[: wire._LINK.size]
    with contextlib.suppress(FrameError):
        frame = wire.frame(link + wire.prove(SECRET, b"link", NONCE, link))
        found = wire.read_link_hello(frame, SECRET, RUN, NONCE)
        assert wire._LINK.pack(RUN, *found) == link


class Pipe:
    """A socket of which `recv` yields given bytes and nothing more."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def recv(self, size: int) -> bytes:
        """At most `size` bytes, a few at a time."""
        size = min(size, 7)
        head, self.data = self.data[:size], self.data[size:]
        return head


def fuzz_greeting(data: bytes) -> None:
    """The coordinator's greeting as a joining host reads it."""
    with contextlib.suppress(FrameError):
        assert len(process._receive_frame(Pipe(data))) <= wire.HELLO_LIMIT  # type: ignore[arg-type]


# --- streams ---------------------------------------------------------------------------------------------------------


class Quiet(links.Streams):
    """Streams whose descriptors are numbers of nothing."""

    def _end(self, fd: int, why: str) -> None:
        self._forget(fd)
        self._on_end(fd, why)

    def send(self, fd: int, frame: bytes) -> None:
        assert len(frame) >= wire.LENGTH.size

    def close(self, fd: int, *, reset: bool = False) -> None:
        self._forget(fd)


def plain_frames(data: bytes) -> tuple[list[bytes], int]:
    """Whole frames of a stream, read plainly, and where the rest begins."""
    found, start = [], 0
    while len(data) - start >= 4:
        stop = start + 4 + int.from_bytes(data[start : start + 4], "little")
        if stop > len(data):
            break
        found.append(data[start:stop])
        start = stop
    return found, start


class Descriptors:
    """Streams that are no more than what has arrived in each: their poller, and the system calls on them."""

    def __init__(self) -> None:
        self.arrived: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.written: dict[int, bytes] = {}
        self.events: list[tuple[int, int]] = []
        self.most = 1
        """Bytes that a write takes; every other one takes none."""
        self.full = False

    def poll(self, _seconds: float, _most: int) -> list[tuple[int, int]]:
        """What has happened since."""
        events, self.events = self.events, []
        return events

    def register(self, fd: int, mask: int) -> None:
        """Be asked about a stream."""

    modify = register

    def unregister(self, fd: int) -> None:
        """Be asked no more."""

    def read(self, fd: int, size: int) -> bytes:
        """What has arrived; an error when nothing has, and nothing when nothing will."""
        data, self.arrived[fd] = self.arrived[fd][:size], self.arrived[fd][size:]
        if not data and fd not in self.ended:
            raise BlockingIOError
        return data

    def readv(self, fd: int, buffers: list[memoryview]) -> int:
        """The same into a buffer."""
        data = self.read(fd, len(buffers[0]))
        buffers[0][: len(data)] = data
        return len(data)

    def write(self, fd: int, data: bytes) -> int:
        """Take a part."""
        self.full = not self.full
        if self.full:
            raise BlockingIOError
        self.written[fd] = self.written.get(fd, b"") + bytes(data[: self.most])
        return min(len(data), self.most)

    def close(self, fd: int) -> None:
        """Let go."""


ENDS = (1_000_000, 1_000_001)
"""Two descriptors that are none."""
SMALL_BUFFER = 600
"""Bytes of the shared buffer: small enough for frames to be longer."""


def make_fuzz_streams() -> Callable[[bytes], None]:  # noqa: PLR0915  # one scene
    """Two streams with the same bytes, cut differently, give the same frames and keep no more than they must.

    One that has a frame that is too long ends there; what is written comes out whole, however little the socket takes.
    """
    system = Descriptors()
    links.os = system  # type: ignore[assignment]
    links.BUFFER_BYTES = SMALL_BUFFER
    frames: dict[int, list[bytes]] = {}
    ends: dict[int, str] = {}
    streams = links.Streams(lambda fd, frame: frames[fd].append(frame), lambda fd, why: ends.update({fd: why}))
    streams._epoll.close()
    streams._epoll = system  # type: ignore[assignment]

    def fuzz_streams(data: bytes) -> None:
        if len(data) < 3:
            return
        least = 1 + len(data) // 32  # no more than so many pieces: the rest would be more of the same
        flags, cuts, data = data[0], (least + data[1], least + 8 * data[2]), data[3:]
        frames.update({fd: [] for fd in ENDS})
        ends.clear()
        streams._reading = links.READ_BYTES
        limit = wire.HELLO_LIMIT if flags & 1 else wire.FRAME_LIMIT
        for fd in ENDS:
            streams.add(fd, trusted=not flags & 1)
        fed = feed(data, cuts, hang_up=bool(flags & 2))
        for fd in ENDS:
            expected, rest = plain_frames(data[: fed[fd]])
            found, kept = frames[fd], bytes(streams._partial.get(fd, b""))
            if ends.get(fd, "").startswith("a frame of"):
                assert found == expected[: len(found)]
                assert not kept
                at = sum(map(len, found))
                assert int.from_bytes(data[at : at + 4], "little") > limit
            else:
                assert found == expected
                assert not system.arrived[fd]
                assert kept == (b"" if fd in ends else data[rest : fed[fd]])
                assert (fd in ends) == bool(flags & 2)
        if flags & 4 and ENDS[0] not in ends:
            answer(frames[ENDS[0]], least + flags)
        for fd in ENDS:
            streams._forget(fd)
        streams.poll()
        assert streams.idle
        assert not streams.strangers
        streams._special.clear()

    def feed(data: bytes, cuts: tuple[int, ...], *, hang_up: bool) -> dict[int, int]:
        """Let everything arrive, and say how much each stream was given."""
        system.arrived, system.ended = dict.fromkeys(ENDS, b""), set()
        fed = dict.fromkeys(ENDS, 0)
        while any(fed[fd] < len(data) and fd not in ends for fd in ENDS):
            for fd, cut in zip(ENDS, cuts, strict=True):
                if fed[fd] < len(data) and fd not in ends:
                    system.arrived[fd] = data[fed[fd] : fed[fd] + cut]
                    fed[fd] = min(fed[fd] + cut, len(data))
                    system.events.append((fd, select.EPOLLIN))
            streams.poll()
        if hang_up:
            system.ended = set(ENDS)
            system.events = [(fd, select.EPOLLIN | select.EPOLLRDHUP) for fd in ENDS if fd not in ends]
            streams.poll()
        return fed

    def answer(sent: list[bytes], most: int) -> None:
        """Write frames through a socket that takes little."""
        fd = ENDS[0]
        system.written, system.most, system.full = {}, most, False
        streams.send_all((fd, frame) for frame in sent)
        while fd in streams._blocked:
            system.events.append((fd, select.EPOLLOUT))
            streams.poll()
        assert system.written.get(fd, b"") == b"".join(sent)

    return fuzz_streams


# --- values that look like ours --------------------------------------------------------------------------------------


class Source:
    """Bytes of the fuzzer as choices, from the first to the last; when they are used up, each choice is its first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, least: int, most: int) -> int:
        """A whole number in a range."""
        size = ((most - least).bit_length() + 7) // 8
        return least + int.from_bytes(self._take(size)) % (most - least + 1)

    def flag(self) -> bool:
        """Yes or no."""
        return bool(self.number(0, 1))

    def some_bytes(self, most: int) -> bytes:
        """Bytes as they are, and how many."""
        return self._take(self.number(0, most))

    def text(self, most: int) -> str:
        """Characters, nearly all of them plain."""
        return self.some_bytes(most).decode("utf-8", "replace")

    def pick(self, *choices: Any) -> Any:
        """One of a few."""
        return choices[self.number(0, len(choices) - 1)]

    def value(self, depth: int = 3) -> Any:  # noqa: PLR0911  # a table
        """Anything that a control message can hold, small numbers first."""
        match self.number(0, 9 if depth else 6):
            case 0 | 1 | 2:
                return self.number(-2, 8)
            case 3:
                return self.number(-(2**63), 2**64 - 1)
            case 4:
                return self.pick(None, True, False, 1.5, float("nan"), float("inf"))
            case 5:
                return self._take(self.pick(0, 1, 32, 70))
            case 6:
                return self.pick("crash", "step", "127.0.0.1", self.text(8))
            case 7 | 8:
                return [self.value(depth - 1) for _ in range(self.number(0, 4))]
            case _:
                return {self.number(-1, 3): self.value(depth - 1) for _ in range(3)}

    def spoiled(self, fields: list[Any]) -> list[Any]:
        """A message as it should be, but for a field or two."""
        for _ in range(self.number(0, 2)):
            kind = self.number(0, 3)
            if kind == 0 and fields:
                fields.pop(self.number(0, len(fields) - 1))
            elif kind == 1:
                fields.insert(self.number(0, len(fields)), self.value())
            elif fields:
                fields[self.number(0, len(fields) - 1)] = self.value()
        return fields


# --- a host ----------------------------------------------------------------------------------------------------------


FIRST = 10
"""The first number of a stream that goes nowhere."""


class NoNursery:
    """Starts nothing."""

    def start_soon(self, *_: object) -> None:
        """Start nothing."""


class NoSocket:
    """A socket that takes what a real one takes, and goes nowhere."""

    numbers: Iterator[int] = count(FIRST)

    def __init__(self, *_: object) -> None:
        self.number = next(self.numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def setsockopt(self, *_: object) -> None:
        """Nothing."""

    def bind(self, address: tuple[str, int]) -> None:
        """Take any address."""

    def connect_ex(self, address: tuple[str, int]) -> int:
        """Complain as a real one would."""
        name, port = address
        if not isinstance(name, str) or not isinstance(port, int):
            raise TypeError("an address is (str, int)")
        if not 0 <= port < 65536:
            raise OverflowError("port must be 0-65535")
        return 0

    def detach(self) -> int:
        """A number of nothing."""
        return self.number

    def getsockname(self) -> tuple[str, int]:
        """Somewhere."""
        return "127.0.0.1", 4000


class QuietHosts(Quiet):
    """The same for a host: what it adds and watches is nothing, too."""

    def add(self, fd: int, *, trusted: bool) -> None:
        if not trusted:
            self._strangers[fd] = 0.0

    def listen(self, listener: object, on_accept: object) -> None:
        """Listen to nobody."""

    def watch(self, fd: int, on_readable: object) -> None:
        """Watch nothing."""


CONTROL = 5
JOB = Job("star:3", Collective.BROADCAST, "flood", 0, messages=2)


def order(source: Source, nonces: int) -> bytes:
    """An order, more or less as a coordinator gives it."""
    step = source.number(0, 4)
    crash = to_record(Crash(step, source.number(0, 5)))
    match source.number(0, 4):
        case 0:
            message = ["step", step, [crash] if source.flag() else []]
        case 1:
            message = ["settle", step, [crash]]
        case 2:
            message = ["connect", source.number(0, 2), 4, 4, [["127.0.0.1", 4000, NONCE]] * nonces]
        case 3:
            message = ["assign", *Assignment(RUN, 0, 2, JOB, "127.0.0.1", "", 9, 9.0).to_record()]
        case _:
            message = ["bye"]
    return wire.encode_control(*source.spoiled(message))


def make_fuzz_host() -> Callable[[bytes], None]:  # noqa: PLR0915  # one scene
    """A host in the middle of things: orders, packets and hellos, spoiled or not, in any order."""
    host.socket.socket = NoSocket  # type: ignore[misc,assignment]
    host.listening_socket = lambda *_, **__: NoSocket()
    host.trio.lowlevel.notify_closing = lambda _: None
    host.trio.lowlevel.reschedule = lambda _: None
    host.log = lambda *_, **__: None  # type: ignore[assignment]
    host.os.close = lambda _: None  # type: ignore[assignment]

    class Fuzzed(host.Host):
        def __init__(self) -> None:
            super().__init__(CONTROL, SECRET, NoNursery())  # type: ignore[arg-type]

    host.Streams = QuietHosts  # type: ignore[misc]
    good = wire.encode_control("assign", *Assignment(RUN, 0, 2, JOB, "127.0.0.1", "", 9, 9.0).to_record())

    def fuzz_host(data: bytes) -> None:
        source = Source(data)
        NoSocket.numbers = count(FIRST)
        one = Fuzzed()
        one._nonce = NONCE
        try:
            one._on_frame(CONTROL, good)
            one._tasks = dict.fromkeys(one._ranks)  # type: ignore[arg-type]
            one._listen()
            if source.flag():
                connect = wire.encode_control("connect", 0, 99, 99, [["127.0.0.1", 4000, NONCE]] * len(one._to_dial))
                one._on_frame(CONTROL, connect)
            for _ in range(source.number(1, 6)):
                act(source, one)
        finally:
            one._streams.close_poller()

    def act(source: Source, one: Fuzzed) -> None:
        kind = source.number(0, 5)
        fd = CONTROL
        try:
            if kind == 0:
                one._on_frame(CONTROL, wire.frame(source.some_bytes(200)))
            elif kind <= 2:
                one._on_frame(CONTROL, order(source, len(one._to_dial)))
                for rank in sorted(one._inbox) if one._working else ():
                    with contextlib.suppress(EmulatorError):  # as the task of a rank does
                        one._run_node(rank)
                one._working = 0
            elif kind == 3:
                fd = next((fd for fd in one._fd_of if fd >= 0), -1)
                if fd >= 0:
                    segments = tuple((source.number(0, 6), -1, 0, n, b"x") for n in range(source.pick(1, 2)))
                    frame = wire.encode_packet(source.number(0, 3), segments)
                    one._on_frame(fd, frame if source.flag() else frame[: source.number(4, 44)])
            else:
                fd = next(NoSocket.numbers)
                one._know(fd)
                fields = [source.pick(RUN, 8), *(source.number(0, 7) for _ in range(4))]
                if kind == 4:
                    fields[1:] = [source.number(0, top) for top in (2**64 - 1, 2**16 - 1, 2**64 - 1, 2**16 - 1)]
                run, *rest = fields
                one._on_frame(fd, wire.link_hello(SECRET, run, NONCE, *rest))
        except FrameError:
            if fd < len(one._slot_of):
                one._on_end(fd, "refused")

    return fuzz_host


# --- a coordinator ---------------------------------------------------------------------------------------------------


class NoLaunch(Launch):
    """Starts nothing."""

    def addresses(self, host: int) -> tuple[str, str]:
        return "127.0.0.1", ""


def make_fuzz_coordinator() -> Callable[[bytes], None]:
    """A coordinator: strangers with and without proof, and hosts that are in and say anything."""
    control.trio = SimpleNamespace(current_time=time.monotonic)  # type: ignore[assignment]
    control.listening_socket = lambda *_, **__: NoSocket()
    control.log = lambda *_, **__: None  # type: ignore[assignment]
    control._peer_address = lambda _: "127.0.0.1"  # type: ignore[assignment]
    control.Streams = QuietHosts  # type: ignore[misc]
    plan = make_plan(scenario.make_scenario({"topology": "star:3", "collective": "broadcast", "algorithm": "flood"}))

    def fuzz_coordinator(data: bytes) -> None:
        source = Source(data)
        one = control.HostNetwork(plan, NoLaunch())
        try:
            for number in range(source.number(1, 5)):
                fd = 10 + number
                one._on_accept(fd)
                try:
                    meet(source, one, fd)
                except FrameError:
                    one._on_end(fd, "refused")
            assert len(one._hosts) <= plan.hosts
            assert not set(one._by_fd) & set(one._challenges)
            assert all(state.pid > 0 for state in one._hosts.values())
        finally:
            one._streams.close_poller()

    def meet(source: Source, one: control.HostNetwork, fd: int) -> None:
        if source.number(0, 4) == 0:
            one._on_frame(fd, wire.frame(source.some_bytes(200)))
            raise AssertionError("a host without proof was let in")
        hello = source.spoiled(["hello", __version__, source.number(-2, 3), 99, "name"])
        one._on_frame(fd, wire.host_hello(one._token, one._challenges[fd], NONCE, *hello))
        for _ in range(source.number(0, 4)):
            match source.number(0, 6):
                case 0:
                    message = ["listening", 4000, NONCE, [0, 1]]
                case 1:
                    message = ["links", 0, 1, 1, 0]
                case 2:
                    message = ["rows", b"rows"]
                case 3:
                    message = ["report", 1, {0: 1}, {1: 1}, 2, b""]
                case 4:
                    message = ["received", 1, {1: 2}]
                case 5:
                    message = ["failed", "RuleError", "it did"]
                case _:
                    one._on_frame(fd, wire.frame(source.some_bytes(100)))
                    continue
            one._on_frame(fd, wire.encode_control(*source.spoiled(message)))
            one._silent()
            one._missing(1)

    return fuzz_coordinator


# --- what users write ------------------------------------------------------------------------------------------------

TOPOLOGIES = [parse_topology(name) for name in ("star:4", "star:11", "hypercube:5", "ej:3+4", "ej:1+2^2")]


def fuzz_labels(data: bytes) -> None:
    """Names of networks and of nodes: understood one way only, or refused with what is allowed."""
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    if data[0] & 1:
        with contextlib.suppress(ScenarioError):
            topology = parse_topology(text)
            assert parse_topology(topology.name).name == topology.name
        return
    topology = TOPOLOGIES[(data[0] >> 1) % len(TOPOLOGIES)]
    with contextlib.suppress(ScenarioError):
        rank = topology.rank(text)
        assert 0 <= rank < topology.order
        assert topology.rank(topology.label(rank)) == rank


def a_label(source: Source, topology: Topology) -> str:
    """One of the first nodes, nearly always."""
    if source.number(0, 15) == 15:
        return source.text(8)
    return topology.label(source.number(0, min(topology.order, 16) - 1))


def a_spec(source: Source, topology: Topology) -> str:
    """A fault specification, nearly as it should be."""
    if source.number(0, 31) == 31:
        return source.text(40)
    kind = source.pick(*KINDS)
    record = KINDS[kind]
    where = a_label(source, topology)
    if not issubclass(record, NodeFault):
        rank = source.number(0, min(topology.order, 16) - 1)
        peer = topology.neighbour(rank, source.number(0, topology.degree - 1))
        where = f"{topology.label(rank)}{source.pick('~', '>')}{topology.label(peer)}"
    for name in VALUES:
        if name in field_names(record) or source.number(0, 31) == 31:
            where += ":" + source.pick("1", "0.5", ".25", "0", "2", "1e-3", "5e-324", "1.5", "", "x", "999999999")
    first = source.number(1, 6)
    where += source.pick("", f"@{first}", f"@{first}-{first + source.number(0, 4)}", f"@{first}-1", "@0", "@")
    return spoil(source, f"{kind}:{where}")


def spoil(source: Source, text: str) -> str:
    """Now and then, change a text in one place."""
    if source.number(0, 15) < 15:
        return text
    at = source.number(0, len(text))
    return text[:at] + source.text(3) + text[at + source.number(0, 2) :]


def fuzz_faults(data: bytes) -> None:
    """Fault specifications and recipes: in any order they are the same, and every engine can have them."""
    source = Source(data)
    topology = source.pick(*TOPOLOGIES)
    mode = source.number(0, 7)
    try:
        if mode == 0:
            specs = source.text(255).split("\n")
        elif mode == 1:
            recipes = parse_recipes(source.text(255))
            assert all(parse_recipes(recipe.name) == [recipe] for recipe in recipes[:20])
            return
        else:
            specs = [a_spec(source, topology) for _ in range(source.number(1, 5))]
        faults = parse_faults(tuple(specs), topology)
    except ScenarioError:
        return
    assert faults == parse_faults(tuple(reversed(specs)), topology)
    frame = wire.encode_control("step", 1, [to_record(fault) for fault in faults])
    _, _, records = wire.decode_control(frame)
    assert tuple(from_record(record) for record in records) == faults  # type: ignore[attr-defined]
    state = Faults(topology, 1)
    for step in range(1, 8):
        state.apply(fault for fault in faults if fault.step == step)
        for fault in faults:
            assert 1 <= fault.step <= fault.end
            rank = fault.sender if isinstance(fault, LinkFault) else fault.rank  # type: ignore[attr-defined]
            state.silent(rank, step)
            for port, segments, _ in state.crossings(step, rank, [(0, ((rank, -1, 0, step, b"payload"),))]):
                assert 0 <= port < topology.degree
                assert {len(segment) for segment in segments} == {5}


SMALL = (
    ("star:3", "broadcast", "flood"),
    ("star:4", "broadcast", "greedy-tree"),
    ("star:3", "scatter", "list-schedule"),
    ("star:4", "allgather", "rotated-trees"),
    ("hypercube:3", "allgather", "sbt"),
    ("hypercube:3", "broadcast", "sbt"),
    ("ej:1+2", "broadcast", "improved"),
)
SAMPLES: dict[str, tuple[object, ...]] = {
    "topology": ("star:3", "hypercube:4", "ej:2+3^2", "ring:3", "star:1", "star:99"),
    "collective": (*map(str, Collective), "sing"),
    "algorithm": ("flood", "sbt", "edt", "greedy-tree", "x"),
    "source": ("123", "000", "0,0", "321", "", "x"),
    "port_model": ("all-port", "one-port", "exchange", "x"),
    "duplex": ("full", "half"),
    "message_bytes": (1, 7, 64, 2**25, 2**25 + 1),
    "messages": (1, 2, 3, 2**31 - 1, 2**31),
    "segments": (1, 2, "auto", "many"),
    "redundancy": (1, 2, 3, 99),
    "driver": ("memory", "local", "docker", "join"),
    "ranks_per_host": (1, 2, 1000, "auto"),
    "netns": (True, False),
    "hang_by": ("pause", "disconnect"),
    "clock": ("steps", "timed"),
    "startup": ("5ms", "1.5us", "0", 0, "2 s", "1e300s", "1e999s", "5"),
    "per_byte": ("1us", "0", "0.1ns", "1e-300s"),
    "lateness_limit": (0.05, 1, 1.0, 0, 5e-324, "0.5"),
    "packet_limit": (1, 64, 2**31 - 1),
    "fault": (
        ["crash:123@2"],
        ["crash:213@1", "recover:213@3"],
        ["loss:123~213:0.5"],
        ["crash=1@1"],
        [],
        "crash",
        [[]],
    ),
    "fault_knowledge": ("none", "neighbours", "all"),
    "seed": (0, 7, 2**63 - 1, 2**63),
    "step_limit": (1, 100, 100_000),
    "name": ("a", "a-b.c", "../x", "", ".x", "a\n"),
}


def toml_value(source: Source, depth: int = 2) -> Any:
    """Anything that TOML can say."""
    match source.number(0, 8 if depth else 5):
        case 0 | 1:
            return source.number(-2, 8)
        case 2:
            return source.number(-(2**63), 2**64)
        case 3:
            return source.pick(True, False, 0.0, -0.0, 1.5, float("nan"), float("inf"))
        case 4 | 5:
            return source.text(12)
        case 6 | 7:
            return [toml_value(source, depth - 1) for _ in range(source.number(0, 3))]
        case _:
            return {source.text(4): toml_value(source, depth - 1) for _ in range(source.number(0, 2))}


def some_keys(source: Source) -> dict[str, Any]:
    """Keys of a scenario, nearly as they should be."""
    values: dict[str, Any] = dict(zip(("topology", "collective", "algorithm"), source.pick(*SMALL), strict=True))
    for _ in range(source.number(0, 5)):
        key = source.pick(*SAMPLES) if source.number(0, 31) < 31 else source.text(12)
        sampled = key in SAMPLES and source.number(0, 7) < 7
        values[key] = source.pick(*SAMPLES[key]) if sampled else toml_value(source)
    if source.number(0, 15) == 15:
        values.pop(source.pick(*values))
    return values


class Written:
    """A file with a text in it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self) -> str:
        """The text."""
        return self._text


def fuzz_scenario(data: bytes) -> None:
    """Scenario files and variables: TOML, then every key; of small networks a plan."""
    source = Source(data)
    mode = source.number(0, 7)
    try:
        if mode == 0:
            values = scenario.read_scenario(Written(source._data[1:].decode("utf-8", "replace")))  # type: ignore[arg-type]
        elif mode == 1:
            texts = {scenario.VARIABLE_PREFIX + key.upper(): str(value) for key, value in some_keys(source).items()}
            values = scenario.scenario_from_environment(texts)
        else:
            text = spoil(source, tomli_w.dumps(some_keys(source)))
            values = scenario.read_scenario(Written(text))  # type: ignore[arg-type]
        made = scenario.make_scenario(values)
    except ScenarioError:
        return
    assert scenario.make_scenario(scenario.tomllib.loads(scenario.dump_scenario(made))) == made
    if any(made.topology == topology for topology, _, _ in SMALL) and made.messages < 4 and made.message_bytes < 4096:
        with contextlib.suppress(EmulatorError):
            plan = make_plan(made)
            assert plan.name
            plan.claims()


TARGETS: dict[str, Callable[[], Callable[[bytes], None]]] = {
    "packet": lambda: fuzz_packet,
    "control": lambda: fuzz_control,
    "hello": lambda: fuzz_hello,
    "greeting": lambda: fuzz_greeting,
    "streams": make_fuzz_streams,
    "host": make_fuzz_host,
    "coordinator": make_fuzz_coordinator,
    "labels": lambda: fuzz_labels,
    "faults": lambda: fuzz_faults,
    "scenario": lambda: fuzz_scenario,
}
"""What makes each target."""


def seeds(target: str) -> list[bytes]:  # noqa: PLR0911  # a table
    """A few inputs to begin with."""
    packets = [
        wire.encode_packet(1, ((0, -1, 0, 0, b"abc"),)),
        wire.encode_packet(2, ((0, 3, 1, 0, b"a"), (1, 2, 0, 9, b""))),
    ]
    match target:
        case "packet":
            return [packet[4:] for packet in packets]
        case "control":
            return [wire.encode_control("step", 1, [to_record(Crash(1, 2))])[4:]]
        case "hello":
            return [wire.link_hello(b"another secret", RUN, NONCE, 1, 2, 3, 4)[4:], wire._LINK.pack(RUN, 1, 2, 3, 4)]
        case "greeting":
            return [wire.frame(NONCE)]
        case "streams":
            long = wire.frame(b"y" * 700)
            return [
                bytes((flags, cut, 255 - cut)) + b"".join(frames)
                for flags, cut in ((0, 3), (1, 9), (4, 40), (6, 200), (7, 100))
                for frames in (packets, (wire.frame(b"x" * 300), wire.frame(b"")), (long, *packets, long))
            ]
        case "labels":
            return [
                b"\x00" + b"3142",
                b"\x02" + b"3.1.10.2.4.5.6.7.8.9.11",
                b"\x0601101",
                b"\x061,-2",
                b"\x081,0/0,1",
            ] + [b"\x01" + name for name in (b"star:5", b"hypercube:7", b"ej:3+4", b"ej:3+4^3")]
        case "faults":
            texts = (
                "crash:3142@2\nrecover:3142@4",
                "loss:1234~2134:0.5@1-3\ndelay:1234>2134:2",
                "down:1234~2134@2\nup:1234~2134@4",
                "hang:1234@1-2\nbyzantine:2134\ndrop:1234>2134:3@2\ncorrupt:1234~2134:1e-3\nduplicate:1234~3214:1",
            )
            recipes = ("crash=1@2", "loss=3:0.3@1", "down=2@2-3,hang=1@1-2")
            written = [b"\0\0" + bytes([len(text)]) + text.encode() for text in texts]
            return [*written, *(b"\0\1" + bytes([len(text)]) + text.encode() for text in recipes), *drawn(64)]
        case "scenario":
            return [
                b'\0topology = "star:5"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\nfault = ["crash:21345@2"]\n',
                b'\0topology="ej:3+4"\ncollective="scatter"\nalgorithm="x"\nstartup="5ms"\nsegments="auto"\nseed=3',
                *drawn(128),
            ]
        case _:
            return drawn(200)


def drawn(size: int) -> list[bytes]:
    """A few strings of bytes without meaning: choices for what is made from a Source."""
    return [hashlib.shake_128(bytes((number,))).digest(size) for number in range(24)]


def replay(folder: Path) -> int:
    """Every kept input of every target once, each target in a fork; 1 if one of them is a finding."""
    status = 0
    for name in TARGETS:
        paths = sorted((folder / name).glob("*"))
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os._exit(_replay_one(name, paths))
        status |= os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return int(status != 0)


def _replay_one(name: str, paths: list[Path]) -> int:
    path = Path()
    inputs = [(path, path.read_bytes()) for path in paths]  # before the target replaces what reads them
    try:
        target = TARGETS[name]()
        for path, data in inputs:  # noqa: B007  # it is told when that fails
            target(data)
    except BaseException:
        sys.stdout.write(f"{name}: {path}\n{traceback.format_exc()}")
        sys.stdout.flush()
        return 1
    sys.stdout.write(f"{name}: {len(paths)} inputs\n")
    sys.stdout.flush()
    return 0


def main() -> None:
    """Fuzz one target until libFuzzer's options end it; `-seeds=FOLDER` first writes what it begins with."""
    name = sys.argv.pop(1)
    if REPLAY:
        sys.exit(replay(Path(sys.argv[1])))
    if sys.argv[1:] and sys.argv[1].startswith("-seeds="):
        folder = Path(sys.argv.pop(1).removeprefix("-seeds="))
        for number, seed in enumerate(seeds(name)):
            (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, TARGETS[name]())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
