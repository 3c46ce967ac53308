"""Spanning trees of Eisenstein-Jacobi networks with moves sorted into stages, for all-to-all broadcasts in phases.

1. A target p rho^j + q rho^(j-1) of one dimension is reached by p major and q minor moves.
2. A *plan* assigns each of these moves to a phase.
3. A path in n dimensions makes its moves in a fixed order: by *stage*, and within a stage by dimension, n first. If all
   dimensions share the phases, the stage is the phase; if they take turns, every dimension has stages of its own.

The order makes the path to every target unique, so that the paths form a tree: the last move leads from the parent, and
a child is reached by a move that sorts after all moves so far. Canonical labels are closed under geodesic predecessors;
every prefix of a path is therefore the path of a canonical label, for every 0 <= a <= b.

By symmetry the arcs of this one tree, counted by port and step, are the load of every node when all nodes are sources.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import UNITS
from emunode.trees.base import CACHE_ENTRIES, refuse_root
from emunode.trees.eisenstein_jacobi.base import EisensteinJacobiTrees


@dataclass(frozen=True)
class PhasePlan:
    """The assignment of moves to phases, counted from 0."""

    phases: int
    phase: Callable[[int, int], int]
    """The phase of a move, from (sector 1..6 of the target, unit 0..5 of the move)."""
    by_dimension: bool = False
    """Whether the dimensions take turns, each going through all phases, instead of sharing the phases."""


THREE_PHASES = PhasePlan(3, lambda sector, _: sector % 6 // 2)
"""Hussain, Algorithm 3: sectors 6 and 1, then 2 and 3, then 4 and 5; ports k, k+1, k+5 with k = 0, 2, 4."""
TWO_PHASES = PhasePlan(2, lambda _, unit: unit // 3)
"""Ports 0, 1, 2, then ports 3, 4, 5: targets in sectors 3 and 6 but off their axes need moves of both phases."""
ONE_PHASE = PhasePlan(1, lambda *_: 0)
"""The improved one-to-all broadcast: the tree of `SectorTree`, for full-duplex links."""
TWO_PHASES_BY_DIMENSION = PhasePlan(2, TWO_PHASES.phase, by_dimension=True)
THREE_PHASES_BY_DIMENSION = PhasePlan(3, THREE_PHASES.phase, by_dimension=True)


class DimensionPath(NamedTuple):
    """The path to an index of one dimension: its number of moves per phase, and the phase and unit of the last move."""

    moves: tuple[int, ...]
    phase: int
    """-1 for index 0, whose path is empty."""
    unit: int


Load = Counter[tuple[int, Step, Port]]
"""Number of arcs of the tree by (stage, step within the stage counted from 1, port at the upper end)."""


class PhasedTree(EisensteinJacobiTrees):
    """The tree of sorted moves of one plan, in every dimension and for every 0 <= a <= b.

    A shortest-path tree of height n floor((a+2b)/3). A node knows its own relative label only. This extends Hussain's
    Algorithms 3 and 4: those restart only the node's own message in a new phase (see `PrintedTree`); here every message
    that a node holds is restarted, in all dimensions where it can still move.

    >>> from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
    >>> tree = PhasedTree(EisensteinJacobi.parse("2+3"), THREE_PHASES)
    >>> [tree.topology.label(rank) for rank in tree.path(tree.topology.rank("2,-1"), 0)]
    ['0,0', '1,0', '2,-1']
    """

    shortest = True
    title = "a phased tree"

    def __init__(self, topology: Topology, plan: PhasePlan) -> None:
        super().__init__(topology)
        self.plan = plan
        self.stages = plan.phases * (self.network.dimensions if plan.by_dimension else 1)
        self.line: Callable[[int], DimensionPath] = lru_cache(CACHE_ENTRIES)(self._find_line)
        self._branches: Callable[[int], tuple[tuple[int, int], ...]] = lru_cache(CACHE_ENTRIES)(self._find_branches)

    # --- one dimension ---------------------------------------------------------------------------------------------

    def _find_line(self, index: int) -> DimensionPath:
        moves = [0] * self.plan.phases
        if not index:
            # Index 0: no move at all, so it sorts before every other component.
            return DimensionPath(tuple(moves), -1, -1)
        sector, major, minor = self.network.sector(index)
        # Unit rho^j has port j mod 6 (axis +1 belongs to sector 6), rho^(j-1) has port j - 1.
        major_unit, minor_unit = sector % 6, sector - 1
        major_phase, minor_phase = self.plan.phase(sector, major_unit), self.plan.phase(sector, minor_unit)
        moves[major_phase] += major
        moves[minor_phase] += minor
        # Within a phase the minor moves come last, as in Algorithm 2: off the axis only the minor unit continues.
        if minor and minor_phase >= major_phase:
            return DimensionPath(tuple(moves), minor_phase, minor_unit)
        return DimensionPath(tuple(moves), major_phase, major_unit)

    def _find_branches(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return (unit, phase) of every move that continues the path to a one-dimensional index, by phase, then by unit."""
        # Any of the six neighbours whose path ends in the move to it: the definition of a child.
        x, y = self.network.coordinates(index)
        lines = ((unit, self.line(self.network.index(x + dx, y + dy))) for unit, (dx, dy) in enumerate(UNITS))
        return tuple(sorted(((u, line.phase) for u, line in lines if line.unit == u), key=lambda branch: branch[1]))

    # --- all dimensions --------------------------------------------------------------------------------------------

    def stage(self, base: int, phase: int) -> int:
        """Return the stage of a move of `phase` in dimension base + 1."""
        # Dimension n goes first, so its phases are the stages 0 .. phases - 1.
        return (self.network.dimensions - 1 - base) * self.plan.phases + phase if self.plan.by_dimension else phase

    def _last(self, rank: Rank) -> tuple[int, int, int]:
        """Return (stage, -base, unit) of the last move on the path to `rank`, a move in dimension base + 1."""
        lines = ((base, self.line(index)) for base, index in enumerate(self.network.digits(rank)) if index)
        # `-base` as the second key sorts the highest dimension first within a stage.
        return max(((self.stage(base, line.phase), -base, line.unit) for base, line in lines), default=(-1, 0, -1))

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the port of the last move reversed."""
        refuse_root(rank)
        _, base, unit = self._last(rank)
        # `base` is negative here, and the unit opposite to rho^k is rho^(k+3).
        return -6 * base + (unit + 3) % 6

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        """Return the ports of the children by stage, within a stage by dimension, highest first."""
        return tuple(port for _, port in self.phase_children(rank))

    def phase_children(self, rank: Rank) -> list[tuple[int, Port]]:
        """Return (stage, port) of every child."""
        last = self._last(rank)[:2]
        found = [
            (self.stage(base, phase), -base, unit)
            for base, index in enumerate(self.network.digits(rank))
            for unit, phase in self._branches(index)
            # A move may follow only if it sorts after all moves so far; else the target has another last move.
            if (self.stage(base, phase), -base) >= last
        ]
        return [(stage, unit - 6 * base) for stage, base, unit in sorted(found)]

    def place(self, rank: Rank) -> tuple[int, Step]:
        """Return (stage, step within the stage) when a message reaches `rank`; (0, 0) for the root."""
        if not rank:
            return 0, 0
        stage, base, _ = self._last(rank)
        phase = stage % self.plan.phases
        digits = self.network.digits(rank)
        # Without turns, all dimensions share the stage; with turns, only the dimension of the last move is active in
        # it.
        indices = (digits[-base],) if self.plan.by_dimension else digits
        return stage, sum(self.line(index).moves[phase] for index in indices)

    # --- counts ----------------------------------------------------------------------------------------------------

    @cached_property
    def load(self) -> Load:
        """Number of arcs by stage, step and port. Generating functions replace a walk: one pass over a single dimension."""
        # N lines stand for all N^n nodes, because a path is composed of independent paths in n dimensions.
        lines = [self.line(index) for index in range(self.network.modulus)]
        load: Load = Counter()
        for phase in range(self.plan.phases):
            # 1. One dimension: the targets whose last move is in this phase, by its unit and by the moves of the phase.
            arriving: dict[int, Counter[Step]] = {}
            for line in lines:
                if line.phase == phase:
                    # A target's first moves belong to earlier phases; only moves of this phase count as steps of the
                    # stage.
                    arriving.setdefault(line.unit, Counter())[line.moves[phase]] += 1
            # 2. All dimensions: the step of a target is the number of moves of the stage in all of them.
            for base in range(self.network.dimensions):
                others = self._others(lines, base, phase)
                for unit, steps in arriving.items():
                    for step, count in _product(steps, others).items():
                        # Every term is a number of targets with one arc each: the arc of the last move.
                        load[self.stage(base, phase), step, 6 * base + unit] += count
        return load

    def _others(self, lines: list[DimensionPath], base: int, phase: int) -> Counter[Step]:
        """Return the number of choices of all other dimensions that end with a move in dimension base + 1, by steps in
        the stage.
        """
        higher = self.network.dimensions - 1 - base
        if self.plan.by_dimension:
            # With turns, higher dimensions are finished (any of N components each), lower ones have not begun
            # (component 0).
            return Counter({0: len(lines) ** higher})
        # Dimensions above the last one may have made moves in this phase, and these delay it.
        present = Counter(line.moves[phase] for line in lines if self._may_precede(line.phase, phase))
        # Dimensions below it sort after it in the same phase, so they must have stopped in an earlier one.
        past = sum(line.phase < phase for line in lines if self._may_precede(line.phase, phase))
        total = Counter({0: past**base})
        for _ in range(higher):
            total = _product(total, present)
        return total

    def _may_precede(self, phase: int, last: int) -> bool:
        """Return whether another component's last phase may be `phase` when the last move of all is of phase `last`."""
        return phase <= last

    @cached_property
    def durations(self) -> tuple[Step, ...]:
        """Number of steps of each stage if it begins when the previous one has ended."""
        last: Counter[int] = Counter()
        # The counts do not matter here, only the largest step of each stage.
        for stage, step, _ in self.load:
            last[stage] = max(last[stage], step)
        return tuple(last[stage] for stage in range(self.stages))

    @cached_property
    def begins(self) -> tuple[Step, ...]:
        """The last step before each stage, followed by the last step of all."""
        begins = [0]
        for duration in self.durations:
            begins.append(begins[-1] + duration)
        return tuple(begins)

    @cached_property
    def due(self) -> tuple[int, ...]:
        """Number of messages that a node receives in each stage when every node is a source."""
        due: Counter[int] = Counter()
        for (stage, _, _), count in self.load.items():
            # By translation symmetry, what leaves one source in a stage is what arrives at one node from all sources.
            due[stage] += count
        return tuple(due[stage] for stage in range(self.stages))

    def segments_per_port(self) -> Mapping[Port, int]:
        """Return the number of messages that leave by each port of a node in the whole run."""
        total: Counter[Port] = Counter()
        for (_, _, port), count in self.load.items():
            total[port] += count
        return total


