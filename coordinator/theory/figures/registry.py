"""The figures in the order in which they are shown. To add one, write a `Invariant` and list an instance here."""

from coordinator.theory.figures.base import Invariant
from coordinator.theory.figures.conditional import (
    LARGEST_COMPONENT,
    MOST_COMPONENTS,
    ComponentConnectivity,
    ExtraConnectivity,
    GoodNeighbourConnectivity,
)
from coordinator.theory.figures.connectivity import EdgeConnectivity, SmallestCuts, VertexConnectivity
from coordinator.theory.figures.diagnosability import ConditionalDiagnosability, Diagnosability
from coordinator.theory.figures.diameters import FaultDiameter, WideDiameter
from coordinator.theory.figures.structure import StructureConnectivity
from coordinator.theory.figures.survival import AllTerminalReliability, NodeResidual, TwoTerminalReliability

FIGURES: dict[str, Invariant] = {
    figure.name: figure
    # Tables and `--figure all` keep this order: connectivity, then diameters, diagnosability and survival.
    for figure in (
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
