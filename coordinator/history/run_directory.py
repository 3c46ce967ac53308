"""The run directory: created beside its final place, filled, and then renamed.

A run that is killed leaves a folder whose name begins with a dot; `coordinator clean` removes such folders. An
incomplete run never has the name of a run.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from coordinator.stored.writing import PARTIAL, FileContent, partial_of
from coordinator.stored.writing import replace_file as replace_unnoted
from emunode.errors import ScenarioError
from emunode.state_folder import state_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS = Path("runs")
LATEST = "latest"
"""The link in a folder of runs to the newest of them."""
REPRODUCE = "coordinator-reproduce-"
"""Prefix of the folders of `reproduce` in the temporary folder; the process id follows."""
PROCESS_FAULT = "process fault"
"""The event of a line of the log about a process that a fault has killed, stopped, continued or restarted."""
TAIL_BYTES = 16 * 1024
"""Size of the end of a log that is read."""


def require_no_links(path: Path, field: str) -> None:
    """Refuse a path whose part below `runs` is a symbolic link, since it leads elsewhere: ScenarioError for `field`.

    A link `latest` may name a folder beside it.
    """
    below = [folder for folder in (path, *path.parents) if RUNS.absolute() in folder.absolute().parents]
    for folder in filter(Path.is_symlink, below):
        target = folder.readlink()
        if folder.name != LATEST or len(target.parts) != 1 or target.name in ("", ".."):
            raise ScenarioError(field, str(path), f"{folder} is a symbolic link; name the folder that it leads to")


class RunDirectory:
    """A folder for one run: at `path` after `make`, at `final` after `finish`."""

    def __init__(self, name: str, seed: int, out: Path | None) -> None:
        if out is None:
            self.final = next(path for path in _names(RUNS / name, seed) if not path.exists())
        else:
            self.final = out.absolute()
        self._links_latest = out is None
        self._requested = str(out or self.final)
        self._made: list[Path] = []
        # Same parent folder, so that the final rename stays within one file system.
        self.path = self.final.parent / f"{PARTIAL}{os.getpid()}-{self.final.name}"

    def make(self) -> None:
        """Create the folder; ScenarioError if that fails. `discard` removes whatever an interrupted call created."""
        require_no_links(self.final, "out")
        try:
            if self.final.exists() and (not self.final.is_dir() or any(self.final.iterdir())):
                raise ScenarioError("out", self._requested, "it exists and is not an empty directory")
            # Remembered, so that a failed run leaves no empty folders behind.
            self._made = [parent for parent in self.path.parents if not parent.exists()]
            if not self._links_latest:
                # Before the folder exists: a kill in between must not leave it without a note.
                _write_note(self.path)
            self.path.mkdir(parents=True)
        except OSError as error:
            raise ScenarioError("out", self._requested, f"it cannot be created: {error.strerror}") from None

    def write_text(self, name: str, text: str) -> None:
        """Write one file of the run, encoded as UTF-8."""
        (self.path / name).write_text(text)

    def write_json(self, name: str, value: object) -> None:
        """Write one file of the run as indented JSON."""
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    def write_array(self, name: str, array: "NDArray[Any]") -> None:
        """Write one array of the run as NAME.npy."""
        from numpy import save  # noqa: PLC0415  # few runs have arrays

        with (self.path / f"{name}.npy").open("xb") as file:
            save(file, array, allow_pickle=False)

    def finish(self) -> None:
        """Move the folder to its final name and point `latest` at it."""
        if self.final.is_dir():
            self.final.rmdir()
        self.path.rename(self.final)
        if self._links_latest:
            # A link is replaced by renaming another one over it: there is always a `latest`.
            link = self.final.parent / f"{PARTIAL}{os.getpid()}-latest"
            link.unlink(missing_ok=True)
            link.symlink_to(self.final.name)
            link.replace(self.final.parent / LATEST)

    def log_tail(self, lines: int = 3) -> str:
        """Return the last events of the log, one per line; empty for an empty log."""
        try:
            with (self.path / "log.jsonl").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
                # A power failure may leave zero bytes at the end of a log.
                return last_events(log.read(TAIL_BYTES).strip(b"\0").decode(errors="replace"), lines)
        except OSError:
            return ""

    def discard(self) -> None:
        """Remove an unfinished folder and the folders created for it; a finished run stays."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            _note(self.path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: this run or another one is in it
            # From the innermost folder outwards.
            for parent in self._made:
                parent.rmdir()


