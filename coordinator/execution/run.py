"""The run loop: bring a network up, step it until nothing is left to do, take it down, measure and judge."""

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self, TextIO

import polars as pl
import trio

from coordinator.history.journal import Journal
from coordinator.history.run_directory import RunDirectory
from coordinator.history.timetable import Timetable
from coordinator.networks.base import MemoryNetwork, Network, Progress
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.networks.launchers.join import JoinLaunch
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.networks.timed import Timed, TimedHostNetwork, TimedMemoryNetwork, predict
from coordinator.planning.plan import Plan
from coordinator.results.claims import EXIT_STATUS, Judgement, Verdict
from coordinator.results.conclude import Conclusion, History, conclude
from coordinator.results.cut_off import faults_without_effect
from coordinator.scenario.model import dump_scenario
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import EmulatorError, RuleError, RunError, ScenarioError
from emunode.logging import log, logging_to
from emunode.model import Step

REFUSALS = (OSError, pl.exceptions.ComputeError)
"""What a full disk and its like raise, the second from within Parquet files."""
CLOSE_SECONDS = 5.0


@dataclass
class ExecutionResult:
    """How the network's part of a run went."""

    steps: Step = 0
    undecided: str | None = None
    """Why the run proves nothing, or None."""
    interrupted: bool = False
    failure: EmulatorError | None = None
    setup_seconds: float = 0.0
    wall_seconds: float = 0.0
    links_opened: int = 0
    altered_copies: list[AlteredCopy] = field(default_factory=list)
    timetable: Timetable | None = None
    """What was intended, under the timed clock."""
    times: list[bytes] = field(default_factory=list)
    """What hosts told of the times of hops, under the timed clock."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: where it is, what it says."""

    path: Path
    summary: dict[str, object]
    judgements: list[Judgement]
    verdict: Verdict
    outcome: ExecutionResult
    report_error: str | None = None
    """Why report.html could not be drawn."""

    @property
    def exit_status(self) -> int:
        """0 holds, 1 violated, 3 undecided."""
        return EXIT_STATUS[self.verdict]


def run(plan: Plan, out: Path | None, progress: Progress, *, draw: bool = True) -> RunResult:
    """Run a plan and leave a run directory behind, with its report unless `draw` is false.

    Raises ScenarioError when the directory cannot be made, RuleError when the algorithm broke its own rules, RunError when
    the network could not be brought up; in each case nothing is left. A run that began and could not be finished is kept and
    `undecided`.
    """
    directory = RunDirectory(plan.name, plan.scenario.seed, out)
    network: Network | Timed | None = None
    problem = "the run failed"
    try:
        with InterruptGuard() as stop:
            directory.make()
            directory.write_text("scenario.toml", dump_scenario(plan.scenario))
            journal = Journal(directory.path)
            with (directory.path / "log.jsonl").open("a", encoding="utf-8", buffering=1) as log, logging_to(log):
                network = make_network(plan, log)
                outcome = trio.run(_drive, plan, network, journal, progress, stop)
        journal.close()
        result = _conclude(plan, directory, journal, outcome)
        if draw:
            result = replace(result, report_error=_draw(directory))
        with InterruptGuard():  # a run that is whole stays whole
            directory.finish()
        problem = (outcome.undecided or "") if outcome.failure or outcome.interrupted else ""
    except RunError as error:
        problem = str(error)
        raise RunError(f"{error}{directory.log_tail()}") from error
    except REFUSALS as error:
        raise RunError(f"{refusal(error, directory.path)}{directory.log_tail()}") from error
    finally:
        directory.discard()
        if isinstance(network, HostNetwork):
            network.dismiss(problem)
    return result


def refusal(error: Exception, folder: Path) -> str:
    """What the operating system refused, without the path of a file in `folder`, which is removed or renamed soon."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"operating system error: [Errno {error.errno}] {error.strerror}"
    return f"operating system error: {str(error).replace(f'{folder}/', '')}"


def make_network(plan: Plan, log: TextIO) -> Network | Timed:
    """The network that the plan's driver and clock name."""
    if plan.scenario.clock == "timed":
        return (
            TimedMemoryNetwork(plan)
            if plan.scenario.driver == "memory"
            else TimedHostNetwork(plan, make_launch(plan, log))
        )
    return make_stepped_network(plan, log)


