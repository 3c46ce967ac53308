"""The algorithms by family and collective. The module of an algorithm is imported when it is first asked for.

To add an algorithm, decorate its class with `register`; a new module also needs its line in `MODULES`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import emunode.topologies.registry  # noqa: F401  # declares the families
from emunode.algorithms.base import ALGORITHMS, ANY_FAMILY, Algorithm, Need
from emunode.annexes import ALGORITHMS as FROM_OUTSIDE
from emunode.annexes import REPAIRED, from_annex
from emunode.errors import PLUGIN_HINT, ScenarioError, did_you_mean
from emunode.model import Collective, CollectiveSpec, EvenParts
from emunode.topologies.base import FAMILIES, Topology

RegisteredAlgorithm = type[Algorithm]

VISITED_ENDS: Final = 1 << 20
"""The most link ends that an algorithm may look at before it runs: up to ten seconds, and less than a gigabyte."""
MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "star": {
        "star.edge_disjoint": "broadcast scatter alltoall reduce gather",
        "star.multiple_trees": "broadcast allgather reduce",
        "star.substars": "broadcast",
        "star.scatter": "scatter gather",
        "star.allgather": "allgather",
        "star.edge_disjoint_allgather": "allgather",
        "star.levels": "allgather",
        "star.alltoall": "alltoall",
        "reductions": "reduce-scatter allreduce",
    },
    "hypercube": {
        "hypercube.broadcast": "broadcast reduce",
        "hypercube.scatter": "scatter gather",
        "hypercube.scatter_ordered": "scatter gather",
        "hypercube.scatter_rest": "scatter",
        "hypercube.allgather": "allgather",
        "hypercube.ring": "allgather",
        "hypercube.alltoall": "alltoall",
        "hypercube.fifo": "broadcast scatter",
        "reductions": "reduce-scatter allreduce",
    },
    "ej": {
        "eisenstein_jacobi.broadcast": "broadcast",
        "eisenstein_jacobi.independent": "broadcast scatter reduce gather",
        "eisenstein_jacobi.allgather": "allgather",
        "eisenstein_jacobi.literal": "broadcast allgather",
        "reductions": "reduce reduce-scatter allreduce",
    },
    ANY_FAMILY: {
        "flooding": "broadcast",
        "breadth_first": "broadcast",
        "any_network.tree_packings": "broadcast scatter reduce gather allreduce",
        "any_network.scatter": "scatter gather",
        "any_network.allgather": "allgather",
        "any_network.exchange": "alltoall",
        "any_network.unicast": "unicast",
        "classical.binomial": "broadcast",
        "classical.circulant": "broadcast allgather",
        "classical.allgather": "allgather",
        "classical.alltoall": "alltoall",
        "classical.doubling": "allreduce",
        "reductions": "reduce reduce-scatter allreduce",
    },
}
"""The modules below `emunode.algorithms` that register algorithms, by family, with the collectives of these."""
ALGORITHMS.declare(
    ((family, collective), f"emunode.algorithms.{module}")
    for family, modules in MODULES.items()
    for module, collectives in modules.items()
    for collective in collectives.split()
)

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
"""The order of lists, by papers. Algorithms that are not named here follow, in the order of registration."""
_PLACE: Final = {name: place for place, name in enumerate(ORDER)}


def algorithms(family: str, collective: Collective) -> dict[str, RegisteredAlgorithm]:
    """Return the algorithms of a collective on a family of topologies, by name; those for any network come last."""
    found: dict[str, RegisteredAlgorithm] = {}
    for scope in (family, ANY_FAMILY):
        for entry in sorted(
            ALGORITHMS.within((scope, collective)), key=lambda entry: _PLACE.get(entry.name, len(ORDER))
        ):
            found.setdefault(entry.name, entry)
    return found


def registered() -> Iterator[tuple[str, RegisteredAlgorithm]]:
    """Yield (family, algorithm) of everything that can run: each family in turn, by collective."""
    for family in FAMILIES:
        for collective in Collective:
            for entry in algorithms(family, collective).values():
                yield family, entry


def find_algorithm(topology: Topology, spec: CollectiveSpec) -> RegisteredAlgorithm:
    """Return the class of the algorithm that `spec` names; ScenarioError when `topology` has none of that name."""
    if spec.algorithm in FROM_OUTSIDE:
        given: RegisteredAlgorithm = from_annex(f"algorithm {spec.algorithm!r}", *FROM_OUTSIDE[spec.algorithm])(spec)
        return given
    for family in (topology.family, ANY_FAMILY):
        if entry := ALGORITHMS.get((family, spec.collective, spec.algorithm)):
            return entry
    known = algorithms(topology.family, spec.collective)
    raise ScenarioError("algorithm", spec.algorithm, _allowed(topology, spec, known))


def make_algorithm(topology: Topology, spec: CollectiveSpec) -> Algorithm:
    """Return the algorithm that `spec` names, ready on `topology`, with its repair; ScenarioError when it cannot do the
    job.
    """
    entry = find_algorithm(topology, spec)
    require_visitable(topology, entry)
    if spec.repair is None:
        return entry(topology, spec)
    repaired: Algorithm = from_annex(*REPAIRED)(entry, topology, spec)
    return repaired


def cuts_vector(entry: RegisteredAlgorithm) -> bool:
    """Return whether an algorithm cuts the vector of each rank into blocks."""
    return entry.collective is Collective.REDUCE_SCATTER or Need.BLOCKS in entry.needs


def with_blocks(entry: RegisteredAlgorithm, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
    """Return `spec` with the vector of each rank, of `message_bytes`, cut into blocks.

    The blocks differ by at most one element, the longer ones first. Unchanged for an algorithm that does not cut the
    vector; ScenarioError if a block would have no element.
    """
    if not cuts_vector(entry):
        return spec
    blocks, vector, unit = len(topology.data_ranks), spec.message_bytes, spec.element_bytes
    if vector < blocks * unit:
        raise ScenarioError(
            "message_bytes",
            vector,
            f"{entry.name} on {topology.name} cuts the vector of each rank into {blocks} blocks: at least {blocks * unit} "
            "bytes",
        )
    cut = EvenParts(vector // unit, blocks, unit)
    short = blocks - cut.longer if cut.longer else 0
    return spec._replace(message_bytes=cut.longest, blocks=blocks, short_blocks=short)


def require_visitable(topology: Topology, entry: RegisteredAlgorithm) -> None:
    """Refuse a network that is too large for an algorithm that looks at all of it; ScenarioError (field `topology`)."""
    if entry.needs & {Need.EVERY_NODE, Need.TABLE}:
        topology.require(
            topology.order * topology.degree <= VISITED_ENDS,
            f"{entry.name} looks at every link before it runs, and the network has {topology.order} nodes of up to "
            f"{topology.degree} links; at most {VISITED_ENDS} link ends are allowed",
        )


def _allowed(topology: Topology, spec: CollectiveSpec, known: Mapping[str, RegisteredAlgorithm]) -> str:
    places = {family: family for family in FAMILIES} | {ANY_FAMILY: "any network"}
    done = {
        place: [each for each in Collective if (family, each, spec.algorithm) in ALGORITHMS]
        for family, place in places.items()
    }
    does = [f"{', '.join(names)} on {place}" for place, names in done.items() if names]
    elsewhere = f"it does {'; '.join(does)}" if does else ""
    hint = f"{elsewhere}; " if elsewhere else did_you_mean(spec.algorithm, known)
    choice = ", ".join(known) or "nothing yet"
    asked = "" if elsewhere else f"; {PLUGIN_HINT}"
    return f"{hint}{spec.collective} on {topology.family} is done by: {choice}{asked}"
