"""The largest diameter under faults, which agreement on failures waits for."""

from coordinator.annexes.invariants.base import (
    Budget,
    ClosedForm,
    Invariant,
    InvariantNetwork,
    InvariantValue,
    NotKnownError,
    OverBudgetError,
)
from coordinator.annexes.invariants.graph_connectivity import vertex_connectivity
from coordinator.annexes.invariants.node_sets import MOST_SETS, advance, blocks, set_count
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph


class FaultDiameter(Invariant):
    """D_f (Krishnamoorthy and Krishnamurthy 1987) for f = 0 .. kappa - 1; "the" fault diameter is the last value."""

    name = "fault_diameter"
    meaning = "largest diameter after at most f = 0 .. kappa - 1 node faults"
    closed_forms = (
        ClosedForm(
            StarGraph, lambda star, _: _star(star), "f = n-2: D+1 for n >= 7 (Latifi 1993) and n = 5; D+2 for n = 4"
        ),
        ClosedForm(Hypercube, lambda cube, _: cube.n + 1 if cube.n >= 3 else None, "f = n-1: n+1 for n >= 3"),
    )

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        diameters: list[int] = []
        try:
            for faults in range(kappa(network, budget)):
                # Exactly f faults can leave a smaller diameter than fewer faults do; "at most f" takes the largest so
                # far.
                diameters.append(max([*diameters[-1:], self._diameter(network, faults, budget)]))
        except OverBudgetError as error:
            raise partial(diameters, "f", 0, error) from None
        return tuple(diameters)

    def _diameter(self, network: InvariantNetwork, faults: int, budget: Budget) -> int:
        """Return the largest distance after exactly this number of faults; no such set may disconnect the network."""
        order, farthest = network.order, 0
        sets = min(set_count(order, faults, with_first=False), MOST_SETS)
        budget.spend(20 + len(network.roots) * sets * len(network.links) * 1e-3)
        for block in blocks(order, faults, with_first=False):
            for root in network.roots:
                reach, rounds = block.others.copy(), 0
                # All sets of the block at once start from the root alone. Sets that contain the root have a 0 there,
                # and reach nothing.
                reach[:root] = reach[root + 1 :] = 0
                while (grown := advance(network.table, reach, block.others)).tobytes() != reach.tobytes():
                    reach, rounds = grown, rounds + 1
                farthest = max(farthest, rounds)
        return farthest


def _star(star: StarGraph) -> InvariantValue:
    # For n = 6 no value was found in the literature, nor computed.
    more = {4: 2, 5: 1, 6: None}.get(star.n, 1 if star.n >= 7 else None)
    return None if more is None else star.diameter + more


def partial(values: list[int], letter: str, first: int, error: NotKnownError) -> OverBudgetError:
    """Return the error of an invariant with only its first values known."""
    known = f"{' '.join(map(str, values))} for {letter} = {first}..{first + len(values) - 1}; " if values else ""
    return OverBudgetError(f"{known}{error}")


def kappa(network: InvariantNetwork, budget: Budget) -> int:
    """Return the vertex connectivity; order - 1 for a complete network."""
    if network.complete:
        return network.order - 1

    def compute() -> int:
        return vertex_connectivity(network.adjacency, lambda: pay_for_flow(network, budget))

    # Several invariants begin with the connectivity, so it is computed once.
    return int(network.keep("kappa", budget, compute))


def pay_for_flow(network: InvariantNetwork, budget: Budget) -> bool:
    """Spend the work of a flow, and return False: only the budget ends the search."""
    # A flow takes as many searches over the links as there are disjoint paths; most of them end early.
    budget.spend(0.1 * len(network.links) * network.table.shape[1])
    return False
