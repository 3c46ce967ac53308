"""The wire format of protocol buffers, numbers and parts of messages without a schema: a bounded reader and a writer."""

from collections.abc import Iterator
from struct import unpack

Field = tuple[int, int, int | bytes]
"""(number of the field, wire type, value): a whole number, or the bytes of a part."""
FIXED = {1: 8, 5: 4}
"""The bytes of wire types with a fixed size."""
_ONE_BYTE = [bytes((value,)) for value in range(128)]


class WireError(ValueError):
    """Bytes that are no message; the text says what is wrong."""


def read_varint(data: bytes, place: int, most: int = 10) -> tuple[int, int]:
    """Return a number of at most `most` bytes and the place behind it. Raises WireError."""
    if place < len(data) and data[place] < 128:  # nearly all numbers: a third of the time of reading a trace
        return data[place], place + 1
    number = 0
    for count in range(most):
        if place + count >= len(data):
            raise WireError("the file ends inside a length or number")
        byte = data[place + count]
        number |= (byte & 127) << 7 * count
        if byte < 128:
            return number & (1 << 64) - 1, place + count + 1
    raise WireError(f"a number has more than {most} bytes")


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in order, also unknown ones. Raises WireError."""
    place, end = 0, len(data)
    while place < end:
        key, place = read_varint(data, place, 5)
        number, kind = key >> 3, key & 7
        if number == 0 or kind not in (0, 1, 2, 5):
            raise WireError(f"not a Chakra message (field {number}, wire type {kind})")
        if kind == 0:
            value, place = read_varint(data, place)
            yield number, kind, value
            continue
        size, place = (FIXED[kind], place) if kind in FIXED else read_varint(data, place, 5)
        start, place = place, place + size
        if place > end:
            raise WireError(f"not a Chakra message (field {number} has {size} bytes, {end - start} are left)")
        yield number, kind, data[start:place]


def whole_numbers(kind: int, value: int | bytes) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed in one part or one by one."""
    if isinstance(value, int):
        yield value
        return
    if kind != 2:
        raise WireError("not a Chakra message (a list of numbers has a fixed size)")
    place = 0
    while place < len(value):
        number, place = read_varint(value, place)
        yield number


def signed(number: int) -> int:
    """Return a number of 64 bits with its sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


def unzigzag(number: int) -> int:
    """Return the number whose sign is in the lowest bit."""
    return number >> 1 ^ -(number & 1)


def fixed_number(kind: int, data: bytes, *, floating: bool = False, negative: bool = False) -> int | float:
    """Return the number of a field with a fixed size."""
    letters = ("d", "f") if floating else ("q", "i") if negative else ("Q", "I")
    found: int | float = unpack("<" + letters[kind == 5], data)[0]
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a whole number from 0 on in groups of seven bits."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def part(number: int, value: bytes) -> bytes:
    """Return the field of a text or of a message within a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def whole(number: int, value: int) -> bytes:
    """Return the field of a whole number from 0 on."""
    return varint(number << 3) + varint(value)
