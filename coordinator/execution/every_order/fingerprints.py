"""Fingerprints of objects: equal values for equal content, whatever the objects are."""

from collections.abc import Sequence
from types import FunctionType, GeneratorType, MethodType
from typing import Any, Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.payload import Payloads
from emunode.faults.in_time import FaultsInTime
from emunode.timed.through_protocol import RunTimes
from emunode.topologies.base import Topology

SHARED: Final = (Algorithm, Payloads, Topology, FaultsInTime, RunTimes)
"""Types that the ranks of a run share: tables that no event changes, and under the timed clock faults and times, which are
compared by themselves.
"""


def fingerprint(value: object) -> object:
    """Return a value that is equal for objects with equal content: attributes, items, closures, and paused generators."""
    return _content(value, {})


def _content(value: Any, known: dict[int, tuple[int, object]]) -> object:  # noqa: PLR0911  # one for each kind
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, (type, SHARED)):
        return f"{getattr(value, '__name__', type(value).__name__)}"
    if id(value) in known:
        # An object that was met before, on a way round or beside: its number stands for it.
        return "met", known[id(value)][0]
    kind = type(value).__name__
    if not isinstance(value, tuple):
        # With the object itself: the identity of one that is freed may be given to another.
        known[id(value)] = len(known), value
    if isinstance(value, dict):
        # In the order of the dictionary, since code may go through it in that order.
        return kind, tuple((_content(key, known), _content(item, known)) for key, item in value.items())
    if isinstance(value, set | frozenset):
        return kind, tuple(sorted((_content(item, known) for item in value), key=repr))
    if isinstance(value, bytearray | range):
        return kind, repr(value)
    if isinstance(value, GeneratorType | MethodType | FunctionType):
        return kind, value.__qualname__, _content(_held_by_code(value), known)
    if isinstance(value, list | tuple) or hasattr(value, "typecode"):
        return kind, tuple(_content(item, known) for item in value)
    names = [*getattr(value, "__dict__", ()), *(name for each in type(value).__mro__ for name in _slots(each))]
    if not names and hasattr(value, "__reduce__"):
        # Iterators of the standard library: their state is what copies of them would be made from.
        return kind, _content(value.__reduce__()[1:], known)
    found = ((name, getattr(value, name)) for name in names if hasattr(value, name))
    return kind, tuple((name, _content(item, known)) for name, item in found)


def _held_by_code(value: Any) -> object:
    """Return the values that a paused generator, a method or a function holds."""
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    if isinstance(value, MethodType):
        return value.__self__
    frame = value.gi_frame
    return None if frame is None else (frame.f_lasti, frame.f_locals)


def _slots(kind: type) -> Sequence[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else [name for name in slots if name not in ("__weakref__", "__dict__")]
