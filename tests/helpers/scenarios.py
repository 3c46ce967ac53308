"""A test's scenario in one line: `Case("star:4 broadcast edt x=3", "crash:4231@2")`, and its plan, run and journal.

The line names topology, collective and algorithm, then fields of a scenario as NAME=VALUE; `x` is the redundancy, as in the
papers. Faults follow as words of their own. A case runs in memory unless it names another driver. Each part is computed when
a test first asks for it, and once.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink, RunResult
from coordinator.planning.claims import run_claims
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.conclude import Conclusion
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.scenario.named import name_values
from emunode.algorithms.registry import algorithms
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.support import run_scenario

ABBREVIATIONS = {"x": "redundancy"}


class Case:
    """A scenario and its plan, run, journal and judgements."""

    def __init__(self, given: str | Mapping[str, object], *faults: str, **more: object) -> None:
        """Take a line of text, or the fields of a scenario; `more` fields replace them, and `faults` are added to theirs."""
        values = fields(given) if isinstance(given, str) else dict(given)
        values = {ABBREVIATIONS.get(name, name): value for name, value in (*values.items(), *more.items())}
        if faults:
            values["fault"] = [*values.get("fault", ()), *faults]  # type: ignore[misc]
        self.values: dict[str, object] = {"driver": "memory", **values}

    def __repr__(self) -> str:
        """Show the fields of the scenario."""
        return f"Case({self.values})"

    def but(self, *faults: str, **more: object) -> Self:
        """Return the same case with further faults and other fields."""
        return type(self)(self.values, *faults, **more)

    @cached_property
    def scenario(self) -> Scenario:
        """The validated scenario, as if a user gave its values; ScenarioError for an invalid one."""
        name_values(self.values)
        return make_scenario(self.values)

    @cached_property
    def plan(self) -> Plan:
        """The plan; ScenarioError if it cannot be planned."""
        return make_plan(self.scenario)

    @cached_property
    def run(self) -> MemoryRun:
        """The finished run, without files."""
        return run(self.plan, MemorySink())

    @property
    def journal(self) -> pl.DataFrame:
        """The rows of its journal."""
        return self.run.journal.collect()

    @property
    def conclusion(self) -> Conclusion:
        """Metrics, claims and violations of the run."""
        return self.run.conclusion

    @property
    def summary(self) -> Mapping[str, Any]:
        """The summary of the run."""
        return self.run.summary

    @property
    def predictions(self) -> dict[tuple[str, str], Any]:
        """The predicted value of every claim by its metric and its relation."""
        return {(claim.name, claim.relation): claim.predicted for claim in run_claims(self.plan).kept}

    def stored(self, out: Path) -> RunResult:
        """Run it into a run directory, without a report."""
        return run_scenario(out, **self.values)


def every_algorithm(job: str, **more: object) -> Iterator[Case]:
    """Yield a case for every algorithm of a job (network and collective) that is no negative control.

    Algorithms that need other ports, sizes or links are left out.
    """
    network, collective, *_ = job.split()
    for name in algorithms(parse_topology(network).family, Collective(collective)):
        case = Case(f"{job} {name}", **more)
        try:
            algorithm = case.plan.algorithm
        except ScenarioError:
            continue
        if not algorithm.traits.negative_control:
            yield case