def make_stepped_network(plan: Plan, log: TextIO) -> Network:
    """The network that the plan's driver names, to be run in lock-step."""
    return MemoryNetwork(plan) if plan.scenario.driver == "memory" else HostNetwork(plan, make_launch(plan, log))


def make_launch(plan: Plan, log: TextIO) -> Launch:
    """What starts the hosts of a plan, or lets them in."""
    match plan.scenario.driver:
        case "docker":
            from coordinator.networks.launchers.docker import DockerLaunch  # noqa: PLC0415  # spares other drivers its imports

            return DockerLaunch(plan)
        case "join" if plan.door:
            return JoinLaunch(plan.door)
        case "join":
            raise ScenarioError("driver", "join", "nobody joins a `run`; use `coordinator serve`, or another driver")
        case _:
            launch = LocalLaunch(log)
            if plan.join_seconds is not None:
                launch.join_seconds = plan.join_seconds
            return launch


class InterruptGuard:
    """Ctrl-C and SIGTERM, noted instead of raised: as exceptions they could strike anywhere, even within trio."""

    def __init__(self) -> None:
        self.asked = False
        self._tell: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self._before = [(number, signal.signal(number, self._note)) for number in (signal.SIGINT, signal.SIGTERM)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)

    def _note(self, *_: object) -> None:
        self.asked = True
        self._tell()

    def cancels(self, scope: trio.CancelScope) -> None:
        """From now on, cancel this scope when asked to stop; at once if that was asked before."""
        token = trio.lowlevel.current_trio_token()

        def tell() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)

        self._tell = tell
        if self.asked:
            scope.cancel()


async def _drive(
    plan: Plan, network: Network | Timed, journal: Journal, progress: Progress, stop: InterruptGuard
) -> ExecutionResult:
    outcome = ExecutionResult()
    try:
        with trio.CancelScope() as scope:
            stop.cancels(scope)
            await _open_and_step(plan, network, journal, outcome, progress)
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await network.close()
    outcome.interrupted = stop.asked
    if outcome.interrupted:
        outcome.undecided = "interrupted"
    elif outcome.failure and (not outcome.steps or isinstance(outcome.failure, RuleError)):
        raise outcome.failure
    return outcome


async def _open_and_step(
    plan: Plan, network: Network | Timed, journal: Journal, outcome: ExecutionResult, progress: Progress
) -> None:
    began = time.perf_counter()
    try:
        if plan.scenario.clock == "timed":
            outcome.timetable = await predict(plan, progress)
        await network.open(progress)
        outcome.links_opened = network.links_opened
        outcome.setup_seconds = time.perf_counter() - began
        began = time.perf_counter()
        if outcome.timetable is None:
            await take_steps(plan, network, journal, outcome, progress)  # type: ignore[arg-type]
        else:
            await _run_free(plan, network, outcome.timetable, journal, outcome, progress)  # type: ignore[arg-type]
    except (EmulatorError, *REFUSALS) as error:
        outcome.failure = error if isinstance(error, EmulatorError) else RunError(refusal(error, journal.path.parent))
        outcome.undecided = str(outcome.failure)
    finally:
        outcome.wall_seconds = time.perf_counter() - began


async def _run_free(
    plan: Plan, network: Timed, timetable: Timetable, journal: Journal, outcome: ExecutionResult, progress: Progress
) -> None:
    outcome.steps = timetable.steps
    try:
        await network.run(timetable, progress)
    finally:
        journal.add(network.rows)
        outcome.times = network.times
    if not timetable.complete:
        outcome.undecided = f"the step limit of {plan.scenario.step_limit} was reached"


