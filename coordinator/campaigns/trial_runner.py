"""Trials: one scenario with one set of faults after the other, on networks that stay up, without run directories.

A `TrialRunner` runs them in this process, a `WorkerPool` has several processes do it, each with a laboratory of its
own. Both give the same findings for the same trials, and both leave nothing behind.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self, TextIO

import trio

from coordinator.execution.drive import CLOSE_SECONDS, ExecutionResult, take_steps
from coordinator.history.journal import sorted_records
from coordinator.networks.base import Network
from coordinator.networks.registry import make_stepped_network
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import rule_counted
from coordinator.results.metrics import TrialCounts, count_trial
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario
from emunode.errors import EmulatorError, RuleError, RunError, ScenarioError
from emunode.model import FaultKnowledge, Step


class Trial(NamedTuple):
    """One trial to run."""

    variant: int
    """Index of the scenario, the faults apart."""
    faults: tuple[str, ...]
    """In addition to those of the scenario itself."""
    seed: int
    """Of everything that is left to chance in the trial."""


@dataclass(frozen=True)
class TrialResult:
    """What a trial showed."""

    steps: int
    packets: int
    segments: int
    bytes: int
    lost: int
    corrupt: int
    duplicates: int
    expected: int
    delivered: int
    """Messages that arrived whole, right or wrong."""
    intact: int
    unserved: tuple[str, ...]
    """Labels of the healthy nodes that miss a message due to them."""
    least_copies: int
    """Fewest intact copies of a piece over all that is due; 0 where one is missing, 1 where one fault more may cost it."""
    predicted: int | None
    """Intact deliveries by the claims of the algorithm under these faults, where they say so exactly."""
    violated: tuple[str, ...]
    """Claims that do not hold, as metric, relation and prediction."""
    undecided: str | None
    """Why the trial proves nothing, and is counted in no statistic; None for all others."""
    journal_hash: str

    @property
    def served(self) -> bool:
        """Whether every healthy node got all that was due to it."""
        return self.undecided is None and self.intact == self.expected


Sink = Callable[[int, Trial, TrialResult], None]
"""Called with the place of a trial in the sequence that was asked for, the trial, and what it showed."""


class Trials(Protocol):
    """Something that runs trials."""

    async def run(self, trials: Iterable[Trial], sink: Sink) -> None:
        """Run them all and tell `sink` of each as it ends, in any order; raises EmulatorError for what cannot be run.

        `trials` is drawn from in order, and not much further than what is run.
        """


def plan_trials(scenario: Scenario) -> Plan:
    """The plan of a scenario that trials are run of; ScenarioError for one that has none."""
    if scenario.clock != "steps":
        raise ScenarioError("clock", scenario.clock, "trials run in lock-step: use --clock steps")
    return make_plan(scenario)


class TrialRunner:
    """Runs trials in this process; an asynchronous context, on the end of which no network is up."""

    def __init__(self, scenarios: Sequence[Scenario], log: TextIO) -> None:
        self._scenarios = scenarios
        self._log = log
        self._plans: dict[int, Plan] = {}
        self._network: tuple[object, Network] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def run(self, trials: Iterable[Trial], sink: Sink) -> None:
        for place, trial in enumerate(trials):
            sink(place, trial, await self.trial(trial))

    async def trial(self, trial: Trial) -> TrialResult:
        """Run one trial. ScenarioError and RuleError are raised; what the machine does to it makes it undecided."""
        plan = self.plan(trial)
        outcome, rows = ExecutionResult(), Rows()
        try:
            network = await self._open(plan)
            await take_steps(plan, network, rows, outcome, lambda *_: None)
        except (RuleError, ScenarioError):
            raise
        except (EmulatorError, OSError) as error:
            if not outcome.steps:
                raise RunError(str(error)) from error
            outcome.undecided = str(error)
            await self._close()
        return judge_trial(plan, count_trial(plan, sorted_records(rows.blocks), outcome.altered_copies), outcome)

    def plan(self, trial: Trial) -> Plan:
        """The plan of a trial: that of its scenario, with other faults, and as the case may be another seed.

        It is good until the next one is asked for: plans of one scenario share their algorithm.
        """
        base = self._plans.get(trial.variant)
        if base is None:
            base = self._plans[trial.variant] = plan_trials(self._scenarios[trial.variant])
        faults = (*base.scenario.fault, *trial.faults)
        scenario = base.scenario.model_copy(update={"fault": faults, "seed": trial.seed})
        if scenario.fault_knowledge is FaultKnowledge.ALL:
            return make_plan(scenario)  # the algorithm may go by what is broken
        spec = base.spec._replace(
            seed=trial.seed, knowledge=scenario.fault_knowledge if faults else FaultKnowledge.NONE
        )
        if spec != base.algorithm.spec:
            base.algorithm.renew(spec)
        return replace(base, scenario=scenario, spec=spec, faults=parse_faults(faults, base.topology))

    async def _open(self, plan: Plan) -> Network:
        """A network for a plan, as new: one that is up and fits is reset if it can be, else one is brought up."""
        scenario = plan.scenario
        kind = (plan.topology.name, scenario.driver, plan.hosts, scenario.netns)
        if self._network is not None and self._network[0] == kind:
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
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await network.close()


class Rows:
    """The rows of a trial, in memory."""

    def __init__(self) -> None:
        self.blocks: list[bytes | bytearray] = []

    def add(self, rows: Iterable[bytes | bytearray]) -> None:
        """Take packed rows."""
        self.blocks += rows

    def settle(self, step: Step) -> None:
        """Nothing is written, so nothing is to be settled."""


def judge_trial(plan: Plan, counted: TrialCounts, outcome: ExecutionResult) -> TrialResult:
    """What a trial showed, by the judge of all runs. A trial counts unless its measurement is invalid."""
    metrics = counted.metrics
    ruling = rule_counted(plan, metrics, outcome.undecided)
    exact = [each.claim.predicted for each in ruling.judgements if (each.claim.name, each.claim.relation) == EXACT]
    return TrialResult(
        **{name: metrics[name] for name in ("steps", "packets", "segments", "bytes", "lost", "corrupt", "duplicates")},  # type: ignore[arg-type]
        expected=metrics["expected_deliveries"],  # type: ignore[arg-type]
        delivered=metrics["deliveries"],  # type: ignore[arg-type]
        intact=metrics["intact_deliveries"],  # type: ignore[arg-type]
        unserved=tuple(plan.topology.label(rank) for rank in counted.unserved),
        least_copies=counted.least_copies,
        predicted=exact[0] if exact else None,  # type: ignore[arg-type]
        violated=tuple(
            f"{each.claim.name} {each.claim.relation} {each.claim.predicted}, and it was {each.measured}"
            for each in ruling.judgements
            if each.verdict is Verdict.VIOLATED
        ),
        undecided=ruling.invalid,
        journal_hash=counted.journal_hash,
    )


EXACT = ("intact_deliveries", "==")


def result_of(fields: Mapping[str, object]) -> TrialResult:
    """A finding from plain values, as JSON gives them."""
    return TrialResult(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]
