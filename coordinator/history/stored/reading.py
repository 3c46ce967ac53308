"""Reading of files that another user may have written: regular files only, with limits on size, nesting and numbers.

Every reader of scenarios, stored runs and campaigns comes through here, so that a device, a pipe, a file of gigabytes or a
nesting of thousands of levels ends in one message, not in a traceback or without end.

Errors are of two kinds. A ValueError is damage, as a full disk or a power failure leaves it. A RefusedError is content that
this program never writes, however a run ended.
"""

import errno
import json
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

TEXT_BYTES: Final = 16 << 20
"""The most bytes of a scenario, a summary or another text; runs write a few hundred kilobytes at most."""
LEVELS: Final = 32
"""The deepest nesting of tables and lists; this program writes six levels at most."""
LARGEST_INTEGER: Final = 2**64
"""Whole numbers in stored files are smaller."""


class RefusedError(ValueError):
    """Content that no version of this program writes: somebody else made or changed the file."""


def exists(path: Path) -> bool:
    """Return whether a name is taken, also by a link that leads nowhere."""
    return os.path.lexists(path)


def read_bytes(path: Path, most: int = TEXT_BYTES, *, follow: bool = True) -> bytes:
    """Return the content of a regular file; the null device counts as an empty file.

    Unless `follow`, a symbolic link is refused too, because another user may have made the folder. OSError if the path
    is a folder or cannot be opened; RefusedError if it is a device or a pipe, or has more than `most` bytes.
    """
    with open_regular(path, follow=follow) as file:
        # A large file is not read in vain, and one may grow meanwhile.
        data = file.read(most + 1) if (size := os.fstat(file.fileno()).st_size) <= most else b""
    if max(size, len(data)) > most:
        raise RefusedError(f"it has more than {most} bytes")
    return data


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file to read it; errors as `read_bytes`."""
    return os.fdopen(_open(path, follow=follow), "rb")


def read_lines(path: Path, most: int = TEXT_BYTES, *, follow: bool = True) -> Iterator[bytes]:
    """Yield the complete lines of a regular file, each without its end.

    A last line without an end is left out. A line may have `most` bytes, and the file any number of lines. Raises
    OSError and RefusedError as `read_bytes` does.
    """
    with open_regular(path, follow=follow) as file:
        number = 0
        while line := file.readline(most + 2):
            number += 1
            if len(line) > most + 1:
                raise RefusedError(f"line {number} has more than {most} bytes")
            if not line.endswith(b"\n"):
                return
            yield line[:-1]


def _open(path: Path, *, follow: bool) -> int:
    """Open a regular file to read it; errors as `read_bytes`."""
    try:
        # Without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise RefusedError("it is a symbolic link") from None
        if error.errno == errno.ENXIO:  # a socket
            raise RefusedError("it is not a regular file") from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and not _is_null(descriptor):
            raise RefusedError("it is not a regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_null(descriptor: int) -> bool:
    """Return whether a file is /dev/null: compose mounts it where the user names no scenario."""
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev


def read_text(path: Path, most: int = TEXT_BYTES, *, follow: bool = True) -> str:
    """Return the text of a regular file in UTF-8; OSError or ValueError as `read_bytes`, or if it is not UTF-8."""
    return read_bytes(path, most, follow=follow).decode("utf-8")


def read_json(path: Path, most: int = TEXT_BYTES, *, follow: bool = True) -> Any:
    """Return the value of a JSON file; OSError or ValueError as `read_text`, or as `parse_json`."""
    return parse_json(read_text(path, most, follow=follow))


def parse_json(text: str | bytes, largest: int = LARGEST_INTEGER) -> Any:
    """Return the value of a JSON text, whose whole numbers are below `largest`.

    ValueError if it is no JSON; RefusedError for deep nesting, repeated keys, and numbers that are not finite or too large.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except RecursionError:
        raise RefusedError(f"it has more than {LEVELS} levels") from None
    return require_plain(value, largest)


def read_toml(path: Path, most: int = TEXT_BYTES, *, follow: bool = True) -> dict[str, Any]:
    """Return the values of a TOML file; OSError or ValueError like `read_text`, or like `parse_toml`."""
    return parse_toml(read_text(path, most, follow=follow))


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; ValueError if it is no TOML, RefusedError as `parse_json`, and for dates."""
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise RefusedError(f"it has more than {LEVELS} levels") from None
    require_plain(values)
    return values


def require_plain(value: Any, largest: int = LARGEST_INTEGER) -> Any:
    """Return a value of lists, tables, texts, truth values and finite numbers; RefusedError for others and deep nesting."""
    # Level by level, without recursion: the value may be as deep as the parser allows.
    level = [value]
    for _ in range(LEVELS):
        level = [item for each in level for item in _require_plain_item(each, largest)]
        if not level:
            return value
    if any(isinstance(each, dict | list) for each in level):
        raise RefusedError(f"it has more than {LEVELS} levels")
    for each in level:
        _require_plain_item(each, largest)
    return value


def _require_plain_item(item: Any, largest: int) -> Iterable[Any]:
    """Return the items of a list or a table, and nothing for a plain value."""
    match item:
        case list():
            return item
        case dict():
            return item.values()
        case float() if not isfinite(item):
            raise RefusedError(f"{item} is not a finite number")
        case bool() | str() | float() | None:
            return ()
        case int():
            if -largest < item < largest:
                return ()
            raise RefusedError(f"it has a whole number of more than {largest.bit_length() - 1} bits")
    raise RefusedError(f"{str(item)[:40]} is neither text nor a number")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError("a key is repeated")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise RefusedError(f"{text} is not a number of JSON")