def replace_file(path: Path, content: FileContent, *, named: bool = False) -> None:
    """Replace a file as a whole; `clean` finds the partial file of a killed process. OSError if the file cannot be
    replaced.
    """
    partial = partial_of(path)
    _write_note(partial)
    try:
        replace_unnoted(path, content, named=named)
    finally:
        with contextlib.suppress(OSError):
            _note(partial).unlink(missing_ok=True)


def last_events(log: str, lines: int = 3) -> str:
    """Return the last events of a log, each after a line break and two spaces."""
    return "".join(f"\n  {event}" for event in log.splitlines()[-lines:])


def _names(folder: Path, seed: int) -> Iterator[Path]:
    """Yield the names of a run that begins now. Later names have later times, even if the clock was set back to a time
    already used.
    """
    now = datetime.now(UTC)
    while True:
        yield folder / f"{_stamp(now)}-{seed}"
        now += timedelta(milliseconds=1)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"


def stamp_of_now() -> str:
    """Return the beginning of the name of a run that begins now; names sort by time."""
    return _stamp(datetime.now(UTC))


def temporary_prefix() -> str:
    """Return the prefix of the temporary folders of this process; `clean` finds their owner by it."""
    return f"{REPRODUCE}{os.getpid()}-"


def abandoned(root: Path = RUNS) -> list[Path]:
    """List partial folders below `root` and beside `--out`, and temporary folders of `reproduce`, whose process has
    ended.
    """
    noted = [path for path in map(_noted, _notes()) if path is not None and os.path.lexists(path)]
    partial = [path for path in (*sorted(root.rglob(f"{PARTIAL}*")), *noted) if _is_gone(path, PARTIAL)]
    temporary = sorted(Path(gettempdir()).glob(f"{REPRODUCE}*"))
    mine = [path for path in temporary if _is_gone(path, REPRODUCE) and path.lstat().st_uid == os.getuid()]
    return [*dict.fromkeys(partial), *mine]


def remove_abandoned() -> list[Path]:
    """Remove the abandoned folders, and notes of folders that no longer exist; returns the removed paths."""
    removed = []
    for path in abandoned():
        with contextlib.suppress(FileNotFoundError):  # another `clean` removed it first
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed.append(path)
    for note in _notes():
        noted = _noted(note)
        if noted is None or (_is_gone(noted, PARTIAL) and not os.path.lexists(noted)):
            note.unlink(missing_ok=True)
    return removed


def _is_gone(path: Path, prefix: str) -> bool:
    """Return whether the process in the name of a folder has ended."""
    # A process id may be reused; that only delays the clean-up.
    pid = path.name.removeprefix(prefix).split("-")[0]
    return path.name.startswith(prefix) and pid.isdigit() and not Path("/proc", pid).exists()


def _note(partial: Path) -> Path:
    name = blake2b(bytes(partial), digest_size=8).hexdigest()
    return state_folder() / "partial" / name


def _write_note(partial: Path) -> None:
    """Note a folder outside runs/ that `clean` would not find otherwise; an unwritable state folder is ignored."""
    with contextlib.suppress(OSError):
        note = _note(partial)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(bytes(partial))


def _notes() -> list[Path]:
    return sorted((state_folder() / "partial").glob("*"))


def _noted(note: Path) -> Path | None:
    """Return the partial folder in a note; None for files that are not such notes."""
    try:
        path = Path(os.fsdecode(note.read_bytes()))
    except OSError:
        return None
    # The name of a note is the hash of its content: other files are not believed.
    return path if path.is_absolute() and path.name.startswith(PARTIAL) and _note(path) == note else None
