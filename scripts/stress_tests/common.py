"""The frame of the sections: rows of the summary, experiments in forked processes, and functions to disturb a run."""

import contextlib
import ctypes
import functools
import gc
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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import psutil

import coordinator

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT}:{ROOT / 'scripts'}"
DEADLINE_SECONDS = float(os.environ.get("TESTBENCH_TEST_SECONDS", "300"))
"""Time for a run to end, as long as the tests wait."""
TIMED_OUT = "timed out: no message"
"""How a run says that its hosts did not answer in time."""
LEAVE_SECONDS = 60.0
"""Time for processes and files to disappear, sufficient on a busy machine."""
MARK = "STRESS_MARK"
"""Environment variable that marks all processes of one experiment."""
FORK = multiprocessing.get_context("fork")

Say = Callable[[str], None]
Patch = Callable[[Say], None]
Answer = TypeVar("Answer")


class Attempt(NamedTuple):
    """The result of one of many experiments."""

    wrong: list[str]
    counts: Counter[str]
    tried: int = 1
    not_reached: tuple[str, ...] = ()
    """Experiments that a busy machine prevented."""


def attempt_of(name: str, wrong: Iterable[str], counts: Iterable[str] = (), *, busy: bool = False) -> Attempt:
    """Return the attempt of one experiment, its problems by its name; with `busy`, the machine prevented it."""
    late = (f"{name}: not reached: the machine is busy",) if busy else ()
    return Attempt([f"{name}: {problem}" for problem in wrong], Counter(counts), not_reached=late)


class Attempts:
    """The attempts of one section in a file, so that a section that is interrupted makes only the others."""

    current: ClassVar["Attempts | None"] = None
    """The file of the section that this process runs, if there is one."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def known(self, what: str) -> dict[int, Attempt]:
        """Return the attempts of a row that ended before, by number; a line that was cut off is left out."""
        found = {}
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                row, number, wrong, counts, tried, not_reached = json.loads(line)
                if row == what:
                    found[number] = Attempt(wrong, Counter(counts), tried, tuple(not_reached))
        return found

    def keep(self, what: str, number: int, attempt: Attempt) -> None:
        """Write down an attempt that has ended."""
        with self.file.open("a") as file:
            file.write(f"{json.dumps([what, number, *attempt])}\n")


@dataclass
class Row:
    """One line of the summary: the number of attempts and the problems found."""

    what: str
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    not_reached: list[str] = field(default_factory=list)
    """Attempts that proved nothing, because the machine was too busy for them."""
    note: str = ""
    seconds: float = 0.0
    section: str = ""

    def add(self, wrong: Sequence[str], tried: int = 1, not_reached: Sequence[str] = ()) -> None:
        """Record attempts and print their problems."""
        self.tried += tried
        self.wrong += wrong
        self.not_reached += not_reached
        for problem in (*wrong, *not_reached):
            self.show(problem)

    def tell(self, counts: Mapping[str, int], names: Iterable[str] = ()) -> None:
        """Note these counts, or all of them by name."""
        self.note = ", ".join(f"{name}: {counts[name]}" for name in names or sorted(counts))

    def require(self, counts: Mapping[str, int], names: Iterable[str], lack: str) -> None:
        """Record the names that were never counted as problems."""
        self.wrong += [f"{lack} {name}" for name in names if not counts[name]]

    def show(self, progress: str) -> None:
        """Print a line while the section is running."""
        print(f"  {self.what}: {progress}", file=sys.stderr, flush=True)

    def run_all(
        self, attempt: Callable[[int], Attempt], numbers: Sequence[int], *, processes: int = 5, progress: int = 20
    ) -> Counter[str]:
        """Make an attempt for each number in forked processes and record the results; the sum of all counts."""
        counts: Counter[str] = Counter()
        store = Attempts.current
        known = store.known(self.what) if store else {}
        left = [number for number in numbers if number not in known]
        for result in known.values():
            self.add(result.wrong, result.tried, result.not_reached)
            counts += result.counts
        if known:
            self.show(f"{len(known)} of {len(numbers)} from an earlier part, {len(self.wrong)} wrong")
        with ProcessPoolExecutor(processes, mp_context=FORK) as pool:
            running = {pool.submit(_call, attempt, number): number for number in left}
            for done, future in enumerate(as_completed(running), len(known) + 1):
                try:
                    result = future.result()
                except RuntimeError as error:
                    reason = str(error).strip().splitlines()[-1]
                    result = Attempt([f"attempt {running[future]} ended with {reason}"], Counter())
                self.add(result.wrong, result.tried, result.not_reached)
                counts += result.counts
                if store:
                    store.keep(self.what, running[future], result)
                if done % progress == 0:
                    self.show(f"{done} of {len(numbers)}, {len(self.wrong)} wrong")
        if self.tried and len(self.not_reached) == self.tried:
            self.add(["no attempt was reached"], 0)  # then it is not the load
        return counts


@dataclass(frozen=True)
class Budget:
    """Extent of a run: complete or a sample, and the seed of every random choice."""

    sample: bool
    seed: int
    scratch: Path
    """An empty folder that belongs to this run of the stress tests."""

    def times(self, whole: int, sample: int) -> int:
        """Return `sample` for a sample, else `whole`."""
        return sample if self.sample else whole


def lock_step_runs() -> list[tuple[str, str]]:
    """Return the recorded scenarios in lock-step, each with its hash; the others may be late on a busy machine."""
    from tests.helpers.recorded_runs import recorded

    records = [(record["scenario"], record["journal_hash"]) for record in recorded()]
    return [(line, digest) for line, digest in records if "clock=timed" not in line]


def words_of(values: Mapping[str, Any]) -> list[str]:
    """Return the flags of a scenario with these values; each fault has one of its own."""
    pairs = ((name, value if name == "fault" else (value,)) for name, value in values.items())
    return [f"--{name.replace('_', '-')}={each}" for name, several in pairs for each in several]


def preload() -> None:
    """Import the whole coordinator before forking: once for all forks, and while no other thread holds an import lock."""
    for module in pkgutil.walk_packages(coordinator.__path__, "coordinator."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def in_fork(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Call a function in a fork, so that its threads and leftovers stay out of this process."""
    with ProcessPoolExecutor(1, mp_context=FORK) as pool:
        return pool.submit(_call, function, *arguments).result()


