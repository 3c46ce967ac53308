"""Runs of sets of faults by the message engine, judged as every run is."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.annexes.proofs.subject import MOST_HOPS, Subject
from coordinator.execution.untrusted import plan_of
from coordinator.execution.verification import TooLargeError
from coordinator.history.journal import RECORD, Records, sorted_records
from coordinator.results.claims import Verdict
from coordinator.results.conclude import rule_counted
from coordinator.results.metrics import count_trial
from emunode.engine.memory import MemoryEngine
from emunode.play import play

MOST_RUN_HOPS: Final = 1_000_000
"""About the most hops in all runs of one verification."""
LEAST_HISTORIES: Final = 100
"""Histories that are run again even if they have more hops."""
LEAST_SETS: Final = 10
"""Sets that are run even if they have more hops; also the most histories of a level that are compared."""


class SetRun(NamedTuple):
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


class SetRuns:
    """Runs under the faults of the scenario and further ones, within a bound on their hops."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._left = max(LEAST_SETS, MOST_RUN_HOPS // max(1, len(subject.rows)))

    def bound(self, levels: Sequence[Mapping[str, Any]]) -> None:
        """Bound the work before it begins: TooLargeError if the stored histories are too many to run again."""
        histories = sum(min(LEAST_SETS, len(level["histories"])) for level in levels)
        most = max(LEAST_HISTORIES, self._left)
        if histories > most:
            raise TooLargeError(f"{histories} histories are too many to run again; at most {most} are")

    def run(self, specs: list[str]) -> SetRun:
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
        return SetRun(unserved, violated, ruling.invalid, counts.journal_hash, records)
