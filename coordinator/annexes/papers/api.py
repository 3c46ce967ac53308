"""Reproductions of papers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator.annexes.papers.base import Reproduction, Section
from coordinator.annexes.papers.costs import RunEstimate
from coordinator.annexes.papers.document import Reproduced, require_folder, write
from coordinator.annexes.papers.registry import find_reproduction
from coordinator.annexes.papers.rehearsal import count_runs, expected_sum
from coordinator.annexes.papers.run_cache import RunCache, RunCount
from coordinator.annexes.papers.run_store import open_run_store
from coordinator.api.progress import ProgressOption, progress_display
from coordinator.api.threads import call
from coordinator.networks.base import Progress
from emunode.errors import EmulatorError, ScenarioError


def reproduce(
    name: str,
    *,
    n: int | None = None,
    out: Path | str | None = None,
    minutes: float = 60.0,
    progress: ProgressOption = None,
) -> Reproduced:
    """Re-run a paper's experiments: published, predicted and measured values.

    `name` is one of `coordinator reproduce`, such as `tseng-sheu-1997`; `n` is the only size to cover (default: every size
    in the tables). With `out`, one page with tables and figures, and each table as CSV, are written to that folder. No run
    begins after `minutes`. The result has `verdict`, `counts`, and `tables` with their `title`, `rows` and `notes`.

    Raises ScenarioError for an unknown name or size and for a folder that cannot be written, RunError if a run fails or the
    time is over, and KeyboardInterrupt if interrupted; the finished part is then still written to `out`, and the next call
    with the same `out` uses its runs again.

    >>> import coordinator as tb
    >>> tb.reproduce("tseng-sheu-1997", n=3)
    Traceback (most recent call last):
        ...
    emunode.errors.ScenarioError: invalid n 3: tseng-sheu-1997 covers n = 4..6
    """
    if not minutes > 0:
        raise ScenarioError("minutes", minutes, "a number above 0")
    about = find_reproduction(name)
    chosen = [(about, about.over(n))]
    folder = None if out is None else Path(out)
    with progress_display(progress, "reproduce") as show:
        done = call(run_reproductions, chosen, folder, minutes, show)
    return done.reproduced[0]


@dataclass(frozen=True)
class Reproductions:
    """Finished reproductions, and the runs that they took."""

    reproduced: Sequence[Reproduced]
    files: Sequence[Path]
    """The written files, the page first; empty without a folder."""
    runs: int
    shared: int
    """Results that were used again."""
    kept: int
    """Runs that an interrupted call has left in the folder."""


def run_reproductions(
    chosen: Sequence[tuple[Reproduction, Sequence[int]]],
    out: Path | None,
    minutes: float,
    progress: Progress,
    show: Callable[[Section], None] = lambda _section: None,
    announce: Callable[[RunEstimate | None], None] = lambda _estimate: None,
) -> Reproductions:
    """Run reproductions one after the other, each at some sizes, and pass each section to `show` as soon as it is complete.

    Before the first run, `announce` is called with the number of runs, or None if they cannot be counted. After an error or
    an interrupt, the finished part is still written to `out`, marked as incomplete, and the finished runs stay there.
    """
    if out is not None:
        require_folder(out)
    with open_run_store(out) as store:
        progress("counting runs", 0, 0)
        planned = count_runs(chosen)
        kept, seconds = expected_sum(planned, store) if planned is not None else (0, 0.0)
        announce(None if planned is None else RunEstimate(len(planned), seconds, kept))
        began = time.monotonic()
        count = RunCount(planned, lambda: time.monotonic() - began)
        cache = RunCache(store, progress, lambda: time.monotonic() > began + 60 * minutes, count=count)
        done: list[Reproduced] = []
        for about, sizes in chosen:
            sections: list[Section] = []
            try:
                for section in about.sections(replace(cache, sizes=sizes)):
                    sections.append(section)
                    show(section)
            except (EmulatorError, KeyboardInterrupt):
                if out is not None:
                    write([*done, Reproduced(about, sections, finished=False)], out)
                raise
            done.append(Reproduced(about, sections))
        files = write(done, out) if out is not None else []
    return Reproductions(done, files, cache.runs, len(cache.requests) - cache.runs, kept)
