"""An invariant of a network: its definition, its computation, and the closed forms that the literature gives for it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.all_pairs import NeighbourLists
from emunode.topologies.base import Topology, VertexTransitiveTopology

LARGEST_NETWORK: Final = 1 << 12
"""The largest network, in nodes, whose invariants are computed; closed forms cover larger networks."""
QUICK_WORK: Final = 500_000
"""The default limit of work for each invariant: about half a second."""
LONG_WORK: Final = 600_000_000
"""The limit of work for each invariant that is asked for by name: about ten minutes."""

TRIED_SHARE: Final = 0.3
"""The share of the remaining budget spent on a search that is too long for the budget but may end early."""

InvariantValue = int | None | tuple[int, ...]
"""int, tuple indexed by fault or path count, or None if undefined."""


class NotKnownError(Exception):
    """An invariant is not computed; the text gives the reason, and bounds if any are known."""


class OverBudgetError(NotKnownError):
    """A computation needs more work than is allowed."""


class Budget:
    """The work that one invariant may take, in units of about a microsecond.

    Work is counted, not timed, so that a command prints the same invariants on every machine.
    """

    def __init__(self, limit: float = QUICK_WORK) -> None:
        self.limit = limit
        self.spent = 0.0
        self._stated = limit

    def spend(self, work: float) -> None:
        """Raise OverBudgetError if this work exceeds the limit; called before the work is done."""
        self.spent += work
        self.require(0)

    def require(self, work: float) -> None:
        """Raise OverBudgetError if `work`, an estimate of the work to come, exceeds the limit; nothing is spent."""
        if self.spent + work > self.limit:
            raise OverBudgetError(f"it takes more than {self._stated:,.0f} units of work")

    def for_search(self, work: float) -> "Budget":
        """Return the budget of a search that may end early.

        If an exhaustive search, estimated to take `work`, fits into this budget, it may use all of it. Otherwise the
        search gets a small part of the rest, and its error states the limit of this budget.
        """
        if self.spent + work <= self.limit:
            return self
        part = Budget(TRIED_SHARE * (self.limit - self.spent))
        part._stated = self._stated
        return part


class InvariantNetwork:
    """A network as its invariants see it: the neighbours of every rank as lists, as a table and as sets of bits."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.order = topology.order
        self.transitive = isinstance(topology, VertexTransitiveTopology)
        """Whether every rank is equivalent to rank 0."""
        self._kept: dict[object, tuple[Any, float]] = {}
        self._too_little: dict[object, float] = {}
        """Work that was not enough for a result."""

    @property
    def roots(self) -> range:
        """Ranks with at least one member of every class of equivalent ranks."""
        # Every rank is the image of rank 0 under a symmetry.
        return range(1 if self.transitive else self.order)

    @cached_property
    def adjacency(self) -> NeighbourLists:
        """The neighbours of every rank, ascending."""
        return [sorted(peer for _, peer in self.topology.adjacent(rank)) for rank in self.topology.ranks()]

    @cached_property
    def masks(self) -> list[int]:
        """The neighbours of every rank as a set of bits."""
        # Whole numbers as sets: a union or a test of a whole neighbourhood is one operation.
        return [sum(1 << peer for peer in peers) for peers in self.adjacency]

    @cached_property
    def table(self) -> NDArray[np.intp]:
        """Row r: the neighbours of rank r, filled up by r itself where other ranks have more."""
        width = max(map(len, self.adjacency))
        # A rank that is its own neighbour in the spare columns adds nothing to a flood, so rows need no lengths.
        return np.array([[*peers, *[rank] * (width - len(peers))] for rank, peers in enumerate(self.adjacency)])

    @cached_property
    def links(self) -> list[tuple[Rank, Rank]]:
        """Every link once, with its lower rank first."""
        return [(one, other) for one, peers in enumerate(self.adjacency) for other in peers if one < other]

    @property
    def complete(self) -> bool:
        """Whether every two nodes are neighbours, so that no set of nodes separates any."""
        return 2 * len(self.links) == self.order * (self.order - 1)

    def keep(self, key: object, budget: Budget, compute: Callable[[], Any]) -> Any:
        """Compute once; charge the cost to each caller."""
        if key in self._kept:
            # The work is charged again, so that an invariant is computed or refused whatever was computed before.
            budget.spend(self._kept[key][1])
            return self._kept[key][0]
        before = budget.spent
        if budget.limit - before <= self._too_little.get(key, -1):
            budget.spend(float("inf"))  # it would end in the same error, after the same work
        try:
            value = compute()
        except OverBudgetError:
            # The next invariant that needs this result, and has no more work left, fails at once and not after the same
            # work.
            self._too_little[key] = budget.limit - before
            raise
        self._kept[key] = value, budget.spent - before
        return value


@dataclass(frozen=True)
class ClosedForm:
    """The value of an invariant for a family, within its proved or confirmed range."""

    family: type[Any]
    value: Callable[[Any, str], InvariantValue]
    """From a network of the family and the parameter of the invariant; None outside the range."""
    source: str


class Invariant(ABC):
    """One invariant. Its parameter, if it has one, is a number or the name of a graph: g, r or H in the literature."""

    name: ClassVar[str]
    """The name on the command line, in JSON and, with spaces, in tables."""
    meaning: ClassVar[str]
    """The definition in one line."""
    parameter: ClassVar[str] = ""
    """The letter of the parameter; empty for an invariant without parameter."""
    usual: ClassVar[tuple[str, ...]] = ("",)
    """The parameters that are shown if none is asked for."""
    closed_forms: ClassVar[Sequence[ClosedForm]] = ()

    def check(self, topology: Topology, parameter: str) -> None:
        """Raise ScenarioError (field `figure`) unless this is a parameter of the invariant for this network."""
        if parameter:
            raise ScenarioError("figure", f"{self.name}:{parameter}", f"{self.name} has no parameter")

    @abstractmethod
    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        """Return the exact value; raises NotKnownError where it takes too much work."""

    def closed_form(self, topology: Topology, parameter: str) -> tuple[InvariantValue, str] | None:
        """Return the value that the literature gives, and its source; None outside the range of every closed form."""
        for form in self.closed_forms:
            # A family may have several closed forms, each with a range of its own.
            if isinstance(topology, form.family) and (value := form.value(topology, parameter)) is not None:
                return value, form.source
        return None


@dataclass(frozen=True)
class InvariantResult:
    """One invariant of one network."""

    title: str
    """The name as tables show it."""
    figure: str
    parameter: str
    """The number or name that the invariant is for, such as g; empty for an invariant without parameter."""
    value: InvariantValue
    """Exact. None where no set of nodes is as the definition wants it, and where `not_computed` gives a reason."""
    not_computed: str | None
    closed_form: InvariantValue
    """The value in the literature, for the last one of several values; None outside its range."""
    source: str | None
    survival: dict[float, float] | None
    """Where the value counts survived sets by size: probability of failure of each element -> probability of survival."""

    @property
    def agrees(self) -> bool | None:
        """Whether the value equals the closed form; None unless both are known."""
        if self.not_computed is not None or self.closed_form is None:
            return None
        # The literature states the last of several values: the one with the most faults or paths.
        last = self.value[-1] if isinstance(self.value, tuple) else self.value
        return last == self.closed_form

    def record(self) -> dict[str, object]:
        """Return the invariant as plain values."""
        values = asdict(self)
        del values["title"]
        return {**values, "agrees": self.agrees}
