"""A reader of JSON from unknown hands: an object, with a bound on its values before any of them is built."""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.annexes.schedules.base import MOST_OPERATIONS, RefusedScheduleError
from coordinator.history.stored.reading import parse_json

MOST_VALUES: Final = 4 * MOST_OPERATIONS
"""The most commas and opening brackets. Every value but the first of a bracket comes after a comma."""


def is_object(data: bytes, key: bytes) -> bool:
    """Return whether a text may be a JSON object that has something of this name."""
    return data.lstrip()[:1] == b"{" and key in data


def parse_object(data: bytes, writer: str) -> Mapping[str, Any]:
    """Return the object in a JSON text. Raises RefusedScheduleError, with the name of what should have written it."""
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise RefusedScheduleError(f"it has more than {MOST_VALUES:,} values")
    document = parse_json(data)
    if not isinstance(document, dict):
        raise RefusedScheduleError(f"an object expected, as {writer} writes")
    return document
