"""The invariants in the order of display. To add one, write an `Invariant` and list an instance here."""

from coordinator.annexes.invariants.base import Invariant
from coordinator.annexes.invariants.conditional import (
    LARGEST_COMPONENT,
    MOST_COMPONENTS,
    ComponentConnectivity,
    ExtraConnectivity,
    GoodNeighbourConnectivity,
)
from coordinator.annexes.invariants.connectivity import EdgeConnectivity, SmallestCuts, VertexConnectivity
from coordinator.annexes.invariants.diagnosability import ConditionalDiagnosability, Diagnosability
from coordinator.annexes.invariants.fault_diameter import FaultDiameter
from coordinator.annexes.invariants.structure import StructureConnectivity
from coordinator.annexes.invariants.survival import AllTerminalReliability, NodeResidual, TwoTerminalReliability
from coordinator.annexes.invariants.wide_diameter import WideDiameter

INVARIANTS: dict[str, Invariant] = {
    invariant.name: invariant
    # Tables and `--figure all` keep this order: connectivity, then diameters, diagnosability and survival.
    for invariant in (
        VertexConnectivity(),
        EdgeConnectivity(),
        SmallestCuts(),
        ExtraConnectivity(),
        GoodNeighbourConnectivity(),
        ComponentConnectivity(),
        StructureConnectivity(),
        FaultDiameter(),
        WideDiameter(),
        Diagnosability(),
        ConditionalDiagnosability(),
        NodeResidual(),
        AllTerminalReliability(),
        TwoTerminalReliability(),
        MOST_COMPONENTS,
        LARGEST_COMPONENT,
    )
}
