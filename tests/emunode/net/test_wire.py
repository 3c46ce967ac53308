"""Records to bytes and back: round trips, streams cut anywhere, and malformed bytes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from struct import pack

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emunode.errors import FrameError
from emunode.model import ALL_RANKS, Hop, HopOutcome, Packet, Segment
from emunode.net import wire
from emunode.net.framed_streams import READ_BYTES, FramedStreams

ORDER = 720
SECRET, RUN, NONCE = b"s" * 64, 2**64 - 1, bytes(range(wire.NONCE_BYTES))
STEPS = st.integers(0, 2**32 - 1)


def segments(largest: int) -> st.SearchStrategy[Packet]:
    """Return packets of a few segments with payloads up to `largest` bytes."""
    segment: st.SearchStrategy[Segment] = st.tuples(
        st.integers(0, ORDER - 1),
        st.integers(ALL_RANKS, ORDER - 1),
        st.integers(0, 2**15 - 1),
        st.integers(0, 2**31 - 1),
        st.binary(max_size=largest),
    )
    return st.lists(segment, min_size=1, max_size=4).map(tuple)


def whole(frame: bytes) -> bytes:
    """Return one frame, whose length must be right."""
    assert wire.frame(wire.body(frame)) == frame
    return frame


def packet_of(value: object, count: int = 2) -> bytes:
    """Return a packet of step 1 that holds any value at all in place of this number of segments."""
    return wire.frame(pack("<II", 1, count) + bytes(msgpack.packb(value)))


def single(origin: int = 0, target: int = 0, tree: int = 0, index: int = 0, size: int = 3) -> bytes:
    """Return a packet of step 1 with a single segment of three bytes."""
    return wire.frame(pack("<IIiiHII", 1, 1, origin, target, tree, index, size) + b"xyz")


def nested(depth: int) -> bytes:
    """Return deeply nested arrays."""
    return b"\x91" * depth + b"\x90"


# --- round trips -----------------------------------------------------------------------------------------------------


@given(STEPS, segments(300))
@example(1, ((0, ALL_RANKS, 0, 0, b""),))  # the least of every field
@example(1, ((ORDER - 1, ORDER - 1, 2**15 - 1, 2**31 - 1, b""),))
def test_packet_survives_encoding_and_decoding(step: int, packet: Packet) -> None:
    assert wire.decode_packet(whole(wire.encode_packet(step, packet)), ORDER) == (step, packet)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=9), st.binary(max_size=9)
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.integers(0, 99), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=20), st.lists(VALUES, max_size=5))
def test_control_message_survives_encoding_and_decoding(name: str, fields: list[object]) -> None:
    assert wire.decode_control(whole(wire.encode_control(name, *fields))) == (name, *fields)


def test_row_has_every_field_of_a_hop_or_a_loss() -> None:
    rows = bytearray()
    segment = (4, ALL_RANKS, 2, 9, b"seven..")
    wire.encode_rows(rows, 3, 8, {1: 5}, 0, [7, 6], [Hop(1, HopOutcome.DUPLICATE, segment)])
    wire.encode_losses(rows, 4, 8, 1, 5, (segment, segment), HopOutcome.LOST)
    # step, sender, receiver, origin, target, segment, bytes, tree, port, outcome
    arrival = (3, 5, 8, 4, -1, 9, 7, 2, 6, HopOutcome.DUPLICATE)
    loss = (4, 8, 5, 4, -1, 9, 7, 2, 1, HopOutcome.LOST)
    assert list(wire.ROW.iter_unpack(rows)) == [arrival, loss, loss]


def test_a_row_holds_the_largest_network() -> None:
    largest = 2**31 - 2
    rows = bytearray()
    wire.encode_losses(rows, largest, largest, 2**15 - 1, largest, ((largest, largest, 2**15 - 1, 2**31 - 1, b""),), 3)
    assert wire.ROW.unpack(rows) == (largest,) * 5 + (2**31 - 1, 0, 2**15 - 1, 2**15 - 1, 3)


# --- streams cut anywhere --------------------------------------------------------------------------------------------


class Reader:
    """A FramedStreams on one end of a socket pair, and all of its callbacks."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.ends: list[str] = []
        self.streams = FramedStreams(
            lambda _, frame: self.bodies.append(wire.body(whole(frame))), lambda _, why: self.ends.append(why)
        )
        self.far, near = socket.socketpair()
        near.setblocking(False)
        self.far.setblocking(False)
        self.fd = near.detach()
        self.streams.add(self.fd, authenticated=True)

    def feed(self, data: bytes) -> None:
        """Push bytes through, reading whatever the kernel cannot hold."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.far.send(rest) :]
            except BlockingIOError:
                assert self.streams.poll(), "nothing moves"
        while self.streams.poll():
            pass


@contextmanager
def reader() -> Iterator[Reader]:
    """Provide a reader whose descriptors are closed afterwards."""
    made = Reader()
    try:
        yield made
    finally:
        made.far.close()
        if not made.ends:
            made.streams.close(made.fd)
        made.streams.close_poller()


def read_in_pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Return the bodies that a reader sees when `stream` comes in these pieces."""
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    with reader() as end:
        for start, stop in pairwise(marks):
            end.feed(stream[start:stop])
        assert end.streams.idle
        assert end.ends == []
        return end.bodies


