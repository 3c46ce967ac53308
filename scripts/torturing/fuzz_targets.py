"""What the fuzzer throws bytes at: every decoder, every handshake, and the two shells behind them, without a socket.

One process fuzzes one target, under atheris (coverage-guided, libFuzzer inside): `python fuzz_targets.py TARGET [libFuzzer
options] [corpus folders]`. A target returns for what it takes and for what it refuses in the way that is documented
(FrameError, ScenarioError); anything else that is raised, a stall and memory that grows are findings, and end the process.
"""

import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(
    include=[
        "emunode.wire",
        "emunode.links",
        "emunode.host",
        "emunode.assignment",
        "emunode.fault",
        "emunode.topology",
        "coordinator.control",
        "coordinator.faults",
        "coordinator.scenario",
    ]
):
    from coordinator import control, scenario
    from coordinator.faults import parse_faults
    from coordinator.launch.base import Launch
    from coordinator.plan import make_plan
    from emunode import __version__, host, links, process, wire
    from emunode.assignment import Assignment
    from emunode.errors import FrameError, ScenarioError
    from emunode.fault import Crash, to_record
    from emunode.model import Collective, Job
    from emunode.topology.registry import parse_topology

ORDER = 24
SECRET = b"a secret that the fuzzer does not know"
NONCE = bytes(range(wire.NONCE_BYTES))
RUN = 7

# --- decoders --------------------------------------------------------------------------------------------------------


def fuzz_packet(data: bytes) -> None:
    """A packet's body: what is accepted is in range, and comes back as it was when it is encoded again."""
    try:
        step, segments = wire.decode_packet(data, ORDER)
    except FrameError:
        return
    assert 0 <= step < 2**32
    for origin, target, tree, index, payload in segments:
        assert 0 <= origin < ORDER
        assert -1 <= target < ORDER
        assert 0 <= tree < 2**15
        assert 0 <= index < 2**31
        assert payload.__class__ is bytes
    again = wire.encode_packet(step, segments)[wire.LENGTH.size :]
    assert wire.decode_packet(again, ORDER) == (step, segments)


def fuzz_control(data: bytes) -> None:
    """A control message: a tuple with a name, or refused."""
    try:
        message = wire.decode_control(data)
    except FrameError:
        return
    assert message.__class__ is tuple
    assert message[0].__class__ is str


def fuzz_hello(data: bytes) -> None:
    """A link's hello: nobody gets in without the secret, and who has it is understood."""
    with contextlib.suppress(FrameError):
        wire.read_link_hello(data, SECRET, RUN, NONCE)
        raise AssertionError("a hello without proof was taken")
    link = data[: wire._LINK.size]
    with contextlib.suppress(FrameError):
        found = wire.read_link_hello(link + wire.prove(SECRET, b"link", NONCE, link), SECRET, RUN, NONCE)
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


NOWHERE = 1_000_000
"""A descriptor that is none."""


def plain_frames(data: bytes) -> tuple[list[bytes], int]:
    """Whole frames of a stream, read plainly, and where the rest begins."""
    found, start = [], 0
    while len(data) - start >= 4:
        stop = start + 4 + int.from_bytes(data[start : start + 4], "little")
        if stop > len(data):
            break
        found.append(data[start + 4 : stop])
        start = stop
    return found, start


def make_fuzz_streams() -> Callable[[bytes], None]:
    """A stream cut anywhere gives the same frames, keeps no more than it must, and ends at a frame that is too long."""
    frames: list[bytes] = []
    ends: list[str] = []
    streams = Quiet(lambda _, body: frames.append(body), lambda _, why: ends.append(why))

    def fuzz_streams(data: bytes) -> None:
        if len(data) < 3:
            return
        stranger, cut, data = data[0] & 1, 1 + data[1] % 64, data[2:]
        frames.clear()
        ends.clear()
        if stranger:
            streams._strangers[NOWHERE] = time.monotonic()
        fed = 0
        for start in range(0, len(data), cut):
            chunk = data[start : start + cut]
            fed = start + len(chunk)
            try:
                streams._take(NOWHERE, chunk)
            except FrameError as error:
                streams._end(NOWHERE, str(error))
                break
        expected, rest = plain_frames(data[:fed])
        assert frames == expected
        limit = wire.HELLO_LIMIT if stranger else wire.FRAME_LIMIT
        kept = streams._partial.get(NOWHERE, b"")
        left = data[rest:fed]
        length = int.from_bytes(left[:4], "little") if len(left) >= 4 else 0
        if ends:
            assert length > limit
            assert not kept
        else:
            assert bytes(kept) == left
            assert len(kept) <= limit + 4 or len(kept) <= cut + 4
        streams._forget(NOWHERE)
        streams._gone.clear()
        streams._special.clear()
        assert streams.idle
        assert not streams.strangers

    return fuzz_streams


