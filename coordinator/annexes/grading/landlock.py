"""Landlock: rules of the kernel for the files that a process may open, without rights of root.

The three calls have the same numbers on every architecture. The kernel tells its version of the interface. Later
versions know more kinds of access; all that a version knows is refused, except reading the given folders.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from struct import pack
from typing import Final

from emunode import runtime as libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_QUERY: Final = 1
PATH_BENEATH: Final = 1
READ_FILE, READ_DIRECTORY = 1 << 2, 1 << 3
FILE_ACCESS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many kinds of access to files a version knows; later ones as the last."""
NETWORK_VERSION, SCOPE_VERSION = 4, 6
ALL_OF_TCP: Final = 0b11
ALL_SCOPES: Final = 0b11
"""Sockets by abstract names, and signals, to processes outside."""


def restrict(readable: Iterable[Path]) -> None:
    """Refuse this process all files but those below `readable`, open for reading; raises OSError without Landlock.

    The process needs no_new_privs. A kernel with version 6 also refuses signals to processes outside.
    """
    version = libc.call_number(CREATE_RULESET, "landlock_create_ruleset", None, 0, VERSION_QUERY)
    access = (1 << FILE_ACCESS.get(version, FILE_ACCESS[max(FILE_ACCESS)])) - 1
    record = pack("Q", access)
    if version >= NETWORK_VERSION:
        record += pack("Q", ALL_OF_TCP)
    if version >= SCOPE_VERSION:
        record += pack("Q", ALL_SCOPES)
    rules = libc.call_number(CREATE_RULESET, "landlock_create_ruleset", record, len(record), 0)
    try:
        for path in readable:
            _allow(rules, path)
        libc.call_number(RESTRICT_SELF, "landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it cannot be read then
    try:
        access = READ_FILE | READ_DIRECTORY if path.is_dir() else READ_FILE
        libc.call_number(ADD_RULE, "landlock_add_rule", rules, PATH_BENEATH, pack("=Qi", access, place), 0)
    finally:
        os.close(place)