BODIES = st.lists(st.binary(max_size=40), min_size=1, max_size=12)


@given(BODIES, st.lists(st.integers(0, 600), max_size=20))
@example([b"", b"", b""], [1, 2, 3, 5, 6, 9])
@example([b"", b"a", bytes(70)], list(range(83)))  # one byte at a time
def test_frames_survive_any_cut(bodies: list[bytes], cuts: list[int]) -> None:
    assert read_in_pieces(b"".join(map(wire.frame, bodies)), cuts) == bodies


@settings(max_examples=15)
@given(st.lists(segments(16 * 1024), min_size=1, max_size=8), st.lists(st.integers(0, 2**20), max_size=6))
def test_packets_survive_any_cut(packets: list[Packet], cuts: list[int]) -> None:
    stream = b"".join(wire.encode_packet(step, packet) for step, packet in enumerate(packets))
    bodies = read_in_pieces(stream, cuts)
    assert [wire.decode_packet(wire.frame(body), ORDER) for body in bodies] == list(enumerate(packets))


@pytest.mark.parametrize("size", [4 * READ_BYTES, 16 * 1024, READ_BYTES - 5, READ_BYTES - 4, READ_BYTES, 2**20])
@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 1000, -1])
def test_large_frames_survive_a_cut(size: int, cut: int) -> None:
    bodies = [b"before", bytes(size), b"", bytes(size), b"after"]
    assert read_in_pieces(b"".join(map(wire.frame, bodies)), [cut, READ_BYTES + cut]) == bodies


# --- malformed bytes -------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
@example(b"")
@example(b"\1\0\0\0\1\0\0")
@example(b"\1\0\0\0\1\0\0\0")
@example(b"\1\0\0\0\0\0\0\0\x90")
@example(b"\1\0\0\0\2\0\0\0" + nested(100_000))
@example(b"\1\0\0\0\2\0\0\0\xdd\xff\xff\xff\xff")
@example(b"\1\0\0\0\2\0\0\0\xc6\xff\xff\xff\xff")
def test_any_bytes_are_a_packet_or_a_frame_error(body: bytes) -> None:
    try:
        step, packet = wire.decode_packet(wire.frame(body), ORDER)
    except FrameError:
        return
    check_segments(packet)
    assert 0 <= step < 2**32


@given(
    st.recursive(
        PLAIN | st.floats(), lambda inner: st.lists(inner, max_size=6) | st.dictionaries(PLAIN, inner, max_size=3)
    )
)
def test_any_value_is_a_packet_or_a_frame_error(value: object) -> None:
    try:
        count = len(value) if isinstance(value, list | dict | str | bytes) else 2
        _, packet = wire.decode_packet(packet_of(value, count), ORDER)
    except FrameError:
        return
    check_segments(packet)


