"""The branches of a run: each has one more fault, a crashed node or a cut link, that begins with one of its steps.

Every branch is a run of its own on the memory engine. A page keeps it as its differences from the journal of the run, which
begin with the step of the fault.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.annexes.lesson.judged import judged_record
from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink
from coordinator.history.journal import RECORD, Records, hash_of, records_of_rows
from coordinator.networks.base import Progress
from coordinator.planning.plan import make_plan
from coordinator.reports.data import RunData
from coordinator.scenario.model import Scenario
from emunode.errors import RunError, ScenarioError
from emunode.model import Rank, Step
from emunode.topologies.base import Topology

MOST_ROWS: Final = 20_000_000
"""Rows of all branches together, if each is as long as the run: minutes of computing."""
REMOVED: Final = -1
"""In place of an outcome: the branch does not have this row of the run."""
FIELDS: Final = [name for name in RECORD.names or () if name != "outcome"] + ["outcome"]

JournalRow = tuple[int, ...]
"""A row of a journal with the values of `FIELDS`."""


@dataclass(frozen=True)
class BreakablePlace:
    """A node that may crash, or a link that may be cut."""

    fault: str
    """The fault without its step."""
    rank: Rank
    peer: Rank | None = None
    """The other end of a link."""

    def at(self, step: Step) -> str:
        """Return the fault that begins in a step."""
        return f"{self.fault}@{step}"


@dataclass(frozen=True)
class FaultBranch:
    """A run with one more fault, and its differences from the run without."""

    place: int
    step: Step
    judged: Mapping[str, object]
    changes: Sequence[tuple[int, int]]
    """Rows of the run that differ: the number of each, ascending, and its outcome, or REMOVED."""
    added: Sequence[JournalRow]
    """Rows that only the branch has."""


@dataclass(frozen=True)
class Lesson:
    """A run with all of its branches."""

    finished: MemoryRun
    records: Records
    places: Sequence[BreakablePlace]
    branches: Sequence[FaultBranch]
    refused: Mapping[str, str]
    """The faults that the run cannot have, each with the reason."""


def lesson_of(data: RunData, progress: Progress | None = None) -> Lesson:
    """Run every branch of a stored run, and report the number of finished ones to `progress`.

    ScenarioError (field `run`) if the run cannot be repeated, has times or altered payloads, or has too many branches.
    """
    scenario, records = _read(data)
    finished = run(make_plan(scenario), MemorySink())
    if hash_of(records_of_rows(finished.journal)) != hash_of(records):
        raise ScenarioError("run", str(data.path), "its scenario run again in memory has another journal")
    # Faults at random are drawn once: the branches have the faults of the run.
    scenario = scenario.model_copy(update={"fault": tuple(finished.plan.scenario.fault)})
    places = places_of(finished.plan.topology)
    branches, refused, index = [], {}, _index(records)
    steps = range(1, last_step(records) + 1)
    for step in steps:
        for number, place in enumerate(places):
            if progress:
                progress("branches", (step - 1) * len(places) + number, len(steps) * len(places))
            try:
                branch = branched(scenario, place.at(step))
            except ScenarioError as error:
                refused[place.at(step)] = error.allowed
                continue
            changes, added = differences(index, records_of_rows(branch.journal))
            begins = [int(records["step"][row]) for row, _ in changes] + [row[FIELDS.index("step")] for row in added]
            if min(begins, default=step) < step:
                raise RunError(f"the branch with {place.at(step)} differs from the run in step {min(begins)} already")
            branches.append(FaultBranch(number, step, judged_record(branch), changes, added))
    return Lesson(finished, records, places, branches, refused)


def branched(scenario: Scenario, fault: str) -> MemoryRun:
    """Run a scenario with one more fault in memory. ScenarioError if it cannot have that fault."""
    return run(make_plan(scenario.model_copy(update={"fault": (*scenario.fault, fault)})), MemorySink())


def places_of(topology: Topology) -> list[BreakablePlace]:
    """Return every node and every link of a network."""
    label = topology.label
    nodes = [BreakablePlace(f"crash:{label(rank)}", rank) for rank in topology.ranks()]
    links = [BreakablePlace(f"down:{label(rank)}~{label(peer)}", rank, peer) for rank, _, peer, _ in topology.links()]
    return nodes + links


def last_step(records: Records) -> Step:
    """Return the last step with a row; 0 for none."""
    return int(records["step"].max(initial=0))


def differences(
    index: Mapping[Any, tuple[int, int]], records: Records
) -> tuple[list[tuple[int, int]], list[JournalRow]]:
    """Return the changes and the added rows that turn an indexed journal into `records`."""
    other = _index(records)
    changes = [
        (row, other[key][1] if key in other else REMOVED)
        for key, (row, outcome) in index.items()
        if key not in other or other[key][1] != outcome
    ]
    return changes, [(*key[0], outcome) for key, (_, outcome) in other.items() if key not in index]


def _index(records: Records) -> dict[Any, tuple[int, int]]:
    """Return the number and the outcome of each row, by its other fields.

    Equal rows are numbered: a link may carry the same segment twice.
    """
    seen: Counter[JournalRow] = Counter()
    index = {}
    for number, (*fields, outcome) in enumerate(rows_of(records)):
        row = tuple(fields)
        index[row, seen[row]] = number, outcome
        seen[row] += 1
    return index


def rows_of(records: Records) -> Iterator[JournalRow]:
    """Yield the rows of a journal as plain numbers."""
    yield from records[FIELDS].tolist()


def _read(data: RunData) -> tuple[Scenario, Records]:
    """Return the scenario and the journal of a stored run, if there can be a lesson of it."""

    def refused(reason: str) -> ScenarioError:
        return ScenarioError("run", str(data.path), reason)

    if data.plan is None or data.journal is None:
        raise refused("; ".join(data.notes) or "its scenario is invalid or too large")
    if data.plan.scenario.clock != "steps":
        raise refused("a lesson has steps: expected a run with --clock steps")
    if data.summary.get("corrupt"):
        raise refused("a lesson does not show votes: expected a run without altered payloads")
    records = records_of_rows(data.journal)
    topology = data.plan.topology
    branches = (topology.order + topology.link_count) * last_step(records)
    if (rows := branches * len(records)) > MOST_ROWS:
        raise refused(f"its {branches:,} branches of {len(records):,} hops are {rows:,} hops; at most {MOST_ROWS:,}")
    return data.plan.scenario.on_driver("memory"), records
