"""Certificates: every set of faults up to symmetry is decided, until one is a counterexample.

Three engines decide sets: messages, rows of bits (`batch_certifier`) and smallest cuts (`cut_certifier`). Sets are run
by ascending number of faults, so the first that costs a healthy node a message is a smallest one. A set stands for its
orbit under the symmetries of the run (`symmetry`), which are checked before they are used. Kinds of faults that depend
on random numbers or on a vote have orbits of one.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import ClassVar, Generic, Protocol, TextIO, TypeVar

from coordinator.annexes.proofs.certificate import Certificate, Counterexample, Level
from coordinator.annexes.proofs.orbits import Orbit, Orbits
from coordinator.annexes.proofs.subject import require_lock_step
from coordinator.campaigns.runner import CampaignRunner, worker_count
from coordinator.campaigns.shrink import failed, in_memory, smallest_failure
from coordinator.campaigns.trial_runner import Trial, TrialResult, UnexpectedFigure, plan_trials
from coordinator.networks.base import Progress
from coordinator.planning.feasibility import require_possible
from coordinator.results.claims import Verdict
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from coordinator.scenario.model import Scenario
from coordinator.theory.symmetry import Symmetry, identity, symmetries
from emunode.errors import ScenarioError
from emunode.faults.kinds import why_random

Item = TypeVar("Item")
Drawn_co = TypeVar("Drawn_co", covariant=True)

FIRST_ROUND, LARGEST_ROUND = 32, 4096
"""Sets per round, at first and at most; a failure is noticed at the end of its round."""
MOST_HISTORIES = 20
"""Sets of a level whose histories a certificate keeps."""
SYMMETRIC = {"reliable", "detection", "liveness", "numbers"}
"""The protocols that treat all ports alike.

