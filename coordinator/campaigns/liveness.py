"""Trials whose faults end: in how many of them everything due finished, and what waits in the others."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from coordinator.campaigns.store import FinishedTrials
from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.features.options import LivenessOptions
from coordinator.planning.plan import make_plan
from coordinator.scenario.command import run_command
from coordinator.scenario.model import Scenario

MOST_EXPLAINED: Final = 3
"""Most different waits that are explained of one variant."""
MOST_REPEATED: Final = 20
"""Most trials of one variant that are run again to find these waits."""


class UnfinishedTrials(NamedTuple):
    """The trials of one variant of a campaign that ends all faults."""

    variant: str
    heal_at: int | str
    trials: int
    finished: int
    waits: list[dict[str, object]]
    """Of the first trials with different waits: the lines of the run, and the command that repeats it."""

    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        when = f"step {self.heal_at}" if isinstance(self.heal_at, int) else self.heal_at
        waiting = self.trials - self.finished
        yield f"{self.variant}, faults end at {when}: everything due finished in {self.finished:,} of {self.trials:,} trials"
        if waiting:
            yield f"  nodes wait in {waiting:,}, such as:"
        for wait in self.waits:
            yield from (f"  {line}" for line in wait["waiting"])  # type: ignore[attr-defined]
            yield f"    repeat it with: {wait['repeat']}"


def unfinished(store: FinishedTrials) -> list[UnfinishedTrials]:
    """Return for each variant that ends all faults how many trials finished.

    Undecided trials do not count.
    """
    rows = []
    for number, variant in enumerate(store.grid.variants):
        heal_at = LivenessOptions.of(variant.scenario).heal_at
        if heal_at is None:
            continue
        decided = [
            (trial, result)
            for key, (trial, result) in sorted(store.findings.items(), key=lambda each: each[0])
            if key.variant == number and result.decided
        ]
        missing = [trial for trial, result in decided if not result.served]
        waits: dict[tuple[str, ...], str] = {}
        for trial in missing[:MOST_REPEATED]:
            base = variant.plan.scenario
            whole = base.model_copy(update={"fault": (*base.fault, *trial.faults), "seed": trial.seed})
            lines = _waits(whole.on_driver("memory"))
            if lines not in waits and len(waits) < MOST_EXPLAINED:
                waits[lines] = run_command(whole)
        explained: list[dict[str, object]] = [
            {"waiting": list(lines), "repeat": command} for lines, command in waits.items()
        ]
        rows.append(UnfinishedTrials(variant.name, heal_at, len(decided), len(decided) - len(missing), explained))
    return rows


def _waits(scenario: Scenario) -> tuple[str, ...]:
    """Run a scenario again, and return the rules that wait in the end, and what for."""
    result = run(make_plan(scenario), MemorySink())
    return tuple(
        line
        for feature in result.plan.features
        for line in feature.lines(result.plan, result.summary)
        if line.startswith("waiting: ")
    )
