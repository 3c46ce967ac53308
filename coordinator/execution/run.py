"""A run from its plan to its report: network, history, conclusion, run directory, report.

`run` leaves a run directory behind; `run_in_memory` keeps everything in memory.
"""

import contextlib
import os
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import trio

from coordinator.evaluation.derived import derived_claims
from coordinator.execution.drive import REFUSALS, ExecutionResult, Steering, drive, refusal
from coordinator.execution.run_files import summarize, write_conclusion
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import FILE, Journal, Observe
from coordinator.history.run_directory import RunDirectory, last_events
from coordinator.history.run_index import index_folder, write_index
from coordinator.networks.base import Network, Progress
from coordinator.networks.registry import make_network
from coordinator.planning.plan import Plan
from coordinator.results.claims import EXIT_STATUS, Judgement, Verdict
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.scenario.networks import stored_scenario
from emunode.errors import RunError
from emunode.logging import log, logging_to

if TYPE_CHECKING:
    from coordinator.networks.timed import Timed


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A finished run: its summary, and what it follows from."""

    plan: Plan
    summary: dict[str, object]
    conclusion: Conclusion
    execution: ExecutionResult
    journal: pl.LazyFrame
    """Every hop."""

    @property
    def judgements(self) -> list[Judgement]:
        """The claims with their measured values."""
        return self.conclusion.ruling.judgements

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims together."""
        return self.conclusion.ruling.verdict

    @property
    def exit_status(self) -> int:
        """0 holds, 1 violated, 3 undecided."""
        return EXIT_STATUS[self.verdict]


@dataclass(frozen=True, kw_only=True)
class RunResult(FinishedRun):
    """A finished run with its run directory, which holds the journal."""

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


def run(
    plan: Plan,
    out: Path | None,
    progress: Progress,
    *,
    draw: bool = True,
    steering: Steering | None = None,
    observe: Observe | None = None,
) -> RunResult:
    """Run a plan and leave a run directory behind, with its report unless `draw` is false.

    `steering` may add faults to the plan; the run directory then holds the scenario with them. `observe` is called with the
    journal rows as they come in.

    ScenarioError if the directory cannot be made, RuleError if the algorithm broke its own rules, RunError if the network
    could not be brought up; in each case nothing is left. A run that began but could not finish is kept, as `undecided`.
    """
    # Refuses an output folder before anything is started.
    directory = RunDirectory(plan.name, plan.scenario.seed, out)
    network: Network | Timed | None = None
    problem = "the run failed"
    guards = contextlib.ExitStack()
    try:
        stop = guards.enter_context(InterruptGuard())
        directory.make()
        directory.write_text("scenario.toml", stored_scenario(plan.scenario, plan.topology, directory.path))
        journal = Journal(directory.path, observe)
        with (directory.path / "log.jsonl").open("a", encoding="utf-8", buffering=1) as events, logging_to(events):
            network = make_network(plan, events)
            execution = trio.run(drive, plan, network, journal, progress, stop, steering)
        # A run that has failed is kept even if a signal follows: compose sends one because a host has died.
        if execution.failure is None:
            guards.close()
        journal.close()
        if steering is not None:
            plan = steering.plan
            directory.write_text("scenario.toml", stored_scenario(plan.scenario, plan.topology, directory.path))
        conclusion, summary = _judge(plan, journal, execution)
        write_conclusion(directory, conclusion, summary)
        frame = pl.scan_parquet(directory.final / FILE, glob=False)
        result = RunResult(
            plan=conclusion.plan,
            summary=summary,
            conclusion=conclusion,
            execution=execution,
            journal=frame,
            path=directory.final,
        )
        if draw:
            # After the verdict: a report that cannot be drawn loses nothing of the run.
            result = replace(result, report_error=_draw(directory))
        with InterruptGuard():  # a signal must not interrupt the renaming of a complete run
            directory.finish()
            if draw:
                result = replace(result, index_error=_list(directory))
        problem = (execution.undecided or "") if execution.failure or execution.interrupted else ""
    except RunError as error:
        problem = str(error)
        raise RunError(f"{error}{directory.log_tail()}") from error
    except REFUSALS as error:
        # Disks fill up: the message has the end of the log, and the folder is removed.
        raise RunError(f"{refusal(error, directory.path)}{directory.log_tail()}") from error
    finally:
        guards.close()
        # After `finish` there is nothing left to discard.
        directory.discard()
        if network is not None and plan.hosts:
            from coordinator.networks.host_network import HostNetwork  # noqa: PLC0415  # a run in memory does without

            if isinstance(network, HostNetwork):
                # Hosts under a supervisor receive the reason only after the files are complete.
                network.dismiss(problem)
    return result


