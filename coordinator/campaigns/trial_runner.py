"""Trials: runs of a scenario under one set of faults after another, on networks that stay up, without run directories.

A `TrialRunner` runs them in this process; a `WorkerPool` distributes them over several processes. Both give the same results
for the same trials.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self, TextIO

import trio

from coordinator.execution.drive import CLOSE_SECONDS, ExecutionResult, run_timed, take_steps
from coordinator.history.journal import sorted_records
from coordinator.history.stored.records import Items, Natural, NonNegative
from coordinator.networks.base import Network, TimedMemoryNetwork, predict
from coordinator.networks.registry import make_stepped_network
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import rule_counted
from coordinator.results.faults_in_steps import in_steps
from coordinator.results.latency import completion_seconds
from coordinator.results.metrics import TrialCounts, count_trial
from coordinator.scenario.model import Scenario, knowledge_of
from coordinator.scenario.named import require_named
from coordinator.scenario.programs import ProgramOptions
from emunode.algorithms.base import renew
from emunode.engine.memory import MemoryEngine
from emunode.errors import EmulatorError, RuleError, RunError, ScenarioError
from emunode.model import FaultKnowledge, Step
from emunode.play import play


class Trial(NamedTuple):
    """One run of a scenario under additional faults, with a seed."""

    variant: int
    """Index of the scenario, without the faults of the trial."""
    faults: tuple[str, ...]
    """In addition to the faults of the scenario itself."""
    seed: int
    """Seed of every random choice in the trial."""


@dataclass(frozen=True)
class TrialResult:
    """The counts and the judgement of a trial."""

    steps: Natural
    packets: Natural
    segments: Natural
    bytes: Natural
    lost: Natural
    corrupt: Natural
    duplicates: Natural
    expected: Natural
    delivered: Natural
    """Messages with every segment received, intact or not."""
    intact: Natural
    unserved: Items[str]
    """Labels of healthy nodes that miss a message due to them."""
    least_copies: Natural
    """Fewest intact copies of any segment due; 0 if one is missing, 1 if one more fault may cost a segment."""
    predicted: Natural | None
    """Intact deliveries that the algorithm claims exactly under these faults, or None."""
    violated: Items[str]
    """Violated claims, as metric, relation and prediction."""
    undecided: str | None
    """Why the trial is undecided and enters no statistic, or None."""
    journal_hash: str
    latencies: Items[Natural]
    """By step, from step 0 on: the nodes that had everything due to them from then on."""
    seconds: NonNegative | None = None
    """Under the timed clock, if every node is served: the time when the last node got everything due to it."""

    @property
    def decided(self) -> bool:
        """Whether the trial enters statistics."""
        return self.undecided is None

    @property
    def served(self) -> bool:
        """Whether every healthy node received every message due to it."""
        return self.undecided is None and self.intact == self.expected

    @property
    def completion(self) -> float | None:
        """When the last node had everything due to it, in steps or, under the timed clock, in seconds; None: never."""
        if not self.served:
            return None
        if self.seconds is not None:
            return self.seconds
        return max(0, len(self.latencies) - 1)

    @property
    def latency_sums(self) -> tuple[int, int, int]:
        """Served nodes, the sum of their latencies, and the longest; zeros if undecided."""
        if self.undecided is not None:
            return 0, 0, 0
        steps = sum(step * nodes for step, nodes in enumerate(self.latencies))
        return sum(self.latencies), steps, max(0, len(self.latencies) - 1)

    def difference(self, expected: Mapping[str, object]) -> "UnexpectedFigure | None":
        """Return the first figure, by its name here, that another engine, driver or proof expects otherwise."""
        for name, value in expected.items():
            if (measured := getattr(self, name)) != value:
                return UnexpectedFigure(name, value, measured)
        return None


class UnexpectedFigure(NamedTuple):
    """A figure of a trial that is not as expected."""

    name: str
    expected: object
    measured: object


TrialSink = Callable[[int, Trial, TrialResult], None]
"""Called with the position of a trial in its sequence, the trial and its result."""


class Trials(Protocol):
    """A runner of trials: a `TrialRunner` in this process, or a `WorkerPool`."""

    async def run(self, trials: Iterable[Trial], sink: TrialSink) -> None:
        """Run all trials and pass each to `sink` as it ends, in any order; raises EmulatorError if one cannot be run.

        `trials` is consumed in order, little further than the trials that are running.
        """


def plan_trials(scenario: Scenario) -> Plan:
    """Return the plan of a scenario for trials; ScenarioError if trials cannot run it."""
    if scenario.clock == "timed" and scenario.driver != "memory":
        raise ScenarioError("driver", scenario.driver, "trials under the timed clock are computed: use --driver memory")
    if (program := ProgramOptions.of(scenario).program) is not None:
        raise ScenarioError("program", program, "trials do not start programs; use `coordinator run`")
    return make_plan(scenario)


class TrialRunner:
    """Runs trials in this process. Leaving the context closes the network."""

    def __init__(self, scenarios: Sequence[Scenario], log: TextIO) -> None:
        for scenario in scenarios:
            require_named(scenario)
        self._scenarios = scenarios
        self._log = log
        self._plans: dict[int, Plan] = {}
        self._network: tuple[object, Network] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def run(self, trials: Iterable[Trial], sink: TrialSink) -> None:
        for place, trial in enumerate(trials):
            sink(place, trial, await self.trial(trial))

    async def trial(self, trial: Trial) -> TrialResult:
        """Run one trial. Raises ScenarioError and RuleError; a failure after the first step makes it undecided."""
        plan = self.plan(trial)
        if plan.scenario.clock == "timed":
            return await self._timed(plan)
        # Rows stay in memory: a trial has no run directory.
        execution, rows = ExecutionResult(), TrialRows()
        try:
            network = await self._open(plan)
            await take_steps(plan, network, rows, execution, lambda *_: None)
        # Mistakes of the user or of the algorithm would repeat in every trial.
        except (RuleError, ScenarioError):
            raise
        except (EmulatorError, OSError) as error:
            # Before the first step nothing was measured; this is a failure of the campaign, not of the trial.
            if not execution.steps:
                raise RunError(str(error)) from error
            execution.undecided = str(error)
            # A network that failed in the middle is not reused.
            await self._close()
        return judge_trial(plan, count_trial(plan, sorted_records(rows.blocks), execution.altered_copies), execution)

    async def _timed(self, plan: Plan) -> TrialResult:
        """Run one trial under the timed clock, in memory, where no packet is late."""
        execution, rows, network = ExecutionResult(), TrialRows(), TimedMemoryNetwork(plan)
        timetable = await predict(plan, lambda *_: None)
        await run_timed(plan, network, timetable, rows, execution, lambda *_: None)
        records, judged = sorted_records(rows.blocks), in_steps(plan, timetable)
        result = judge_trial(judged, count_trial(judged, records, execution.altered_copies, timetable), execution)
        return replace(result, seconds=completion_seconds(judged, records, timetable)) if result.served else result

    def plan(self, trial: Trial) -> Plan:
        """Return the plan of a trial: the plan of its scenario with other faults and another seed.

        The plan is valid until the next call, because plans of one scenario share their algorithm.
        """
        base = self._plans.get(trial.variant)
        if base is None:
            # Plans are kept per variant, because building an algorithm's tables takes longer than a trial.
            base = self._plans[trial.variant] = plan_trials(self._scenarios[trial.variant])
        faults = (*base.scenario.fault, *trial.faults)
        scenario = base.scenario.model_copy(update={"fault": faults, "seed": trial.seed})
        if scenario.fault_knowledge is FaultKnowledge.ALL:
            return make_plan(scenario)  # the algorithm may depend on the faults
        # Under the timed clock signs of life take time, with faults or without.
        knows = faults or base.goes_by_events
        spec = base.spec._replace(
            seed=trial.seed, knowledge=knowledge_of(scenario)[0] if knows else FaultKnowledge.NONE
        )
        # `renew` drops everything that depends on the seed; tables of the network stay.
        if spec != base.algorithm.spec:
            renew(base.algorithm, spec)
        return replace(base, scenario=scenario, spec=spec).with_faults(faults)

    async def _open(self, plan: Plan) -> Network:
        """Return a network in its initial state: the open network after a reset, if it fits the plan, else a new one."""
        scenario = plan.scenario
        # The settings that a reset cannot change.
        kind = (plan.topology.name, scenario.driver, plan.hosts, plan.placed and plan.placed.table, scenario.netns)
        if self._network is not None and self._network[0] == kind:
            # A network with killed processes refuses a reset; then a new one is opened.
            with contextlib.suppress(RunError):
                await self._network[1].reset(plan)
                return self._network[1]
        await self._close()
        network = make_stepped_network(plan, self._log)
        self._network = kind, network
        await network.open(lambda *_: None)
        return network

    async def _close(self) -> None:
        if self._network is None:
            return
        _, network = self._network
        self._network = None
        # Shielded: the processes have to end, also if the campaign is being interrupted.
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await network.close()


class TrialRows:
    """Collects the rows of a trial in memory."""

    def __init__(self) -> None:
        self.blocks: list[bytes | bytearray] = []

    def add(self, rows: Iterable[bytes | bytearray]) -> None:
        """Take packed rows of any steps, in any order."""
        self.blocks += rows

    def settle(self, step: Step) -> None:
        """Do nothing: rows in memory are not written."""


def judge_trial(plan: Plan, counts: TrialCounts, execution: ExecutionResult) -> TrialResult:
    """Judge a trial by the rules for runs. A trial is undecided only if its measurement is invalid."""
    metrics = counts.metrics
    ruling = rule_counted(plan, metrics, execution.undecided)
    # The prediction that the table compares with the measured mean.
    exact = [each.claim.predicted for each in ruling.judgements if (each.claim.name, each.claim.relation) == EXACT]
    return TrialResult(
        **{name: metrics[name] for name in ("steps", "packets", "segments", "bytes", "lost", "corrupt", "duplicates")},  # type: ignore[arg-type]
        expected=metrics["expected_deliveries"],  # type: ignore[arg-type]
        delivered=metrics["deliveries"],  # type: ignore[arg-type]
        intact=metrics["intact_deliveries"],  # type: ignore[arg-type]
        unserved=tuple(plan.topology.label(rank) for rank in counts.unserved),
        least_copies=counts.least_copies,
        predicted=exact[0] if exact else None,  # type: ignore[arg-type]
        violated=tuple(
            f"{each.claim.name} {each.claim.relation} {each.claim.predicted}, and it was {each.measured}"
            for each in ruling.judgements
            if each.verdict is Verdict.VIOLATED
        ),
        # Only an invalid measurement takes a trial out of the statistics; a missing claim does not.
        undecided=ruling.invalid,
        journal_hash=counts.journal_hash,
        latencies=counts.latencies,
    )


EXACT = ("intact_deliveries", "==")


def fault_free_latency(scenario: Scenario) -> Step | None:
    """Return the longest latency in a run of a scenario without its faults, in memory; None if no node is served."""
    plan = plan_trials(scenario.model_copy(update={"fault": ()}))
    engine = MemoryEngine(plan.algorithm)
    rows = list(play(engine, limit=plan.scenario.step_limit))
    latencies = count_trial(plan, sorted_records(rows), engine.altered_copies).latencies
    return len(latencies) - 1 if latencies else None