# --- values that look like ours --------------------------------------------------------------------------------------


class Source(atheris.FuzzedDataProvider):
    """Bytes of the fuzzer as choices."""

    def pick(self, *choices: Any) -> Any:
        """One of a few."""
        return choices[self.ConsumeIntInRange(0, len(choices) - 1)]

    def value(self, depth: int = 3) -> Any:  # noqa: PLR0911  # a table
        """Anything that a control message can hold, small numbers first."""
        match self.ConsumeIntInRange(0, 9 if depth else 6):
            case 0 | 1 | 2:
                return self.ConsumeIntInRange(-2, 8)
            case 3:
                return self.ConsumeIntInRange(-(2**63), 2**64 - 1)
            case 4:
                return self.pick(None, True, False, 1.5, float("nan"), float("inf"))
            case 5:
                return self.ConsumeBytes(self.pick(0, 1, 32, 70))
            case 6:
                return self.pick("crash", "step", "127.0.0.1", self.ConsumeUnicodeNoSurrogates(8))
            case 7 | 8:
                return [self.value(depth - 1) for _ in range(self.ConsumeIntInRange(0, 4))]
            case _:
                return {self.ConsumeIntInRange(-1, 3): self.value(depth - 1) for _ in range(3)}

    def spoiled(self, fields: list[Any]) -> list[Any]:
        """A message as it should be, but for a field or two."""
        for _ in range(self.ConsumeIntInRange(0, 2)):
            kind = self.ConsumeIntInRange(0, 3)
            if kind == 0 and fields:
                fields.pop(self.ConsumeIntInRange(0, len(fields) - 1))
            elif kind == 1:
                fields.insert(self.ConsumeIntInRange(0, len(fields)), self.value())
            elif fields:
                fields[self.ConsumeIntInRange(0, len(fields) - 1)] = self.value()
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
    step = source.ConsumeIntInRange(0, 4)
    crash = to_record(Crash(step, source.ConsumeIntInRange(0, 5)))
    match source.ConsumeIntInRange(0, 4):
        case 0:
            message = ["step", step, [crash] if source.ConsumeBool() else []]
        case 1:
            message = ["settle", step, [crash]]
        case 2:
            message = ["connect", source.ConsumeIntInRange(0, 2), 4, 4, [["127.0.0.1", 4000, NONCE]] * nonces]
        case 3:
            message = ["assign", *Assignment(RUN, 0, 2, JOB, "127.0.0.1", "", 9, 9.0).to_record()]
        case _:
            message = ["bye"]
    return wire.encode_control(*source.spoiled(message))[wire.LENGTH.size :]


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
            one._on_frame(CONTROL, good[wire.LENGTH.size :])
            one._tasks = dict.fromkeys(one._ranks)  # type: ignore[arg-type]
            one._listen()
            if source.ConsumeBool():
                connect = wire.encode_control("connect", 0, 99, 99, [["127.0.0.1", 4000, NONCE]] * len(one._to_dial))
                one._on_frame(CONTROL, connect[wire.LENGTH.size :])
            for _ in range(source.ConsumeIntInRange(1, 6)):
                act(source, one)
        finally:
            one._streams.close_poller()

    def act(source: Source, one: Fuzzed) -> None:
        kind = source.ConsumeIntInRange(0, 5)
        fd = CONTROL
        try:
            if kind == 0:
                one._on_frame(CONTROL, source.ConsumeBytes(200))
            elif kind <= 2:
                one._on_frame(CONTROL, order(source, len(one._to_dial)))
                for rank in sorted(one._inbox) if one._working else ():
                    one._run_node(rank)
                one._working = 0
            elif kind == 3:
                fd = next((fd for fd in one._fd_of if fd >= 0), -1)
                if fd >= 0:
                    segments = tuple((source.ConsumeIntInRange(0, 6), -1, 0, n, b"x") for n in range(source.pick(1, 2)))
                    body = wire.encode_packet(source.ConsumeIntInRange(0, 3), segments)[wire.LENGTH.size :]
                    one._on_frame(fd, body if source.ConsumeBool() else body[: source.ConsumeIntInRange(0, 40)])
            else:
                fd = next(NoSocket.numbers)
                one._know(fd)
                fields = [source.pick(RUN, 8), *(source.ConsumeIntInRange(0, 7) for _ in range(4))]
                if kind == 4:
                    fields[1:] = [
                        source.ConsumeIntInRange(0, top) for top in (2**64 - 1, 2**16 - 1, 2**64 - 1, 2**16 - 1)
                    ]
                run, *rest = fields
                one._on_frame(fd, wire.link_hello(SECRET, run, NONCE, *rest)[wire.LENGTH.size :])
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
            for number in range(source.ConsumeIntInRange(1, 5)):
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
        if source.ConsumeIntInRange(0, 4) == 0:
            one._on_frame(fd, source.ConsumeBytes(200))
            raise AssertionError("a host without proof was let in")
        hello = wire.encode_control(
            *source.spoiled(["hello", __version__, source.ConsumeIntInRange(-2, 3), 99, "name"])
        )
        hello = hello[wire.LENGTH.size :]
        proof = wire.prove(one._token, b"host", one._challenges[fd], NONCE, hello)
        one._on_frame(fd, NONCE + proof + hello)
        for _ in range(source.ConsumeIntInRange(0, 4)):
            match source.ConsumeIntInRange(0, 6):
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
                    one._on_frame(fd, source.ConsumeBytes(100))
                    continue
            one._on_frame(fd, wire.encode_control(*source.spoiled(message))[wire.LENGTH.size :])
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


