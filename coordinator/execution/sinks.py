"""Finished runs, and where a run leaves its journal, its log and its result: in a run directory, or in memory."""

import os
import traceback
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

import polars as pl

from coordinator.annexes import annex_function
from coordinator.execution.drive import REFUSALS, ExecutionResult, refusal
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import FILE, Journal, Observe
from coordinator.history.run_directory import RunDirectory, last_events
from coordinator.history.run_index import INDEX, REPORT, index_folder, write_index
from coordinator.planning.plan import Plan
from coordinator.reports import drawing
from coordinator.results.claims import Judged, Judgement, Verdict
from coordinator.results.conclude import Conclusion
from coordinator.scenario.networks import stored_scenario
from coordinator.scenario.schedule_text import readable_copies
from emunode.errors import RunError
from emunode.logging import log, logging_to


@dataclass(frozen=True, kw_only=True)
class FinishedRun(Judged):
    """A finished run: its summary, with the plan and the conclusion behind it."""

    plan: Plan
    make_summary: Callable[[], dict[str, object]]
    conclusion: Conclusion
    execution: ExecutionResult
    journal: pl.LazyFrame
    """Every hop."""

    # Made when it is first used: the digest of large results takes longer than all of their additions.
    @cached_property
    def summary(self) -> dict[str, object]:
        """The content of summary.json."""
        return self.make_summary()

    @property
    def judgements(self) -> list[Judgement]:
        """The claims with their measured values."""
        return self.conclusion.ruling.judgements

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims together."""
        return self.conclusion.ruling.verdict


@dataclass(frozen=True, kw_only=True)
class RunResult(FinishedRun):
    """A finished run with its run directory and the journal there."""

    path: Path
    report_error: str | None = None
    """Why report.html could not be drawn."""
    index_error: str | None = None
    """Why the index of runs could not be updated."""


@dataclass(frozen=True, kw_only=True)
class MemoryRun(FinishedRun):
    """A finished run that is only in memory."""

    log: str
    """Its events, one JSON object per line."""

    def save(self, out: Path) -> Path:
        """Write the run directory, report included, and return it. ScenarioError or RunError if that is not possible."""
        sink = DirectorySink(out)
        sink.prepare(self.plan)
        try:
            sink.open(self.plan)
            sink.directory.write_text("log.jsonl", self.log)
            self.journal.sink_parquet(sink.directory.path / FILE)
            return sink.finish(self).path
        except REFUSALS as error:
            raise RunError(refusal(error, sink.directory.path)) from error
        finally:
            sink.close()


Result_co = TypeVar("Result_co", bound=FinishedRun, covariant=True)


class Sink(Protocol[Result_co]):
    """The place of a run, as `run` uses it: `prepare`, `open`, journal and events, then `finish` and `close`."""

    @abstractmethod
    def prepare(self, plan: Plan) -> None:
        """Refuse a place that cannot be used, before anything is started: ScenarioError."""

    @abstractmethod
    def open(self, plan: Plan) -> None:
        """Make the place, and keep the scenario of `plan`; called again if faults were added to it."""

    @abstractmethod
    def journal(self, observe: Observe | None) -> Journal:
        """Return the journal of the run; `observe` is called with its rows as they come in."""

    @abstractmethod
    def events(self) -> AbstractContextManager[TextIO]:
        """Return the open file for the events of the run; host processes write to it too."""

    @abstractmethod
    def log_tail(self) -> str:
        """Return the last events, for the message of a run that failed."""

    @abstractmethod
    def reason(self, error: Exception) -> str:
        """Return an error of the operating system in words."""

    @abstractmethod
    def finish(self, finished: FinishedRun) -> Result_co:
        """Keep the result of a run that was judged."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; remove an unfinished run."""


