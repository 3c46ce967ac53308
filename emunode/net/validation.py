"""Checks of values from the wire, made once where a message enters.

Even an authenticated peer can be broken. Every function returns the value that it is given, or raises a FrameError that
names it.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address

from emunode.errors import FrameError
from emunode.net.wire import NONCE_BYTES, ROW

INT32, INT64 = 2**31, 2**63


def integer(value: object, least: int = 0, most: int = INT32 - 1) -> int:
    """Return an integer in `least`..`most`, both included."""
    # `type` and not isinstance: True is an int for isinstance, and not for msgpack.
    if type(value) is not int or not least <= value <= most:
        raise FrameError(f"expected an integer in {least}..{most}, got {value!r}")
    return value


def integers(values: object, count: int | None = None, least: int = 0, most: int = INT32 - 1) -> Sequence[int]:
    """Return a list of integers, of length `count` if that is given."""
    return tuple(integer(value, least, most) for value in items(values, count))


def items(values: object, count: int | None = None) -> Sequence[object]:
    """Return a list, of length `count` if that is given."""
    if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
        raise FrameError(f"expected a list{'' if count is None else f' of {count} values'}, got {values!r:.200}")
    return values


def number(value: object) -> float:
    """Return a finite, non-negative number."""
    # NaN fails both comparisons, so it is refused too.
    if type(value) not in (int, float) or not 0 <= value < float("inf"):  # type: ignore[operator]
        raise FrameError(f"expected a non-negative number, got {value!r}")
    return value  # type: ignore[return-value]


def flag(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise FrameError(f"expected true or false, got {value!r:.80}")
    return value


def text(value: object) -> str:
    """Return a string of any length; the frame bounds it."""
    if not isinstance(value, str):
        raise FrameError(f"expected a string, got {value!r:.200}")
    return value


def address(value: object) -> str:
    """Return an IPv4 address in dotted notation."""
    try:
        return str(IPv4Address(text(value)))
    except ValueError:
        raise FrameError(f"expected an IPv4 address, got {value!r:.80}") from None


def octets(value: object, multiple: int = 1) -> bytes:
    """Return bytes whose length is a multiple of `multiple`."""
    if not isinstance(value, bytes) or len(value) % multiple:
        raise FrameError(f"expected bytes, a multiple of {multiple} long, got {value!r:.80}")
    return value


def nonce(value: object) -> bytes:
    """Return a nonce of the handshake, NONCE_BYTES long."""
    if not isinstance(value, bytes) or len(value) != NONCE_BYTES:
        raise FrameError(f"expected a nonce of {NONCE_BYTES} bytes, got {value!r:.80}")
    return value


def rows(value: object) -> bytes:
    """Return packed journal rows, ROW.size bytes each."""
    return octets(value, ROW.size)


def counts(value: object, hosts: int) -> Mapping[int, int]:
    """Return numbers of packets by host index."""
    if not isinstance(value, dict):
        raise FrameError(f"expected counts by host, got {value!r:.200}")
    for host, packets in value.items():
        # Hot path, for every pair of hosts in every step; plain form: integer(host, 0, hosts - 1), integer(packets).
        if host.__class__ is not int or packets.__class__ is not int or packets < 0 or not 0 <= host < hosts:
            raise FrameError(f"malformed count: {packets!r} packets of host {host!r}")
    return value


def altered_copies(value: object) -> list[tuple[int, ...]]:
    """Return altered copies, seven integers each."""
    # 64 bits, signed: the last of the seven is a hash of the payload.
    return [tuple(integers(copy, 7, -INT64, INT64 - 1)) for copy in items(value)]