def check_segments(packet: Packet) -> None:
    """Whatever passes the decoder can be journaled and is within a network of ORDER ranks."""
    assert isinstance(packet, tuple)
    assert packet
    for origin, target, tree, index, payload in packet:
        assert type(payload) is bytes
        assert 0 <= origin < ORDER
        assert ALL_RANKS <= target < ORDER
        wire.encode_losses(bytearray(), 1, 0, 0, 0, ((origin, target, tree, index, payload),), HopOutcome.LOST)


GOOD: Segment = (0, ALL_RANKS, 0, 0, b"")
INVALID_FIELDS: list[tuple[object, ...]] = [
    (ORDER, -1, 0.0, "0", None),  # origin
    (ORDER, -2, -(2**63), -1.0),  # target
    (-1, 2**15, 0.5),  # tree
    (-1, 2**31, float("nan")),  # index
    ("text", None),  # payload
]
INVALID_SEGMENTS: list[object] = [(0, 0, 0, b""), (0, 0, 0, 0, b"", 0), {}, b"12345", 7]
for position, values in enumerate(INVALID_FIELDS):
    for wrong in values:
        fields: list[object] = [0, 0, 0, 0, b""]
        fields[position] = wrong
        INVALID_SEGMENTS.append(tuple(fields))


@pytest.mark.parametrize("segment", INVALID_SEGMENTS, ids=repr)
def test_a_segment_out_of_range_is_refused(segment: object) -> None:
    with pytest.raises(FrameError):
        wire.decode_packet(packet_of([GOOD, segment]), ORDER)


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize(
    "value", [[], {}, "", b"", None, 7, {"abcde": 1}, {"abcde": 1, "fghij": 2}, [[]], b"ab"], ids=repr
)
def test_packet_without_a_list_of_segments_is_refused(value: object, count: int) -> None:
    with pytest.raises(FrameError):
        wire.decode_packet(packet_of(value, count), ORDER)


@pytest.mark.parametrize("count", [0, 1, 3, 2**32 - 1])
def test_wrong_segment_count_is_refused(count: int) -> None:
    pair = (GOOD, GOOD)
    assert wire.decode_packet(packet_of(pair), ORDER) == (1, pair)
    with pytest.raises(FrameError):
        wire.decode_packet(packet_of(pair, count), ORDER)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origin", ORDER),
        ("origin", -1),
        ("target", ORDER),
        ("target", -2),
        ("target", -(2**31)),
        ("tree", 2**15),
        ("index", 2**31),
        ("size", 2),
        ("size", 4),
        ("size", 2**32 - 1),
    ],
)
def test_a_single_segment_out_of_range_is_refused(field: str, value: int) -> None:
    assert wire.decode_packet(single(), ORDER) == (1, ((0, 0, 0, 0, b"xyz"),))
    with pytest.raises(FrameError):
        wire.decode_packet(single(**{field: value}), ORDER)


@given(st.binary(max_size=200))
@example(b"\x90")
@example(b"\x91\x01")
@example(b"\xa4step")
@example(nested(100_000))
@example(b"\x92\xa1a" + nested(2000))
@example(b"\x91\xa4step\x00")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\x92\xa1a\x81\x80\x01")
def test_any_bytes_are_a_control_message_or_a_frame_error(body: bytes) -> None:
    try:
        name, *_ = wire.decode_control(wire.frame(body))
    except FrameError:
        return
    assert isinstance(name, str)


@given(segments(50), st.binary(min_size=1, max_size=9), st.data())
def test_a_truncated_or_extended_packet_is_refused(packet: Packet, more: bytes, data: st.DataObject) -> None:
    body = wire.body(wire.encode_packet(1, packet))
    size = data.draw(st.integers(0, len(body) - 1))
    for changed in (body[:size], body + more):
        with pytest.raises(FrameError):
            wire.decode_packet(wire.frame(changed), ORDER)


def test_failed_decoding_does_not_affect_the_next_packet() -> None:
    packet: Packet = ((1, 2, 0, 0, b"x" * 20),)
    good = wire.encode_packet(1, packet)
    for size in range(wire.LENGTH.size, len(good)):
        with pytest.raises(FrameError):
            wire.decode_packet(good[:size], ORDER)
        assert wire.decode_packet(good, ORDER) == (1, packet)


# --- proofs ----------------------------------------------------------------------------------------------------------