class DirectorySink(Sink[RunResult]):
    """A run directory, with its report unless `draw` is false; without a folder, the next free one in runs/."""

    directory: RunDirectory

    def __init__(self, out: Path | None, *, draw: bool = True) -> None:
        self._out = out
        self._draw = draw
        self._made = False

    def prepare(self, plan: Plan) -> None:
        """Refuse a folder that exists and is not empty."""
        self.directory = RunDirectory(plan.name, plan.scenario.seed, self._out)

    def open(self, plan: Plan) -> None:
        """Make the folder, and write the scenario."""
        if not self._made:
            self.directory.make()
            self._made = True
        scenario, numbers, folder = plan.scenario, plan.spec.numbers, self.directory.path
        if numbers is not None and numbers.data:
            count = len(numbers.contributions(plan.topology.data_ranks))
            data = annex_function("store contributions")(folder, numbers, count)
            scenario = scenario.model_copy(update={"data": data})
        self.directory.write_text("scenario.toml", stored_scenario(scenario, plan.topology, folder))
        for name, text in readable_copies(dict(scenario)).items():
            self.directory.write_text(name, text)

    def journal(self, observe: Observe | None) -> Journal:
        """Return a journal that is written to the folder."""
        return Journal(self.directory.path, observe)

    def events(self) -> AbstractContextManager[TextIO]:
        """Open log.jsonl."""
        return (self.directory.path / "log.jsonl").open("a", encoding="utf-8", buffering=1)

    def log_tail(self) -> str:
        """Return the end of log.jsonl: a folder that is not finished is removed."""
        return self.directory.log_tail()

    def reason(self, error: Exception) -> str:
        """Return an error in words, without paths in the folder, which is removed."""
        return f"{refusal(error, self.directory.path)}; it was to be written into {self.directory.final}"

    def finish(self, finished: FinishedRun) -> RunResult:
        """Write conclusion and report, and give the folder its name."""
        directory = self.directory
        _write_conclusion(directory, finished.conclusion, finished.summary)
        frame = pl.scan_parquet(directory.final / FILE, glob=False)
        result = RunResult(
            plan=finished.plan,
            make_summary=lambda: finished.summary,
            conclusion=finished.conclusion,
            execution=finished.execution,
            journal=frame,
            path=directory.final,
        )
        if self._draw:
            # After the verdict: a report that cannot be drawn loses nothing of the run.
            result = replace(result, report_error=_draw(directory))
        with InterruptGuard():  # a signal must not interrupt the renaming of a complete run
            directory.finish()
            if self._draw:
                result = replace(result, index_error=_list(directory))
        return result

    def close(self) -> None:
        """Remove a folder that was not finished."""
        self.directory.discard()


class MemorySink(Sink[MemoryRun]):
    """Memory: no file is written, whatever the driver."""

    _events: TextIO

    def prepare(self, plan: Plan) -> None:
        """Open a file without a path; host processes write to it too."""
        descriptor: int = os.memfd_create("log")
        self._events = open(descriptor, "w+", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115  # `close`

    def open(self, plan: Plan) -> None:
        """Keep nothing: the finished run has the plan."""

    def journal(self, observe: Observe | None) -> Journal:
        """Return a journal in memory."""
        return Journal(None, observe)

    def events(self) -> AbstractContextManager[TextIO]:
        """Return the file; it stays open."""
        return nullcontext(self._events)

    def log_tail(self) -> str:
        """Return the last events."""
        return last_events(self._log())

    def reason(self, error: Exception) -> str:
        """Return an error in words."""
        return refusal(error, None)

    def finish(self, finished: FinishedRun) -> MemoryRun:
        """Add the log to the result."""
        return MemoryRun(
            plan=finished.plan,
            make_summary=lambda: finished.summary,
            conclusion=finished.conclusion,
            execution=finished.execution,
            journal=finished.journal,
            log=self._log(),
        )

    def close(self) -> None:
        """Close the file of the events."""
        self._events.close()

    def _log(self) -> str:
        self._events.seek(0)
        return self._events.read()


def _write_conclusion(directory: RunDirectory, conclusion: Conclusion, summary: dict[str, object]) -> None:
    """Write every file but the scenario, the journal, the log and the report."""
    measurement = conclusion.measurement
    for name, table in {"timeline": conclusion.timeline, **measurement.tables}.items():
        if table is not None:
            table.write_parquet(directory.path / f"{name}.parquet")
    if conclusion.results is not None:
        directory.write_array("results", conclusion.results.numbers)
    directory.write_json("faults.json", measurement.faults)
    for name, records in conclusion.records.items():
        directory.write_json(f"{name}.json", records)
    directory.write_json("summary.json", summary)


def _list(directory: RunDirectory) -> str | None:
    """Add a finished run to the index of its folder; return an error in words.

    None if that succeeds.
    """
    folder = index_folder(directory.final.absolute())
    if folder is None:
        return None
    try:
        write_index(folder, drawing(INDEX))
    except RunError as error:
        return str(error)
    return None


def _draw(directory: RunDirectory) -> str | None:
    """Write report.html. A failure does not lose the run: the failure is logged with its traceback, and returned in
    words.
    """
    try:
        drawing(REPORT)(directory.path, name=directory.final.name, thorough=False, own=True)
    except Exception as error:
        described = f"{type(error).__name__}: {error}"
        with (directory.path / "log.jsonl").open("a", encoding="utf-8") as file, logging_to(file):
            log("report not drawn", error=described, traceback=traceback.format_exc())
        return described
    return None
