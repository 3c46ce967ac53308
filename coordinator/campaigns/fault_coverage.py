"""Coverage of the space of faults: the kinds, places, steps and combinations that trials have tried, and never tried.

A cell of the space is a kind of fault, a place of the network where it can be, and a step when it can begin: from step
1 to the last step without faults. A fault in the wrong place or at the wrong moment is often what a search misses, so
`FaultCoverage.draw` chooses among the cells that were tried least.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, combinations_with_replacement, islice
from random import Random
from typing import Final, TypeVar

from coordinator.campaigns.store import FinishedTrials
from coordinator.campaigns.tables import CampaignRow
from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.fault_syntax import parse_fault
from emunode.errors import ScenarioError
from emunode.faults.effects import Place
from emunode.faults.kinds import KINDS, REALS, Fault, NodeFault, ends_others, kind_of, value_names
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

MOST_TRIALS: Final = 200_000
"""Most trials of a campaign whose faults are counted."""
MOST_CELLS: Final = 5_000_000
LARGEST_WHOLE: Final = 3
"""The largest value of a fault that is drawn, for values that are whole numbers."""

Choice = TypeVar("Choice")
FaultCell = tuple[str, Place, Step]
"""A kind of fault, its place (a rank, or for a link its sender and the port there), and the step when it begins."""


class FaultCoverage:
    """How often trials on one network have tried each cell, and each combination of two kinds in one trial."""

    def __init__(self, topology: Topology, last_step: Step, spared: Collection[Rank] = ()) -> None:
        """Count faults that begin in steps 1 to `last_step`, but at none of the nodes `spared`.

        ScenarioError (field `coverage`) for too large a space.
        """
        self.topology = topology
        self._spared = spared
        self.steps = range(1, last_step + 1)
        self.kinds = tuple(
            kind for kind, record in KINDS.items() if not record.slows and not _repairs(record, topology)
        )
        self.trials = 0
        self.cells: Counter[FaultCell] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        """By two kinds, the trials that had both; a kind with itself means faults at two places."""
        if self.size > MOST_CELLS:
            raise ScenarioError("coverage", topology.name, f"{self.size:,} cells are too many; at most {MOST_CELLS:,}")

    @cached_property
    def _places(self) -> Mapping[bool, Sequence[Place]]:
        ends = [(rank, port) for rank in self.topology.ranks() for port in self.topology.ports(rank)]
        nodes = [
            rank for rank in self.topology.ranks() if not self.topology.is_switch(rank) and rank not in self._spared
        ]
        return {True: nodes, False: ends}

    def places(self, kind: str) -> Sequence[Place]:
        """Return the places where a fault of a kind can be: nodes, or directed links by sender and port."""
        return self._places[issubclass(KINDS[kind], NodeFault)]

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.steps) * sum(len(self.places(kind)) for kind in self.kinds)

    def add(self, faults: Sequence[Fault]) -> None:
        """Count the faults of one trial. Repairs, and faults that begin after the last step, are in no cell."""
        self.trials += 1
        tried = {(kind_of(fault), fault.place, fault.step) for fault in faults if fault.step in self.steps}
        tried = {cell for cell in tried if cell[0] in self.kinds}
        self.cells.update(tried)
        # A fault of both directions of a link is one fault.
        placed = {(kind, place if isinstance(place, int) else self._link(*place)) for kind, place, _ in tried}
        self.pairs.update({(one, other) for (one, _), (other, _) in combinations(sorted(placed), 2)})

    def _link(self, rank: Rank, port: Port) -> Rank:
        """Return a number for a link that is the same at both ends."""
        ends = sorted((rank, self.topology.neighbour(rank, port)))
        return ends[0] * self.topology.order + ends[1]

    def rows(self) -> Iterator[CampaignRow]:
        """Yield for each kind that was tried how many of its places, steps and cells were tried."""
        for kind in self.kinds:
            cells = [cell for cell in self.cells if cell[0] == kind]
            if cells:
                places, steps = ({cell[part] for cell in cells} for part in (1, 2))
                row: CampaignRow = {"kind": kind}
                counts = {"places": (places, self.places(kind)), "steps": (steps, self.steps)}
                row |= {
                    name: f"{len(tried):,} of {len(all_of_them):,}" for name, (tried, all_of_them) in counts.items()
                }
                yield row | {"cells": f"{len(cells):,} of {len(self.places(kind)) * len(self.steps):,}"}

    @property
    def untried_kinds(self) -> list[str]:
        """The kinds without a fault in any trial."""
        tried = {kind for kind, _, _ in self.cells}
        return [kind for kind in self.kinds if kind not in tried]

    @property
    def untried_pairs(self) -> list[tuple[str, str]]:
        """The pairs of kinds that no trial had together; a kind with itself means two faults of it at different places."""
        return [pair for pair in combinations_with_replacement(sorted(self.kinds), 2) if pair not in self.pairs]

    def never(self) -> Iterator[str]:
        """Yield lines with the kinds that no trial has tried, and the pairs of tried kinds that none had together."""
        kinds = self.untried_kinds
        pairs = [f"{one} with {other}" for one, other in self.untried_pairs if one not in kinds and other not in kinds]
        for name, never in (("kinds", kinds), ("pairs", pairs)):
            if never:
                yield f"{name} never tried: {', '.join(never)}"

    def record(self) -> dict[str, object]:
        """Return the coverage as JSON values."""
        return {
            "trials": self.trials, "rows": list(self.rows()), "cells": len(self.cells), "possible": self.size,
            "untried_kinds": self.untried_kinds, "untried_pairs": self.untried_pairs,
        }  # fmt: skip

    # --- steering ------------------------------------------------------------------------------------------------------

    def draw(self, chance: Random, kinds: Sequence[str] = ()) -> str:
        """Return a fault, as a scenario states it, of the kind, at the place and from the step that were tried least.

        `kinds` are the kinds to choose from, by default all; of equal ones `chance` chooses.
        """
        of_kind, of_place = Counter[str](), Counter[tuple[str, Place]]()
        for (kind, place, _), times in self.cells.items():
            of_kind[kind] += times
            of_place[kind, place] += times
        # Relative to its cells, so that all kinds are complete at the same time.
        kind = _least(kinds or self.kinds, lambda kind: of_kind[kind] / len(self.places(kind)), chance)
        place = _least(self.places(kind), lambda place: of_place[kind, place], chance)
        step = _least(self.steps, lambda step: self.cells[kind, place, step], chance)
        return fault_text(self.topology, kind, place, step, chance)


def _least(choices: Sequence[Choice], count: Callable[[Choice], float], chance: Random) -> Choice:
    """Return one of the choices with the smallest count."""
    counts = [count(choice) for choice in choices]
    least = min(counts)
    return chance.choice([choice for choice, times in zip(choices, counts, strict=True) if times == least])


def fault_text(topology: Topology, kind: str, place: Place, step: Step, chance: Random) -> str:
    """Return a fault as a scenario states it; its values are drawn, and one of two directions of a link is broken."""
    record = KINDS[kind]
    if isinstance(place, int):
        where = topology.label(place)
    else:
        where = f"{topology.label(place[0])}>{topology.label(topology.neighbour(*place))}"
    for name in value_names(record):
        value = round(chance.uniform(0.1, 1), 2) if name in REALS else chance.randint(1, LARGEST_WHOLE)
        where += f":{value}"
    return f"{kind}:{where}@{step}"


def _repairs(record: type[Fault], topology: Topology) -> bool:
    """Return whether a kind ends other faults, so that it is not tried alone."""
    place: Place = 0 if issubclass(record, NodeFault) else (0, next(iter(topology.ports(0))))
    text = fault_text(topology, record.form.partition(":")[0], place, 1, Random(0))
    return any(map(ends_others, parse_fault(text, topology)))


def coverage_of(trials: FinishedTrials) -> dict[str, FaultCoverage]:
    """Return the coverage of the finished trials of a campaign, by network; `MOST_TRIALS` trials are counted at most.

    ScenarioError (field `coverage`) for the timed clock, whose faults have times, and for too large a space.
    """
    grid = trials.grid
    draws = sorted(_draws(trials).items())
    plans = [grid.variants[variant].plan for (_, variant), _ in draws]
    if any(plan.scenario.clock != "steps" for plan in plans):
        raise ScenarioError("coverage", "timed", "faults have times under this clock; use --clock steps")
    # Of several algorithms on one network, the longest decides when a fault can begin.
    steps = {plan.spec: last_step(plan) for plan in plans}
    coverage: dict[str, FaultCoverage] = {}
    left = MOST_TRIALS
    for plan, ((point, variant), numbers) in zip(plans, draws, strict=True):
        name = plan.topology.title
        if name not in coverage:
            longest = max(steps[each.spec] for each in plans if each.topology.title == name)
            coverage[name] = FaultCoverage(plan.topology, longest)
        specs = grid.draws(point, variant).specs
        for number in islice(numbers, left):
            drawn = [fault for text in specs(number) for fault in parse_fault(text, plan.topology)]
            coverage[name].add([*plan.faults, *drawn])
            left -= 1
    return coverage


def last_step(plan: Plan) -> Step:
    """Return the last step of a run of a plan without faults, in memory."""
    fault_free = make_plan(plan.scenario.on_driver("memory").model_copy(update={"fault": ()}))
    return run(fault_free, MemorySink()).execution.steps


def _draws(trials: FinishedTrials) -> Mapping[tuple[int, int], Sequence[int]]:
    """Return for each (point, variant) the numbers of its finished draws, with messages or exact."""
    by_cell: dict[tuple[int, int], set[int]] = {}
    for key in trials.findings:
        by_cell.setdefault((key.point, key.variant), set()).add(key.number)
    for point, variant in trials.blocks:
        for block in trials.evaluated(point, variant):
            # A block has positions in the order of runs; a sample of all sets has other numbers.
            numbers = trials.grid.numbers(point, variant)[block.start : block.stop]
            by_cell.setdefault((point, variant), set()).update(numbers)
    return {cell: sorted(drawn) for cell, drawn in by_cell.items()}
