"""Shared by the targets: bytes as choices, and the record of a target."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from emunode.net import wire

SECRET = b"a secret that the fuzzer does not know"
NONCE = bytes(range(wire.NONCE_BYTES))
RUN = 7
Take = Callable[[bytes], None]


def drawn(size: int) -> list[bytes]:
    """Return some random inputs: choices for a `Source`."""
    return [hashlib.shake_128(bytes((number,))).digest(size) for number in range(24)]


class Target(NamedTuple):
    """A function to be fuzzed."""

    make: Callable[[], Take]
    """Creates the function in its own process, where it may replace other functions."""
    inputs: int
    """Number of inputs in a complete run."""
    seeds: Callable[[], list[bytes]] = lambda: drawn(200)
    """Initial inputs."""


class Source:
    """Makes choices from the bytes of the fuzzer in order; at the end of the bytes it makes the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, least: int, most: int) -> int:
        """Return a whole number in a range."""
        size = ((most - least).bit_length() + 7) // 8
        return least + int.from_bytes(self._take(size)) % (most - least + 1)

    def flag(self) -> bool:
        """Return a boolean choice."""
        return bool(self.number(0, 1))

    def some_bytes(self, most: int) -> bytes:
        """Return bytes as they are, and how many."""
        return self._take(self.number(0, most))

    def text(self, most: int) -> str:
        """Return characters, nearly all of them plain."""
        return self.some_bytes(most).decode("utf-8", "replace")

    def pick(self, *choices: Any) -> Any:
        """Return one of the given options."""
        return choices[self.number(0, len(choices) - 1)]

    def value(self, depth: int = 3) -> Any:  # noqa: PLR0911  # a table
        """Return anything that a control message can hold, small numbers first."""
        match self.number(0, 9 if depth else 6):
            case 0 | 1 | 2:
                return self.number(-2, 8)
            case 3:
                return self.number(-(2**63), 2**64 - 1)
            case 4:
                return self.pick(None, True, False, 1.5, float("nan"), float("inf"))
            case 5:
                return self._take(self.pick(0, 1, 32, 70))
            case 6:
                return self.pick("crash", "step", "127.0.0.1", self.text(8))
            case 7 | 8:
                return [self.value(depth - 1) for _ in range(self.number(0, 4))]
            case _:
                return {self.number(-1, 3): self.value(depth - 1) for _ in range(3)}

    def spoiled(self, fields: list[Any]) -> list[Any]:
        """Return a valid message with one or two changed fields."""
        for _ in range(self.number(0, 2)):
            kind = self.number(0, 3)
            if kind == 0 and fields:
                fields.pop(self.number(0, len(fields) - 1))
            elif kind == 1:
                fields.insert(self.number(0, len(fields)), self.value())
            elif fields:
                fields[self.number(0, len(fields) - 1)] = self.value()
        return fields
