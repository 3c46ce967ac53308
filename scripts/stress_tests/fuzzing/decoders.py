"""Decoders and greetings: every input is either decoded uniquely or refused."""

import contextlib
import io
from types import SimpleNamespace

from emunode.errors import FrameError
from emunode.faults.kinds import Crash, to_record
from emunode.host import process
from emunode.net import wire
from stress_tests.fuzzing.source import NONCE, RUN, SECRET, Target

ORDER = 24
PACKETS = [
    wire.encode_packet(1, ((0, -1, 0, 0, b"abc"),)),
    wire.encode_packet(2, ((0, 3, 1, 0, b"a"), (1, 2, 0, 9, b""))),
]


def fuzz_packet(data: bytes) -> None:
    """A packet: accepted values are in range, and encoding restores the input."""
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
    """The hello of a link: it is accepted only with a proof of the secret, and then decoded correctly."""
    with contextlib.suppress(FrameError):
        wire.read_link_hello(wire.frame(data), SECRET, RUN, NONCE)
        raise AssertionError("a hello without proof was accepted")
    link = data[: wire._LINK.size]
    with contextlib.suppress(FrameError):
        frame = wire.frame(link + wire.prove(SECRET, b"link", NONCE, link))
        found = wire.read_link_hello(frame, SECRET, RUN, NONCE)
        assert wire._LINK.pack(RUN, *found) == link


def fuzz_greeting(data: bytes) -> None:
    """The coordinator's greeting as a joining host reads it, at most seven bytes at a time."""
    stream = io.BytesIO(data)
    connection = SimpleNamespace(recv=lambda size: stream.read(min(size, 7)))
    with contextlib.suppress(FrameError):
        assert len(process._receive_frame(connection)) <= wire.HELLO_LIMIT  # type: ignore[arg-type]


def hello_seeds() -> list[bytes]:
    """Return a hello with another secret, and the content of one."""
    return [wire.link_hello(b"another secret", RUN, NONCE, 1, 2, 3, 4)[4:], wire._LINK.pack(RUN, 1, 2, 3, 4)]


TARGETS = {
    "packet": Target(lambda: fuzz_packet, 2_500_000, lambda: [packet[4:] for packet in PACKETS]),
    "control": Target(
        lambda: fuzz_control, 2_500_000, lambda: [wire.encode_control("step", 1, [to_record(Crash(1, 2))])[4:]]
    ),
    "hello": Target(lambda: fuzz_hello, 1_000_000, hello_seeds),
    "greeting": Target(lambda: fuzz_greeting, 1_000_000, lambda: [wire.frame(NONCE)]),
}
