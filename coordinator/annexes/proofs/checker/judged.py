"""Checks of a certificate by runs: sets of faults are run by the message engine and judged as every run is.

Unlike the checks of cuts this holds for every algorithm, also where nodes choose, wait or fold.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from coordinator.annexes.proofs.checker.paths import MOST_HOPS, Threat, every_set
from coordinator.annexes.proofs.checker.subject import Subject, shape_of
from coordinator.execution.untrusted import plan_of
from coordinator.execution.verification import TooLargeError
from coordinator.history.journal import RECORD, Records, sorted_records
from coordinator.results.claims import Verdict
from coordinator.results.conclude import rule_counted
from coordinator.results.metrics import count_trial
from coordinator.scenario.fault_sets import FaultSetSpec
from emunode.engine.memory import MemoryEngine
from emunode.faults.kinds import FOREVER
from emunode.play import play

MOST_RUN_HOPS: Final = 1_000_000
"""About the most hops in all runs of one verification."""
LEAST_HISTORIES: Final = 100
"""Histories that are run again even if they have more hops."""
LEAST_SETS: Final = 10
"""Sets that are run even if they have more hops; also the most histories of a level that are compared."""


class JudgedRun(NamedTuple):
    """The judgement of one run."""

    unserved: list[str]
    """Labels of the healthy nodes that miss a message, ascending."""
    violated: list[str]
    """Names of the violated claims."""
    undecided: str | None
    """Why the run decides nothing, or None."""
    journal_hash: str
    records: Records
    """The rows of its journal."""


class JudgedRuns:
    """Runs under the faults of the scenario and further ones, within a bound on their hops."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._left = max(LEAST_SETS, MOST_RUN_HOPS // max(1, len(subject.schedule.rows)))

    def bound(self, levels: Sequence[Mapping[str, Any]]) -> None:
        """Bound the work before it begins: TooLargeError if the stored histories are too many to run again."""
        histories = sum(min(LEAST_SETS, len(level["histories"])) for level in levels)
        most = max(LEAST_HISTORIES, self._left)
        if histories > most:
            raise TooLargeError(f"{histories} histories are too many to run again; at most {most} are")

    def run(self, specs: list[str]) -> JudgedRun:
        """Run one set; UnreadableError if its faults cannot be read."""
        scenario = self._subject.plan.scenario
        # A plan of its own: algorithms with knowledge of faults depend on them.
        plan = plan_of(scenario.model_copy(update={"fault": (*scenario.fault, *specs)}))
        rows: list[bytes | bytearray] = []
        hops, ended = 0, None
        try:
            engine = MemoryEngine(plan.algorithm)
            # One step beyond the limit: nodes only read the arrivals of the last step then.
            for turn in play(engine, plan.faults, limit=scenario.step_limit + 1):
                rows.append(turn)
                hops += len(turn) // RECORD.itemsize
                if hops > MOST_HOPS:
                    raise TooLargeError(f"a run has more than {MOST_HOPS:,} hops")
            if engine.busy:
                ended = f"the step limit of {scenario.step_limit} was reached"
        finally:
            plan.algorithm.close()
        records = sorted_records(rows)
        counts = count_trial(plan, records, engine.altered_copies)
        ruling = rule_counted(plan, counts.metrics, ended)
        violated = [each.claim.name for each in ruling.judgements if each.verdict is Verdict.VIOLATED]
        unserved = sorted(map(plan.topology.label, counts.unserved))
        return JudgedRun(unserved, violated, ruling.invalid, counts.journal_hash, records)

    def level(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run some sets whose histories are stored; where no set is said to fail, run every set if there are few."""
        name = level["faults"]
        self._histories(level, fault_set)
        survives = level["survived"][0] == level["sets"] and not level["undecided"]
        if survives and level["lost"]:
            self._subject.findings.append(f"{name}: lost is {level['lost']}, and every set is survived")
        # A failing set is claimed elsewhere, unless nothing is claimed: then one may have been left out.
        if not survives and self._subject.data["verdict"] != Verdict.UNDECIDED:
            if level["lost"] is not None:
                self._recount(level, fault_set)
            return
        whole, lost = level["sets"] <= self._left, 0
        if not whole:
            self._subject.undecided(f"{name}: {level['sets']} sets are too many to run again; some of them were")
        for specs, judged in self._run_all(fault_set):
            lost += len(judged.unserved)
            if not survives:
                if judged.undecided is None and (judged.unserved or judged.violated):
                    self._subject.refuted.append(f"{name}, by {', '.join(specs)[:160] or 'the scenario itself'}")
                    return
                continue
            complaint = self._complaint(judged)
            if complaint:
                where = ", ".join(specs)[:200] or "no further faults"
                self._subject.findings.append(f"{name}: under {where} {complaint}")
                return
        if whole and not survives and level["lost"] is not None:
            self._subject.differs(f"{name}: lost", level["lost"], lost)

    def _histories(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run the sets whose histories are stored, and compare the histories."""
        name = level["faults"]
        for history in level["histories"][:LEAST_SETS]:
            found = self.run(history["faults"]).journal_hash
            if found != history["journal_hash"]:
                under = ", ".join(history["faults"])[:80] or "no further faults"
                self._subject.findings.append(
                    f"{name}: under {under} the history is {found}, and not {history['journal_hash'][:40]}"
                )
            if self._subject.shape(history["faults"]) != shape_of(fault_set):
                self._subject.findings.append(f"{name}: {', '.join(history['faults'])[:80]} is not one of its sets")

    def _run_all(self, fault_set: FaultSetSpec) -> Iterator[tuple[list[str], JudgedRun]]:
        """Run the sets of a level, as many as are left."""
        threat = Threat(tuple(part.kind for part in fault_set.parts), 1, FOREVER, *self._subject.places)
        for chosen in islice(every_set(fault_set, threat), self._left):
            self._left -= 1
            specs = self._subject.specs(chosen, fault_set)
            yield specs, self.run(specs)

    def _recount(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Count the survived sets of a level, and the nodes that miss a message, if there are few sets."""
        name, sets = level["faults"], level["sets"]
        if sets > self._left:
            self._subject.verification.unchecked.append(f"{name}: {sets} sets are too many to count again")
            return
        runs = [judged for _, judged in self._run_all(fault_set)]
        survived = sum(judged.undecided is None and not judged.unserved for judged in runs)
        least, most = level["survived"]
        if not least <= survived <= most:
            self._subject.findings.append(
                f"{name}: {survived} sets are survived, and the certificate says {level['survived']}"
            )
        self._subject.differs(f"{name}: lost", level["lost"], sum(len(judged.unserved) for judged in runs))

    def _complaint(self, found: JudgedRun) -> str | None:
        """Return the difference between a run and a set that is survived, in words."""
        if found.undecided is not None:
            return f"a run decides nothing: {found.undecided[:100]}"
        if found.unserved:
            return f"node {found.unserved[0]} misses a message"
        # A set that only violates a claim is survived, and refutes.
        if found.violated and self._subject.data["verdict"] == Verdict.HOLDS:
            return f"a run violates the claim about {found.violated[0]}"
        return None
