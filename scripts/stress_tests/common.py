"""What the sections share: a row of the summary table, and a coordinator in a process of its own."""

import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

import coordinator

ROOT = Path(__file__).resolve().parents[2]
LEAVE_SECONDS = 20.0
"""How long anything may take to be gone, on however busy a machine."""
MARK = "STRESS_MARK"
"""A variable that everything started for one experiment carries in its environment."""


@dataclass
class Row:
    """One line of the summary: what was done how often, and what was found wrong."""

    section: str
    what: str
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    note: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return {name: getattr(self, name) for name in ("section", "what", "tried", "wrong", "note", "seconds")}


@dataclass(frozen=True)
class Budget:
    """How much to do: of every section its whole number, or a sample; a seed for every choice."""

    sample: bool
    seed: int
    scratch: Path
    """An empty folder that belongs to this run of the stress tests."""

    def times(self, whole: int, sample: int) -> int:
        """One of the two."""
        return sample if self.sample else whole


def marked(mark: str) -> list[psutil.Process]:
    """Every living process that was started for one experiment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                if f"{MARK}={mark}".encode() in environment.split(b"\0"):
                    found.append(process)
    return found


def preload() -> None:
    """Import the whole coordinator before forking: once for all forks, and while no other thread holds an import lock."""
    for module in pkgutil.walk_packages(coordinator.__path__, "coordinator."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


Answer = TypeVar("Answer")


def in_fork(function: Callable[[], Answer]) -> Answer:
    """What a function returns (as JSON would have it), called in a fork: its threads are none of this process."""
    hear, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            answer: Any = {"returned": function()}
        except BaseException as error:
            answer = {"raised": repr(error)}
        with os.fdopen(tell, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(tell)
    with os.fdopen(hear) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    answer = json.loads(text or '{"raised": "the fork died"}')
    if "raised" in answer:
        raise RuntimeError(answer["raised"])
    return answer["returned"]  # type: ignore[no-any-return]


def each(function: Callable[[int], Answer], numbers: Sequence[int], processes: int = 5) -> Iterator[Answer]:
    """The answers for all numbers, from a few processes without threads; as they come."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(function, numbers)


class Experiment:
    """A coordinator forked from this process into `folder`, which says through a pipe how far it is.

    `patch(say)` runs in the fork before anything else and may replace what it likes there; `say(name)` is a mark.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], patch: Callable[[Callable[[str], None]], None]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "tmp").mkdir()
        self.mark = f"{os.getpid()}-{folder.name}-{time.monotonic_ns()}"
        self._hear, tell = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._hear)
            self._become(arguments, patch, tell)
        os.close(tell)
        self.seen: set[psutil.Process] = {psutil.Process(self.pid)}
        self.wait_status: int | None = None

    def _become(self, arguments: Sequence[str], patch: Callable[[Callable[[str], None]], None], tell: int) -> None:
        """Be the coordinator; never return."""
        status = 70
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ |= {
                MARK: self.mark,
                "TMPDIR": str(self.folder / "tmp"),
                "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}",
            }
            for number, name in ((0, os.devnull), (1, "stdout"), (2, "stderr")):
                flags = os.O_RDONLY if not number else os.O_WRONLY | os.O_CREAT
                os.dup2(os.open(name, flags, 0o644), number)
            os.set_inheritable(tell, False)

            def say(name: str) -> None:
                with contextlib.suppress(OSError):
                    os.write(tell, f"{name}\n".encode())

            patch(say)
            from coordinator.cli.app import main

            status = main(list(arguments))
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def marks(self) -> Iterator[str]:
        """What it says, until it ends."""
        with os.fdopen(os.dup(self._hear)) as pipe:
            for line in pipe:
                yield line.strip()

    def parent(self) -> psutil.Process | None:
        """What forks its hosts."""
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.pid).children()
            self.seen.update(children)
            return next(iter(children), None)
        return None

    def hosts(self) -> list[psutil.Process]:
        """Its hosts, in the order in which they were forked."""
        with contextlib.suppress(psutil.Error):
            parent = self.parent()
            hosts = sorted(parent.children(), key=lambda host: host.pid) if parent else []
            self.seen.update(hosts)
            return hosts
        return []

    def wait(self, seconds: float) -> int | None:
        """Its exit status (negative for a signal), or None if it does not end in time."""
        deadline = time.monotonic() + seconds
        while self.wait_status is None and time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.wait_status = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.01)
        return self.wait_status

    def leftovers(self) -> list[str]:
        """What lives on, and what lies about, after some time to leave."""
        deadline = time.monotonic() + LEAVE_SECONDS
        while (alive := marked(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = [f"process {process.pid} lives on" for process in alive]
        return left + [f"temporary file {path.name}" for path in (self.folder / "tmp").iterdir()]

    def stderr(self) -> str:
        """What it complained of."""
        return (self.folder / "stderr").read_text(errors="replace")

    def summaries(self) -> list[dict[str, Any]]:
        """Summaries of runs that stand under a name."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("runs/*/2*/summary.json"))]

    def partial(self) -> list[Path]:
        """Folders that were begun and not finished."""
        return list(self.folder.rglob(".partial-*"))

    def close(self, *, keep: bool) -> None:
        """Make sure that nothing of it is left."""
        os.close(self._hear)
        for process in marked(self.mark):
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)
                process.kill()
        if self.wait_status is None:
            os.kill(self.pid, signal.SIGKILL)  # forked, never begun anew: it does not bear the mark
            os.waitpid(self.pid, 0)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def readable(folder: Path) -> Mapping[str, Any]:
    """Read everything of a run directory; its summary. Raises whatever reading raises."""
    import polars as pl

    tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in ("journal", "nodes", "links", "steps")}
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert len(tables["journal"]) == summary["journal_rows"], "the journal has other rows than the summary says"
    for line in (folder / "log.jsonl").read_text().splitlines():
        json.loads(line)
    json.loads((folder / "faults.json").read_text())
    assert (folder / "scenario.toml").read_text()
    return summary
