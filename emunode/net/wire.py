"""Records to bytes and back: the only user of msgpack, and the only place that knows a byte layout.

Every stream carries frames: a 4-byte little-endian length, then that many bytes. On a link the body is a packet. It
begins with the step and the number of segments, 4 bytes each. A single segment follows as a fixed header and its
payload, several segments as a msgpack array. On a control connection the body is a msgpack array whose first element
names the message.

Before that, both sides of a control connection, and the dialler of a link, prove that they know the run's secret. The
proof is checked before any other byte of those frames is parsed.

Encoders return whole frames. Decoders take whole frames, whose length the stream has checked, so a payload is copied
once, out of the frame. Decoders keep no state, so a malformed frame (FrameError) cannot affect the next one.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

import msgpack

from emunode.errors import FrameError
from emunode.model import Hop, Packet, Rank, Step

FRAME_LIMIT = 64 * 2**20
"""The largest frame, in bytes, of an authenticated peer."""
HELLO_LIMIT = 256
"""The largest frame, in bytes, of a peer that has not proved that it knows the secret."""
NONCE_BYTES = 32
PROOF_BYTES = 32

LENGTH = Struct("<I")
# Length, step, count. Little-endian without padding, so that hosts of different machines understand each other.
_HEADER = Struct("<III")
# Length, step, count, then origin, target, tree, index and size of the only segment. The target is signed, since
# ALL_RANKS is -1. Decoders bound trees and indices to the signed fields of a journal row (`ROW`), narrower by one bit.
_SINGLE = Struct("<IIIiiHII")
_TIMED_HEADER = Struct("<IQII")
_TIMED_SINGLE = Struct("<IQIIiiHII")
# Run, sender, port, receiver, its port.
_LINK = Struct("<QQHQH")
# Run, host.
_TREE = Struct("<QI")
_SINGLE_BYTES = _SINGLE.size
_SINGLE_LENGTH = _SINGLE.size - LENGTH.size
# Hot path: bound once; plain form: `_SINGLE.pack` at every call.
_pack_single, _unpack_single = _SINGLE.pack, _SINGLE.unpack_from
_INT16, _INT32 = 2**15, 2**31

# One packer for the whole process; its small buffer grows when it has to.
_pack: Callable[[object], bytes] = msgpack.Packer(autoreset=True, buf_size=1024).pack
_unpack = msgpack.unpackb

Control = tuple[object, ...]


def encode_packet(step: Step, segments: Packet) -> bytes:
    """Return the frame of one packet."""
    # Most packets hold one segment: a fixed header is cheaper for it than a msgpack array.
    if len(segments) == 1:
        origin, target, tree, index, payload = segments[0]
        size = len(payload)
        return _pack_single(_SINGLE_LENGTH + size, step, 1, origin, target, tree, index, size) + payload
    body = _pack(segments)
    return _HEADER.pack(_HEADER.size - LENGTH.size + len(body), step, len(segments)) + body


def decode_packet(frame: bytes, order: int) -> tuple[Step, Packet]:
    """Return the step and segments of a packet's frame.

    Raises FrameError unless every field fits a network of `order` ranks.
    """
    # Hot path, once per packet. `origin | target + 1 < 0` is `origin < 0 or target < -1`: the bitwise or of two integers is
    # negative exactly if one of them is. One comparison instead of two; the struct guarantees that tree and index are not
    # negative. In `_decode_several` the same expression also raises TypeError for anything that is not an integer.
    rest = len(frame) - _SINGLE_BYTES
    if rest >= 0:
        _, step, count, origin, target, tree, index, size = _unpack_single(frame)
        if count == 1:
            if size != rest:
                raise FrameError(f"segment length mismatch: header says {size}, got {rest}")
            if origin | target + 1 < 0 or origin >= order or target >= order or tree >= _INT16 or index >= _INT32:
                raise FrameError(f"segment ({origin}, {target}, {tree}, {index}) is out of range")
            return step, ((origin, target, tree, index, frame[_SINGLE_BYTES:]),)
    elif len(frame) < _HEADER.size:
        raise FrameError(f"malformed packet: {len(frame)} bytes")
    _, step, count = _HEADER.unpack_from(frame)
    return step, _decode_several(memoryview(frame)[_HEADER.size :], count, order)


def encode_timed_packet(deadline: int, step: Step, segments: Packet) -> bytes:
    """Return the frame of one packet under the timed clock.

    It begins with `deadline`, the virtual time when the sender has finished sending it, in nanoseconds since the run
    began.
    """
    if len(segments) == 1:
        origin, target, tree, index, payload = segments[0]
        size = len(payload)
        length = _TIMED_SINGLE.size - LENGTH.size + size
        return _TIMED_SINGLE.pack(length, deadline, step, 1, origin, target, tree, index, size) + payload
    body = _pack(segments)
    return _TIMED_HEADER.pack(_TIMED_HEADER.size - LENGTH.size + len(body), deadline, step, len(segments)) + body


def decode_timed_packet(frame: bytes, order: int) -> tuple[int, Step, Packet]:
    """Return deadline, step and segments of a timed packet.

    Raises FrameError as `decode_packet`.
    """
    if len(frame) < _TIMED_HEADER.size:
        raise FrameError(f"malformed packet: {len(frame)} bytes")
    deadline = _TIMED_HEADER.unpack_from(frame)[1]
    # Everything behind the deadline is a plain packet without its length; `decode_packet` does not read the length.
    return deadline, *decode_packet(frame[_TIMED_HEADER.size - _HEADER.size :], order)


def _decode_several(body: memoryview, count: int, order: int) -> Packet:
    """Return the segments of a packet that carries several."""
    segments: Packet = _unpacked(body, use_list=False)
    # A packet of one segment has another form: a second way to say it is not accepted.
    if not isinstance(segments, tuple) or len(segments) != count or count < 2:
        raise FrameError(f"malformed packet: its header says {count} segments")
    try:
        for origin, target, tree, index, payload in segments:
            if (
                origin | target + 1 | tree | index < 0
                or origin >= order
                or target >= order
                or tree >= _INT16
                or index >= _INT32
                or payload.__class__ is not bytes
            ):
                raise FrameError(f"segment ({origin!r}, {target!r}, {tree!r}, {index!r}) is out of range")
    except (TypeError, ValueError) as error:  # not five values, or not integers: only foreign values are used above
        raise FrameError(f"malformed packet: {error}") from None
    return segments


def _unpacked(body: memoryview, **options: bool) -> Any:
    """Decode foreign bytes by msgpack.

    Raises FrameError if they are malformed.
    """
    try:
        return _unpack(body, **options)
    except Exception as error:  # msgpack raises half a dozen unrelated kinds; nothing of ours runs in here
        raise FrameError(f"malformed msgpack data: {error}") from None


def encode_control(*message: object) -> bytes:
    """Return the frame of one control message."""
    body = _pack(message)
    return LENGTH.pack(len(body)) + body


def decode_control(frame: bytes) -> Control:
    """Return one control message: a tuple whose first element is its name."""
    message = _unpacked(memoryview(frame)[LENGTH.size :], use_list=False, strict_map_key=False)
    if not (isinstance(message, tuple) and message and isinstance(message[0], str)):
        raise FrameError("malformed control message: it has no name")
    return message


def frame(body: bytes) -> bytes:
    """Return a frame of raw bytes (challenges and proofs)."""
    return LENGTH.pack(len(body)) + body


def body(frame: bytes) -> bytes:
    """Return the raw bytes of a frame."""
    return frame[LENGTH.size :]


def host_hello(secret: bytes, challenge: bytes, nonce: bytes, *message: object) -> bytes:
    """Return a host's first frame on a control connection.

    It has the host's nonce, its proof for the coordinator's nonce, and a message.
    """
    hello = encode_control(*message)
    # The proof covers the message too, so it cannot be changed on the way.
    return frame(nonce + prove(secret, b"host", challenge, nonce, hello) + hello)


def read_host_hello(frame: bytes, secret: bytes, challenge: bytes) -> tuple[bytes, Control]:
    """Return the nonce and message of a host's first frame.

    Raises FrameError without the proof, before the message is parsed.
    """
    start, middle, end = LENGTH.size, LENGTH.size + NONCE_BYTES, LENGTH.size + NONCE_BYTES + PROOF_BYTES
    # The message stays bytes until the proof has been checked.
    nonce, proof, hello = frame[start:middle], frame[middle:end], frame[end:]
    if not proves(proof, secret, b"host", challenge, nonce, hello):
        raise FrameError("the host does not know the run's token")
    return nonce, decode_control(hello)


def prove(secret: bytes, role: bytes, *parts: bytes) -> bytes:
    """Return a proof that the side in `role` knows `secret`.

    The proof is an HMAC-SHA256 of 32 bytes. It is bound to the other side's nonce in `parts`.
    """
    # Hot path, twice per link; plain form: `hmac.digest(..)`, which spends two thirds of its time on the key.
    mac = _keyed(secret).copy()
    # With the role, or one side could be made to compute the proof that an impostor of the other side lacks. No role is
    # the beginning of another one, and all parts but the last have a fixed length, so no two proofs cover the same
    # bytes.
    mac.update(role + b"".join(parts))
    return mac.digest()


@lru_cache(maxsize=4)
def _keyed(secret: bytes) -> hmac.HMAC:
    """Return an HMAC-SHA256 that has processed its key."""
    return hmac.new(secret, digestmod="sha256")


def proves(proof: bytes, secret: bytes, role: bytes, *parts: bytes) -> bool:
    """Compare a proof with the result of `prove`, in constant time."""
    # A comparison that ends at the first difference would show by its duration how much of a forged proof is right.
    return hmac.compare_digest(proof, prove(secret, role, *parts))


def link_hello(secret: bytes, run: int, nonce: bytes, sender: Rank, port: int, receiver: Rank, its_port: int) -> bytes:
    """Return the dialler's hello on a link.

    It is bound to the nonce of the listening host.
    """
    link = _LINK.pack(run, sender, port, receiver, its_port)
    return frame(link + prove(secret, b"link", nonce, link))


def read_link_hello(frame: bytes, secret: bytes, run: int, nonce: bytes) -> tuple[Rank, int, Rank, int]:
    """Return (sender, port, receiver, its port) of a proven hello.

    Raises FrameError otherwise.
    """
    link, proof = frame[LENGTH.size : -PROOF_BYTES], frame[-PROOF_BYTES:]
    # The length first: HMAC over a truncated hello would only say that it is wrong.
    if len(link) != _LINK.size:
        raise FrameError(f"malformed hello: {len(frame)} bytes")
    if not proves(proof, secret, b"link", nonce, link):
        raise FrameError("the dialler of a link does not know the run's secret")
    its_run, sender, port, receiver, its_port = _LINK.unpack(link)
    # Checked after the proof: a hello for another run with the same secret is proven, but out of place.
    if its_run != run:
        raise FrameError(f"hello for another run: {its_run:x}")
    return sender, port, receiver, its_port


def tree_hello(secret: bytes, run: int, nonce: bytes, host: int) -> bytes:
    """Return the hello of a host to its parent in the tree of control.

    It is bound to the nonce of the parent.
    """
    place = _TREE.pack(run, host)
    return frame(place + prove(secret, b"tree", nonce, place))


def is_tree_hello(frame: bytes) -> bool:
    """Return whether a first frame has the size of a hello to a parent."""
    return len(frame) == LENGTH.size + _TREE.size + PROOF_BYTES


def read_tree_hello(frame: bytes, secret: bytes, run: int, nonce: bytes) -> int:
    """Return the host of a proven hello to a parent.

    Raises FrameError otherwise.
    """
    place, proof = frame[LENGTH.size : -PROOF_BYTES], frame[-PROOF_BYTES:]
    if len(place) != _TREE.size or not proves(proof, secret, b"tree", nonce, place):
        raise FrameError("a host in the tree does not know the run's secret")
    its_run, host = _TREE.unpack(place)
    if its_run != run:
        raise FrameError(f"hello for another run: {its_run:x}")
    proven_host: int = host
    return proven_host


ROW = Struct("<iiiiiiiihb")
"""A journal row: step, sender, receiver, origin, target, segment, bytes, tree, port, outcome."""


def encode_rows(
    rows: bytearray,
    step: Step,
    rank: Rank,
    peers: Sequence[Rank] | Mapping[int, Rank],
    base: int,
    reverse: Sequence[int],
    hops: Sequence[Hop],
) -> None:
    """Append the journal rows of the arrivals at `rank` in `step`.

    For a port, `peers[base + port]` is the rank at the other end and `reverse[port]` the port there.
    """
    pack = ROW.pack
    for port, outcome, (origin, target, tree, index, payload) in hops:
        # Hot path: one row per segment, packed straight into the buffer; plain form: one call per row.
        rows += pack(step, peers[base + port], rank, origin, target, index, len(payload), tree, reverse[port], outcome)


def encode_losses(
    rows: bytearray, step: Step, rank: Rank, port: int, receiver: Rank, segments: Packet, outcome: int
) -> None:
    """Append the journal rows of a packet that `rank` sent in `step` and that did not arrive."""
    for origin, target, tree, index, payload in segments:
        rows += ROW.pack(step, rank, receiver, origin, target, index, len(payload), tree, port, outcome)


TIME = Struct("<iihbqq")
"""The time of one end of a hop.

Fields: step, sender, its port, 0 for the start or 1 for the receipt, virtual time, real time. Times are in nanoseconds
since the run began.
"""

DEPARTURE = Struct("<IIQ")
"""A packet of a fault-free timetable: step, port, and the time when it leaves, in nanoseconds."""
RECEIPTS = Struct("<IIQ")
"""The receipts of a rank in a fault-free timetable: step, number of packets, and the time of the last one in
nanoseconds.
"""
NOTICE = Struct("<QI")
"""The time, in nanoseconds, when a rank learns that a packet does not come, and the step of the packet."""
