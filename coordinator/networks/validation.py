"""What the coordinator believes of what a host says: the shapes of its messages, checked once, where they come in.

A host has proved that it knows the token, which says nothing of whether it is whole. Every function takes a value off the
wire and returns it, or raises FrameError, which ends that host's connection and makes the run undecided.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address

from emunode.errors import FrameError
from emunode.net.wire import NONCE_BYTES, ROW

INT64 = 2**63


def whole(value: object, least: int = 0, most: int = 2**31 - 1) -> int:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        raise FrameError(f"{value!r} where a number in {least}..{most} belongs")
    return value


def wholes(values: object, count: int | None = None, least: int = 0, most: int = 2**31 - 1) -> Sequence[int]:
    """So many whole numbers, or any number of them."""
    if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
        raise FrameError(f"{values!r} where {'' if count is None else count} numbers belong")
    return tuple(whole(value, least, most) for value in values)


def counts(value: object, hosts: int) -> Mapping[int, int]:
    """How many packets, by host."""
    if not isinstance(value, dict):
        raise FrameError(f"{value!r} where counts by host belong")
    for host, packets in value.items():
        if host.__class__ is not int or packets.__class__ is not int or packets < 0 or not 0 <= host < hosts:
            raise FrameError(f"{packets!r} packets of host {host!r}")
    return value


def rows(value: object) -> bytes:
    """Journal rows, packed."""
    if not isinstance(value, bytes) or len(value) % ROW.size:
        raise FrameError("rows that are no rows")
    return value


def nonce(value: object) -> bytes:
    """A nonce."""
    if not isinstance(value, bytes) or len(value) != NONCE_BYTES:
        raise FrameError(f"{value!r} where a nonce belongs")
    return value


def address(value: object) -> str:
    """An IPv4 address."""
    try:
        return str(IPv4Address(text(value)))
    except ValueError:
        raise FrameError(f"{value!r} where an IPv4 address belongs") from None


def text(value: object) -> str:
    """Words."""
    if not isinstance(value, str):
        raise FrameError(f"{value!r} where words belong")
    return value


def altered_copies(value: object) -> list[tuple[int, ...]]:
    """Altered copies, seven numbers each."""
    if not isinstance(value, list | tuple):
        raise FrameError(f"{value!r} where ballots belong")
    return [tuple(wholes(ballot, 7, -INT64, INT64 - 1)) for ballot in value]
