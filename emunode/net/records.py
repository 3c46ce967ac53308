"""Named tuples on the wire: plain values in the order of the fields, checked by the annotations when they arrive.

A field of another type than these is a TypeError when its record is first decoded: int, float, bool, str, bytes, an enum of
texts, another named tuple, a tuple of one or of fixed types, all of these or None, and one of several simple types.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from emunode.errors import FrameError
from emunode.model import Bounds
from emunode.net.validation import flag, integer, items, number, octets, text

Record = TypeVar("Record", bound=tuple[object, ...])
Choice = TypeVar("Choice", bound=StrEnum)
Decoder = Callable[[object], Any]


def encode_record(values: Sequence[object]) -> tuple[object, ...]:
    """Return the values of a named tuple as plain values that msgpack can pack."""
    return tuple(_plain(value) for value in values)


def decode_record(kind: type[Record], record: object) -> Record:
    """Return the named tuple `kind` of plain values; FrameError for anything malformed."""
    decoders = _decoders(kind)
    # Exactly as many values as fields: a peer of another version is refused here.
    values = items(record, len(decoders))
    return kind(*(decode(value) for decode, value in zip(decoders, values, strict=True)))


def _plain(value: object) -> object:
    if isinstance(value, str):
        # Members of enums become plain strings.
        return str(value)
    if hasattr(value, "_fields"):
        return encode_record(value)  # type: ignore[arg-type]  # a named tuple
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


# Cached: annotations are texts, and evaluating them takes far longer than decoding a record.
@cache
def _decoders(kind: type) -> tuple[Decoder, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_decoder(hints[name]) for name in kind._fields)  # type: ignore[attr-defined]  # a named tuple


SIMPLE: dict[object, Decoder] = {int: integer, float: number, bool: flag, str: text, bytes: octets}


def _decoder(hint: Any) -> Decoder:
    """Return the check of a value by its type."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Annotated:
        (bounds,) = (each for each in arguments[1:] if isinstance(each, Bounds))
        return partial(integer, least=bounds.least, most=bounds.most)
    if kind is UnionType and arguments[1:] == (NoneType,):
        return partial(_optional, _decoder(arguments[0]))
    if kind is UnionType and SIMPLE.keys() >= {*arguments}:
        return partial(_any_of, arguments)
    if kind is tuple:
        several = arguments[1:] == (...,)
        return partial(_list_of, _decoder(arguments[0])) if several else partial(_fixed, [*map(_decoder, arguments)])
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, type) and (issubclass(hint, StrEnum) or hasattr(hint, "_fields")):
        decode: Any = _choice if issubclass(hint, StrEnum) else decode_record
        return partial(decode, hint)
    raise TypeError(f"a field of a record on the wire cannot be {hint}")


def _optional(decode: Decoder, value: object) -> object:
    return None if value is None else decode(value)


def _any_of(kinds: Sequence[type], value: object) -> object:
    # Not isinstance: a bool is no int here, and no other type can arrive.
    if type(value) not in kinds:
        raise FrameError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, got {value!r:.80}")
    return value


def _list_of(decode: Decoder, value: object) -> tuple[object, ...]:
    return tuple(map(decode, items(value)))


def _fixed(decoders: Sequence[Decoder], value: object) -> tuple[object, ...]:
    values = items(value, len(decoders))
    return tuple(decode(each) for decode, each in zip(decoders, values, strict=True))


def _choice(kind: type[Choice], value: object) -> Choice:
    try:
        return kind(text(value))
    except ValueError:
        raise FrameError(f"expected one of {', '.join(kind)}, got {value!r:.80}") from None
