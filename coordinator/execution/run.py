"""A run from its plan to its report: network, history, conclusion, and what the sink makes of it."""

import contextlib
from typing import TYPE_CHECKING

import trio

from coordinator.evaluation.derived import derived_claims
from coordinator.execution.drive import REFUSALS, ExecutionResult, Steering, drive
from coordinator.execution.run_files import summarize
from coordinator.execution.sinks import FinishedRun, Result_co, Sink
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import Journal, Observe
from coordinator.networks.base import Network, Progress
from coordinator.networks.registry import make_network
from coordinator.planning.plan import Plan
from coordinator.results.conclude import History, conclude
from emunode.errors import RunError
from emunode.logging import logging_to

if TYPE_CHECKING:
    from coordinator.networks.timed import Timed


def run(
    plan: Plan,
    sink: Sink[Result_co],
    progress: Progress = lambda *_: None,
    *,
    steering: Steering | None = None,
    observe: Observe | None = None,
) -> Result_co:
    """Run a plan, and return what the sink keeps of it: a run directory or a run in memory.

    `steering` may add faults to the plan; the scenario that is kept has them. `observe` is called with the journal rows as
    they come in.

    ScenarioError if the sink cannot be used, RuleError if the algorithm broke its own rules, RunError if the network could
    not be brought up; in each case nothing is left. A run that began but could not finish is kept, as `undecided`.
    """
    sink.prepare(plan)
    network: Network | Timed | None = None
    problem = "the run failed"
    guards = contextlib.ExitStack()
    try:
        stop = guards.enter_context(InterruptGuard())
        sink.open(plan)
        journal = sink.journal(observe)
        with sink.events() as events, logging_to(events):
            network = make_network(plan, events)
            execution = trio.run(drive, plan, network, journal, progress, stop, steering)
        # A run that has failed is kept even if a signal follows: compose sends one because a host has died.
        if execution.failure is None:
            guards.close()
        journal.close()
        if steering is not None:
            plan = steering.plan
            sink.open(plan)
        result = sink.finish(_judge(plan, journal, execution))
        problem = (execution.undecided or "") if execution.failure or execution.interrupted else ""
    except RunError as error:
        problem = str(error)
        raise RunError(f"{error}{sink.log_tail()}") from error
    except REFUSALS as error:
        # Disks fill up: the message has the end of the log, and what was written is removed.
        raise RunError(f"{sink.reason(error)}{sink.log_tail()}") from error
    finally:
        guards.close()
        # After `finish` there is nothing left to remove.
        sink.close()
        if network is not None and plan.hosts:
            from coordinator.networks.host_network import HostNetwork  # noqa: PLC0415  # a run in memory does without

            if isinstance(network, HostNetwork):
                # Hosts under a supervisor receive the reason only after the files are complete.
                network.dismiss(problem)
    return result


def _judge(plan: Plan, journal: Journal, execution: ExecutionResult) -> FinishedRun:
    """Judge the history of a run."""
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
    summary = summarize(conclusion.plan, conclusion, journal, execution)
    return FinishedRun(
        plan=conclusion.plan, summary=summary, conclusion=conclusion, execution=execution, journal=journal.frame
    )
