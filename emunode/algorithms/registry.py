"""Every algorithm: those for any network, and one tuple for each family in the folder of the family."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.eisenstein_jacobi import registry as eisenstein_jacobi
from emunode.algorithms.flooding import Flood
from emunode.algorithms.hypercube import registry as hypercube
from emunode.algorithms.star import registry as star
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import FAMILIES, Topology

Entry = type[Algorithm]

ANY: Final[tuple[Entry, ...]] = (Flood, BreadthFirstBroadcast)
"""Algorithms for every topology."""

BY_FAMILY: Final[Mapping[str, tuple[Entry, ...]]] = {
    "star": star.ALGORITHMS,
    "hypercube": hypercube.ALGORITHMS,
    "ej": eisenstein_jacobi.ALGORITHMS,
}
"""Algorithms for one family of topologies; a family without any runs those of `ANY`."""


def algorithms(family: str, collective: Collective) -> dict[str, Entry]:
    """The algorithms of a collective on a family of topologies, by name, in the order of the registry."""
    entries = (*BY_FAMILY.get(family, ()), *ANY)
    return {entry.name: entry for entry in entries if entry.collective is collective}


def registered() -> Iterator[tuple[str, Entry]]:
    """(family, algorithm) of everything that can run: each family in turn, by collective."""
    for family in FAMILIES:
        for collective in Collective:
            for entry in algorithms(family, collective).values():
                yield family, entry


def find_algorithm(topology: Topology, spec: CollectiveSpec) -> Entry:
    """The class of the algorithm that `spec` names; ScenarioError when `topology` has none of that name."""
    known = algorithms(topology.family, spec.collective)
    entry = known.get(spec.algorithm)
    if entry is None:
        raise ScenarioError("algorithm", spec.algorithm, _allowed(topology, spec, known))
    return entry


def make_algorithm(topology: Topology, spec: CollectiveSpec) -> Algorithm:
    """The algorithm that `spec` names, ready on `topology`; ScenarioError when it cannot do the job."""
    return find_algorithm(topology, spec)(topology, spec)


def _allowed(topology: Topology, spec: CollectiveSpec, known: Mapping[str, Entry]) -> str:
    elsewhere = [
        f"{entry.collective} on {family}"
        for family, entries in BY_FAMILY.items()
        for entry in (*entries, *ANY)
        if entry.name == spec.algorithm
    ]
    if elsewhere:
        hint = f"it is defined for {' and '.join(elsewhere)}; "
    else:
        near = get_close_matches(spec.algorithm, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
    choice = ", ".join(known) or "nothing yet"
    return f"{hint}{spec.collective} on {topology.family} is done by: {choice}"
