"""Full, read-only or vanished disks, failing logs, clock changes: a clear error and no partial file.

As root the experiments mount small file systems; otherwise only the size of files is limited. Each experiment on a
healthy disk runs beside a complete earlier run, and must not change it.
"""

import contextlib
import hashlib
import itertools
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from stress_tests.common import Budget, Experiment, Patch, Row, Say, in_fork, no_patch, read_run, wrap

REASONS = ("operating system error", "cannot be")
"""One of these must be in the message of a command that fails with status 4."""
SCENARIO = ("run", "star:4", "allgather", "rotated-trees")


def limit_files(size: int, _say: Say) -> None:
    """Limit the size of files, as a full disk or a quota does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def vanish_during(_say: Say) -> None:
    """Remove the run directory while the journal is written."""
    from coordinator.history.journal import Journal

    wrap(Journal, "close", before=lambda journal, *_: shutil.rmtree(journal.folder))


def vanish_after(_say: Say) -> None:
    """Remove the run directory before the report is written."""
    from coordinator.execution import sinks

    wrap(sinks, "_draw", before=lambda directory: shutil.rmtree(directory.path))


def full_log(_say: Say) -> None:
    """Make the log a device that is always full, so that every event is lost."""
    from coordinator.execution import drive
    from coordinator.history.run_directory import RunDirectory
    from emunode.logging import log

    wrap(RunDirectory, "make", after=lambda directory: (directory.path / "log.jsonl").symlink_to("/dev/full"))
    wrap(drive, "_open_and_step", before=lambda *_: log("an event"))


def change_clock(shift: float, _say: Say) -> None:
    """Change the wall clock at every reading, and stop it for the names of runs."""
    from coordinator.history import run_directory

    read, readings = time.time, itertools.count()
    time.time = lambda: read() + shift * (next(readings) % 2)
    run_directory.datetime = SimpleNamespace(now=lambda tz: datetime(2001, 1, 1, tzinfo=tz))


PATCHES: dict[str, tuple[Patch, tuple[int, ...]]] = {
    **{f"files of {size} bytes": (partial(limit_files, size), (0, 4)) for size in (1, 2_000, 6_000, 20_000, 60_000)},
    "vanished while it runs": (vanish_during, (4,)),
    "vanished at the end": (vanish_after, (4,)),
    "a log that takes nothing": (full_log, (0, 4)),
    **{f"clock set by {shift:g} s": (partial(change_clock, shift), (0,)) for shift in (-86_400.0, 86_400.0)},
}
"""Name -> patch and allowed exit statuses."""


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[bool]:
    """Mount a small file system; False if that is not permitted."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    try:
        yield not done.returncode
    finally:
        if not done.returncode:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fingerprint(folder: Path) -> str:
    """Return the content of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


def attempt(
    out: Path, folder: Path, flags: tuple[str, ...], statuses: tuple[int, ...], patch: Patch = no_patch
) -> list[str]:
    """Run with the run directory `out` and other files in `folder`; the problems found."""
    earlier = {path: fingerprint(path) for path in out.parent.glob("run-*")}
    with Experiment(folder, (*SCENARIO, *flags, "--out", str(out)), patch) as experiment:
        status, wrong = experiment.end()
        stderr = experiment.stderr()
        if status not in statuses:
            wrong.append(f"status {status}: {stderr[-300:]!r}")
        silenced = len(stderr) < 2  # with a file size limit of one byte, standard error is limited too
        if status == 4 and not silenced and not any(reason in stderr for reason in REASONS):
            wrong.append(f"the message has no reason: {stderr!r}")
        wrong += [f"partial file: {path.name}" for path in (*out.parent.glob(".partial-*"), *experiment.partial())]
        if (out / "log.jsonl").is_symlink():  # it can be read without end
            (out / "log.jsonl").unlink()
            (out / "log.jsonl").touch()
        if status == 0:
            in_fork(read_run, out)
        elif out.exists():
            wrong.append(f"status {status}, and there is a run directory")
        if any(fingerprint(path) != before for path, before in earlier.items()):
            wrong.append("an earlier run was changed")
    return wrong


def run_section(budget: Budget) -> Iterator[Row]:
    """Run all experiments on two drivers."""
    row = Row("full, read-only, vanished; clocks that are set")
    for driver in ("memory", "local")[: budget.times(2, 1)]:
        try_driver(row, driver, budget.scratch / f"disk-{driver}")
    yield row


def try_driver(row: Row, driver: str, where: Path) -> None:
    """Run all experiments on one driver and record the results."""

    def add(name: str, place: Path, statuses: tuple[int, ...], patch: Patch = no_patch) -> None:
        name = name.replace(" ", "-")
        try:
            wrong = attempt(place / f"run-{name}", where / name, ("--driver", driver), statuses, patch)
        except (OSError, AssertionError) as error:
            wrong = [repr(error)]
        row.add([f"{name}, {driver}: {problem}" for problem in wrong])

    add("undisturbed", where / "runs", (0,))
    for name, (patch, statuses) in PATCHES.items():
        add(name, where / "runs", statuses, patch)
    for size in ("16k", "64k", "200k"):
        with mounted(where / f"mounted-{size}", size) as permitted:
            if permitted:
                add(f"full {size}", where / f"mounted-{size}", (0, 4))
            else:
                row.note = "no file systems could be mounted: not root"
    add("read-only", Path("/proc"), (2, 4))  # even root can create nothing there
