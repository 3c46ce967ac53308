"""Records of what processes create and have to remove, written before it is created: by them `clean` finds what a killed
process has left.

One JSON file for each, in $XDG_STATE_HOME/collective-testbench (or ~/.local/state/..), removed after everything that it
names.
"""

import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from coordinator.history.stored.reading import read_bytes
from coordinator.history.stored.records import read_record
from emunode.errors import RunError
from emunode.state_folder import state_folder

PARTIAL: Final = ".partial-"
"""Prefix of the names of unfinished files and folders; the process id follows."""
TEMPORARY: Final = "coordinator-reproduce-"
"""Prefix of the names of folders in the temporary folder; the process id follows."""
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN: Final = 0
"""The start of a process that cannot be read."""
MOST_SECRET_BYTES: Final = 8192
MOST_RECORD_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Record:
    """A process and all that it creates."""

    run: str
    pid: int
    began: int
    """The start of that process in ticks since the machine was started: its number may belong to another one by now."""
    boot: str
    """The number that the kernel drew when the machine was started."""
    machine: str
    folder: str
    """The working directory of the process."""
    driver: str = ""
    """The driver that has the objects; its launcher has `remaining(record)` and `sweep(record)`."""
    engine: str = ""
    """The engine that has the objects, such as DOCKER_HOST; empty: the default."""
    objects: tuple[str, ...] = ()
    """The names of the objects, as the engine knows them."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The digest of each file by its path; empty for files and folders with the process id in their names."""
    parents: tuple[str, ...] = ()
    """The folders that were created for these files, from the innermost outwards."""

    @property
    def path(self) -> Path:
        """The file of this record, in the state folder."""
        return state_folder() / f"{self.run}.json"

    def write(self) -> None:
        """Write the file; RunError if that fails, or if another run has this id."""
        partial = partial_of(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                raise RunError(
                    f"run {self.run} already exists; if it was killed, remove it with `coordinator clean --everywhere`"
                )
            partial.write_text(json.dumps(asdict(self)))
            partial.rename(self.path)
        except OSError as error:
            raise RunError(f"cannot record what the run creates in {self.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file, after everything that it names."""
        self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the files that no other running process uses, and then the record."""
        self.remove_files(used_files([each for each in read_records() if each.run != self.run]))
        self.remove()

    def is_running(self) -> bool:
        """Return whether the process runs, or may run: it is on another machine, or its start cannot be read."""
        if self.machine != os.uname().nodename:
            return True
        boot = _boot()
        if self.boot and boot and self.boot != boot:
            return False
        began = process_start(self.pid)
        return began is not None and (began == self.began or UNKNOWN in (began, self.began))

    def remaining_files(self, used: Collection[str] = ()) -> list[Path]:
        """Return the files that are still there and as this process made them, except those that others use."""
        return [Path(path) for path in self.files if path not in used and self._has_made(Path(path))]

    def remove_files(self, used: Collection[str] = ()) -> list[Path]:
        """Remove these files, and the folders that were created for them if they are empty; returns the files."""
        found = self.remaining_files(used)
        for path in found:
            remove(path)
        for folder in self.parents:
            with suppress(OSError):  # not empty, or no longer there
                Path(folder).rmdir()
        return found

    def _has_made(self, path: Path) -> bool:
        digest = self.files[str(path)]
        if not digest:
            return os.path.lexists(path) and path.name.startswith((f"{PARTIAL}{self.pid}-", f"{TEMPORARY}{self.pid}-"))
        with suppress(OSError, ValueError):
            return digest_of(read_bytes(path, MOST_SECRET_BYTES, follow=False)) == digest
        return False


def new_record(
    *,
    run: str = "",
    driver: str = "",
    engine: str = "",
    objects: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
    parents: tuple[str, ...] = (),
) -> Record:
    """Return a record of this process."""
    pid = os.getpid()
    began, machine, folder = process_start(pid) or UNKNOWN, os.uname().nodename, working_folder()
    return Record(
        run or secrets.token_hex(6), pid, began, _boot(), machine, folder, driver, engine, objects, files or {}, parents
    )


def working_folder() -> str:
    """Return the working directory of this process; empty if somebody has removed it."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


@contextmanager
def noted(path: Path, *parents: Path) -> Iterator[None]:
    """Record a file or folder with the process id in its name while the body creates and removes it, and the folders that
    are created for it. An unwritable state folder is ignored.
    """
    record = new_record(files={str(path.absolute()): ""}, parents=tuple(str(parent.absolute()) for parent in parents))
    with suppress(RunError):
        record.write()
    try:
        yield
    finally:
        with suppress(OSError):
            record.remove()


def read_records() -> list[Record]:
    """Return every record of this user; malformed files are skipped."""
    found = (_read(path) for path in sorted(state_folder().glob("*.json")))
    return [record for record in found if record is not None]


def used_files(records: Collection[Record]) -> set[str]:
    """Return the files of all processes that run."""
    return {path for record in records if record.is_running() for path in record.files}


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, unless another `clean` has."""
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def partial_of(path: Path) -> Path:
    """Return the name of a file that is written before it is renamed."""
    return path.absolute().parent / f"{PARTIAL}{os.getpid()}-{path.name}"


def digest_of(content: bytes) -> str:
    """Return the digest of a file for a record."""
    return blake2b(content, digest_size=16).hexdigest()


def process_start(pid: int) -> int | None:
    """Return when a process was started, in ticks since the start of the machine (proc(5)).

    UNKNOWN if it runs but that cannot be read, as with the mount option hidepid; None if it has ended.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZXx" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return UNKNOWN if _exists(pid) else None


def _exists(pid: int) -> bool:
    if pid <= 0:  # of a forged record: such numbers mean groups of processes
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""


def _read(path: Path) -> Record | None:
    try:
        record = read_record(Record, read_bytes(path, MOST_RECORD_BYTES))
    except (OSError, ValueError):
        return None
    return record if record.path == path else None
