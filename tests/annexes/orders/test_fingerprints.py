"""Fingerprints of objects: equal for equal content."""

from array import array
from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from coordinator.annexes.orders.fingerprints import fingerprint


def test_fingerprints_see_paused_generators_and_closures() -> None:
    def numbers(last: int):  # type: ignore[no-untyped-def]
        yield from range(last)

    one, other = numbers(3), numbers(3)
    assert fingerprint([one]) == fingerprint([other])
    next(one)
    assert fingerprint([one]) != fingerprint([other])
    assert fingerprint(lambda: one) != fingerprint(lambda: other)
    circle: list[object] = [1]
    circle.append(circle)
    assert fingerprint(circle) != fingerprint([1, [1]])


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


@pytest.mark.parametrize(
    "kind", [list, tuple, set, frozenset, deque, bytearray, iter, partial(array, "i"), Plain, Slotted]
)
def test_fingerprints_see_every_kind_of_content(kind: Callable[[list[int]], object]) -> None:
    assert fingerprint(kind([1, 2])) == fingerprint(kind([1, 2]))
    assert fingerprint(kind([1, 2])) != fingerprint(kind([1, 3]))


def test_fingerprints_of_dictionaries_have_their_order() -> None:
    assert fingerprint({1: 2, 3: 4}) == fingerprint({1: 2, 3: 4})
    assert fingerprint({1: 2, 3: 4}) != fingerprint({3: 4, 1: 2})
