"""The algorithms by family and collective. Importing this module registers the built-in ones.

To add an algorithm, decorate its class with `register`; a new module also needs its line in the imports below.
"""

# ruff: noqa: F401  # modules are imported for the algorithms that they register

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

import emunode.algorithms.any_network.allgather
import emunode.algorithms.any_network.exchange
import emunode.algorithms.any_network.scatter
import emunode.algorithms.any_network.tree_packings
import emunode.algorithms.any_network.unicast
import emunode.algorithms.breadth_first
import emunode.algorithms.classical.allgather
import emunode.algorithms.classical.alltoall
import emunode.algorithms.classical.binomial
import emunode.algorithms.classical.circulant
import emunode.algorithms.classical.doubling
import emunode.algorithms.eisenstein_jacobi.allgather
import emunode.algorithms.eisenstein_jacobi.broadcast
import emunode.algorithms.eisenstein_jacobi.independent
import emunode.algorithms.eisenstein_jacobi.literal
import emunode.algorithms.flooding
import emunode.algorithms.hypercube.allgather
import emunode.algorithms.hypercube.alltoall
import emunode.algorithms.hypercube.broadcast
import emunode.algorithms.hypercube.fifo
import emunode.algorithms.hypercube.ring
import emunode.algorithms.hypercube.scatter
import emunode.algorithms.hypercube.scatter_ordered
import emunode.algorithms.hypercube.scatter_rest
import emunode.algorithms.reductions
import emunode.algorithms.star.allgather
import emunode.algorithms.star.alltoall
import emunode.algorithms.star.edge_disjoint
import emunode.algorithms.star.edge_disjoint_allgather
import emunode.algorithms.star.levels
import emunode.algorithms.star.multiple_trees
import emunode.algorithms.star.scatter
import emunode.algorithms.star.substars
import emunode.topologies.registry
from emunode.algorithms.base import ALGORITHMS, ANY_FAMILY, Algorithm
from emunode.algorithms.program import PROGRAM, find_program
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import FAMILIES, Topology

Entry = type[Algorithm]

ORDER: Final = (
    "greedy-tree", "congestion2-trees", "balanced-tree", "near-balanced-tree", "replicated-balanced-tree", "edt",
    "substar-segments", "rotated-trees", "hamiltonian-cycle", "rotated-hamiltonian", "mbst", "mbst-levels", "edt-dfs",
    "edt-dfs-ack", "list-schedule",
    "brg", "brg-ring", "nrbrg", "nrbrg-rbf", "sbt", "sbt-rooted", "sbt-gray", "sbt-postorder", "sbt-fifo", "sbt-rbf",
    "tcbt", "tcbt-rbf", "nrsbt", "nrsbt-exchange", "nrsbt-postorder", "nrsbt-fifo", "nrsbt-rbf", "nesbt", "nesbt-rooted",
    "nesbt-fifo", "nesbt-rbf", "sbnt",
    "sbnt-cyclic", "sbnt-postorder", "sbnt-fifo", "sbnt-rbf", "sbntc", "sbntc-fifo", "sbntc-rbf", "sbt-rotations",
    "sbt-reflections",
    "iterative", "three-phase", "two-phase", "dimension-wise", "improved", "improved-rooted", "independent-trees",
    "improved-printed",
    "three-phase-printed", "three-phase-restart", "three-phase-restart-own",
    "flood", "bfs-tree", "edge-disjoint-trees", "arborescences", "bfb", "bfb-packed", "minimal", "disjoint-paths",
    "ring", "recursive-doubling", "recursive-halving", "bruck", "binomial", "circulant", "circulant-rooted",
    "circulant-halving",
)  # fmt: skip
"""The order of lists: that of the papers. Algorithms that are not named here follow, in the order of registration."""
_PLACE: Final = {name: place for place, name in enumerate(ORDER)}


def algorithms(family: str, collective: Collective) -> dict[str, Entry]:
    """The algorithms of a collective on a family of topologies, by name; those for any network come last."""
    found: dict[str, Entry] = {}
    for scope in (family, ANY_FAMILY):
        entries = [entry for key, entry in ALGORITHMS.items() if key[:2] == (scope, collective)]
        for entry in sorted(entries, key=lambda entry: _PLACE.get(entry.name, len(ORDER))):
            found.setdefault(entry.name, entry)
    return found


def registered() -> Iterator[tuple[str, Entry]]:
    """(family, algorithm) of everything that can run: each family in turn, by collective."""
    for family in FAMILIES:
        for collective in Collective:
            for entry in algorithms(family, collective).values():
                yield family, entry


def find_algorithm(topology: Topology, spec: CollectiveSpec) -> Entry:
    """The class of the algorithm that `spec` names; ScenarioError when `topology` has none of that name."""
    if spec.algorithm == PROGRAM:
        return find_program(spec)
    known = algorithms(topology.family, spec.collective)
    entry = known.get(spec.algorithm)
    if entry is None:
        raise ScenarioError("algorithm", spec.algorithm, _allowed(topology, spec, known))
    return entry


def make_algorithm(topology: Topology, spec: CollectiveSpec) -> Algorithm:
    """The algorithm that `spec` names, ready on `topology`; ScenarioError when it cannot do the job."""
    return find_algorithm(topology, spec)(topology, spec)


def _allowed(topology: Topology, spec: CollectiveSpec, known: Mapping[str, Entry]) -> str:
    places = {family: family for family in FAMILIES} | {ANY_FAMILY: "any network"}
    elsewhere = [
        f"{collective} on {place}"
        for family, place in places.items()
        for collective in Collective
        if (family, collective, spec.algorithm) in ALGORITHMS
    ]
    if elsewhere:
        hint = f"it is defined for {' and '.join(elsewhere)}; "
    else:
        near = get_close_matches(spec.algorithm, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
    choice = ", ".join(known) or "nothing yet"
    return f"{hint}{spec.collective} on {topology.family} is done by: {choice}"