def test_proof_is_valid_only_for_its_secret_role_and_nonce() -> None:
    proof = wire.prove(SECRET, b"host", NONCE, b"hello")
    assert len(proof) == wire.PROOF_BYTES
    assert wire.proves(proof, SECRET, b"host", NONCE, b"hello")
    assert not wire.proves(proof, b"t" * 64, b"host", NONCE, b"hello")
    assert not wire.proves(proof, SECRET, b"coordinator", NONCE, b"hello")
    assert not wire.proves(proof, SECRET, b"host", bytes(wire.NONCE_BYTES), b"hello")
    assert not wire.proves(proof, SECRET, b"host", NONCE, b"hullo")
    assert not wire.proves(b"", SECRET, b"host", NONCE, b"hello")
    assert not wire.proves(proof[:-1], SECRET, b"host", NONCE, b"hello")


def test_host_hello_carries_a_proof() -> None:
    frame = whole(wire.host_hello(SECRET, b"challenge", NONCE, "hello", 3))
    assert wire.read_host_hello(frame, SECRET, b"challenge") == (NONCE, ("hello", 3))
    for secret, challenge in ((b"another", b"challenge"), (SECRET, b"another")):
        with pytest.raises(FrameError, match="does not know the run's token"):
            wire.read_host_hello(frame, secret, challenge)


@given(st.binary(max_size=wire.HELLO_LIMIT))
def test_hello_without_proof_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="does not know the run's token"):
        wire.read_host_hello(wire.frame(body), SECRET, b"challenge")


def hello(secret: bytes = SECRET, run: int = RUN, nonce: bytes = NONCE) -> bytes:
    """Return the body of a hello from port 3 of rank 7 to port 4 of rank 8."""
    return wire.body(whole(wire.link_hello(secret, run, nonce, 7, 3, 8, 4)))


def read_hello(body: bytes) -> tuple[int, int, int, int]:
    """Return the content as a listener of run RUN reads it, with the nonce NONCE."""
    return wire.read_link_hello(wire.frame(body), SECRET, RUN, NONCE)


def test_a_hello_names_its_link() -> None:
    assert read_hello(hello()) == (7, 3, 8, 4)
    assert len(hello()) <= wire.HELLO_LIMIT


@pytest.mark.parametrize(
    "body",
    [
        hello(secret=b"another"),
        hello(nonce=bytes(wire.NONCE_BYTES)),
        hello(run=1),
        b"",
        hello()[:-1],
        hello() + b"\0",
        bytes(wire.HELLO_LIMIT),
        bytes(10_000),
    ],
    ids=["secret", "nonce", "run", "empty", "short", "long", "zeros", "oversized"],
)
def test_hello_with_a_wrong_proof_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        read_hello(body)


@given(st.integers(0, len(hello()) * 8 - 1))
def test_a_hello_with_one_bit_changed_is_refused(bit: int) -> None:
    changed = bytearray(hello())
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        read_hello(bytes(changed))


def test_a_hello_to_a_parent_names_its_host() -> None:
    run = RUN - 1
    hello = whole(wire.tree_hello(SECRET, run, NONCE, 5))
    assert wire.is_tree_hello(hello)
    assert wire.read_tree_hello(hello, SECRET, run, NONCE) == 5
    with pytest.raises(FrameError, match="another run"):
        wire.read_tree_hello(hello, SECRET, RUN, NONCE)


# --- packets under the timed clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("deadline", [0, 1, 2**63])
def test_a_timed_packet_carries_its_deadline(deadline: int, count: int) -> None:
    segments = tuple((3, -1, 0, index, bytes(index)) for index in range(count))
    frame = wire.encode_timed_packet(deadline, 7, segments)
    assert wire.decode_timed_packet(whole(frame), 4) == (deadline, 7, segments)


def test_truncated_timed_packet_is_refused() -> None:
    frame = wire.encode_timed_packet(5, 7, ((3, -1, 0, 0, b"payload"),))
    for size in range(wire.LENGTH.size, len(frame)):
        with pytest.raises(FrameError):
            wire.decode_timed_packet(frame[:size], 4)
    with pytest.raises(FrameError):
        wire.decode_timed_packet(frame, 3)
