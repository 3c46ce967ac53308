"""The requested figures of a network: their values, and beside them their closed forms."""

from collections.abc import Iterator, Sequence
from typing import Final

from coordinator.annexes.invariants.registry import FIGURES
from coordinator.annexes.invariants.survival import Survival
from coordinator.theory.invariants.base import (
    LARGEST_NETWORK,
    LONG_WORK,
    QUICK_WORK,
    Budget,
    FigureNetwork,
    FigureValue,
    Invariant,
    NotKnownError,
)
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

ALL: Final = "all"
MOST_WORK: Final = 1e12
"""The largest limit of work: about ten days."""


def evaluate(topology: Topology, names: Sequence[str] = (), work: float | None = None) -> Iterator[FigureValue]:
    """Return the figures with these names: `NAME`, `NAME:PARAMETER` or `all` (default). `work` limits each
    of them.

    Raises ScenarioError (field `figure` or `work`) before anything is computed.
    """
    if work is None:
        work = LONG_WORK if names else QUICK_WORK
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
        yield FigureValue(
            _title(figure, parameter),
            figure.name,
            parameter,
            value,
            reason,
            closed and closed[0],
            closed and closed[1],
            survival,
        )


def _title(figure: Invariant, parameter: str) -> str:
    name = figure.name.replace("_", " ")
    if not parameter:
        return name
    return f"{name}, {figure.parameter} = {parameter}" if len(figure.parameter) == 1 else f"{name}, {parameter}"
