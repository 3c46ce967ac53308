"""Writing of files in folders that somebody else may have made: no symbolic link is followed, and readers see whole files.

A file is written beside its place under a name of its own, and then renamed over it; `clean` finds the unfinished file of
a killed process. A link in its place is replaced, and
its target stays as it is, and so are devices and pipes: they are written to only where the user names the file, such as
/dev/stdout.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from coordinator.history.stored.left_behind import noted, partial_of

SYSTEM: Final = (Path("/dev"), Path("/proc"))
"""Folders whose files are never replaced."""
MODE: Final = 0o666

FileContent = str | bytes | Iterable[str]


def replace_file(path: Path, content: FileContent, *, named: bool = False) -> None:
    """Replace a file as a whole, or create it, as `replacing`; OSError if that fails, and then nothing has changed."""
    with replacing(path, named=named) as file:
        if isinstance(content, bytes):
            file.write(content)
        elif isinstance(content, str):
            file.write(content.encode())
        else:
            file.writelines(part.encode() for part in content)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the operating system name the file, as it does not where a disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def replacing(path: Path, *, named: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` at the end of the block, unless an exception leaves it.

    A device or a pipe is written to directly if the user has `named` this file. Elsewhere it is replaced: at a pipe in a
    folder of somebody else this process would wait for ever.
    """
    if _is_of_system(path) or (named and _is_device(path)):
        with path.open("wb") as device:
            yield device
        return
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    partial = partial_of(path)
    with noted(partial), naming(path):
        try:
            with os.fdopen(_create(partial), "wb") as file:
                yield file
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


def open_to_append(path: Path) -> int:
    """Open a regular file to append, or create it, and return its descriptor; OSError for a link and for a device."""
    try:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path.name} is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{path.name} is not a regular file", str(path))
    return descriptor


def _create(partial: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(partial, flags, MODE)
    except FileExistsError:
        # A killed process with the same number left it, or somebody else made it.
        partial.unlink()
        return os.open(partial, flags, MODE)


def _is_of_system(path: Path) -> bool:
    return any(path.absolute().is_relative_to(folder) for folder in SYSTEM)


def _is_device(path: Path) -> bool:
    """Return whether a file is a device, a pipe or a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
