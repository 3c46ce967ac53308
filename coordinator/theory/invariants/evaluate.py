"""The requested figures of a network: their values, and beside them their closed forms."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from coordinator.theory.invariants.base import (
    LARGEST_NETWORK,
    QUICK_WORK,
    Budget,
    FigureNetwork,
    Invariant,
    InvariantValue,
    NotKnownError,
)
from coordinator.theory.invariants.registry import FIGURES
from coordinator.theory.invariants.survival import Survival
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

ALL: Final = "all"
MOST_WORK: Final = 1e12
"""The largest limit of work: about ten days."""


@dataclass(frozen=True)
class FigureValue:
    """One figure of one network."""

    figure: str
    parameter: str
    """The number or name that the figure is for, such as g; empty for a figure without parameter."""
    value: InvariantValue
    """Exact. None where no set of nodes is as the definition wants it, and where `not_computed` gives a reason."""
    not_computed: str | None
    closed_form: InvariantValue
    """The value in the literature, for the last one of several values; None outside its range."""
    source: str | None
    survival: dict[float, float] | None
    """Where the value counts survived sets by size: probability of failure of each element -> probability of survival."""

    @property
    def title(self) -> str:
        """The name as tables show it."""
        name = self.figure.replace("_", " ")
        letter = FIGURES[self.figure].parameter
        if not self.parameter:
            return name
        return f"{name}, {letter} = {self.parameter}" if len(letter) == 1 else f"{name}, {self.parameter}"

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
        return {**asdict(self), "agrees": self.agrees}


def evaluate(topology: Topology, names: Sequence[str] = (), work: float = QUICK_WORK) -> Iterator[FigureValue]:
    """Return the figures with these names: `NAME`, `NAME:PARAMETER` or `all` (default). `work` limits each
    of them.

    Raises ScenarioError (field `figure` or `work`) before anything is computed.
    """
    if not 0 < work <= MOST_WORK:
        raise ScenarioError("work", work, f"more than 0, at most {MOST_WORK:g}")
    # In the order asked for, each once.
    asked = dict.fromkeys(each for name in names or (ALL,) for each in _asked(topology, name))
    return _values(topology, list(asked), work)


def _asked(topology: Topology, name: str) -> Iterator[tuple[Invariant, str]]:
    if name == ALL:
        yield from ((figure, parameter) for figure in FIGURES.values() for parameter in figure.usual)
        return
    word, _, parameter = name.partition(":")
    # Both spellings are accepted: flags have hyphens, keys in JSON underscores.
    figure = FIGURES.get(word.replace("-", "_"))
    if figure is None:
        raise ScenarioError("figure", name, f"{ALL}, or one of {', '.join(FIGURES)}")
    for each in (parameter,) if parameter else figure.usual:
        figure.check(topology, each)
        yield figure, each


def _values(topology: Topology, asked: Sequence[tuple[Invariant, str]], work: float) -> Iterator[FigureValue]:
    network, ends = FigureNetwork(topology), topology.order * topology.degree
    for figure, parameter in asked:
        value, reason = None, None
        try:
            if network.order > LARGEST_NETWORK:
                raise NotKnownError(f"{network.order:,} nodes are more than {LARGEST_NETWORK:,}")
            # Every figure looks at all links first.
            Budget(work).spend(ends)
            # Every invariant has a budget of its own, so its value does not depend on the others that are asked for.
            value = figure.compute(network, parameter, Budget(work))
        except NotKnownError as error:
            reason = str(error)
        # Also for a network that is too large to compute: the literature may know its value.
        closed = figure.closed_form(topology, parameter)
        survival = figure.rates(network, value) if isinstance(figure, Survival) and isinstance(value, tuple) else None
        yield FigureValue(figure.name, parameter, value, reason, closed and closed[0], closed and closed[1], survival)
