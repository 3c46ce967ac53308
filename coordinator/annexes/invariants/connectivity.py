"""Connectivity, and how many sets of nodes attain it."""

from coordinator.annexes.invariants.base import Budget, ClosedForm, Invariant, InvariantNetwork, InvariantValue
from coordinator.annexes.invariants.fault_diameter import kappa, pay_for_flow
from coordinator.annexes.invariants.graph_connectivity import edge_connectivity
from coordinator.annexes.invariants.separations import disconnecting
from emunode.topologies.base import Topology, VertexTransitiveTopology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph


class VertexConnectivity(Invariant):
    """kappa, by flows."""

    name = "vertex_connectivity"
    meaning = "kappa: fewest nodes whose loss disconnects the network; N - 1 if it is complete"
    closed_forms = (ClosedForm(Topology, lambda network, _: network.connectivity, "proved for the family"),)

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        return kappa(network, budget)


class EdgeConnectivity(Invariant):
    """lambda, by flows."""

    name = "edge_connectivity"
    meaning = "lambda: fewest links whose loss disconnects the network"
    closed_forms = (
        ClosedForm(
            VertexTransitiveTopology, lambda network, _: network.degree, "the degree, if vertex-transitive (Mader 1971)"
        ),
    )

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        return edge_connectivity(network.adjacency, lambda: pay_for_flow(network, budget))


class SmallestCuts(Invariant):
    """Sets of kappa nodes that disconnect. The network is super-connected if each is the neighbourhood of a node."""

    name = "smallest_cuts"
    meaning = "how many sets of kappa nodes disconnect the network"
    closed_forms = (
        ClosedForm(StarGraph, lambda star, _: star.order if star.n in (4, 5) else None, "neighbourhoods; n = 4, 5"),
        ClosedForm(Hypercube, lambda cube, _: cube.order if 3 <= cube.n <= 5 else None, "neighbourhoods; n = 3, 4, 5"),
    )

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        # No loss of nodes disconnects a complete network, so there is no cut to count.
        return None if network.complete else disconnecting(network, kappa(network, budget), budget)
