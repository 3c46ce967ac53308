"""Certificates: every set of faults up to symmetry is run, until one is a counterexample.

Sets are run by ascending number of faults, so the first that costs a healthy node a message is a smallest one. A set stands
for its orbit under the symmetries of the run (`symmetry`), which are checked before they are used. Kinds of faults that
depend on random numbers or on a vote have orbits of one.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TextIO

import trio

from coordinator.campaigns.runner import CampaignRunner, worker_count
from coordinator.campaigns.shrink import shrink
from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner, plan_trials
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.model import Scenario
from coordinator.theory.symmetry import Orbit, Orbits, Symmetry, identity, symmetries
from coordinator.theory.tolerance import Tolerance
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import is_random
from emunode.logging import logging_to

Method = Literal["runs", "cuts"]
"""Whether a certificate runs sets of faults, or proves by smallest cuts that none can do harm."""
FIRST_ROUND, LARGEST_ROUND = 32, 4096
"""Sets per round, at first and at most; a failure is noticed at the end of its round."""
MOST_HISTORIES = 20
"""Sets of a level whose histories a certificate keeps."""
CERTAIN = {"crash", "down", "hang"}
"""Kinds of faults that have the same effect at a place and at its image."""


@dataclass
class Level:
    """Progress and counts of one fault set description."""

    faults: str
    size: int
    sets: int
    orbits: int = 0
    """Orbits that were run: all of them unless a counterexample was found."""
    covered: int = 0
    """Sets of faults whose effect is known: those in these orbits, each with its images, or those that a proof decides."""
    tight: int = 0
    """Orbits in which some healthy node received a single copy of a piece."""
    lost: int = 0
    """Healthy nodes that miss a message, summed over all covered sets."""
    undecided: int = 0
    again: int = 0
    """Orbits that were repeated on the requested driver with the same history, or run beside a proof."""
    survived: int = 0
    """Covered sets that leave every healthy node served."""
    histories: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """Some of the sets that were run, with the hashes of their journals."""
    lost_counted: bool = False
    """Whether `lost` is the sum over all sets although not every set is covered."""

    def record(self) -> dict[str, object]:
        """The level as a row of the certificate; `mean_lost` only if it is known for all sets."""
        known = self.lost_counted or self.covered == self.sets
        mean = float(f"{self.lost / self.sets:.9g}") if known else None
        return {
            "faults": self.faults, "sets": self.sets, "covered": self.covered, "survived_least": self.survived,
            "survived_most": self.survived + self.sets - self.covered, "orbits": self.orbits, "tight": self.tight,
            "mean_lost": mean, "undecided": self.undecided, "again": self.again,
        }  # fmt: skip


@dataclass
class Counterexample:
    """A set of faults that defeats an algorithm."""

    faults: tuple[str, ...]
    unserved: tuple[str, ...]
    violated: tuple[str, ...]
    scenario: Scenario
    """The smallest scenario that shows it."""


@dataclass
class Certificate:
    """The levels that were run, and what refutes the algorithm, if anything does."""

    plan: Plan
    symmetries: int
    levels: list[Level] = field(default_factory=list)
    counterexample: Counterexample | None = None
    interrupted: bool = False
    trials: int = 0
    seconds: float = 0.0
    """Time of running trials, without the start of worker processes."""
    different: tuple[str, ...] | None = None
    """Faults under which two drivers had different histories."""
    different_hashes: tuple[str, str] | None = None
    """The hashes of these histories, in memory and on the driver of the scenario."""
    method: Method = "runs"
    tolerances: list[Tolerance] = field(default_factory=list)
    """The argument of a certificate by cuts: the smallest defeats, for each combination of kinds of faults."""
    without_cuts: str | None = None
    """Why sets were run although the method was left open."""
    engine: Literal["messages", "exact"] = "messages"
    """The engine that decided the sets that were run."""
    repeated: int = 0
    """Orbits that were evaluated exactly, and run again with messages with the same results."""

    @property
    def trials_per_second(self) -> float | None:
        """Trials per second; None if no time was measured."""
        return round(self.trials / self.seconds, 1) if self.seconds else None

    @property
    def verdict(self) -> Verdict:
        """`holds` only if every set of every level was run and no set failed."""
        # One failing set refutes, whatever else was not run.
        if self.counterexample or self.different is not None:
            return Verdict.VIOLATED
        # Holding takes every set of every level; an undecided trial proves nothing.
        whole = self.levels and all(level.covered == level.sets and not level.undecided for level in self.levels)
        return Verdict.HOLDS if whole and not self.interrupted else Verdict.UNDECIDED


class OrbitRun(NamedTuple):
    """An orbit that was run in memory, for the comparison with another driver."""

    faults: tuple[str, ...]
    tight: bool
    journal_hash: str


@dataclass
class FailingTrial:
    """A trial that failed, before it was reduced."""

    place: int
    trial: Trial
    result: TrialResult


def exhaustive_fault_sets(texts: Sequence[str]) -> list[FaultSetSpec]:
    """The fault sets to certify against, by ascending number of faults; `nodes<=2` is every set of at most two nodes.

    Raises ScenarioError for a description that draws at random: a certificate covers every set.
    """
    fault_sets = []
    for text in texts:
        for fault_set in parse_fault_sets(text):
            if fault_set.in_blocks:
                reason = "certificates count single nodes and links; a campaign runs every block: --faults 'all:..'"
                raise ScenarioError("faults", text, reason)
            if fault_set.how not in ("random", "all") or fault_set.sources or text.startswith("random"):
                raise ScenarioError(
                    "faults", text, "a certificate covers every set of faults, such as nodes<=2;links<=1"
                )
            fault_sets.append(replace(fault_set, how="all"))
    return sorted(dict.fromkeys(fault_sets), key=lambda fault_set: fault_set.size)


def refuse_random(scenario: Scenario, fault_sets: Sequence[FaultSetSpec]) -> None:
    """Raise ScenarioError if faults draw random numbers during a run: one run of each set would prove nothing."""
    remedy = "and one run of each set proves nothing; use a rate of 0 or 1, or estimate with `coordinator campaign`"
    for fault_set in fault_sets:
        if any(part.is_random for part in fault_set.parts):
            raise ScenarioError("faults", fault_set.name, f"it draws random numbers during a run, {remedy}")
    if fault_sets and scenario.fault and any(map(is_random, plan_trials(scenario).faults)):
        raise ScenarioError("fault", ", ".join(scenario.fault), f"it draws random numbers during a run, {remedy}")


def failed(result: TrialResult) -> bool:
    """Whether a trial is a counterexample: a healthy node misses a message, or a claim is violated."""
    return result.undecided is None and (not result.served or bool(result.violated))


class Certifier:
    """Certifies one scenario. `workers`, `log` and `progress` are passed on to `CampaignRunner`."""

    def __init__(self, scenario: Scenario, workers: int | None, log: TextIO, progress: Progress) -> None:
        self._scenario = scenario
        self._workers = workers
        self._log = log
        self._progress = progress
        if scenario.clock != "steps":
            raise ScenarioError("clock", scenario.clock, "certificates are about lock-step: use --clock steps")
        self._plan = plan_trials(scenario)

    def certify(self, fault_sets: Sequence[FaultSetSpec], sample: int | None = None) -> Certificate:
        """Run every set up to the first that fails; without fault sets, run the scenario as it is.

        With a `sample`, every set runs in memory. The tight orbits of each level and `sample` of its other orbits are
        repeated on the driver of the scenario, where they must have the same history. Raises ScenarioError before anything
        runs.
        """
        if sample is not None and (self._scenario.driver == "memory" or sample < 0):
            raise ScenarioError(
                "sample", sample, "a number of sets to repeat on the driver; needs a driver other than memory"
            )
        certificate, orbits, levels = self._begin(fault_sets)
        chosen = (
            self._scenario
            if sample is None
            else self._scenario.model_copy(update={"driver": "memory", "ranks_per_host": "auto"})
        )
        if not fault_sets:
            fault_sets, levels = [FaultSetSpec("all", ())], [Level("as they are", len(self._scenario.fault), 1)]
        for fault_set, level in zip(fault_sets, levels, strict=True):
            certificate.levels.append(level)
            level_orbits = orbits[fault_set].of(fault_set) if fault_set.parts else iter([Orbit((), 1)])
            self._level(certificate, level, level_orbits, chosen, sample)
            if certificate.verdict is Verdict.VIOLATED or certificate.interrupted:
                break
        return certificate

    def _begin(self, fault_sets: Sequence[FaultSetSpec]) -> tuple[Certificate, dict[FaultSetSpec, Orbits], list[Level]]:
        """A certificate that is still empty, and the sets of each level, which are counted but not run."""
        # Faults of the scenario break the symmetry, and so does what is left of a network: every set is then run.
        symmetric = not self._scenario.fault and self._plan.spec.agreement is None
        alike = symmetries(self._plan.algorithm) if symmetric else []
        orbits = {fault_set: self._orbits(fault_set, alike) for fault_set in fault_sets}
        # Counted in advance, so that a description with too many sets is refused before anything runs.
        levels = [
            Level(fault_set.name.removeprefix("all:"), fault_set.size, orbits[fault_set].count(fault_set))
            for fault_set in fault_sets
        ]
        return Certificate(self._plan, len(alike) or 1), orbits, levels

    def _orbits(self, fault_set: FaultSetSpec, alike: Sequence[Symmetry]) -> Orbits:
        # Random effects differ between a place and its image: those sets are their own orbits.
        known = all(part.kind in CERTAIN and not part.argument for part in fault_set.parts)
        kept = alike if known and alike else [identity(self._plan.topology)]
        return Orbits(self._plan.algorithm, kept, self._plan.scenario.fault)

    def _level(
        self, certificate: Certificate, level: Level, orbits: Iterator[Orbit], scenario: Scenario, sample: int | None
    ) -> None:
        """Run one level and add its counts to the certificate."""
        failing: list[FailingTrial] = []
        current: list[Orbit] = []
        sizes = iter(rounds())
        runs: list[OrbitRun] = []
        seed = self._scenario.seed

        def next_round() -> Iterable[Trial]:
            # The round in which a failure was found is completed, and no other one begins.
            current[:] = [] if failing else islice(orbits, next(sizes))
            return [Trial(0, orbit.faults, seed) for orbit in current]

        def take(place: int, trial: Trial, result: TrialResult) -> None:
            orbit = current[place]
            level.orbits += 1
            level.covered += orbit.multiplicity
            level.survived += orbit.multiplicity * result.served
            level.lost += orbit.multiplicity * len(result.unserved)
            level.undecided += result.undecided is not None
            level.tight += result.least_copies == 1
            if len(level.histories) < MOST_HISTORIES:
                level.histories.append((orbit.faults, result.journal_hash))
            if sample is not None:
                runs.append(OrbitRun(orbit.faults, result.least_copies == 1, result.journal_hash))
            # The first failing set in order, so that the result does not depend on which worker was faster.
            if failed(result) and (not failing or place < failing[0].place):
                failing[:] = [FailingTrial(place, trial, result)]

        expected = level.sets // certificate.symmetries
        campaign_runner = CampaignRunner(
            [scenario], worker_count(self._workers, [scenario], expected), self._log, self._progress
        )
        campaign_runner.carry_out(next_round, take, expected)
        count_trials(certificate, campaign_runner)
        if failing:
            certificate.counterexample = self.smallest(failing[0])
        elif sample is not None and not campaign_runner.interrupted:
            self._repeat_on_driver(certificate, level, runs, sample)

    def _repeat_on_driver(self, certificate: Certificate, level: Level, runs: Sequence[OrbitRun], sample: int) -> None:
        """Repeat the tight orbits and a sample of the others on the requested driver, and compare histories."""
        others = [run for run in runs if not run.tight]
        # Tight orbits are all repeated; of the others a sample with a fixed seed.
        chosen = random.Random(f"{self._scenario.seed}/{level.faults}").sample(others, min(sample, len(others)))
        todo = [run for run in runs if run.tight] + chosen
        rounds = iter([[Trial(0, run.faults, self._scenario.seed) for run in todo]])

        def take(place: int, trial: Trial, result: TrialResult) -> None:
            # The same history needs no judgement of its own.
            if result.journal_hash == todo[place].journal_hash:
                level.again += 1
            elif result.undecided:
                level.undecided += 1
            elif certificate.different is None:
                certificate.different = trial.faults
                certificate.different_hashes = todo[place].journal_hash, result.journal_hash

        campaign_runner = CampaignRunner([self._scenario], self._workers or 1, self._log, self._progress)
        campaign_runner.carry_out(lambda: next(rounds, []), take, len(todo))
        count_trials(certificate, campaign_runner)

    def smallest(self, failing: FailingTrial) -> Counterexample:
        """A failing trial as a counterexample, with the smallest scenario that fails."""
        found = self.as_it_is(failing)
        return replace(found, scenario=smallest_failure(found.scenario, failed, self._log))

    def as_it_is(self, failing: FailingTrial) -> Counterexample:
        """A failing trial as a counterexample, with its own scenario."""
        given = self._plan.scenario  # its random faults are resolved, unlike those of self._scenario
        faults = (*given.fault, *failing.trial.faults)
        whole = given.model_copy(update={"fault": faults, "seed": failing.trial.seed})
        return Counterexample(failing.trial.faults, failing.result.unserved, failing.result.violated, whole)


def count_trials(certificate: Certificate, campaign_runner: CampaignRunner) -> None:
    """Add the trials of a runner to those of a certificate."""
    certificate.interrupted = campaign_runner.interrupted
    certificate.trials += campaign_runner.clock.done
    certificate.seconds += campaign_runner.clock.seconds


def rounds() -> Iterator[int]:
    """The numbers of sets of the rounds of a level."""
    size = FIRST_ROUND
    while True:
        yield size
        # Growing rounds: small ones at first notice a failure soon, large ones keep all workers busy.
        size = min(2 * size, LARGEST_ROUND)


HERE = {"driver": "memory", "ranks_per_host": "auto"}


def in_memory(scenario: Scenario) -> Scenario:
    """The scenario on the memory driver, where it has the same history."""
    return scenario.model_copy(update=HERE)


def smallest_failure(scenario: Scenario, fails: Callable[[TrialResult], bool], log: TextIO) -> Scenario:
    """Reduce a failing scenario, in memory if it fails there too. An interrupt returns the scenario as it is."""
    requested = {name: getattr(scenario, name) for name in HERE}

    async def still_fails(simpler: Scenario) -> bool:
        async with TrialRunner([simpler], log) as runner:
            try:
                return fails(await runner.trial(Trial(0, (), simpler.seed)))
            except RunError:
                return False

    async def reduce(stop: InterruptGuard) -> Scenario:
        smallest = scenario
        with trio.CancelScope() as scope:
            stop.cancels(scope)
            here = in_memory(scenario)
            # In memory trials are much faster, but a failure of the driver itself may not show there.
            smallest = await shrink(here if await still_fails(here) else scenario, still_fails)
        return smallest.model_copy(update=requested)

    with InterruptGuard() as stop, logging_to(log):
        return trio.run(partial(reduce, stop))
