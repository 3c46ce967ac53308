"""Fingerprints of objects: equal values for equal content, whatever the objects are."""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from types import FunctionType, GeneratorType, MethodType
from typing import Any, Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.payload import Payloads
from emunode.faults.in_time import FaultsInTime
from emunode.timed.through_protocol import RunTimes
from emunode.topologies.base import Topology

SHARED: Final = (Algorithm, Payloads, Topology, FaultsInTime, RunTimes)
"""Types that the ranks of a run share: tables that no event changes, and under the timed clock faults and times
(compared by themselves).
"""


def fingerprint(value: object) -> object:
    """Return a value that is equal for objects with equal content: attributes, items, closures, and paused generators."""
    return _content(value, {})


def _content(value: Any, known: dict[int, tuple[int, object]]) -> object:
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, (type, *SHARED)):
        return getattr(value, "__name__", type(value).__name__)
    if id(value) in known:
        # An object that was met before, on a way round or beside: its number stands for it.
        return "met", known[id(value)][0]
    if not isinstance(value, tuple):
        # The object is kept with its number: once an object is freed, another one may get its identity.
        known[id(value)] = len(known), value
    held = [_content(each, known) for each in _held(value)]
    if isinstance(value, set | frozenset):
        held.sort(key=repr)
    return type(value).__name__, *held


def _held(value: Any) -> Iterator[object]:
    """Yield the values that an object holds: items, variables, attributes."""
    match value:
        case dict():
            # In the order of the dictionary, since code may go through it in that order.
            yield from value.items()
        case list() | tuple() | set() | frozenset() | deque() | array():
            yield from value
        case bytearray() | range():
            yield repr(value)
        case FunctionType():
            yield value.__qualname__
            yield from (cell.cell_contents for cell in value.__closure__ or ())
        case MethodType():
            yield value.__qualname__
            yield value.__self__
        case object(cache_info=_, __wrapped__=function):
            # A table of results: the function gives the same ones.
            yield function
        case GeneratorType():
            yield value.__qualname__
            if (frame := value.gi_frame) is not None:
                yield frame.f_lasti
                # A copy: from Python 3.13 on, the locals of a frame are no dictionary.
                yield dict(frame.f_locals)
        case _:
            yield from _attributes(value)


def _attributes(value: object) -> Iterator[object]:
    """Yield names and values of the attributes of an object; without any, the values that a copy would be made from."""
    names = [*getattr(value, "__dict__", ()), *(name for each in type(value).__mro__ for name in _slots(each))]
    if names:
        yield from ((name, getattr(value, name)) for name in names if hasattr(value, name))
    else:
        # Iterators of the standard library, say.
        yield from value.__reduce__()[1:]


def _slots(kind: type) -> Sequence[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else [name for name in slots if name not in ("__weakref__", "__dict__")]
