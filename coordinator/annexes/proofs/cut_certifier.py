"""Certificates by smallest cuts: no set of faults has to be run to prove, and one is run to refute.

The copies of a message take fixed paths, so the smallest set of faults that costs a healthy node a message is found from the
paths alone (`coordinator.theory.tolerance`). A counterexample is run by the message engine before it is reported, and so are
some sets of each level that is proved.
"""

from collections.abc import Sequence
from dataclasses import replace

from coordinator.annexes.proofs.certificate import Certificate, Level
from coordinator.annexes.proofs.certify import CertificateEngine, FailingTrial, level_of
from coordinator.annexes.proofs.orbits import count_sets
from coordinator.campaigns.runner import check_workers
from coordinator.campaigns.trial_runner import Trial
from coordinator.planning.worst_faults import why_paths_vary
from coordinator.scenario.fault_draws import FaultSites, sample_numbers, set_number
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm
from coordinator.theory.dependence.message_paths import paths_of
from coordinator.theory.dependence.size import InexactError
from coordinator.theory.least_faults import Strike, TooManyCasesError
from coordinator.theory.survivors import MOST_WORK, survivors
from coordinator.theory.symmetry import symmetries
from coordinator.theory.threats import Threats, given_damage, parts_of
from coordinator.theory.tolerance import Tolerance
from emunode.errors import RunError

MOST_CHECKED_SETS, MOST_CHECKED_HOPS = 8, 50_000
"""Sets of the largest proved level that are run, and their hops: at most these numbers, but at least one set."""
MOST_REDUCED_HOPS = 10_000
"""Most hops of a run whose counterexample is reduced further; the faults of a smallest cut are few already."""


class NotProvableError(Exception):
    """Why smallest cuts prove nothing about this scenario."""


