"""The runs of an unfinished reproduction, on disk: an interrupted `reproduce --out DIR` continues where it stopped.

Every run has a folder, named after the digest of its scenario, and beside it a record with the scenario, the digests of the
program's source and of the files of the run, and an authentication code. A run is used again only if all of them agree:
runs of another version or an altered plug-in, damaged files, and records that this user did not write are made again.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from coordinator.history.run_directory import temporary_folder
from coordinator.history.stored.reading import read_bytes, read_json
from coordinator.history.stored.writing import replace_file
from emunode import __version__
from emunode.errors import ScenarioError
from emunode.plugins import LOADED, find_installed
from emunode.state_folder import state_folder

FOLDER = "unfinished-runs"
"""The folder of the runs within the output folder. It is removed when the reproduction is complete."""
KEY_FILE = "reproduce.key"
KEY_BYTES = 32
_OWN_NAME = re.compile(r"(\.partial-\d+-)?[0-9a-f]{32}(\.json)?")
"""Runs and records, finished or left half written by a killed process."""


class RunStore:
    """Run directories in one folder, found by their scenarios as JSON texts."""

    def __init__(self, folder: Path, key: bytes | None) -> None:
        self._folder = folder
        self._key = key
        """None: nothing is kept beyond this process."""
        self._found: dict[str, dict[str, Any] | None] = {}

    def path(self, scenario: str) -> Path:
        """Return the run directory of a scenario, whether or not it exists."""
        return self._folder / hashlib.sha256(scenario.encode()).hexdigest()[:32]

    def find(self, scenario: str) -> dict[str, Any] | None:
        """Return the summary of a kept run, or None if there is no run that can be trusted."""
        if self._key is None:
            return None
        if scenario not in self._found:
            self._found[scenario] = self._read(scenario)
        return self._found[scenario]

    def make_room(self, scenario: str) -> Path:
        """Remove the folder that an interrupted or untrusted run has left, and return its path."""
        path = self.path(scenario)
        self._record(path).unlink(missing_ok=True)
        _remove(path)
        return path

    def keep(self, scenario: str) -> None:
        """Record a finished run, so that a later process finds it."""
        if self._key is None:
            return
        path = self.path(scenario)
        about = {**_program(), "scenario": scenario, "files": _digests(path)}
        with contextlib.suppress(OSError):  # a full disk: the run is made again
            replace_file(self._record(path), json.dumps({**about, "code": _code(self._key, about)}, indent=1) + "\n")

    def discard(self) -> None:
        """Remove all runs, and the folder unless it holds other files."""
        for path in self._folder.iterdir():
            if _OWN_NAME.fullmatch(path.name):
                _remove(path)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _read(self, scenario: str) -> dict[str, Any] | None:
        assert self._key is not None
        path = self.path(scenario)
        try:
            record = read_json(self._record(path))
            about = {**_program(), "scenario": scenario, "files": _digests(path)}
            expected = {**about, "code": _code(self._key, about)}
            if not isinstance(record, dict) or record != expected:
                return None
            summary = read_json(path / "summary.json")
        except (OSError, ValueError):
            return None
        return summary if isinstance(summary, dict) else None

    @staticmethod
    def _record(path: Path) -> Path:
        return path.with_name(f"{path.name}.json")


@contextmanager
def open_run_store(out: Path | None) -> Iterator[RunStore]:
    """Open a store in the output folder, whose runs stay if the body raises; without a folder a temporary one.

    Raises ScenarioError (field `out`) if the folder cannot be used, or another process uses it.
    """
    if out is None:
        with temporary_folder() as folder:
            yield RunStore(folder, None)
        return
    folder = out / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise ScenarioError("out", str(out), f"cannot write: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ScenarioError("out", str(out), "another process is reproducing into it") from None
        except OSError:
            pass  # a network file system without locks on folders
        store = RunStore(folder, _key())
        try:
            yield store
            store.discard()
        finally:
            with contextlib.suppress(OSError):  # an empty folder is of no use to a later process
                folder.rmdir()
    finally:
        os.close(descriptor)


@cache
def _source() -> str:
    """Return the digest of the source of both packages."""
    return hashlib.sha256(
        "".join(find_installed(name).sha256 for name in ("coordinator", "emunode")).encode()
    ).hexdigest()


def _program() -> Mapping[str, object]:
    """Return the program that makes a run: its version, its source and the plug-ins that are loaded."""
    return {"version": __version__, "source": _source(), "plugins": sorted(LOADED)}


def _key() -> bytes:
    """Return the key of this user, made on first use; a new one each time if it cannot be stored."""
    path = state_folder() / KEY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        found = path.lstat()
        if S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            key = read_bytes(path, KEY_BYTES)
            if len(key) == KEY_BYTES:
                return key
    except (OSError, ValueError):
        pass
    return secrets.token_bytes(KEY_BYTES)


def _code(key: bytes, about: Mapping[str, object]) -> str:
    return hmac.new(key, json.dumps(about, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files of a run by name; OSError or ValueError if one cannot be read or is no regular
    file.
    """
    return {path.name: _digest(path) for path in sorted(folder.iterdir())}


def _digest(path: Path) -> str:
    # Without following a link, and without waiting for the other end of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
