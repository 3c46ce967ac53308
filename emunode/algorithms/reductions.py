"""The reductions that follow from broadcasts and allgathers: reduce-scatter and allreduce, under the same names.

Left out are algorithms whose ranks decide by arrivals, so that there is no timetable to run backwards: `flood`, the
`fifo` variants and the negative controls.
"""

from typing import Final

from emunode.algorithms.any_network.allgather import PackedAllgather, PhasedBreadthFirstAllgather
from emunode.algorithms.base import Algorithm
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.classical.allgather import BruckAllgather, CycleAllgather, DoublingAllgather, HalvingAllgather
from emunode.algorithms.classical.binomial import BinomialByRank
from emunode.algorithms.classical.circulant import CirculantAllgather, CirculantBroadcast
from emunode.algorithms.eisenstein_jacobi.allgather import DimensionWise, ImprovedAllgather, ThreePhase, TwoPhase
from emunode.algorithms.eisenstein_jacobi.broadcast import ImprovedBroadcast, IterativeBroadcast
from emunode.algorithms.eisenstein_jacobi.independent import IndependentBroadcast
from emunode.algorithms.hypercube.allgather import (
    BalancedAllgather,
    BalancedPathsAllgather,
    BinomialAllgather,
    EdgeDisjointAllgather,
    GrayAllgather,
    RotatedBinomialAllgather,
    RotatedGrayAllgather,
    TwoRootedAllgather,
)
from emunode.algorithms.hypercube.broadcast import BinomialBroadcast, EdgeDisjointBroadcast
from emunode.algorithms.star.allgather import NecklaceAllgather, RotatedHamiltonian
from emunode.algorithms.star.edge_disjoint import DisjointTreesBroadcast
from emunode.algorithms.star.edge_disjoint_allgather import ClockedTraversal
from emunode.algorithms.star.levels import NecklaceLevels
from emunode.algorithms.star.multiple_trees import CongestionTwoBroadcast, GreedyBroadcast, RotatedTreesAllgather
from emunode.algorithms.transforms import allreduce_of, backwards
from emunode.registry import register

ALLGATHERS: Final[tuple[type[Algorithm], ...]] = (
    RotatedHamiltonian, NecklaceAllgather, NecklaceLevels, RotatedTreesAllgather, ClockedTraversal,
    GrayAllgather, RotatedGrayAllgather, BinomialAllgather, TwoRootedAllgather, RotatedBinomialAllgather,
    EdgeDisjointAllgather, BalancedAllgather, BalancedPathsAllgather,
    ThreePhase, TwoPhase, DimensionWise, ImprovedAllgather,
    PhasedBreadthFirstAllgather, PackedAllgather,
)  # fmt: skip
"""Allgathers that run backwards as a reduce-scatter, and forwards after it as an allreduce."""
BROADCASTS: Final[tuple[type[Algorithm], ...]] = (
    GreedyBroadcast, CongestionTwoBroadcast, DisjointTreesBroadcast, IterativeBroadcast, IndependentBroadcast,
    BreadthFirstBroadcast, BinomialByRank,
)  # fmt: skip
"""Broadcasts that run forwards after a reduce, their own schedule backwards."""
ROOTED: Final[tuple[type[Algorithm], ...]] = (
    ImprovedBroadcast, BinomialBroadcast, EdgeDisjointBroadcast, CirculantBroadcast,
)  # fmt: skip
"""The same, where an allgather of the family has the name: their allreduce is called `NAME-rooted`."""

CLASSICAL: Final[tuple[type[Algorithm], ...]] = (CycleAllgather, BruckAllgather, HalvingAllgather, CirculantAllgather)
"""Classical allgathers whose reduce-scatter and allreduce have the same name; recursive doubling becomes halving."""
HALVING: Final = "Thakur-Rabenseifner-Gropp 2005, recursive halving"

for _entry in ALLGATHERS:
    register(backwards(_entry))
    register(allreduce_of(_entry))
for _entry in BROADCASTS:
    register(allreduce_of(_entry))
for _entry in ROOTED:
    register(allreduce_of(_entry, name=f"{_entry.name}-rooted"))
for _entry in (ImprovedBroadcast, IterativeBroadcast, BreadthFirstBroadcast, BinomialByRank, CirculantBroadcast):
    register(backwards(_entry))
for _entry in CLASSICAL:
    register(backwards(_entry))
    register(allreduce_of(_entry))
_halving = register(backwards(DoublingAllgather, name="recursive-halving", citation=HALVING))
register(allreduce_of(DoublingAllgather, _halving, name="recursive-halving", citation=HALVING))
