"""Reading of files that another user may have written: regular files only, with limits on size and nesting.

Every reader of scenarios, stored runs and campaigns comes through here, so that a device, a pipe, a file of gigabytes or a
nesting of thousands of levels ends in one message, not in a traceback or without end.
"""

import errno
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

TEXT_BYTES: Final = 16 << 20
"""The most bytes of a scenario, a summary or another text; runs write a few hundred kilobytes at most."""
LEVELS: Final = 32
"""The deepest nesting of tables and lists; this program writes six levels at most."""


def read_bytes(path: Path, most: int = TEXT_BYTES) -> bytes:
    """Return the content of a regular file; the null device is an empty one.

    OSError if it is a folder or cannot be opened; ValueError if it is a device or a pipe, or has more than `most` bytes.
    """
    # Without waiting for the other end of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and not _is_null(descriptor):
            raise ValueError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _is_null(descriptor: int) -> bool:
    """Return whether a file is /dev/null, which compose mounts where the user names no scenario."""
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev


def read_text(path: Path, most: int = TEXT_BYTES) -> str:
    """Return the text of a regular file in UTF-8; OSError or ValueError as `read_bytes`, or if it is not UTF-8."""
    return read_bytes(path, most).decode("utf-8")


def read_json(path: Path, most: int = TEXT_BYTES) -> Any:
    """Return the value of a JSON file; OSError or ValueError as `read_text`, or for other text and too deep nesting."""
    try:
        return require_levels(json.loads(read_text(path, most)))
    except RecursionError:
        raise ValueError(f"it has more than {LEVELS} levels") from None


def read_toml(path: Path, most: int = TEXT_BYTES) -> dict[str, Any]:
    """Return the values of a TOML file; OSError or ValueError as `read_text`, or for other text and too deep nesting."""
    return parse_toml(read_text(path, most))


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; ValueError for another text and too deep nesting."""
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"it has more than {LEVELS} levels") from None
    require_levels(values)
    return values


def require_levels(value: Any) -> Any:
    """Return `value` unless its lists and tables are nested more than `LEVELS` deep: then ValueError."""
    # Level by level, without recursion: the value may be as deep as the parser allows.
    level = [value]
    for _ in range(LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    if any(isinstance(each, dict | list) for each in level):
        raise ValueError(f"it has more than {LEVELS} levels")
    return value
