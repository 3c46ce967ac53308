"""The programs that may play nodes: this process starts only those whose commands are listed here."""

from collections.abc import Sequence
from typing import Final

ALLOWED: Final[set[str]] = set()
"""The command lines that this process may execute: named by its user, or by the coordinator of a host that allows it."""


def command_text(words: Sequence[str]) -> str:
    """Return the words of a command line as one text that distinguishes them."""
    return "\0".join(words)