class PrintedTree(PhasedTree):
    """Algorithms 3 and 4 as printed: in each phase a node restarts its own message only.

    This is not a spanning tree for n >= 2: it reaches only the 3 (((N+2)/3)^n - 1) targets (b = a + 1) whose nonzero
    components all lie in sectors of one phase.

    >>> from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
    >>> tree = PrintedTree(EisensteinJacobi.parse("2+3"))
    >>> [tree.topology.label(rank) for rank in tree.path(18, 0)]
    ['0,0', '-1,0']
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, THREE_PHASES)

    def reaches(self, rank: Rank) -> bool:
        """Return whether a message from the root reaches `rank`."""
        # The restart of the own message alone cannot combine moves of two phases; index 0 has no phase.
        return len({self.line(index).phase for index in self.network.digits(rank) if index}) <= 1

    def parent(self, rank: Rank, tree: int) -> Port:
        """Return the port of the last move reversed; ValueError if no message reaches `rank`."""
        if not self.reaches(rank):
            raise ValueError(f"rank {rank} is not reached")
        return super().parent(rank, tree)

    def phase_children(self, rank: Rank) -> list[tuple[int, Port]]:
        """Return (stage, port) of every child; only the root has children in later stages than its own."""
        now, _ = self.place(rank)
        return [(stage, port) for stage, port in super().phase_children(rank) if rank == 0 or stage == now]

    def _may_precede(self, phase: int, last: int) -> bool:
        # -1 is component 0; any other phase needs a restart that the printed algorithm lacks.
        return phase in (-1, last)


def _product(one: Counter[Step], other: Counter[Step]) -> Counter[Step]:
    """Return the product of two polynomials, each a mapping of exponents to coefficients."""
    product: Counter[Step] = Counter()
    for left, count in one.items():
        for right, factor in other.items():
            product[left + right] += count * factor
    return product
