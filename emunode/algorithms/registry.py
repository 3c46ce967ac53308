"""Which algorithms there are: literal maps, one line an algorithm."""

from collections.abc import Mapping
from difflib import get_close_matches

from emunode.algorithms.base import Algorithm
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.eisenstein_jacobi.allgather import (
    DimensionWise,
    ImprovedAllgather,
    ThreePhase,
    ThreePhasePrinted,
    TwoPhase,
)
from emunode.algorithms.eisenstein_jacobi.broadcast import ImprovedBroadcast, IterativeBroadcast
from emunode.algorithms.eisenstein_jacobi.independent import (
    IndependentBroadcast,
    IndependentGather,
    IndependentReduce,
    IndependentScatter,
)
from emunode.algorithms.eisenstein_jacobi.literal import PrintedBroadcast, RestartAllgather, RestartOwnAllgather
from emunode.algorithms.flooding import Flood
from emunode.algorithms.hypercube.registry import HYPERCUBE
from emunode.algorithms.star.allgather import HamiltonianCycle, NecklaceAllgather, RotatedHamiltonian
from emunode.algorithms.star.alltoall import ListSchedule, NearBalancedExchange, ReplicatedExchange
from emunode.algorithms.star.edge_disjoint import (
    DisjointTreesBroadcast,
    DisjointTreesExchange,
    DisjointTreesGather,
    DisjointTreesReduce,
    DisjointTreesScatter,
)
from emunode.algorithms.star.edge_disjoint_allgather import AcknowledgedTraversal, ClockedTraversal
from emunode.algorithms.star.levels import NecklaceLevels
from emunode.algorithms.star.multiple_trees import (
    CongestionTwoBroadcast,
    CongestionTwoReduce,
    GreedyBroadcast,
    GreedyReduce,
    RotatedTreesAllgather,
)
from emunode.algorithms.star.scatter import (
    BalancedGather,
    BalancedScatter,
    NearBalancedGather,
    NearBalancedScatter,
    ReplicatedGather,
    ReplicatedScatter,
)
from emunode.algorithms.star.substars import SubstarSegments
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import Topology

Entry = type[Algorithm]

ANY: Mapping[Collective, tuple[Entry, ...]] = {
    Collective.BROADCAST: (Flood, BreadthFirstBroadcast),
}
"""Algorithms for every topology."""

BY_FAMILY: Mapping[str, Mapping[Collective, tuple[Entry, ...]]] = {
    "star": {
        Collective.BROADCAST: (GreedyBroadcast, CongestionTwoBroadcast, DisjointTreesBroadcast, SubstarSegments),
        Collective.REDUCE: (GreedyReduce, CongestionTwoReduce, DisjointTreesReduce),
        Collective.SCATTER: (BalancedScatter, NearBalancedScatter, ReplicatedScatter, DisjointTreesScatter),
        Collective.GATHER: (BalancedGather, NearBalancedGather, ReplicatedGather, DisjointTreesGather),
        Collective.ALLGATHER: (
            RotatedTreesAllgather,
            HamiltonianCycle,
            RotatedHamiltonian,
            NecklaceAllgather,
            NecklaceLevels,
            ClockedTraversal,
            AcknowledgedTraversal,
        ),
        Collective.ALLTOALL: (NearBalancedExchange, ReplicatedExchange, DisjointTreesExchange, ListSchedule),
    },
    "hypercube": HYPERCUBE,
    "ej": {
        Collective.BROADCAST: (IterativeBroadcast, ImprovedBroadcast, IndependentBroadcast, PrintedBroadcast),
        Collective.REDUCE: (IndependentReduce,),
        Collective.SCATTER: (IndependentScatter,),
        Collective.GATHER: (IndependentGather,),
        Collective.ALLGATHER: (
            ThreePhase,
            TwoPhase,
            DimensionWise,
            ImprovedAllgather,
            ThreePhasePrinted,
            RestartAllgather,
            RestartOwnAllgather,
        ),
    },
}
"""Algorithms for one topology, by its family."""


def algorithms(family: str, collective: Collective) -> dict[str, Entry]:
    """The algorithms of a collective on a family of topologies, by name, in the order of the maps."""
    entries = (*BY_FAMILY[family].get(collective, ()), *ANY.get(collective, ()))
    return {entry.name: entry for entry in entries}


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
        f"{collective} on {family}"
        for family, collectives in BY_FAMILY.items()
        for collective in collectives
        if spec.algorithm in algorithms(family, collective)
    ]
    if elsewhere:
        hint = f"it is defined for {' and '.join(elsewhere)}; "
    else:
        near = get_close_matches(spec.algorithm, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
    choice = ", ".join(known) or "nothing yet"
    return f"{hint}{spec.collective} on {topology.family} is done by: {choice}"
