"""A run from its plan to its report: network, history, conclusion, run directory, report."""

import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import trio

from coordinator.execution.drive import REFUSALS, ExecutionResult, drive, refusal
from coordinator.execution.run_files import summarize, write_conclusion
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import Journal
from coordinator.history.run_directory import RunDirectory
from coordinator.networks.base import Network, Progress
from coordinator.networks.registry import make_network
from coordinator.planning.plan import Plan
from coordinator.results.claims import EXIT_STATUS, Judgement, Verdict
from coordinator.results.conclude import History, conclude
from coordinator.scenario.networks import stored_scenario
from emunode.errors import RunError
from emunode.logging import log, logging_to

if TYPE_CHECKING:
    from coordinator.networks.timed import Timed


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder, its summary and its verdict."""

    path: Path
    summary: dict[str, object]
    judgements: list[Judgement]
    verdict: Verdict
    execution: ExecutionResult
    report_error: str | None = None
    """Why report.html could not be drawn."""

    @property
    def exit_status(self) -> int:
        """0 holds, 1 violated, 3 undecided."""
        return EXIT_STATUS[self.verdict]


def run(plan: Plan, out: Path | None, progress: Progress, *, draw: bool = True) -> RunResult:
    """Run a plan and leave a run directory behind, with its report unless `draw` is false.

    ScenarioError if the directory cannot be made, RuleError if the algorithm broke its own rules, RunError if the network
    could not be brought up; in each case nothing is left. A run that began but could not finish is kept, as `undecided`.
    """
    # Refuses an output folder before anything is started.
    directory = RunDirectory(plan.name, plan.scenario.seed, out)
    network: Network | Timed | None = None
    problem = "the run failed"
    try:
        with InterruptGuard() as stop:
            directory.make()
            directory.write_text("scenario.toml", stored_scenario(plan.scenario, plan.topology, directory.path))
            journal = Journal(directory.path)
            with (directory.path / "log.jsonl").open("a", encoding="utf-8", buffering=1) as events, logging_to(events):
                network = make_network(plan, events)
                execution = trio.run(drive, plan, network, journal, progress, stop)
        journal.close()
        result = _conclude(plan, directory, journal, execution)
        if draw:
            # After the verdict: a report that cannot be drawn loses nothing of the run.
            result = replace(result, report_error=_draw(directory))
        with InterruptGuard():  # a signal must not interrupt the renaming of a complete run
            directory.finish()
        problem = (execution.undecided or "") if execution.failure or execution.interrupted else ""
    except RunError as error:
        problem = str(error)
        raise RunError(f"{error}{directory.log_tail()}") from error
    except REFUSALS as error:
        # Disks fill up: the message has the end of the log, and the folder is removed.
        raise RunError(f"{refusal(error, directory.path)}{directory.log_tail()}") from error
    finally:
        # After `finish` there is nothing left to discard.
        directory.discard()
        if network is not None and plan.hosts:
            from coordinator.networks.host_network import HostNetwork  # noqa: PLC0415  # a run in memory does without

            if isinstance(network, HostNetwork):
                # Hosts under a supervisor receive the reason only after the files are complete.
                network.dismiss(problem)
    return result


def _conclude(plan: Plan, directory: RunDirectory, journal: Journal, execution: ExecutionResult) -> RunResult:
    """Judge the history and write what follows from it."""
    frame = pl.scan_parquet(journal.path, glob=False)
    history = History(
        frame,
        journal.rows,
        execution.undecided,
        execution.altered_copies,
        execution.timetable,
        execution.times,
    )
    conclusion = conclude(plan, history)
    execution.undecided = conclusion.ruling.undecided
    summary = summarize(plan, conclusion, journal, execution)
    write_conclusion(directory, conclusion, summary)
    return RunResult(directory.final, summary, conclusion.ruling.judgements, conclusion.ruling.verdict, execution)


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