def run_in_memory(plan: Plan, progress: Progress, *, steering: Steering | None = None) -> MemoryRun:
    """Run a plan and keep its results in memory: no file is written, whatever the driver. The rest is as of `run`."""
    journal = Journal()
    descriptor: int = os.memfd_create("log")  # a file without a path, to which host processes write too
    with open(descriptor, "w+", buffering=1, encoding="utf-8", errors="replace") as events, logging_to(events):
        try:
            with InterruptGuard() as stop:
                execution = trio.run(drive, plan, make_network(plan, events), journal, progress, stop, steering)
        except (RunError, *REFUSALS) as error:
            reason = str(error) if isinstance(error, RunError) else refusal(error, None)
            events.seek(0)
            raise RunError(f"{reason}{last_events(events.read())}") from error
        events.seek(0)
        log = events.read()
    journal.close()
    plan = plan if steering is None else steering.plan
    conclusion, summary = _judge(plan, journal, execution)
    return MemoryRun(
        plan=conclusion.plan,
        summary=summary,
        conclusion=conclusion,
        execution=execution,
        journal=journal.frame,
        log=log,
    )


def save(result: MemoryRun, out: Path) -> Path:
    """Write the run directory of a run in memory, report included, and return it. ScenarioError if that is not possible."""
    directory = RunDirectory(result.plan.name, result.plan.scenario.seed, out)
    try:
        directory.make()
        directory.write_text(
            "scenario.toml", stored_scenario(result.plan.scenario, result.plan.topology, directory.path)
        )
        directory.write_text("log.jsonl", result.log)
        result.journal.sink_parquet(directory.path / FILE)
        write_conclusion(directory, result.conclusion, result.summary)
        _draw(directory)
        with InterruptGuard():  # as at the end of `run`
            directory.finish()
            _list(directory)
    except REFUSALS as error:
        raise RunError(refusal(error, directory.path)) from error
    finally:
        directory.discard()
    return directory.final


def _judge(plan: Plan, journal: Journal, execution: ExecutionResult) -> tuple[Conclusion, dict[str, object]]:
    """Judge the history; the conclusion, and the summary."""
    history = History(
        journal.frame,
        journal.rows,
        execution.undecided,
        execution.altered_copies,
        execution.timetable,
        execution.times,
    )
    conclusion = conclude(plan, history, derived=derived_claims)
    execution.undecided = conclusion.ruling.undecided
    return conclusion, summarize(conclusion.plan, conclusion, journal, execution)


def _list(directory: RunDirectory) -> str | None:
    """Add a finished run to the index of the folder that holds the runs; the error in words if that fails."""
    folder = index_folder(directory.final.absolute())
    if folder is None:
        return None
    from coordinator.reports.index_page import index_page  # noqa: PLC0415  # as the report

    try:
        write_index(folder, index_page)
    except RunError as error:
        return str(error)
    return None


def _draw(directory: RunDirectory) -> str | None:
    """Write report.html. A failure does not lose the run: it is logged with its traceback, and returned in words."""
    try:
        from coordinator.reports.run_report import write_report  # noqa: PLC0415  # spares every other command its imports

        write_report(directory.path, name=directory.final.name, thorough=False)
    except Exception as error:
        described = f"{type(error).__name__}: {error}"
        with (directory.path / "log.jsonl").open("a", encoding="utf-8") as file, logging_to(file):
            log("report not drawn", error=described, traceback=traceback.format_exc())
        return described
    return None