def _call(function: Callable[..., Answer], *arguments: object) -> Answer:
    try:
        return function(*arguments)
    except Exception as error:  # not every exception can be pickled
        raise RuntimeError("".join(traceback.format_exception(error))) from None


class Usage(NamedTuple):
    """Memory in bytes, descriptors and processes of this process and its descendants, and objects of this process."""

    rss: int
    descriptors: int
    processes: int
    objects: int


def usage() -> Usage:
    """Measure the usage of this moment, without garbage, and without free memory where the C library can give it back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    me = psutil.Process()
    rss = descriptors = processes = 0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            rss += process.memory_info().rss
            descriptors += process.num_fds()
            processes += 1
    return Usage(rss, descriptors, processes, sys.getallocatedblocks())


def growth(samples: Sequence[Usage], allowed: Mapping[str, float]) -> list[str]:
    """Return what grew more than is allowed between the first half of the samples and the second; needs four samples."""
    half = len(samples) // 2
    if half < 2:
        return []
    before, after = (Usage(*map(max, zip(*part, strict=True)))._asdict() for part in (samples[:half], samples[half:]))
    return [
        f"{name} grew from {before[name]:,} to {after[name]:,}; open: {open_files()}"
        for name, most in allowed.items()
        if after[name] > before[name] + most
    ]


def open_files() -> list[str]:
    """Return the open descriptors of this process and their files."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(f"{link.name} {link.readlink()}")
    return sorted(found)


