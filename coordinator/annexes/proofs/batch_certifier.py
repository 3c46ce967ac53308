"""Certificates by rows of bits: the same sets as with messages, in the same rounds, thousands at once.

The engine judges deliveries alone. The first sets of each level and a sample of the others are run with messages as
well; these runs judge all claims; deliveries, unserved nodes, copies, steps and segments of each must be equal. So is
the counterexample, which is reduced with messages.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from coordinator.annexes.proofs.certificate import Certificate, Level
from coordinator.annexes.proofs.certify import (
    MOST_HISTORIES,
    CertificateEngine,
    Certifier,
    FailingTrial,
    RandomSample,
    rounds,
)
from coordinator.annexes.proofs.orbits import Orbits
from coordinator.campaigns.engines import disagreement, figures_of, sample_size
from coordinator.campaigns.runner import SETTLING_SECONDS, check_workers
from coordinator.campaigns.shrink import failed
from coordinator.campaigns.trial_runner import Trial
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.theory.batch.draws import DrawnPlaces
from coordinator.theory.batch.engine import batch_engine_of
from coordinator.theory.batch.point import PointEngine, why_messages
from coordinator.theory.dependence.bit_rows import Indices
from coordinator.theory.dependence.size import InexactError
from emunode.errors import RunError


class RowsOfSets:
    """Some sets of a level, given by rows of indices of places; they are numbered from 0 on."""

    def __init__(self, orbits: Orbits, fault_set: FaultSetSpec, rows: Indices) -> None:
        self.fault_set = fault_set
        self._rows = rows
        links = {link: at for at, link in enumerate(orbits.places.links)}
        # Nodes are struck by rank, and links by position.
        self._places = [
            np.array([place if isinstance(place, int) else links[place] for place in orbits.places_of(part)], np.int64)
            for part in fault_set.parts
        ]

    def struck(self, numbers: Indices) -> Sequence[DrawnPlaces]:
        """Return the places that each term strikes, for sets with these numbers."""
        counts = [part.count for part in self.fault_set.parts]
        columns = pairwise(np.cumsum([0, *counts]).tolist())
        rows = self._rows[numbers]
        return [
            DrawnPlaces(part, places[rows[:, first:last].ravel()], np.repeat(np.arange(len(numbers)), last - first))
            for part, places, (first, last) in zip(self.fault_set.parts, self._places, columns, strict=True)
        ]


class BitRowEngine(CertificateEngine):
    """Evaluates every set exactly; raises InexactError, before anything runs, where that is not exact.

    Unless `always`, few sets raise InexactError as well, because as many would be run again.
    """

    def __init__(self, certifier: Certifier, *, always: bool = True) -> None:
        super().__init__(certifier)
        self._always = always

    def prepare(self, fault_sets: Sequence[FaultSetSpec], sample: int | None) -> tuple[Certificate, list[Level]]:
        if not fault_sets:
            raise InexactError("a single run is no set of runs")
        if sample is not None:
            raise InexactError("histories are compared with those of another driver")
        check_workers(self.certifier.workers)
        plan = self.certifier.plan
        for fault_set in fault_sets:
            reason = why_messages(plan, fault_set)
            if reason is not None:
                raise InexactError(reason)
        certificate, self._orbits, levels = self.certifier.orbits(fault_sets)
        self._engine = batch_engine_of(plan)
        expected = sum(level.sets for level in levels) // certificate.symmetries
        if not self._always and expected <= len(levels) * sample_size(self._engine):
            raise InexactError(
                f"with about {expected} sets, running all of them takes no longer than checking a sample"
            )
        certificate.engine = "exact"
        return certificate, levels

    def decide(self, certificate: Certificate, level: Level, fault_set: FaultSetSpec) -> None:
        orbits, engine = self._orbits[fault_set], self._engine
        began, found = time.perf_counter(), None
        first = np.empty((0, fault_set.size), np.int64)
        size = sample_size(engine)
        sample = RandomSample[Indices](self.certifier.draw(level), max(0, size - MOST_HISTORIES))
        expected = max(1, level.sets // certificate.symmetries)
        with InterruptGuard() as stop:
            for rows, sizes in _in_rounds(orbits, fault_set):
                point = self._point(orbits, fault_set, rows)
                outcome, _ = point.evaluate(np.arange(len(rows)), copies=True)
                level.orbits += len(rows)
                level.covered += int(sizes.sum())
                level.survived += int(sizes[outcome.served].sum())
                level.lost += int((sizes * outcome.unserved).sum())
                level.undecided += int((~outcome.decided).sum())
                level.tight += int((outcome.least_copies == 1).sum())
                begin = min(MOST_HISTORIES, size, len(first) + len(rows)) - len(first)
                first = np.concatenate([first, rows[:begin]])
                sample.offer(sample.keys(len(rows) - begin), rows[begin:])
                failing = np.flatnonzero(outcome.decided & ~outcome.served)
                if len(failing):
                    found = rows[failing[0]]
                if time.perf_counter() - began > SETTLING_SECONDS:
                    self.certifier.progress(f"{level.faults}: sets", level.orbits, expected)
                if found is not None or stop.requested:
                    certificate.interrupted = stop.requested
                    break
        certificate.trials += level.orbits
        certificate.seconds += time.perf_counter() - began
        if not certificate.interrupted:
            chosen = [*first, *sample.items(), *([] if found is None else [found])]
            rows = np.array(chosen, np.int64).reshape(len(chosen), fault_set.size)
            sets = [orbits.specs(row, fault_set) for row in rows.tolist()]
            figures = figures_of(self._point(orbits, fault_set, rows), range(len(rows)))
            # The failing set may be in the sample too.
            by_set = dict(zip(sets, figures.values(), strict=True))
            hashes = self._repeat(certificate, by_set, None if found is None else sets[-1])
            level.histories += [(faults, hashes[faults]) for faults in sets[: len(first)] if faults in hashes]

    def _point(self, orbits: Orbits, fault_set: FaultSetSpec, rows: Indices) -> PointEngine:
        plan, sets = self.certifier.plan, RowsOfSets(orbits, fault_set, rows)
        return PointEngine(self._engine, plan, sets, orbits.places, lambda _: plan.scenario.seed)

    def _repeat(
        self,
        certificate: Certificate,
        expected: Mapping[tuple[str, ...], Mapping[str, object]],
        failing: tuple[str, ...] | None,
    ) -> dict[tuple[str, ...], str]:
        """Run sets with messages, among them a `failing` one; return their hashes. RunError if a result differs."""
        trials, seconds = certificate.trials, certificate.seconds
        results = {}
        for faults, result, difference in self.certifier.repeat(certificate, expected):
            if difference:
                raise RunError(
                    f"the engines disagree about {', '.join(faults) or 'no faults'}: {disagreement(difference)}; this is "
                    "an error of the emulator, and --engine messages avoids it"
                )
            results[faults] = result
        # The rate of the engine.
        certificate.trials, certificate.seconds = trials, seconds
        certificate.repeated += len(results)
        # Apart from the failing set, only a set that breaks a claim about something other than deliveries.
        claims = [faults for faults, result in results.items() if failed(result)]
        if claims and len(results) == len(expected):
            faults = failing or claims[0]
            trial = Trial(0, faults, self.certifier.scenario.seed)
            certificate.counterexample = self.certifier.smallest(FailingTrial(0, trial, results[faults]))
        return {faults: result.journal_hash for faults, result in results.items()}


def _in_rounds(orbits: Orbits, fault_set: FaultSetSpec) -> Iterator[tuple[Indices, Indices]]:
    """Yield the sets of a level up to symmetry, with the sizes of their orbits, in the rounds of an engine with
    messages.
    """
    blocks = orbits.rows_of(fault_set)
    rows, sizes = next(blocks)
    for wanted in rounds():
        while len(rows) < wanted and (more := next(blocks, None)) is not None:
            rows, sizes = np.concatenate([rows, more[0]]), np.concatenate([sizes, more[1]])
        if not len(rows):
            return
        yield rows[:wanted], sizes[:wanted]
        rows, sizes = rows[wanted:], sizes[wanted:]
