"""The algorithms for permutation star graphs."""

from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.star.allgather import HamiltonianCycle, NecklaceAllgather, RotatedHamiltonian
from emunode.algorithms.star.alltoall import ListSchedule, NearBalancedExchange, ReplicatedExchange
from emunode.algorithms.star.bounds import DISJOINT, MULTIPLE
from emunode.algorithms.star.edge_disjoint import DisjointTreesBroadcast, DisjointTreesExchange, DisjointTreesScatter
from emunode.algorithms.star.edge_disjoint_allgather import AcknowledgedTraversal, ClockedTraversal
from emunode.algorithms.star.levels import NecklaceLevels
from emunode.algorithms.star.multiple_trees import CongestionTwoBroadcast, GreedyBroadcast, RotatedTreesAllgather
from emunode.algorithms.star.scatter import BalancedScatter, NearBalancedScatter, ReplicatedScatter
from emunode.algorithms.star.substars import SubstarSegments
from emunode.algorithms.transforms import backwards

CUTS_OFF = "A faulty node takes what its subtree has sent with it."
FORWARD_ONLY = "The paper has the broadcast only."

ALGORITHMS: Final[tuple[type[Algorithm], ...]] = (
    # broadcast
    GreedyBroadcast,
    CongestionTwoBroadcast,
    DisjointTreesBroadcast,
    SubstarSegments,
    # reduce
    backwards(GreedyBroadcast, CUTS_OFF),
    backwards(CongestionTwoBroadcast, FORWARD_ONLY, citation=f"{MULTIPLE}, algorithm 1 backwards"),
    backwards(
        DisjointTreesBroadcast,
        f"{CUTS_OFF} {FORWARD_ONLY}",
        citation=f"{DISJOINT}, single node broadcast backwards",
    ),
    # scatter
    BalancedScatter,
    NearBalancedScatter,
    ReplicatedScatter,
    DisjointTreesScatter,
    # gather
    backwards(BalancedScatter),
    backwards(NearBalancedScatter),
    backwards(ReplicatedScatter),
    backwards(
        DisjointTreesScatter,
        "The paper has the scatter only.",
        citation=f"{DISJOINT}, single node scattering backwards",
    ),
    # allgather
    RotatedTreesAllgather,
    HamiltonianCycle,
    RotatedHamiltonian,
    NecklaceAllgather,
    NecklaceLevels,
    ClockedTraversal,
    AcknowledgedTraversal,
    # alltoall
    NearBalancedExchange,
    ReplicatedExchange,
    DisjointTreesExchange,
    ListSchedule,
)
