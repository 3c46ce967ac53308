"""Disks that are full, read-only or gone, deaf logs, clocks that are set: a clear error, and nothing half-written.

As root on file systems of their own, mounted for it; else by limits on the size of files. Each begins with a whole run in
the same folder, which must stand untouched.
"""

import contextlib
import hashlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stress_tests.common import Budget, Experiment, Row, in_fork, preload, readable

DEADLINE_SECONDS = 60.0
REASONS = ("operating system error", "cannot be")
"""One of these must be in the message of a command that fails with status 4."""
SCENARIO = ("run", "--topology", "star:4", "--collective", "allgather", "--algorithm", "rotated-trees")
Say = Callable[[str], None]
Patch = Callable[[Say], None]


def nothing(_say: Say) -> None:
    """Leave everything as it is."""


def small_files(size: int, _say: Say) -> None:
    """No file may grow beyond a size: what a full disk or a quota looks like."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def vanish(when: str, _say: Say) -> None:
    """The folder of the run is removed while it is filled."""
    from coordinator.execution import run
    from coordinator.history.journal import Journal

    def remove(self: Any) -> None:
        shutil.rmtree(self._folder if isinstance(self, Journal) else self.path)

    def before(owner: Any, method: str) -> None:
        whole = getattr(owner, method)

        def gone(self: Any, *rest: Any, **options: Any) -> Any:
            remove(self)
            return whole(self, *rest, **options)

        setattr(owner, method, gone)

    if when == "collection":
        before(Journal, "close")
    else:
        before(run, "_draw")


def deaf_log(_say: Say) -> None:
    """Every event is lost: the log is a device that is always full."""
    from coordinator.execution import drive as driving
    from coordinator.history.run_directory import RunDirectory
    from emunode.logging import log

    make, drive = RunDirectory.make, driving._open_and_step

    def made(self: RunDirectory) -> None:
        make(self)
        (self.path / "log.jsonl").symlink_to("/dev/full")

    async def talkative(*arguments: Any) -> None:
        log("something to say")
        await drive(*arguments)

    RunDirectory.make = made  # type: ignore[method-assign]
    driving._open_and_step = talkative


def set_clock(shift: float, _say: Say) -> None:
    """The wall clock is set while the run goes on: it jumps at every look, and stands still for names of runs."""
    import time
    from datetime import UTC, datetime

    from coordinator.history import run_directory as rundir

    real, looks = time.time, [0]

    def jumping() -> float:
        looks[0] += 1
        return real() + shift * (looks[0] % 2)

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2001, 1, 1, tzinfo=tz or UTC)

    time.time = jumping
    rundir.datetime = Stopped  # type: ignore[misc]


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[bool]:
    """A small file system of its own; False where that is not allowed."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    try:
        yield not done.returncode
    finally:
        if not done.returncode:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fingerprint(folder: Path) -> str:
    """What lies below a folder, to the byte."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


def attempt(where: Path, name: str, flags: tuple[str, ...], patch: Patch, statuses: tuple[int, ...]) -> list[str]:
    """One run in a folder in which another stands; what is wrong."""
    earlier = list(where.glob("runs/*/2*"))
    before = [fingerprint(path) for path in earlier]
    arguments = (*SCENARIO, *flags, "--out", str(where / "runs/x/2new"))
    experiment = Experiment(where / f"at-{name.replace(' ', '-')}", arguments, patch)
    wrong = []
    try:
        status = experiment.wait(DEADLINE_SECONDS)
        said = experiment.stderr()
        if status not in statuses:
            wrong.append(f"status {status}: {said[-200:]!r}")
        if "Traceback" in said:
            wrong.append(f"a traceback: {said[-300:]!r}")
        silenced = len(said) < 2  # where files of one byte are all there can be, standard error is one of them
        if status == 4 and not silenced and not any(reason in said for reason in REASONS):
            wrong.append(f"it does not say why: {said!r}")
        wrong += experiment.leftovers()
        wrong += [f"half-written: {path.name}" for path in where.rglob(".partial-*")]
        new = where / "runs/x/2new"
        if (new / "log.jsonl").is_symlink():  # it can be read without end
            (new / "log.jsonl").unlink()
            (new / "log.jsonl").touch()
        if new.exists() and status == 0:
            in_fork(partial(readable_summary, new))
        elif new.exists():
            wrong.append(f"status {status}, and a run stands")
        if [fingerprint(path) for path in earlier] != before:
            wrong.append("an earlier run was touched")
        shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        wrong.append(repr(error))
    finally:
        experiment.close(keep=False)
    return [f"{name}, {' '.join(flags)}: {one}" for one in wrong]


def readable_summary(folder: Path) -> str:
    """The hash of a run that can be read."""
    return str(readable(folder)["journal_hash"])


def run_section(budget: Budget) -> list[Row]:
    """Every trouble on both kinds of drivers."""
    preload()
    row = Row("disk", "full, read-only, vanished; clocks that are set")
    sizes = (1, 2_000, 6_000, 20_000, 60_000)
    plain: list[tuple[str, Patch, tuple[int, ...]]] = [
        *((f"files of {size} bytes", partial(small_files, size), (0, 4)) for size in sizes),
        ("vanished while it runs", partial(vanish, "collection"), (4,)),
        ("vanished at the end", partial(vanish, "report"), (4,)),
        ("a log that takes nothing", deaf_log, (0, 4)),
        *((f"clock set by {shift:g} s", partial(set_clock, shift), (0,)) for shift in (-86_400.0, 86_400.0)),
    ]
    drivers = (("--driver", "memory"), ("--driver", "local"))
    for flags in drivers[: budget.times(2, 1)]:
        where = budget.scratch / f"disk-{flags[1]}"
        where.mkdir()
        row.wrong += attempt(where, "nothing wrong", flags, nothing, (0,))
        for name, patch, statuses in plain:
            row.tried += 1
            row.wrong += attempt(where, name, flags, patch, statuses)
        for size in ("16k", "64k", "200k"):
            with mounted(budget.scratch / f"disk-{flags[1]}-{size}", size) as there:
                if there:
                    row.tried += 1
                    row.wrong += full(budget.scratch / f"disk-{flags[1]}-{size}", flags)
                else:
                    row.note = "no file systems could be mounted: not root"
        row.tried += 1
        row.wrong += read_only(budget.scratch / f"disk-{flags[1]}-ro", flags)
    return [row]


def full(where: Path, flags: tuple[str, ...]) -> list[str]:
    """A file system with no room."""
    return _run_at(where, where.parent / f"{where.name}-side", flags, (0, 4))


def read_only(where: Path, flags: tuple[str, ...]) -> list[str]:
    """A place that cannot be written: /proc takes nobody's folders, not even root's."""
    del where
    return _run_at(Path("/proc"), Path(os.environ.get("TMPDIR", "/tmp")) / f"stress-ro-{os.getpid()}", flags, (2, 4))


def _run_at(where: Path, side: Path, flags: tuple[str, ...], statuses: tuple[int, ...]) -> list[str]:
    experiment = Experiment(side, (*SCENARIO, *flags, "--out", str(where / "run")), nothing)
    wrong = []
    try:
        status = experiment.wait(DEADLINE_SECONDS)
        said = experiment.stderr()
        if status not in statuses or "Traceback" in said or (status and not said.strip()):
            wrong.append(f"{where}, {' '.join(flags)}: status {status}: {said[-300:]!r}")
        if status == 0:
            in_fork(partial(readable_summary, where / "run"))
        elif (where / "run").exists() or list(where.glob(".partial-*")):
            wrong.append(f"{where}, {' '.join(flags)}: something half-written stands")
        wrong += experiment.leftovers()
    finally:
        experiment.close(keep=False)
    return wrong
