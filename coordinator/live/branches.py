"""The branches of a watched run that its page asks for, one after the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink, MemoryRun, MemorySink, RunResult, Sink
from coordinator.live.watch import Watch
from coordinator.networks.base import Progress

Result = TypeVar("Result", RunResult, MemoryRun)


def branches_of(watch: Watch, result: Result, out: Path | None, progress: Progress) -> Iterator[Result]:
    """Tell the page how a run ended, and run and yield its branches as long as the page asks for one.

    The directory of a branch is beside the directory of the run: `out` with `-branch-1` and so on, or a new one in `runs`.
    A run in memory has branches in memory.
    """
    number = 0
    while origin := watch.concluded(result):
        number += 1
        sink: Sink[Any] = MemorySink() if isinstance(result, MemoryRun) else DirectorySink(_beside(out, number))
        result = run(watch.plan, sink, progress, steering=watch, accept=origin.accept)
        yield result


def _beside(out: Path | None, number: int) -> Path | None:
    """Return the directory of a branch; None for a new one in `runs`."""
    return None if out is None else out.with_name(f"{out.name}-branch-{number}")
