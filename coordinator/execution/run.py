"""A run from its plan to its report: network, history, conclusion, and the product of the sink."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from coordinator.annexes import annex_function
from coordinator.execution.drive import REFUSALS, ExecutionResult, Steering, drive
from coordinator.execution.sinks import FinishedRun, Result_co, Sink
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.history.journal import Journal, Observe
from coordinator.history.stored.version import VERSION_KEY
from coordinator.networks.base import Network, Progress, Timed
from coordinator.networks.registry import make_network
from coordinator.planning.plan import Plan
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.results.cut_off import faults_without_effect
from coordinator.results.queries import read_once
from coordinator.results.tables import host_traffic
from coordinator.scenario.fault_draws import require_harm
from coordinator.scenario.named import require_named
from emunode import __version__
from emunode.errors import RunError
from emunode.logging import logging_to
from emunode.model import Collective
from emunode.topologies.table import TableTopology

if TYPE_CHECKING:
    from coordinator.history.result_array import ResultArray


def run(
    plan: Plan,
    sink: Sink[Result_co],
    progress: Progress = lambda *_: None,
    *,
    steering: Steering | None = None,
    observe: Observe | None = None,
    accept: Callable[[FinishedRun], FinishedRun] | None = None,
) -> Result_co:
    """Run a plan, and return the product of the sink: a run directory or a run in memory.

    `steering` may add faults to the plan; the scenario that is kept has them. `observe` is called with the journal rows as
    they come in. `accept` returns the judged run that is kept, or raises RunError for a run that is not to be kept.

    ScenarioError if the sink cannot be used, or for a value that reaches out and that only a file names, RuleError if the
    algorithm broke its own rules, RunError if the network could not be brought up; in each case nothing is left. A run that
    began but could not finish is kept, as `undecided`.
    """
    require_named(plan.scenario)
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
        finished = _judge(plan, journal, execution)
        result = sink.finish(finished if accept is None else accept(finished))
        problem = (execution.undecided or "") if execution.failure or execution.interrupted else ""
    except RunError as error:
        problem = str(error)
        raise RunError(f"{error}{sink.log_tail()}") from error
    except REFUSALS as error:
        # Disks fill up: the message has the end of the log, and the written files are removed.
        raise RunError(f"{sink.reason(error)}{sink.log_tail()}") from error
    finally:
        guards.close()
        # After `finish` there is nothing left to remove.
        sink.close()
        if network is not None:
            # Hosts under a supervisor receive the reason only after the files are complete.
            network.dismiss(problem)
    return result


def _judge(plan: Plan, journal: Journal, execution: ExecutionResult) -> FinishedRun:
    """Judge the history of a run."""
    history = History(
        read_once(journal.frame, journal.rows),
        journal.rows,
        execution.undecided,
        execution.altered_copies,
        execution.timetable,
        execution.times,
        _results(plan, execution),
    )
    conclusion = conclude(plan, history, derive=True)
    execution.undecided = conclusion.ruling.undecided
    if plan.worst_harm is not None and execution.undecided is None:
        # The target of a gather is the one node that messages are due to; the measurement names their origins.
        most = 1 if plan.spec.collective is Collective.GATHER else plan.topology.order
        where = f"faults {' '.join(plan.scenario.fault)}"
        require_harm(where, plan.worst_harm, min(most, len(conclusion.measurement.cut_off)))
    return FinishedRun(
        plan=conclusion.plan,
        make_summary=partial(summarize, conclusion.plan, conclusion, journal, execution),
        conclusion=conclusion,
        execution=execution,
        journal=journal.frame,
    )


def _results(plan: Plan, execution: ExecutionResult) -> "ResultArray | None":
    """Return the results of a reduction of real numbers, None for other runs."""
    if execution.results is None:
        return None
    gathered: ResultArray = annex_function("gather results")(plan.algorithm, plan.surviving(execution.results))
    return gathered


def summarize(plan: Plan, conclusion: Conclusion, journal: Journal, execution: ExecutionResult) -> dict[str, object]:
    """Return the content of summary.json: scenario, metrics, times and claims, as plain values."""
    scenario, topology = plan.scenario, plan.topology
    return {
        VERSION_KEY: __version__,
        "topology": topology.name,
        "order": topology.order,
        "degree": topology.degree,
        "diameter": topology.known_diameter,
        "collective": str(scenario.collective),
        "algorithm": scenario.algorithm,
        "source": topology.label(plan.spec.source),
        **plan.targets,
        "port_model": str(scenario.port_model),
        "driver": scenario.driver,
        "hosts": plan.hosts,
        "clock": scenario.clock,
        "seed": scenario.seed,
        "messages": scenario.messages,
        "message_bytes": plan.spec.contributed_bytes,
        **plan.vector,
        "segments_per_tree": scenario.segments,
        "redundancy": scenario.redundancy,
        "faults": list(scenario.fault),
        **({"fault_searches": list(plan.searches)} if plan.searches else {}),
        "without_effect": faults_without_effect(plan),
        **conclusion.metrics,
        **conclusion.cut_off.record(),
        **conclusion.stated(),
        "wall_seconds": round(execution.wall_seconds, 6),
        "setup_seconds": round(execution.setup_seconds, 6),
        **({"network_read_seconds": round(topology.read_seconds, 6)} if isinstance(topology, TableTopology) else {}),
        "links_opened": execution.links_opened,
        **(host_traffic(topology, plan.placement, conclusion.measurement.links) if plan.hosts else {}),
        "journal_rows": journal.rows,
        "journal_hash": journal.hash,
        "verdict": str(conclusion.ruling.verdict),
        "undecided_because": conclusion.ruling.undecided,
        "reason": conclusion.ruling.reason and str(conclusion.ruling.reason),
        "claims": [judgement.record() for judgement in conclusion.ruling.judgements],
    }
