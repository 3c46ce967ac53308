"""Trials: one scenario with one set of faults after the other, on networks that stay up, without run directories.

A `TrialRunner` runs them in this process, a `WorkerPool` has several processes do it, each with a laboratory of its
own. Both give the same findings for the same trials, and both leave nothing behind.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol, Self, TextIO

import trio

from coordinator.execution.drive import CLOSE_SECONDS, ExecutionResult, take_steps
from coordinator.networks.base import Network
from coordinator.networks.registry import make_stepped_network
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import rule_counted
from coordinator.results.trial_metrics import Tally, records_of, tally
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.scenario.model import Scenario, make_scenario
from emunode.errors import EmulatorError, RuleError, RunError, ScenarioError
from emunode.model import FaultKnowledge, Step

BATCH = 16
"""Trials that a process of a crew is given at once."""
LEAVE_SECONDS = 5.0
MOST_LINE = 2**24


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
        return find(plan, tally(plan, records_of(rows.blocks), outcome.altered_copies), outcome)

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


def find(plan: Plan, counted: Tally, outcome: ExecutionResult) -> TrialResult:
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


# --- several processes -------------------------------------------------------------------------------------------------


class WorkerPool:
    """Runs trials in `size` processes; an asynchronous context, on the end of which none of them is left."""

    def __init__(self, scenarios: Sequence[Scenario], size: int, log: TextIO) -> None:
        self._scenarios = scenarios
        self._size = size
        self._log = log
        self._workers: list[Worker] = []

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        self._workers = [Worker(self._scenarios, self._log) for _ in range(self._size)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.dismiss()
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            for worker in self._workers:
                await worker.gone()
        for worker in self._workers:
            worker.end()

    async def run(self, trials: Iterable[Trial], sink: Sink) -> None:
        numbered = enumerate(trials)
        failures: list[Exception] = []

        async def work(worker: Worker) -> None:
            try:
                await worker.work(numbered, sink)
            except Exception as error:  # a sink's too: a full disk, for one
                failures.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for worker in self._workers:
                nursery.start_soon(work, worker)
        if failures:
            raise failures[0]


class Worker:
    """One process of a crew, from the outside."""

    def __init__(self, scenarios: Sequence[Scenario], log: TextIO) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coordinator.campaigns.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = trio.lowlevel.FdStream(os.dup(self._process.stdin.fileno()))
        self._out = trio.lowlevel.FdStream(os.dup(self._process.stdout.fileno()))
        self._process.stdin.close()
        self._process.stdout.close()
        self._pending = bytearray()
        self._greeting = encode([scenario.model_dump(mode="json", exclude_none=True) for scenario in scenarios])

    async def work(self, numbered: Iterator[tuple[int, Trial]], sink: Sink) -> None:
        """Have trials run until there are no more."""
        while batch := list(islice(numbered, BATCH)):
            greeting, self._greeting = self._greeting, b""
            try:
                await self._in.send_all(greeting + b"".join(encode(trial) for _, trial in batch))
            except trio.BrokenResourceError:
                raise RunError("a process that runs trials is gone") from None
            for place, trial in batch:
                sink(place, trial, await self._read_result())

    async def _read_result(self) -> TrialResult:
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                self._pending = rest
                return read_answer(bytes(line))
            data = await self._out.receive_some(65536)
            if not data:
                raise RunError("a process that runs trials is gone")
            self._pending += data

    def dismiss(self) -> None:
        """Tell it that there is no more to do."""
        self._in.close()

    async def gone(self) -> None:
        """Wait until it has left."""
        while await self._out.receive_some(65536):
            pass

    def end(self) -> None:
        """See to it that it is gone."""
        self._out.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def encode(value: object) -> bytes:
    """A value as a line of JSON."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def write_answer(answer: TrialResult | EmulatorError) -> bytes:
    """What a worker says of a trial, as a line."""
    if isinstance(answer, TrialResult):
        return encode(vars(answer))
    fields = [answer.field, answer.value, answer.allowed] if isinstance(answer, ScenarioError) else [str(answer)]
    return encode({"error": type(answer).__name__, "fields": fields})


ERRORS: Mapping[str, type[EmulatorError]] = {error.__name__: error for error in (RuleError, RunError, ScenarioError)}


def read_answer(line: bytes) -> TrialResult:
    """Inverse of `write_answer`; raises what it says was raised."""
    fields = json.loads(line)
    if "error" in fields:
        raise ERRORS.get(fields["error"], RunError)(*fields["fields"])
    return finding_of(fields)


def finding_of(fields: Mapping[str, object]) -> TrialResult:
    """A finding from plain values, as JSON gives them."""
    return TrialResult(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]


def scenarios_of(line: bytes) -> list[Scenario]:
    """The scenarios that a worker is told first."""
    return [make_scenario(values) for values in json.loads(line)]


def trial_of(line: bytes) -> Trial:
    """A trial that a worker is told."""
    variant, faults, seed = json.loads(line)
    return Trial(variant, tuple(faults), seed)