class CutEngine(CertificateEngine):
    """Decides every fault set by smallest cuts; raises NotProvableError, before anything runs, if paths do not suffice."""

    decides_all = True

    def prepare(self, fault_sets: Sequence[FaultSetSpec], sample: int | None) -> tuple[Certificate, list[Level]]:
        if not fault_sets or sample is not None:
            raise NotProvableError(
                "smallest cuts prove something about sets of faults: give sets of faults, and no sample"
            )
        check_workers(self.certifier.workers)
        plan = self.certifier.plan
        self._places = FaultSites(plan.algorithm, plan.scenario.fault)
        sets = [count_sets(fault_set, self._places) for fault_set in fault_sets]
        tolerances = self._tolerances(fault_sets, self._places)
        try:
            # All searches come first, so that none fails after sets were run.
            for fault_set, tolerance in zip(fault_sets, tolerances, strict=True):
                tolerance.defeat(fault_set)
        except TooManyCasesError:
            raise NotProvableError(
                "the search for the fewest faults that defeat a message has too many cases"
            ) from None
        certificate = Certificate(plan, 1, method="cuts", tolerances=list(dict.fromkeys(tolerances)))
        certificate.symmetries = max(len(each.symmetries) for each in tolerances)
        self._work = MOST_WORK
        self._tolerance = dict(zip(fault_sets, tolerances, strict=True))
        self._proved: dict[Tolerance, tuple[Level, FaultSetSpec]] = {}
        """By tolerance, the largest level that it proves."""
        return certificate, [level_of(fault_set, total) for fault_set, total in zip(fault_sets, sets, strict=True)]

    def finish(self, certificate: Certificate) -> None:
        for level, fault_set in self._proved.values():
            self._check(certificate, level, fault_set)

    def _tolerances(self, fault_sets: Sequence[FaultSetSpec], places: FaultSites) -> list[Tolerance]:
        """Return the smallest defeats for each fault set; sets of the same kinds of faults share them."""
        plan = self.certifier.plan
        reason = why_paths_vary(plan.algorithm, plan.scenario)
        if reason is not None:
            raise NotProvableError(reason)
        try:
            outages, byzantine = given_damage(plan.faults, plan.judged.states, plan.topology, plan.spec.seed)
            if places.sources & outages.faulty:
                raise InexactError("the source is faulty")
            parts = [parts_of(fault_set, places) for fault_set in fault_sets]
            self._paths = paths_of(plan.algorithm)
            self._paths.require_all()
        except InexactError as error:
            raise NotProvableError(str(error)) from None
        alike = symmetries(plan.algorithm)
        made = {each: Tolerance(self._paths, Threats(outages, byzantine, each), alike) for each in dict.fromkeys(parts)}
        return [made[each] for each in parts]

    def decide(self, certificate: Certificate, level: Level, fault_set: FaultSetSpec) -> None:
        tolerance, places = self._tolerance[fault_set], self._places
        defeat = tolerance.defeat(fault_set)
        found, work = survivors(tolerance, fault_set, level.sets, defeated=defeat is not None, work=self._work)
        self._work -= work
        level.survived, level.covered = found.least, level.sets - (found.most - found.least)
        level.undecided = found.vacant
        if found.lost is not None:
            level.lost, level.lost_counted = found.lost, True
        if defeat is not None and certificate.counterexample is None and not certificate.interrupted:
            message, strikes = defeat
            filled = tolerance.filled(fault_set, message, strikes)
            if filled is not None:
                self._refute(certificate, specs_of(filled, fault_set, places), specs_of(strikes, fault_set, places))
            elif found.least < level.sets:
                level.undecided += 1
        if defeat is None:
            self._proved[tolerance] = level, fault_set

    def _refute(self, certificate: Certificate, faults: tuple[str, ...], least: tuple[str, ...]) -> None:
        """Run a set that defeats a message; `least` is the part of the set that is needed."""
        expected = {each: {"decided": True, "served": False} for each in (faults, least)}
        results = {}
        for each, result, difference in self.certifier.repeat(certificate, expected):
            if difference:
                raise contradiction(each, "leaves no healthy node without a message")
            results[each] = result
        if least not in results:
            return
        failing = FailingTrial(0, Trial(0, least, self.certifier.scenario.seed), results[least])
        small = self._paths.hops <= MOST_REDUCED_HOPS
        shown = self.certifier.smallest(failing) if small else self.certifier.as_it_is(failing)
        certificate.counterexample = replace(shown, faults=faults, unserved=results[faults].unserved)

    def _check(self, certificate: Certificate, level: Level, fault_set: FaultSetSpec) -> None:
        """Run some sets of a level that is proved; RunError if one of them fails."""
        if certificate.interrupted:
            return
        most = max(1, min(MOST_CHECKED_SETS, MOST_CHECKED_HOPS // max(1, self._paths.hops)))
        numbers = sample_numbers(fault_set, self._places, self.certifier.scenario.seed, most)
        sets = [set_number(fault_set, self._places, number) for number in sorted(numbers)]
        expected = {faults: {"served": True} for faults in sets}
        for faults, result, difference in self.certifier.repeat(certificate, expected):
            if difference and result.decided:
                raise contradiction(faults, "leaves a healthy node without a message")
            level.again += 1


def specs_of(strikes: Sequence[Strike], fault_set: FaultSetSpec, places: FaultSites) -> tuple[str, ...]:
    """Return the faults as specifications."""
    parts: Sequence[FaultSetTerm] = fault_set.parts
    return tuple(places.spec(parts[part], place, fault_set.when) for part, place in strikes)


def contradiction(faults: tuple[str, ...], outcome: str) -> RunError:
    """Return the error of a run that differs from the prediction of its paths: an error of this software."""
    return RunError(
        f"a run with {', '.join(faults) or 'no faults'} {outcome}, and the paths of its fault-free run say otherwise; "
        "certify with --method runs"
    )


# --- in words ----------------------------------------------------------------------------------------------------------
