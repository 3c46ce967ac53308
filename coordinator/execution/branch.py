"""Branches: a stored run is continued from one of its steps with other faults.

A branch runs from step 1 again, with the faults of its origin that begin up to that step. Runs are deterministic on every
driver, so both histories are equal up to there, and a branch is kept only if all rows up to there are equal.

A loss is inevitable from the step after which no branch without the later faults avoids it. Losses need not grow with the
faults: one fault may keep another from doing harm. So the steps when faults begin are tried one after the other, from the
first, and not by bisection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from coordinator.execution.run import run
from coordinator.execution.sinks import FinishedRun, MemorySink, RunResult
from coordinator.execution.verification import Verification
from coordinator.history.journal import FILE, first_difference
from coordinator.history.stored_run import open_journal, read_summary
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.explain import hop_words
from coordinator.scenario.model import Scenario
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import ends_others
from emunode.model import Rank, Step

BRANCH_OF: Final = "branch_of"
"""The key of a summary with the name of the run directory of the origin."""
BRANCH_STEP: Final = "branch_step"
"""The key with the last step that a branch shares with its origin."""
BRANCH_HASH: Final = "branch_hash"
"""The key with the journal hash of the origin."""


@dataclass(frozen=True)
class Origin:
    """A run, up to the last step that a branch shares with it."""

    name: str
    plan: Plan
    journal_hash: str
    step: Step
    journal: pl.LazyFrame
    """The rows up to the step."""

    @classmethod
    def of(cls, finished: FinishedRun, step: Step) -> "Origin":
        """Return a run that has just finished, up to a step."""
        name = finished.path.name if isinstance(finished, RunResult) else finished.plan.name
        journal = finished.journal.filter(pl.col("step") <= step)
        return cls(name, finished.plan, str(finished.summary["journal_hash"]), step, journal)

    @property
    def faults(self) -> Sequence[str]:
        """The faults that a branch keeps: the faults that begin up to the step, and the repairs of these."""
        return faults_until(self.plan, self.step)

    def branched(self, faults: Sequence[str]) -> Scenario:
        """Return the scenario of the origin with `faults` in place of the faults that begin after the step.

        ScenarioError (field `fault`) if one of `faults` begins earlier.
        """
        kept = self.faults
        scenario = self.plan.scenario.model_copy(update={"fault": (*kept, *faults)})
        # On the memory driver, without hosts; faults at random are drawn by the plan.
        plan = make_plan(scenario.on_driver("memory"))
        for text in plan.scenario.fault[len(kept) :]:
            begin = min(fault.step for fault in plan.faults_by_text[text])
            if begin <= self.step:
                raise ScenarioError(
                    "fault",
                    text,
                    f"it begins in step {begin}, and the branch in step {self.step + 1}: add @{self.step + 1}",
                )
        return scenario

    def accept(self, finished: FinishedRun) -> FinishedRun:
        """Return a branch with its origin in its summary. RunError if the histories differ up to the step."""
        # A run that ended before the step has only a part of these rows.
        if finished.execution.undecided is None or finished.execution.steps > self.step:
            parted = _parting(self.journal, finished.journal, self.step, finished.plan)
            if parted is not None:
                raise RunError(f"the first {self.step} steps differ from the steps of {self.name}: {parted}")
        record = {BRANCH_OF: self.name, BRANCH_STEP: self.step, BRANCH_HASH: self.journal_hash}
        return replace(finished, make_summary=lambda: {**finished.summary, **record})


def compare_with_origin(path: Path, plan: Plan, summary: Mapping[str, Any], verification: Verification) -> None:
    """Compare a stored branch with its origin; the origin is looked for beside it. Rows up to the step that differ are
    a finding;
    an origin that is not there is noted as unchecked. Other runs are not concerned.
    """
    if BRANCH_OF not in summary:
        return
    name, step = summary[BRANCH_OF], summary.get(BRANCH_STEP)
    if not isinstance(name, str) or Path(name).name != name or name == ".." or not isinstance(step, int) or step < 0:
        verification.findings.append(f"summary.json: {BRANCH_OF} and {BRANCH_STEP} name no run and step")
        return
    beside = path.resolve().parent / name
    try:
        if read_summary(beside).get("journal_hash") != summary.get(BRANCH_HASH):
            raise ValueError("another journal")
        parted = _parting(open_journal(beside / FILE), open_journal(path / FILE), step, plan)
    except (OSError, ValueError, pl.exceptions.PolarsError, ScenarioError):
        verification.unchecked.append(
            f"summary.json: {BRANCH_OF}: no run {name} with this journal is beside the branch"
        )
        return
    if parted is not None:
        verification.findings.append(f"journal.parquet: its first {step} steps are not the steps of {name}: {parted}")


def _parting(one: pl.LazyFrame, other: pl.LazyFrame, step: Step, plan: Plan) -> str | None:
    """Return the first row up to a step that only one of two journals has, in words; None if they are equal."""
    difference = first_difference(one.filter(pl.col("step") <= step), other.filter(pl.col("step") <= step))
    if difference is None:
        return None
    words = ["nothing" if row is None else hop_words(row, plan.topology.label) for row in difference[1:]]
    return f"row {difference.number} is {words[1]}, and was {words[0]}"


def inevitable_from(plan: Plan, rank: Rank) -> Step | None:
    """Return the first step s so that a node stays unserved although every fault that begins after s is left out.

    0 if the node is not served without any fault; None if it is served under all of them. Repairs of kept faults stay.
    ScenarioError (field `inevitable`) for the timed clock, and for a faulty node, since nothing is due to it.
    """
    label = plan.topology.label(rank)
    if plan.scenario.clock != "steps":
        raise ScenarioError("inevitable", label, "faults are left out by steps only, so use --clock steps")
    if rank in plan.judged.states:
        raise ScenarioError("inevitable", label, f"it is {plan.judged.states[rank]} itself, so nothing is due to it")
    begins = sorted({fault.step for fault in plan.faults if not ends_others(fault)})
    return next((step for step in (0, *begins) if rank in unserved(plan.with_faults(faults_until(plan, step)))), None)


def faults_until(plan: Plan, step: Step) -> Sequence[str]:
    """Return the faults of a scenario that begin up to a step, and the repairs of these."""
    kept = {fault.place for fault in plan.faults if not ends_others(fault) and fault.step <= step}
    return [
        text
        for text in plan.scenario.fault
        if all(fault.place in kept if ends_others(fault) else fault.step <= step for fault in plan.faults_by_text[text])
    ]


def unserved(plan: Plan) -> Sequence[Rank]:
    """Return the healthy nodes that miss a message in a run in memory."""
    return run(plan, MemorySink()).conclusion.measurement.cut_off
