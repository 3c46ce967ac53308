"""Drive a network through a run: open it, step it until nothing is left to do, close it, and return an ExecutionResult."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import polars as pl
import trio

from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import Journal
from coordinator.history.timetable import Timetable
from coordinator.networks.base import Network, Progress, StepResult, Timed, UnreadArrivals, predict
from coordinator.planning.plan import Plan
from coordinator.results.reasons import INTERRUPTED, STEP_LIMIT
from emunode.engine.rank_set import AlteredCopy, KeptResult
from emunode.errors import DeadlineError, EmulatorError, RuleError, RunError
from emunode.model import Step

REFUSALS = (OSError, pl.exceptions.ComputeError)
"""Exceptions for errors of the operating system such as a full disk; Polars raises the second for Parquet files."""
CLOSE_SECONDS = 5.0


@dataclass
class ExecutionResult:
    """The outcome of driving a network, and how the run ended."""

    steps: Step = 0
    undecided: str | None = None
    """The reason why the run proves nothing, or None."""
    interrupted: bool = False
    failure: EmulatorError | None = None
    setup_seconds: float = 0.0
    wall_seconds: float = 0.0
    links_opened: int = 0
    altered_copies: list[AlteredCopy] = field(default_factory=list)
    timetable: Timetable | None = None
    """The intended times, under the timed clock."""
    times: list[bytes] = field(default_factory=list)
    """The times of hops that hosts reported, under the timed clock."""
    results: list[KeptResult] | None = None
    """The results of ranks, in runs with real numbers."""


def refusal(error: Exception, folder: Path | None) -> str:
    """Return the message for an error in REFUSALS, without paths in `folder` (about to be removed or renamed)."""
    # The number and text of the error, without its path.
    if isinstance(error, OSError) and error.errno is not None:
        return f"operating system error: [Errno {error.errno}] {error.strerror}"
    return f"operating system error: {str(error).replace(f'{folder}/', '')}"


class Steering(Protocol):
    """Decides when each step of a run begins, and adds faults to it."""

    @property
    def plan(self) -> Plan:
        """The plan with the faults that were added so far."""

    async def before_step(self, step: Step) -> str | None:
        """Wait until `step` is to run; return the reason if the run is to end instead. No fault of `step` is added
        later.
        """

    def after_step(self, step: Step, result: StepResult, arrivals: UnreadArrivals) -> bool:
        """Take note of the result of `step`, and of what has arrived in it; return whether it was the last step. No fault
        is added after the last step.
        """

    def end(self) -> None:
        """Accept no more faults: the run has ended, for whatever reason."""

    @property
    def waited_seconds(self) -> float:
        """The time that `before_step` has waited so far."""


async def drive(
    plan: Plan,
    network: Network | Timed,
    journal: Journal,
    progress: Progress,
    stop: InterruptGuard,
    steering: Steering | None = None,
) -> ExecutionResult:
    """Run the plan on the network, and close the network.

    Raises the error of a run that did not begin or broke a rule. A request to `stop` interrupts the run.
    """
    execution = ExecutionResult()
    failed_before = False
    try:
        plan.algorithm.interrupted = False
        with trio.CancelScope() as scope:
            stop.cancels(scope, partial(setattr, plan.algorithm, "interrupted", True))
            await _open_and_step(plan, network, journal, execution, progress, steering)
        failed_before = execution.failure is not None and not stop.requested
    finally:
        if steering is not None:
            steering.end()
        # Shielded: the hosts have to be stopped even if the run is being cancelled.
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await network.close()
    # After the network was closed: a signal during the closing counts too. But compose sends one because a host has died,
    # and then the death of the host is the reason.
    execution.interrupted = stop.requested and not failed_before
    if execution.interrupted:
        execution.undecided = INTERRUPTED
    # Before the first step there is no history to keep; a rule that breaks the model is the algorithm's mistake.
    # A missed deadline of a program makes a run undecided, however early.
    elif isinstance(execution.failure, DeadlineError):
        return execution
    elif execution.failure and (not execution.steps or isinstance(execution.failure, RuleError)):
        raise execution.failure
    return execution


async def _open_and_step(
    plan: Plan,
    network: Network | Timed,
    journal: Journal,
    execution: ExecutionResult,
    progress: Progress,
    steering: Steering | None,
) -> None:
    began = time.perf_counter()
    try:
        if plan.scenario.clock == "timed":
            # Before the network opens: the hosts need the timetable to begin.
            execution.timetable = await predict(plan, progress)
        await network.open(progress)
        execution.links_opened = network.links_opened
        execution.setup_seconds = time.perf_counter() - began
        began = time.perf_counter()
        if execution.timetable is None:
            await take_steps(plan, network, journal, execution, progress, steering)  # type: ignore[arg-type]
        else:
            await run_timed(plan, network, execution.timetable, journal, execution, progress)  # type: ignore[arg-type]
        if plan.spec.keeps_results:
            execution.results = await network.results()
    except (EmulatorError, *REFUSALS) as error:
        execution.failure = error if isinstance(error, EmulatorError) else RunError(refusal(error, journal.folder))
        execution.undecided = str(execution.failure)
    finally:
        waited = 0.0 if steering is None else steering.waited_seconds
        execution.wall_seconds = time.perf_counter() - began - waited


async def run_timed(
    plan: Plan,
    network: "Timed",
    timetable: Timetable,
    journal: "Collector",
    execution: ExecutionResult,
    progress: Progress,
) -> None:
    """Run a timetable on an open network; at the step limit `execution` becomes undecided."""
    execution.steps = timetable.steps
    try:
        await network.run(timetable, progress)
    # Hosts may have sent rows and times before they failed.
    finally:
        journal.add(network.rows)
        execution.times = network.times
        execution.altered_copies = list(network.altered_copies)
    if not timetable.complete:
        execution.undecided = f"{STEP_LIMIT} {plan.scenario.step_limit} was reached"


class Collector(Protocol):
    """Collects the journal rows of a run."""

    def add(self, rows: Sequence[bytes | bytearray]) -> None:
        """Add packed rows of steps that are not settled yet."""

    def settle(self, step: Step) -> None:
        """Note that all rows up to `step` have been added."""


async def take_steps(
    plan: Plan,
    network: Network,
    journal: Collector,
    execution: ExecutionResult,
    progress: Progress,
    steering: Steering | None = None,
) -> None:
    """Run steps until nothing is left to do; at the step limit, or if steering ends it, `execution` becomes undecided."""
    limit = plan.scenario.step_limit
    # One step beyond the limit: nodes only read the arrivals of the last step then.
    for step in range(1, limit + 2):
        if steering is not None:
            execution.undecided = await _wait_for_step(network, steering, step)
            if execution.undecided:
                return
            plan = steering.plan
        result = await network.step(step, plan.faults_at(step))
        journal.add(result.rows)
        # Rows of this step may still come with the reports of the next one.
        journal.settle(step - 1)
        execution.altered_copies += result.altered_copies
        execution.steps = step
        progress("steps", step, 0)
        if steering is None:
            # A source that recovers later sends again, so the run is not over before that.
            over = plan.is_over(step, result.busy)
        else:
            over = steering.after_step(step, result, await network.look(step))
        if over:
            return
    execution.undecided = f"{STEP_LIMIT} {limit} was reached"


async def _wait_for_step(network: Network, steering: Steering, step: Step) -> str | None:
    """Wait like `Steering.before_step`; raises the error of a network that fails meanwhile: a pause may last for hours."""
    failures: list[EmulatorError] = []

    async def watch() -> None:
        failures.append(await network.failure())
        nursery.cancel_scope.cancel()

    reason = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        reason = await steering.before_step(step)
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return reason