An agreement and a rule of repair may go by the numbers of ports, and what a plug-in does is unknown.
"""
CERTAIN = {"crash", "down", "hang"}
"""Kinds of faults that have the same effect at a place and at its image."""


@dataclass
class FailingTrial:
    """A trial that failed, before it was reduced."""

    place: int
    trial: Trial
    result: TrialResult


def exhaustive_fault_sets(texts: Sequence[str]) -> list[FaultSetSpec]:
    """Return the fault sets to certify against, by ascending number of faults.

    `nodes<=2` is every set of at most two nodes. Raises ScenarioError for a description that draws at random: a
    certificate covers every set.
    """
    fault_sets = []
    for text in texts:
        for fault_set in parse_fault_sets(text):
            if fault_set.in_blocks:
                reason = "certificates count single nodes and links; a campaign runs every block: --faults 'all:..'"
                raise ScenarioError("faults", text, reason)
            if fault_set.how not in ("random", "all") or fault_set.sources or text.startswith("random"):
                raise ScenarioError(
                    "faults",
                    text,
                    "a certificate covers every set of faults: write a kind and a number, such as nodes<=2;links<=1",
                )
            fault_sets.append(replace(fault_set, how="all"))
    return sorted(dict.fromkeys(fault_sets), key=lambda fault_set: fault_set.size)


def refuse_random(scenario: Scenario, fault_sets: Sequence[FaultSetSpec]) -> None:
    """Raise ScenarioError if faults may draw random numbers during a run.

    One run of each set would then prove nothing.
    """
    remedy = "and one run of each set proves nothing; use a rate of 0 or 1, or estimate with `coordinator campaign`"
    for fault_set in fault_sets:
        for reason in filter(None, (part.why_random for part in fault_set.parts)):
            raise ScenarioError("faults", fault_set.name, f"{reason}, {remedy}")
    given = plan_trials(scenario).faults if fault_sets and scenario.fault else ()
    for reason in filter(None, map(why_random, given)):
        raise ScenarioError("fault", ", ".join(scenario.fault), f"{reason}, {remedy}")


class CertificateEngine(ABC):
    """One way to decide the sets of faults of a certificate, level by level."""

    decides_all: ClassVar[bool] = False
    """Whether it goes on after a level with a set that fails."""

    def __init__(self, certifier: "Certifier") -> None:
        self.certifier = certifier

    @abstractmethod
    def prepare(self, fault_sets: Sequence[FaultSetSpec], sample: int | None) -> tuple[Certificate, list[Level]]:
        """Return a certificate without levels, and for each fault set a level with all sets undecided.

        Raises ScenarioError, or an error of its own, before anything runs, if this engine cannot decide all sets.
        """

    @abstractmethod
    def decide(self, certificate: Certificate, level: Level, fault_set: FaultSetSpec) -> None:
        """Decide the sets of one level, and add its counts and a counterexample to the certificate."""

    def finish(self, certificate: Certificate) -> None:  # noqa: B027  # most have nothing left to do
        """Complete a certificate whose levels are decided."""


class Certifier:
    """Certifies one scenario.

    `workers`, `log` and `progress` are passed on to `CampaignRunner`.
    """

    def __init__(
        self,
        scenario: Scenario,
        workers: int | None,
        log: TextIO,
        progress: Progress,
        engine: "Callable[[Certifier], CertificateEngine] | None" = None,
    ) -> None:
        self.scenario = scenario
        self.workers = workers
        self.log = log
        self.progress = progress
        require_lock_step(scenario)
        self.plan = plan_trials(scenario)
        require_possible(self.plan)
        self.engine = (engine or MessageEngine)(self)

    def certify(self, fault_sets: Sequence[FaultSetSpec], sample: int | None = None) -> Certificate:
        """Decide every set up to the first that fails; without fault sets, run the scenario as it is.

        With a `sample`, every set runs in memory. The tight orbits of each level and `sample` of its other orbits are
        repeated on the driver of the scenario, where they must have the same history. Raises the errors of
        `CertificateEngine.prepare` before anything runs.
        """
        certificate, levels = self.engine.prepare(fault_sets, sample)
        for fault_set, level in zip(fault_sets or [FaultSetSpec("all", ())], levels, strict=True):
            certificate.counts.append(level)
            self.engine.decide(certificate, level, fault_set)
            failed_here = certificate.verdict is Verdict.VIOLATED or certificate.interrupted
            if failed_here and not self.engine.decides_all:
                break
        self.engine.finish(certificate)
        return certificate

    def orbits(self, fault_sets: Sequence[FaultSetSpec]) -> tuple[Certificate, dict[FaultSetSpec, Orbits], list[Level]]:
        """Return a certificate without levels, and the orbits of each fault set, counted but not run."""
        # Faults of the scenario break the symmetry of the network and of its remainder, so every set is run.
        symmetric = not self.scenario.fault and {feature.name for feature in self.plan.features} <= SYMMETRIC
        alike = symmetries(self.plan.algorithm) if symmetric else []
        orbits = {fault_set: self._orbits_of(fault_set, alike) for fault_set in fault_sets}
        # Counted in advance, so that a description with too many sets is refused before anything runs.
        levels = [level_of(fault_set, orbits[fault_set].count(fault_set)) for fault_set in fault_sets]
        return Certificate(self.plan, len(alike) or 1), orbits, levels

    def _orbits_of(self, fault_set: FaultSetSpec, alike: Sequence[Symmetry]) -> Orbits:
        # Random effects differ between a place and its image: those sets are their own orbits.
        known = all(part.kind in CERTAIN and not part.argument for part in fault_set.parts)
        kept = alike if known and alike else [identity(self.plan.topology)]
        return Orbits(self.plan.algorithm, kept, self.plan.scenario.fault)

    def draw(self, level: Level) -> random.Random:
        """Return the random numbers that draw sets of a level.

        They are the same each time.
        """
        return random.Random(f"{self.scenario.seed}/{level.faults}")

    def run(
        self, certificate: Certificate, sets: Sequence[tuple[str, ...]], workers: int = 1
    ) -> list[tuple[tuple[str, ...], TrialResult]]:
        """Run some sets with messages, in one round.

        Returns the sets that ran before an interrupt, with their results.
        """
        pending = iter([[Trial(0, faults, self.scenario.seed) for faults in sets]])
        found: dict[int, TrialResult] = {}
        runner = CampaignRunner([self.scenario], workers, self.log, self.progress)
        runner.carry_out(lambda: next(pending, []), lambda place, _, result: found.update({place: result}), len(sets))
        count_trials(certificate, runner)
        return [(sets[place], found[place]) for place in sorted(found)]

    def repeat(
        self, certificate: Certificate, expected: Mapping[tuple[str, ...], Mapping[str, object]], workers: int = 1
    ) -> Iterator[tuple[tuple[str, ...], TrialResult, UnexpectedFigure | None]]:
        """Run sets whose figures are known from memory, from rows of bits or from paths, and compare each.

        `expected` has figures by their names in `TrialResult`. Yields the sets that ran before an interrupt.
        """
        for faults, result in self.run(certificate, [*expected], workers):
            yield faults, result, result.difference(expected[faults])

    def smallest(self, failing: FailingTrial) -> Counterexample:
        """Return a failing trial as a counterexample, with the smallest scenario that fails."""
        found = self.as_it_is(failing)
        return replace(found, scenario=smallest_failure(found.scenario, failed, self.log))

    def as_it_is(self, failing: FailingTrial) -> Counterexample:
        """Return a failing trial as a counterexample, with its own scenario."""
        given = self.plan.scenario  # its random faults are resolved, unlike the faults of self.scenario
        faults = (*given.fault, *failing.trial.faults)
        whole = given.model_copy(update={"fault": faults, "seed": failing.trial.seed})
        return Counterexample(failing.trial.faults, failing.result.unserved, failing.result.violated, whole)


class _Indexed(Protocol[Drawn_co]):
    """A sequence of items, or an array of rows."""

    def __getitem__(self, at: int, /) -> Drawn_co: ...


class RandomSample(Generic[Item]):
    """A random sample of the fault sets of a level, drawn as they pass.

    It keeps the sets with the smallest random keys, as many as are wanted.
    """

    def __init__(self, draw: random.Random, size: int) -> None:
        self._draw = draw
        self._size = size
        self._kept: list[tuple[float, Item]] = []

    def keys(self, count: int) -> list[float]:
        """Draw the keys of the next items in order.

        So the sample does not depend on the order of decisions.
        """
        return [self._draw.random() for _ in range(count)]

    def offer(self, keys: Sequence[float], items: _Indexed[Item]) -> None:
        """Keep the items whose keys are among the least so far."""
        limit = self._kept[-1][0] if len(self._kept) >= self._size > 0 else float(self._size > 0)
        # Only items that enter are looked at: there may be millions of others.
        if entering := [(key, items[at]) for at, key in enumerate(keys) if key < limit]:
            self._kept = sorted(self._kept + entering, key=itemgetter(0))[: self._size]

    def items(self) -> list[Item]:
        """Return the sample, in the order of the keys."""
        return [item for _, item in self._kept]


def level_of(fault_set: FaultSetSpec, sets: int) -> Level:
    """Return a level with all sets undecided."""
    return Level(fault_set.name.removeprefix("all:"), fault_set.size, sets)


class MessageEngine(CertificateEngine):
    """Runs every set with messages, up to symmetry."""

    def prepare(self, fault_sets: Sequence[FaultSetSpec], sample: int | None) -> tuple[Certificate, list[Level]]:
        scenario = self.certifier.scenario
        if sample is not None and (scenario.driver == "memory" or sample < 0):
            raise ScenarioError(
                "sample", sample, "expected a number of sets to repeat on the driver, and a driver other than memory"
            )
        self._sample = sample
        certificate, self._orbits, levels = self.certifier.orbits(fault_sets)
        return certificate, levels if fault_sets else [Level("as they are", len(scenario.fault), 1)]

    def decide(self, certificate: Certificate, level: Level, fault_set: FaultSetSpec) -> None:
        on = self.certifier
        orbits = self._orbits[fault_set].of(fault_set) if fault_set.parts else iter([Orbit((), 1)])
        failing: list[FailingTrial] = []
        current: list[Orbit] = []
        sizes = iter(rounds())
        tight: dict[tuple[str, ...], str] = {}
        others = RandomSample[tuple[tuple[str, ...], str]](on.draw(level), self._sample or 0)
        keys: list[float] = []

        def next_round() -> Iterable[Trial]:
            # The round of a failure is completed, and no other round begins.
            current[:] = [] if failing else islice(orbits, next(sizes))
            keys[:] = others.keys(len(current)) if self._sample else []
            return [Trial(0, orbit.faults, on.scenario.seed) for orbit in current]

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
            if self._sample is not None and result.least_copies == 1:
                tight[orbit.faults] = result.journal_hash
            elif self._sample:
                others.offer([keys[place]], [(orbit.faults, result.journal_hash)])
            # The first failing set in order, so that the result does not depend on the speed of workers.
            if failed(result) and (not failing or place < failing[0].place):
                failing[:] = [FailingTrial(place, trial, result)]

        expected = level.sets // certificate.symmetries
        scenario = on.scenario if self._sample is None else in_memory(on.scenario)
        runner = CampaignRunner([scenario], worker_count(on.workers, [scenario], expected), on.log, on.progress)
        runner.carry_out(next_round, take, expected)
        count_trials(certificate, runner)
        if failing:
            certificate.counterexample = on.smallest(failing[0])
        elif self._sample is not None and not runner.interrupted:
            # In order, whichever worker was faster.
            self._repeat_on_driver(certificate, level, dict(sorted(tight.items())) | dict(others.items()))

    def _repeat_on_driver(self, certificate: Certificate, level: Level, hashes: Mapping[tuple[str, ...], str]) -> None:
        """Repeat orbits on the requested driver, and compare histories with the given ones."""
        expected = {faults: {"journal_hash": digest} for faults, digest in hashes.items()}
        for faults, result, difference in self.certifier.repeat(certificate, expected, self.certifier.workers or 1):
            # The same history needs no judgement of its own.
            if difference is None:
                level.again += 1
            elif not result.decided:
                level.undecided += 1
            elif certificate.different is None:
                certificate.different = faults
                certificate.different_hashes = hashes[faults], result.journal_hash


def count_trials(certificate: Certificate, campaign_runner: CampaignRunner) -> None:
    """Add the trials of a runner to the trials of a certificate."""
    certificate.interrupted = campaign_runner.interrupted
    certificate.trials += campaign_runner.clock.done
    certificate.seconds += campaign_runner.clock.seconds


def rounds() -> Iterator[int]:
    """Yield the numbers of sets of the rounds of a level."""
    size = FIRST_ROUND
    while True:
        yield size
        # Growing rounds: small ones at first notice a failure soon, large ones keep all workers busy.
        size = min(2 * size, LARGEST_ROUND)