def fuzz_faults(data: bytes) -> None:
    """Fault specifications."""
    if not data:
        return
    topology = TOPOLOGIES[data[0] % len(TOPOLOGIES)]
    with contextlib.suppress(ScenarioError):
        faults = parse_faults(tuple(data[1:].decode("utf-8", "replace").split("\n")), topology)
        assert all(fault.step >= 1 for fault in faults)


def fuzz_scenario(data: bytes) -> None:
    """Scenario files: TOML, then every key."""
    try:
        made = scenario.make_scenario(scenario.tomllib.loads(data.decode("utf-8", "replace")))
    except (ScenarioError, scenario.tomllib.TOMLDecodeError):
        return
    assert scenario.make_scenario(scenario.tomllib.loads(scenario.dump_scenario(made))) == made


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
            return [wire.link_hello(SECRET, RUN, NONCE, 1, 2, 3, 4)[4:], wire._LINK.pack(RUN, 1, 2, 3, 4)]
        case "greeting":
            return [wire.frame(NONCE)]
        case "streams":
            return [bytes((0, 3)) + b"".join(packets), bytes((1, 9)) + wire.frame(b"x" * 300) + wire.frame(b"")]
        case "labels":
            return [
                b"\x00" + b"3142",
                b"\x02" + b"3.1.10.2.4.5.6.7.8.9.11",
                b"\x0601101",
                b"\x061,-2",
                b"\x081,0/0,1",
            ] + [b"\x01" + name for name in (b"star:5", b"hypercube:7", b"ej:3+4", b"ej:3+4^3")]
        case "faults":
            return [b"\x00crash:3142@2\ncrash:1234@1", b"\x03crash:1,-2@7"]
        case "scenario":
            return [
                b'topology = "star:5"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\nfault = ["crash:21345@2"]\n',
                b'topology="ej:3+4"\ncollective="scatter"\nalgorithm="x"\nstartup="5ms"\nsegments="auto"\nseed=3\nname="a"',
            ]
        case _:
            return [hashlib.shake_128(bytes((number,))).digest(200) for number in range(4)]


def main() -> None:
    """Fuzz one target until libFuzzer's options end it; `-seeds=FOLDER` first writes what it begins with."""
    name = sys.argv.pop(1)
    if sys.argv[1:] and sys.argv[1].startswith("-seeds="):
        folder = Path(sys.argv.pop(1).removeprefix("-seeds="))
        for number, seed in enumerate(seeds(name)):
            (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, TARGETS[name]())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
