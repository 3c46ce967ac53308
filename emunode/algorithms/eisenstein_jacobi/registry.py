"""The algorithms for Eisenstein-Jacobi networks."""

from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.eisenstein_jacobi.allgather import (
    DimensionWise,
    ImprovedAllgather,
    ThreePhase,
    ThreePhasePrinted,
    TwoPhase,
)
from emunode.algorithms.eisenstein_jacobi.broadcast import ImprovedBroadcast, IterativeBroadcast
from emunode.algorithms.eisenstein_jacobi.independent import IndependentBroadcast, IndependentScatter
from emunode.algorithms.eisenstein_jacobi.literal import PrintedBroadcast, RestartAllgather, RestartOwnAllgather
from emunode.algorithms.transforms import backwards

ALGORITHMS: Final[tuple[type[Algorithm], ...]] = (
    # broadcast
    IterativeBroadcast,
    ImprovedBroadcast,
    IndependentBroadcast,
    PrintedBroadcast,
    # reduce
    backwards(
        IndependentBroadcast,
        "It has no redundancy and survives no fault: the contribution of a node travels in one tree.",
    ),
    # scatter
    IndependentScatter,
    # gather
    backwards(IndependentScatter),
    # allgather
    ThreePhase,
    TwoPhase,
    DimensionWise,
    ImprovedAllgather,
    ThreePhasePrinted,
    RestartAllgather,
    RestartOwnAllgather,
)