def wrap(
    owner: Any,
    name: str,
    *,
    before: Callable[..., object] = lambda *_, **__: None,
    after: Callable[..., object] = lambda *_, **__: None,
) -> None:
    """Replace a function by one that also calls `before` and `after` with the same arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        before(*arguments, **options)
        result = original(*arguments, **options)
        after(*arguments, **options)
        return result

    setattr(owner, name, wrapper)


def no_patch(_say: Say) -> None:
    """Leave the coordinator as it is."""


class Experiment:
    """A coordinator forked from this process into `folder`. It reports its progress through a pipe.

    `patch(say)` runs first in the fork and may replace functions there; `say(name)` reports a mark. At the end of the
    context all processes are killed, and the folder is removed unless `keep` is set.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], patch: Patch = no_patch) -> None:
        self.folder = folder
        self.keep = False
        self.mark = f"{os.getpid()}-{folder.name}-{time.monotonic_ns()}"
        (folder / "tmp").mkdir(parents=True)
        self._marks, marks = FORK.Pipe(duplex=False)
        sys.stdout.flush()
        self._process = FORK.Process(target=self._run_coordinator, args=(arguments, patch, marks.send))
        self._process.start()
        marks.close()

    def _run_coordinator(self, arguments: Sequence[str], patch: Patch, say: Say) -> None:
        """Run the coordinator in this fork; does not return."""
        os.setsid()
        os.chdir(self.folder)
        os.environ |= {MARK: self.mark, "TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": PYTHONPATH}
        for number, name in enumerate((os.devnull, "stdout", "stderr")):
            flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
            os.dup2(os.open(name, flags, 0o644), number)
        patch(say)
        from coordinator.cli.invoke import main

        status = main(list(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._marked():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)
                process.kill()
        self._process.kill()  # a fork without exec does not have the mark in its environment
        self._process.join()
        self._marks.close()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for_mark(self) -> bool:
        """Wait until a mark is reported; False if the coordinator ends before."""
        with contextlib.suppress(EOFError):
            return bool(self._marks.recv())
        return False

    def wait(self, seconds: float) -> int | None:
        """Return its exit status (negative for a signal), or None if it does not end in time."""
        self._process.join(seconds)
        return self._process.exitcode

    def end(self) -> tuple[int | None, list[str]]:
        """Wait for its end; return its exit status, and what is wrong however it was to end."""
        status = self.wait(DEADLINE_SECONDS)
        if status is None:
            return None, [f"it hangs: no end within {DEADLINE_SECONDS:g} s"]
        traces = ["a traceback on standard error"] if "Traceback" in self.stderr() else []
        return status, self.leftovers() + traces

    def coordinator(self) -> psutil.Process:
        """Return the coordinator; raises psutil.NoSuchProcess after its end."""
        return psutil.Process(self._process.pid)

    def parent(self) -> psutil.Process | None:
        """Return the process that forks the hosts, if it is running."""
        with contextlib.suppress(psutil.Error):
            return next(iter(self.coordinator().children()), None)
        return None

    def hosts(self) -> list[psutil.Process]:
        """Return its hosts, in the order of forking."""
        with contextlib.suppress(psutil.Error):
            parent = self.parent()
            return sorted(parent.children(), key=lambda host: host.pid) if parent else []
        return []

    def _marked(self) -> list[psutil.Process]:
        """Return every process that was started for this experiment and is running."""
        running = psutil.process_iter(["environ"])
        return [process for process in running if (process.info["environ"] or {}).get(MARK) == self.mark]

    def leftovers(self) -> list[str]:
        """Return processes and temporary files that remain after `LEAVE_SECONDS`."""
        deadline = time.monotonic() + LEAVE_SECONDS
        while (alive := self._marked()) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = [f"process {process.pid} is still running" for process in alive]
        return left + [f"temporary file {path.name}" for path in (self.folder / "tmp").iterdir()]

    def stderr(self) -> str:
        """Return the standard error of the coordinator."""
        return (self.folder / "stderr").read_text(errors="replace")

    def timed_out(self) -> bool:
        """Report whether the coordinator gave up because hosts did not answer in time."""
        reasons = [str(summary["undecided_because"]) for summary in self.summaries()]
        return any(TIMED_OUT in text for text in (self.stderr(), *reasons))

    def summaries(self) -> list[dict[str, Any]]:
        """Summaries of completed runs."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("runs/*/2*/summary.json"))]

    def partial(self) -> list[Path]:
        """Return unfinished run directories."""
        return list(self.folder.rglob(".partial-*"))


def read_run(folder: Path) -> Mapping[str, Any]:
    """Read every file of a run directory and return its summary; exceptions of the readers pass through."""
    import polars as pl

    tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in ("journal", "nodes", "links", "steps")}
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert len(tables["journal"]) == summary["journal_rows"], "the row count of the journal differs from the summary"
    for line in (folder / "log.jsonl").read_text().splitlines():
        json.loads(line)
    json.loads((folder / "faults.json").read_text())
    assert (folder / "scenario.toml").read_text()
    return summary