class Collector(Protocol):
    """What takes the journal rows of a run."""

    def add(self, rows: Sequence[bytes | bytearray]) -> None:
        """Take packed rows of any steps not settled yet."""

    def settle(self, step: Step) -> None:
        """All rows up to `step` are in."""


async def take_steps(
    plan: Plan, network: Network, journal: Collector, outcome: ExecutionResult, progress: Progress
) -> None:
    """Step a network that is up until nothing is left to do; `outcome` is undecided where the step limit ends that."""
    limit = plan.scenario.step_limit
    for step in range(1, limit + 2):
        result = await network.step(step, plan.faults_at(step))
        journal.add(result.rows)
        journal.settle(step - 1)
        outcome.altered_copies += result.altered_copies
        outcome.steps = step
        progress("steps", step, 0)
        if not result.busy and step >= plan.last_revival:
            return
    outcome.undecided = f"the step limit of {limit} was reached"


def _conclude(plan: Plan, directory: RunDirectory, journal: Journal, outcome: ExecutionResult) -> RunResult:
    """Judge the run, and write everything but the journal."""
    frame = pl.scan_parquet(journal.path, glob=False)
    history = History(frame, journal.rows, outcome.undecided, outcome.altered_copies, outcome.timetable, outcome.times)
    conclusion = conclude(plan, history)
    ruling, measurement = conclusion.ruling, conclusion.measurement
    outcome.undecided = ruling.undecided
    summary = _summary(plan, conclusion, journal, outcome)
    if conclusion.timeline is not None:
        conclusion.timeline.write_parquet(directory.path / "timeline.parquet")
    measurement.nodes.write_parquet(directory.path / "nodes.parquet")
    measurement.links.write_parquet(directory.path / "links.parquet")
    measurement.steps.write_parquet(directory.path / "steps.parquet")
    if measurement.elections is not None:
        measurement.elections.write_parquet(directory.path / "elections.parquet")
    directory.write_json("faults.json", measurement.faults)
    directory.write_json("summary.json", summary)
    return RunResult(directory.final, summary, ruling.judgements, ruling.verdict, outcome)


def _draw(directory: RunDirectory) -> str | None:
    """Write report.html; return and log the error if that fails, so that the run is kept without its report."""
    try:
        from coordinator.reports.run_report import write_report  # noqa: PLC0415  # spares every other command its imports

        write_report(directory.path, name=directory.final.name, thorough=False)
    except Exception as error:  # whatever is wrong with a report, the run itself is whole
        described = f"{type(error).__name__}: {error}"
        with (directory.path / "log.jsonl").open("a", encoding="utf-8") as file, logging_to(file):
            log("report not drawn", error=described)
        return described
    return None


def _summary(plan: Plan, conclusion: Conclusion, journal: Journal, outcome: ExecutionResult) -> dict[str, object]:
    scenario, topology = plan.scenario, plan.topology
    return {
        "topology": topology.name,
        "order": topology.order,
        "degree": topology.degree,
        "diameter": topology.diameter,
        "collective": str(scenario.collective),
        "algorithm": scenario.algorithm,
        "source": topology.label(plan.spec.source),
        "port_model": str(scenario.port_model),
        "driver": scenario.driver,
        "hosts": plan.hosts,
        "clock": scenario.clock,
        "seed": scenario.seed,
        "messages": scenario.messages,
        "message_bytes": scenario.message_bytes,
        "segments_per_tree": scenario.segments,
        "redundancy": scenario.redundancy,
        "faults": list(scenario.fault),
        "without_effect": faults_without_effect(plan),
        **conclusion.metrics,
        **conclusion.cut_off.record(),
        "wall_seconds": round(outcome.wall_seconds, 6),
        "setup_seconds": round(outcome.setup_seconds, 6),
        "links_opened": outcome.links_opened,
        "journal_rows": journal.rows,
        "journal_hash": journal.hash,
        "verdict": str(conclusion.ruling.verdict),
        "undecided_because": conclusion.ruling.undecided,
        "claims": [judgement.record() for judgement in conclusion.ruling.judgements],
    }
