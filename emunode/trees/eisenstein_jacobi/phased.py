"""Spanning trees of Eisenstein-Jacobi networks with moves sorted into stages: what all-to-all broadcasts run in phases.

A target p rho^j + q rho^(j-1) of one dimension is reached by p major and q minor moves. A *plan* gives each of them a
phase, and a path of n dimensions makes its moves in a fixed order: by *stage*, and inside a stage by dimension, n
first. Where all dimensions share the phases, the stage is the phase; where they take turns, every dimension has
stages of its own. Sorted moves make a path to every target unique, so that the paths are a tree: the last move leads
to the parent, and a child is a move that sorts behind all moves made so far. Canonical labels are closed under
geodesic predecessors, which makes every prefix of a path the path of a canonical label, for every 0 <= a <= b.

By symmetry the arcs of this one tree, counted by port and step, are the load of every node when all of them are
sources.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS, EisensteinJacobi
from emunode.trees.base import CACHE_ENTRIES, Trees, require


@dataclass(frozen=True)
class PhasePlan:
    """Which phase a move belongs to, phases counted from 0."""

    phases: int
    phase: Callable[[int, int], int]
    """(sector 1..6 of the target, unit 0..5 of the move) to the phase of the move."""
    by_dimension: bool = False
    """Whether the dimensions take turns, each with all phases, instead of sharing them."""


THREE_PHASES = PhasePlan(3, lambda sector, _: sector % 6 // 2)
"""Hussain, Algorithm 3: sectors 6 and 1, then 2 and 3, then 4 and 5; ports k, k+1, k+5 with k = 0, 2, 4."""
TWO_PHASES = PhasePlan(2, lambda _, unit: unit // 3)
"""Ports 0, 1, 2, then ports 3, 4, 5: a target off the axes of sectors 3 and 6 is reached by moves of both phases."""
ONE_PHASE = PhasePlan(1, lambda *_: 0)
"""The improved one-to-all broadcast: the tree of `SectorTree`, for links that work both ways at once."""
TWO_PHASES_BY_DIMENSION = PhasePlan(2, TWO_PHASES.phase, by_dimension=True)
THREE_PHASES_BY_DIMENSION = PhasePlan(3, THREE_PHASES.phase, by_dimension=True)


class Line(NamedTuple):
    """How an index of one dimension is reached: moves of each phase, and the phase and unit of the last one."""

    moves: tuple[int, ...]
    phase: int
    """-1 for index 0, which takes no move."""
    unit: int


Load = Counter[tuple[int, Step, Port]]
"""Arcs of the tree by (stage, step within the stage counted from 1, port at their upper end)."""


class PhasedTree(Trees):
    """The tree of sorted moves of one plan, in every dimension and for every 0 <= a <= b.

    A shortest-path tree of height n floor((a+2b)/3). A node knows its own relative label only. Extension of Hussain's
    Algorithms 3 and 4, which restart only the node's own message in a new phase (see `PrintedTree`); here a new phase
    restarts every message that is held, in all dimensions in which it can still move.
    """

    shortest = True

    def __init__(self, topology: Topology, plan: PhasePlan) -> None:
        """Raises ScenarioError (field `topology`) if `topology` is no Eisenstein-Jacobi network."""
        super().__init__(topology)
        self.network = require(topology, EisensteinJacobi, "a phased tree")
        self.plan = plan
        self.stages = plan.phases * (self.network.dimensions if plan.by_dimension else 1)
        self.line: Callable[[int], Line] = lru_cache(CACHE_ENTRIES)(self._find_line)
        self._branches: Callable[[int], tuple[tuple[int, int], ...]] = lru_cache(CACHE_ENTRIES)(self._find_branches)

    # --- one dimension ---------------------------------------------------------------------------------------------

    def _find_line(self, index: int) -> Line:
        moves = [0] * self.plan.phases
        if not index:
            return Line(tuple(moves), -1, -1)
        sector, major, minor = self.network.sector(index)
        major_unit, minor_unit = sector % 6, sector - 1
        major_phase, minor_phase = self.plan.phase(sector, major_unit), self.plan.phase(sector, minor_unit)
        moves[major_phase] += major
        moves[minor_phase] += minor
        if minor and minor_phase >= major_phase:
            return Line(tuple(moves), minor_phase, minor_unit)
        return Line(tuple(moves), major_phase, major_unit)

    def _find_branches(self, index: int) -> tuple[tuple[int, int], ...]:
        """(unit, phase) of every move that leads on from a one-dimensional index, by phase, then by unit."""
        x, y = self.network.coordinates(index)
        lines = ((unit, self.line(self.network.index(x + dx, y + dy))) for unit, (dx, dy) in enumerate(UNITS))
        return tuple(sorted(((u, line.phase) for u, line in lines if line.unit == u), key=lambda branch: branch[1]))

    # --- all dimensions --------------------------------------------------------------------------------------------

    def stage(self, base: int, phase: int) -> int:
        """Stage of a move of `phase` in dimension base + 1."""
        return (self.network.dimensions - 1 - base) * self.plan.phases + phase if self.plan.by_dimension else phase

    def _last(self, rank: Rank) -> tuple[int, int, int]:
        """(stage, -base, unit) of the last move on the way to `rank`, in dimension base + 1."""
        lines = ((base, self.line(index)) for base, index in enumerate(self.network.digits(rank)) if index)
        return max(((self.stage(base, line.phase), -base, line.unit) for base, line in lines), default=(-1, 0, -1))

    def parent(self, rank: Rank, tree: int) -> Port:
        """Undo the last move."""
        if not rank:
            raise ValueError("the root has no parent")
        _, base, unit = self._last(rank)
        return -6 * base + (unit + 3) % 6

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """By stage, inside a stage by dimension, highest first."""
        return tuple(port for _, port in self.phase_children(rank))

    def phase_children(self, rank: Rank) -> list[tuple[int, Port]]:
        """(stage, port) of every child."""
        last = self._last(rank)[:2]
        found = [
            (self.stage(base, phase), -base, unit)
            for base, index in enumerate(self.network.digits(rank))
            for unit, phase in self._branches(index)
            if (self.stage(base, phase), -base) >= last
        ]
        return [(stage, unit - 6 * base) for stage, base, unit in sorted(found)]

    def place(self, rank: Rank) -> tuple[int, Step]:
        """(stage, step within the stage) in which a message reaches `rank`; (0, 0) for the root."""
        if not rank:
            return 0, 0
        stage, base, _ = self._last(rank)
        phase = stage % self.plan.phases
        digits = self.network.digits(rank)
        indices = (digits[-base],) if self.plan.by_dimension else digits
        return stage, sum(self.line(index).moves[phase] for index in indices)

    # --- counts ----------------------------------------------------------------------------------------------------

    @cached_property
    def load(self) -> Load:
        """Arcs by stage, step and port, by generating functions: one pass over one dimension, no walk over the network."""
        lines = [self.line(index) for index in range(self.network.modulus)]
        load: Load = Counter()
        for phase in range(self.plan.phases):
            arriving: dict[int, Counter[Step]] = {}
            for line in lines:
                if line.phase == phase:
                    arriving.setdefault(line.unit, Counter())[line.moves[phase]] += 1
            for base in range(self.network.dimensions):
                others = self._others(lines, base, phase)
                for unit, steps in arriving.items():
                    for step, count in _product(steps, others).items():
                        load[self.stage(base, phase), step, 6 * base + unit] += count
        return load

    def _others(self, lines: list[Line], base: int, phase: int) -> Counter[Step]:
        """By steps of the stage, the choices of all other dimensions that let the last move be in dimension base + 1."""
        higher = self.network.dimensions - 1 - base
        if self.plan.by_dimension:
            return Counter({0: len(lines) ** higher})
        present = Counter(line.moves[phase] for line in lines if self._may_precede(line.phase, phase))
        past = sum(line.phase < phase for line in lines if self._may_precede(line.phase, phase))
        total = Counter({0: past**base})
        for _ in range(higher):
            total = _product(total, present)
        return total

    def _may_precede(self, phase: int, last: int) -> bool:
        """Whether another component may have ended in `phase` when the last move is of phase `last`."""
        return phase <= last

    @cached_property
    def durations(self) -> tuple[Step, ...]:
        """Steps that each stage takes when it begins as soon as the one before has ended."""
        last: Counter[int] = Counter()
        for stage, step, _ in self.load:
            last[stage] = max(last[stage], step)
        return tuple(last[stage] for stage in range(self.stages))

    @cached_property
    def begins(self) -> tuple[Step, ...]:
        """The step after which each stage begins, and at the end the last step of all."""
        begins = [0]
        for duration in self.durations:
            begins.append(begins[-1] + duration)
        return tuple(begins)

    @cached_property
    def due(self) -> tuple[int, ...]:
        """Messages that every node receives in each stage when every node is a source."""
        due: Counter[int] = Counter()
        for (stage, _, _), count in self.load.items():
            due[stage] += count
        return tuple(due[stage] for stage in range(self.stages))

    def segments_per_port(self) -> Mapping[Port, int]:
        """Messages that cross the link of each port, in that direction, in the whole run."""
        total: Counter[Port] = Counter()
        for (_, _, port), count in self.load.items():
            total[port] += count
        return total

    def both_ways(self) -> int:
        """Links that carry messages both ways in one step, counted step by step."""
        used = sorted((stage, step, port // 6, port % 3) for stage, step, port in self.load)
        return self.network.order * sum(one == other for one, other in pairwise(used))


class PrintedTree(PhasedTree):
    """What Algorithms 3 and 4 reach as they are described: in each phase a node restarts its own message only.

    No spanning tree for n >= 2: it reaches the 3 (((N+2)/3)^n - 1) targets (b = a + 1) whose nonzero components all
    lie in sectors of one phase.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, THREE_PHASES)

    def reaches(self, rank: Rank) -> bool:
        """Whether a message from the root gets to `rank`."""
        return len({self.line(index).phase for index in self.network.digits(rank) if index}) <= 1

    def parent(self, rank: Rank, tree: int) -> Port:
        """Undo the last move; ValueError where no message gets to."""
        if not self.reaches(rank):
            raise ValueError(f"rank {rank} is not reached")
        return super().parent(rank, tree)

    def phase_children(self, rank: Rank) -> list[tuple[int, Port]]:
        """(stage, port) of every child: in a later stage only from the root."""
        now, _ = self.place(rank)
        return [(stage, port) for stage, port in super().phase_children(rank) if rank == 0 or stage == now]

    def _may_precede(self, phase: int, last: int) -> bool:
        return phase in (-1, last)


def _product(one: Counter[Step], other: Counter[Step]) -> Counter[Step]:
    """Product of two polynomials as exponent to coefficient."""
    product: Counter[Step] = Counter()
    for left, count in one.items():
        for right, factor in other.items():
            product[left + right] += count * factor
    return product
