"""The run directory: made beside its final place, filled, and moved there whole.

A run that is killed leaves a folder whose name begins with a dot and which `coordinator clean` removes; nothing half
written ever stands under a run's name.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from emunode.errors import ScenarioError

RUNS = Path("runs")
PARTIAL = ".partial-"
TAIL_BYTES = 16 * 1024
"""How much of the end of a log is looked at."""


class RunDirectory:
    """A folder for one run: `path` from `make` on, while it is filled, and `final` once `finish` was called."""

    def __init__(self, name: str, seed: int, out: Path | None) -> None:
        if out is None:
            self.final = next(path for path in _names(RUNS / name, seed) if not path.exists())
        else:
            self.final = out.absolute()
        self._links_latest = out is None
        self._asked = str(out or self.final)
        self._made: list[Path] = []
        self.path = self.final.parent / f"{PARTIAL}{os.getpid()}-{self.final.name}"

    def make(self) -> None:
        """Make the folder; ScenarioError when it cannot be. Whatever interrupts this, `discard` removes what it made."""
        try:
            if self.final.exists() and (not self.final.is_dir() or any(self.final.iterdir())):
                raise ScenarioError("out", self._asked, "it exists and is not an empty directory")
            self._made = [parent for parent in self.path.parents if not parent.exists()]
            self.path.mkdir(parents=True)
        except OSError as error:
            raise ScenarioError("out", self._asked, f"it cannot be made: {error.strerror}") from None

    def write_text(self, name: str, text: str) -> None:
        """Write one file."""
        (self.path / name).write_text(text)

    def write_json(self, name: str, value: object) -> None:
        """Write one JSON file."""
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    def finish(self) -> None:
        """Move the folder to its final name and point `latest` at it."""
        if self.final.is_dir():
            self.final.rmdir()
        self.path.rename(self.final)
        if self._links_latest:
            link = self.final.parent / f"{PARTIAL}{os.getpid()}-latest"
            link.unlink(missing_ok=True)
            link.symlink_to(self.final.name)
            link.replace(self.final.parent / "latest")

    def log_tail(self, lines: int = 3) -> str:
        """The last events of the log, each on a line of its own; empty if there are none."""
        try:
            with (self.path / "log.jsonl").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
                events = log.read(TAIL_BYTES).strip(b"\0").decode(errors="replace").splitlines()[-lines:]
        except OSError:
            return ""
        return "".join(f"\n  {event}" for event in events)

    def discard(self) -> None:
        """Remove what was written and not finished, folders made for it included; the final name stays."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: the run stands there, or another one
            for parent in self._made:
                parent.rmdir()


def _names(folder: Path, seed: int) -> Iterator[Path]:
    """Names of a run that begins now: by the clock, and after it where a clock that was set back has been before."""
    now = datetime.now(UTC)
    while True:
        yield folder / f"{_stamp(now)}-{seed}"
        now += timedelta(milliseconds=1)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"


def stamp_of_now() -> str:
    """What the name of a run that begins now begins with; names sort as their stamps do."""
    return _stamp(datetime.now(UTC))


def abandoned(root: Path = RUNS) -> list[Path]:
    """Partial folders whose process is gone."""
    found = []
    for path in sorted(root.rglob(f"{PARTIAL}*")):
        pid = path.name.removeprefix(PARTIAL).split("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            found.append(path)
    return found
