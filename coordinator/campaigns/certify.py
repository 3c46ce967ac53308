"""Certificates: every set of faults there is, up to symmetry, each one really run; or the smallest counterexample.

Sets are gone through by ascending number of faults, so the first that costs a healthy node a message is a smallest one. A
set stands for its whole orbit under the symmetries of the run (`symmetry`), which are checked before they are used; kinds of
faults that leave something to chance or to a vote have orbits of one.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TextIO

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
from emunode.errors import RunError, ScenarioError
from emunode.logging import logging_to

FIRST_ROUND, LARGEST_ROUND = 32, 4096
"""Sets that are run between two looks whether one failed."""
CERTAIN = {"crash", "down", "hang"}
"""Kinds whose effect is the same at a place and at its image."""


@dataclass
class Level:
    """What was run of one fault set."""

    faults: str
    size: int
    sets: int
    orbits: int = 0
    """Orbits that were run: all of them, unless a counterexample ended it."""
    covered: int = 0
    """Sets in these orbits."""
    tight: int = 0
    """Orbits in which some healthy node was left with a single copy of a piece."""
    lost: int = 0
    """Healthy nodes that miss something, summed over all sets covered."""
    undecided: int = 0
    again: int = 0
    """Orbits that were run once more on the driver asked for, and had the same history there."""

    def record(self) -> dict[str, object]:
        """The level as a row."""
        mean = round(self.lost / self.sets, 9) if self.covered == self.sets else None
        return {
            "faults": self.faults, "sets": self.sets, "covered": self.covered, "orbits": self.orbits, "tight": self.tight,
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
    """What is certified, and by which trials."""

    plan: Plan
    symmetries: int
    levels: list[Level] = field(default_factory=list)
    counterexample: Counterexample | None = None
    interrupted: bool = False
    trials: int = 0
    seconds: float = 0.0
    """Of running trials, processes that were being started apart."""
    different: tuple[str, ...] | None = None
    """Faults under which two drivers did not have the same history."""

    @property
    def trials_per_second(self) -> float | None:
        """The rate; None if everything went too fast to have one."""
        return round(self.trials / self.seconds, 1) if self.seconds else None

    @property
    def verdict(self) -> Verdict:
        """`holds` only if every set of every level was run and none failed."""
        if self.counterexample or self.different is not None:
            return Verdict.VIOLATED
        whole = self.levels and all(level.covered == level.sets and not level.undecided for level in self.levels)
        return Verdict.HOLDS if whole and not self.interrupted else Verdict.UNDECIDED


@dataclass
class FailingTrial:
    """A trial that failed, before it was made small."""

    place: int
    trial: Trial
    result: TrialResult


def exhaustive_fault_sets(texts: Sequence[str]) -> list[FaultSetSpec]:
    """What is certified against, by ascending number of faults; `nodes<=2` is every set of at most two nodes.

    ScenarioError for a fault set that draws: a certificate goes through all there is.
    """
    found = []
    for text in texts:
        for fault_set in parse_fault_sets(text):
            if fault_set.how not in ("random", "all") or fault_set.sources or text.startswith("random"):
                raise ScenarioError(
                    "faults", text, "a certificate is about every set of faults, such as nodes<=2;links<=1"
                )
            found.append(replace(fault_set, how="all"))
    return sorted(dict.fromkeys(found), key=lambda fault_set: fault_set.size)


def failed(result: TrialResult) -> bool:
    """Whether a trial is a counterexample: a healthy node misses something, or a claim does not hold."""
    return result.undecided is None and (not result.served or bool(result.violated))


class Certifier:
    """Certifies one scenario. `workers` processes, the log and the progress are those of `CampaignRunner`."""

    def __init__(self, scenario: Scenario, workers: int | None, log: TextIO, progress: Progress) -> None:
        self._scenario = scenario
        self._workers = workers
        self._log = log
        self._progress = progress
        self._plan = plan_trials(scenario)

    def certify(self, fault_sets: Sequence[FaultSetSpec], sample: int | None = None) -> Certificate:
        """Run every set of the fault sets, or up to the first that fails; without any, the scenario as it is.

        With a `sample`, all of them run in memory, and of each level the tight orbits and so many of the others once more
        on the driver of the scenario, where they must have the same history. Raises ScenarioError before anything runs.
        """
        if sample is not None and (self._scenario.driver == "memory" or sample < 0):
            raise ScenarioError("sample", sample, "with a driver other than memory, how many sets to run on it too")
        alike = symmetries(self._plan.algorithm) if not self._scenario.fault else []
        certificate = Certificate(self._plan, len(alike) or 1)
        orbits = {fault_set: self._orbits(fault_set, alike) for fault_set in fault_sets}
        levels = [
            Level(fault_set.name.removeprefix("all:"), fault_set.size, orbits[fault_set].count(fault_set))
            for fault_set in fault_sets
        ]
        chosen = (
            self._scenario
            if sample is None
            else self._scenario.model_copy(update={"driver": "memory", "ranks_per_host": "auto"})
        )
        if not fault_sets:
            fault_sets, levels = [FaultSetSpec("all", ())], [Level("as they are", len(self._scenario.fault), 1)]
        for fault_set, level in zip(fault_sets, levels, strict=True):
            certificate.levels.append(level)
            found = orbits[fault_set].of(fault_set) if fault_set.parts else iter([Orbit((), 1)])
            self._level(certificate, level, found, chosen, sample)
            if certificate.verdict is Verdict.VIOLATED or certificate.interrupted:
                break
        return certificate

    def _orbits(self, fault_set: FaultSetSpec, alike: Sequence[Symmetry]) -> Orbits:
        known = all(part.kind in CERTAIN and not part.argument for part in fault_set.parts)
        kept = alike if known and alike else [identity(self._plan.topology)]
        return Orbits(self._plan.algorithm, kept, self._plan.scenario.fault)

    def _level(
        self, certificate: Certificate, level: Level, orbits: Iterator[Orbit], scenario: Scenario, sample: int | None
    ) -> None:
        """Run one level; what is learned goes into the certificate."""
        failing: list[FailingTrial] = []
        current: list[Orbit] = []
        sizes = iter(_rounds())
        again: list[tuple[tuple[str, ...], bool, str]] = []
        seed = self._scenario.seed

        def next_round() -> Iterable[Trial]:
            current[:] = [] if failing else islice(orbits, next(sizes))
            return [Trial(0, orbit.faults, seed) for orbit in current]

        def take(place: int, trial: Trial, result: TrialResult) -> None:
            orbit = current[place]
            level.orbits += 1
            level.covered += orbit.multiplicity
            level.lost += orbit.multiplicity * len(result.unserved)
            level.undecided += result.undecided is not None
            level.tight += result.least_copies == 1
            if sample is not None:
                again.append((orbit.faults, result.least_copies == 1, result.journal_hash))
            if failed(result) and (not failing or place < failing[0].place):
                failing[:] = [FailingTrial(place, trial, result)]

        expected = level.sets // certificate.symmetries
        campaign_runner = CampaignRunner(
            [scenario], worker_count(self._workers, [scenario], expected), self._log, self._progress
        )
        campaign_runner.carry_out(next_round, take, expected)
        _count(certificate, campaign_runner)
        if failing:
            certificate.counterexample = self._small(failing[0])
        elif sample is not None and not campaign_runner.interrupted:
            self._once_more(certificate, level, again, sample)

    def _once_more(
        self, certificate: Certificate, level: Level, found: Sequence[tuple[tuple[str, ...], bool, str]], sample: int
    ) -> None:
        """Run the tight orbits and a sample of the others on the driver asked for, and compare histories."""
        others = [each for each in found if not each[1]]
        chosen = random.Random(f"{self._scenario.seed}/{level.faults}").sample(others, min(sample, len(others)))
        todo = [each for each in found if each[1]] + chosen
        rounds = iter([[Trial(0, faults, self._scenario.seed) for faults, _, _ in todo]])

        def take(place: int, trial: Trial, result: TrialResult) -> None:
            if result.journal_hash == todo[place][2]:
                level.again += 1
            elif result.undecided:
                level.undecided += 1
            elif certificate.different is None:
                certificate.different = trial.faults

        campaign_runner = CampaignRunner([self._scenario], self._workers or 1, self._log, self._progress)
        campaign_runner.carry_out(lambda: next(rounds, []), take, len(todo))
        _count(certificate, campaign_runner)

    def _small(self, failing: FailingTrial) -> Counterexample:
        given = self._plan.scenario  # with the faults that were drawn for it
        faults = (*given.fault, *failing.trial.faults)
        whole = given.model_copy(update={"fault": faults, "seed": failing.trial.seed})
        smallest = smallest_failure(whole, failed, self._log)
        return Counterexample(failing.trial.faults, failing.result.unserved, failing.result.violated, smallest)


def _count(certificate: Certificate, campaign_runner: CampaignRunner) -> None:
    certificate.interrupted = campaign_runner.interrupted
    certificate.trials += campaign_runner.clock.done
    certificate.seconds += campaign_runner.clock.seconds


def _rounds() -> Iterator[int]:
    size = FIRST_ROUND
    while True:
        yield size
        size = min(2 * size, LARGEST_ROUND)


HERE = {"driver": "memory", "ranks_per_host": "auto"}


def in_memory(scenario: Scenario) -> Scenario:
    """The same scenario on the memory driver, where it has the same history."""
    return scenario.model_copy(update=HERE)


def smallest_failure(scenario: Scenario, fails: Callable[[TrialResult], bool], log: TextIO) -> Scenario:
    """Reduce a scenario that fails, in memory if it fails there too; as it is when asked to stop meanwhile."""
    asked_for = {name: getattr(scenario, name) for name in HERE}

    async def try_out(simpler: Scenario) -> bool:
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
            smallest = await shrink(here if await try_out(here) else scenario, try_out)
        return smallest.model_copy(update=asked_for)

    with InterruptGuard() as stop, logging_to(log):
        return trio.run(partial(reduce, stop))
