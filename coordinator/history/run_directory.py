"""The run directory: created beside its final place, filled, and then renamed.

A run that is killed leaves a folder whose name begins with a dot; `coordinator clean` removes such folders. An
incomplete run never has the name of a run.
"""

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from coordinator.history.stored.left_behind import TEMPORARY, noted, partial_of
from emunode.errors import ScenarioError

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS = Path("runs")
LATEST = "latest"
"""The link in a folder of runs to the newest of them."""
PROCESS_FAULT = "process fault"
"""The event of a line of the log about a process that a fault has killed, stopped, continued or restarted."""
TAIL_BYTES = 16 * 1024
"""Size of the end of a log that is read."""
CONTRIBUTIONS = "data.npy"
"""The file of a run directory that holds the contributions of a reduction of real numbers."""


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
        self.path = self.final.parent / partial_of(self.final).name
        self._noted = contextlib.ExitStack()

    def make(self) -> None:
        """Create the folder; ScenarioError if that fails. `discard` removes whatever an interrupted call created."""
        require_no_links(self.final, "out")
        try:
            if self.final.exists() and (not self.final.is_dir() or any(self.final.iterdir())):
                raise ScenarioError("out", self._requested, "it exists and is not an empty directory")
            # Remembered, so that a failed run leaves no empty folders behind.
            self._made = [parent for parent in self.path.parents if not parent.exists()]
            # Before the folder exists: a kill in between must not leave it without a note.
            self._noted.enter_context(noted(self.path, *self._made))
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
            latest = self.final.parent / LATEST
            link = latest.with_name(partial_of(latest).name)
            with noted(link):
                link.unlink(missing_ok=True)
                link.symlink_to(self.final.name)
                link.replace(latest)

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
        self._noted.close()
        with contextlib.suppress(OSError):  # not empty: this run or another one is in it
            # From the innermost folder outwards.
            for parent in self._made:
                parent.rmdir()


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


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder in the temporary folder; `clean` removes it if this process is killed."""
    path = Path(gettempdir()) / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
    with noted(path):
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def branch_folder(out: Path | None, number: int) -> Path | None:
    """Return the directory of a branch beside the directory of its run; None, for a new one in `runs`, if `out` is None."""
    return None if out is None else out.with_name(f"{out.name}-branch-{number}")
