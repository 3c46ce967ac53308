"""The requested invariants of a network: their values, and beside them their closed forms."""

from collections.abc import Iterator, Sequence
from typing import Final

from coordinator.annexes.invariants.base import (
    LARGEST_NETWORK,
    LONG_WORK,
    QUICK_WORK,
    Budget,
    Invariant,
    InvariantNetwork,
    InvariantResult,
    NotKnownError,
)
from coordinator.annexes.invariants.registry import INVARIANTS
from coordinator.annexes.invariants.survival import Survival
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

ALL: Final = "all"
MOST_WORK: Final = 1e12
"""The largest limit of work: about ten days."""


def evaluate(topology: Topology, names: Sequence[str] = (), work: float | None = None) -> Iterator[InvariantResult]:
    """Return the invariants with these names: `NAME`, `NAME:PARAMETER` or `all` (default). `work` limits each
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
        yield from ((invariant, parameter) for invariant in INVARIANTS.values() for parameter in invariant.usual)
        return
    word, _, parameter = name.partition(":")
    # Both spellings are accepted: flags have hyphens, keys in JSON underscores.
    invariant = INVARIANTS.get(word.replace("-", "_"))
    if invariant is None:
        raise ScenarioError("figure", name, f"{ALL}, or one of {', '.join(INVARIANTS)}")
    for each in (parameter,) if parameter else invariant.usual:
        invariant.check(topology, each)
        yield invariant, each


def _values(topology: Topology, asked: Sequence[tuple[Invariant, str]], work: float) -> Iterator[InvariantResult]:
    network, ends = InvariantNetwork(topology), topology.order * topology.degree
    for invariant, parameter in asked:
        value, reason = None, None
        try:
            if network.order > LARGEST_NETWORK:
                raise NotKnownError(f"{network.order:,} nodes are more than {LARGEST_NETWORK:,}")
            # Every invariant looks at all links first.
            Budget(work).spend(ends)
            # Every invariant has a budget of its own, so its value does not depend on the others that are asked for.
            value = invariant.compute(network, parameter, Budget(work))
        except NotKnownError as error:
            reason = str(error)
        # Also for a network that is too large to compute: the literature may know its value.
        closed = invariant.closed_form(topology, parameter)
        survival = (
            invariant.rates(network, value) if isinstance(invariant, Survival) and isinstance(value, tuple) else None
        )
        yield InvariantResult(
            _title(invariant, parameter),
            invariant.name,
            parameter,
            value,
            reason,
            closed and closed[0],
            closed and closed[1],
            survival,
        )


def _title(invariant: Invariant, parameter: str) -> str:
    name = invariant.name.replace("_", " ")
    if not parameter:
        return name
    return f"{name}, {invariant.parameter} = {parameter}" if len(invariant.parameter) == 1 else f"{name}, {parameter}"
