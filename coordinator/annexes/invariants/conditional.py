"""Connectivity under conditions on the remaining network: large components, degrees, many components."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import comb, factorial
from typing import ClassVar

from coordinator.annexes.invariants.base import (
    Budget,
    ClosedForm,
    Invariant,
    InvariantNetwork,
    InvariantValue,
    NotKnownError,
    OverBudgetError,
)
from coordinator.annexes.invariants.fault_diameter import kappa
from coordinator.annexes.invariants.graph_connectivity import node_disjoint_paths
from coordinator.annexes.invariants.separations import Separations, separations
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

SET_WORK, PAIR_WORK = 1.0, 0.1
"""The work for a node of a set of bits, and for the comparison of two sets."""
EVERY_SET = 24
"""The largest network, in nodes, where all sets are tried before any other method."""


class NumberedInvariant(Invariant):
    """An invariant whose parameter is a number."""

    least: ClassVar[int] = 0
    most: ClassVar[int] = 99

    def check(self, topology: Topology, parameter: str) -> None:
        # `int` would also read signs, spaces, underscores and the digits of other scripts.
        valid = parameter.isascii() and parameter.isdigit() and len(parameter) < 4
        if not valid or not self.least <= int(parameter) <= self.most:
            allowed = f"{self.name}:{self.parameter.upper()} with {self.parameter} from {self.least} to {self.most}"
            raise ScenarioError("figure", f"{self.name}:{parameter}", allowed)


class ConditionalConnectivity(NumberedInvariant):
    """The fewest nodes whose loss disconnects the network so that a condition holds."""

    @abstractmethod
    def attained(self, separations: Separations, number: int) -> bool:
        """Return whether some set of a size meets the definition."""

    @abstractmethod
    def most_lost(self, order: int, number: int) -> int:
        """Return the most nodes that such a set can have."""

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        return None if network.complete else self.by_sets(network, int(parameter), budget)

    def by_sets(self, network: InvariantNetwork, number: int, budget: Budget) -> InvariantValue:
        """Go through all sets, by size."""
        size = 0
        try:
            # Fewer nodes than the connectivity disconnect nothing, so no condition on the components can hold.
            for size in range(kappa(network, budget), self.most_lost(network.order, number) + 1):
                if self.attained(separations(network, size, budget), number):
                    return size
        except OverBudgetError as error:
            # All smaller sizes are excluded, by the connectivity or by a search.
            known = f"at least {size}, or there is no such set; " if size else ""
            raise OverBudgetError(f"{known}{error}") from None
        return None


class ExtraConnectivity(ConditionalConnectivity):
    """kappa_g (Fabrega and Fiol 1996)."""

    name = "extra_connectivity"
    meaning = "fewest nodes whose loss disconnects the network, with more than g nodes in every component"
    parameter = "g"
    usual = ("1", "2", "3")
    most = 9
    closed_forms = (
        ClosedForm(StarGraph, lambda star, g: _star_extra(star.n, int(g)), "2n-4 for g = 1, 3n-7 for g = 2; n >= 4"),
        ClosedForm(Hypercube, lambda cube, g: _cube_extra(cube.n, int(g)), "Yang and Meng 2009, g <= n-4"),
    )

    def attained(self, separations: Separations, number: int) -> bool:
        return separations.best_smallest > number

    def most_lost(self, order: int, number: int) -> int:
        return order - 2 * (number + 1)

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        if not network.complete and network.order > EVERY_SET:
            return _extra_by_flows(network, int(parameter), budget)
        return super().compute(network, parameter, budget)


def _star_extra(n: int, g: int) -> InvariantValue:
    # Cycles of the star graph have six nodes or more, so one, two or three connected nodes share no neighbour: g + 1
    # nodes with n - 1 links each, less both ends of the g links between them.
    return {0: n - 1, 1: 2 * n - 4, 2: 3 * n - 7}.get(g) if n >= 4 else None


def _cube_extra(n: int, g: int) -> InvariantValue:
    # For g = 1, 2n - 2 holds for n = 3 and n = 4 as well.
    # The neighbourhood of a node with g of its neighbours: n - g + g (n - 1) nodes, less the comb(g, 2) nodes that two
    # of the neighbours have in common.
    return (g + 1) * n - 2 * g - comb(g, 2) if g <= n - 4 or (g == 1 and n >= 3) or (g == 0 and n >= 2) else None


class GoodNeighbourConnectivity(ConditionalConnectivity):
    """kappa^(g) (Latifi, Hegde and Naraghi-Pour 1994)."""

    name = "good_neighbour_connectivity"
    meaning = "fewest nodes whose loss disconnects the network, with at least g neighbours left to every node left"
    parameter = "g"
    usual = ("1", "2")
    most = 9
    closed_forms = (
        ClosedForm(
            StarGraph,
            # The neighbourhood of a substar S_{g+1}: every node of it has n - g - 1 neighbours outside.
            lambda star, g: factorial(int(g) + 1) * (star.n - int(g) - 1) if int(g) <= star.n - 2 else None,
            "Li and Xu, arXiv 1301.6475, g <= n-2",
        ),
        ClosedForm(
            Hypercube,
            # The neighbourhood of a subcube Q_g: every node of it has n - g neighbours outside.
            lambda cube, g: 2 ** int(g) * (cube.n - int(g)) if int(g) <= cube.n - 2 else None,
            "Latifi, Hegde, Naraghi-Pour 1994, g <= n-2",
        ),
    )

    def attained(self, separations: Separations, number: int) -> bool:
        return separations.best_degree >= number

    def most_lost(self, order: int, number: int) -> int:
        return order - 2 * (number + 1)


class ComponentConnectivity(ConditionalConnectivity):
    """ckappa_r (Hsu et al. 2012)."""

    name = "component_connectivity"
    meaning = "fewest nodes whose loss leaves at least r components"
    parameter = "r"
    usual = ("3", "4", "5")
    least = 2
    closed_forms = (
        ClosedForm(
            StarGraph,
            lambda star, r: {2: star.n - 1, 3: 2 * star.n - 3, 4: 3 * star.n - 6}.get(int(r)) if star.n >= 4 else None,
            "2n-3 for r = 3, 3n-6 for r = 4; n >= 4",
        ),
        ClosedForm(Hypercube, lambda cube, r: _cube_components(cube.n, int(r) - 1), "Hsu et al. 2012, r <= n+1"),
    )

    def attained(self, separations: Separations, number: int) -> bool:
        return separations.most_components >= number

    def most_lost(self, order: int, number: int) -> int:
        return order - number


def _cube_components(n: int, r: int) -> InvariantValue:
    return r * n - r * (r + 1) // 2 + 1 if 1 <= r <= n else None


class AfterFaults(Invariant):
    """A property of the rest after f = 0, 1, .. node faults, up to two more than disconnect the network."""

    def __init__(self, name: str, meaning: str, of: Callable[[Separations], int]) -> None:
        self.name = name  # type: ignore[misc]  # one class for several invariants
        self.meaning = meaning  # type: ignore[misc]
        self._of = of

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        last = min(kappa(network, budget) + 2, network.order - 1)
        return tuple(self._of(separations(network, size, budget)) for size in range(last + 1))


MOST_COMPONENTS = AfterFaults(
    "most_components", "most components after f = 0, 1, .. node faults", lambda found: found.most_components
)
LARGEST_COMPONENT = AfterFaults(
    "smallest_largest_component",
    "fewest nodes in the largest component after f = 0, 1, .. node faults",
    lambda found: min(nodes for nodes, sets in found.largest.items() if sets),
)


def _extra_by_flows(network: InvariantNetwork, g: int, budget: Budget) -> int:
    """Return kappa_g by flows between connected sets of g + 1 nodes.

    A set that is as wanted separates two such sets, so the smallest separator of any two of them is a lower bound. The
    neighbourhood of a connected set is an upper bound if it leaves no small component. Raises NotKnownError if they differ.
    """
    upper = network.order
    starts = list(_connected_sets(network, g + 1, network.roots, budget))
    for inside in starts:
        budget.spend(SET_WORK * (g + 1))
        around = neighbourhood(network, inside)
        # The test of the components is the expensive part, so the size is compared first.
        if around.bit_count() < upper and _leaves_large(network, around, g, budget):
            upper = around.bit_count()
    # A symmetry can move one set of a pair to a root, but then not the other one: one set is taken at the roots only,
    # the other one everywhere.
    lower = upper
    ends = list(_connected_sets(network, g + 1, range(network.order), budget))
    flow = 0.3 * len(network.links)
    # No separator is smaller than the connectivity, so this much work is certain: refused before it is done in vain.
    budget.require(flow * kappa(network, budget) * sum(1 for _ in _apart(network, starts, ends, budget)))
    for one, other in _apart(network, starts, ends, budget):
        budget.spend(flow * lower)
        lower = min(lower, _separator(network, one, other, lower))
    if lower < upper:
        raise NotKnownError(f"at least {lower}" + (f", at most {upper}" if upper < network.order else ""))
    if upper == network.order:
        raise NotKnownError("no neighbourhood of a small set leaves large components only")
    return upper


def _apart(
    network: InvariantNetwork, starts: Iterable[int], ends: Sequence[int], budget: Budget
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of sets that do not touch each other, so that nodes can separate them."""
    for one in starts:
        budget.spend(PAIR_WORK * len(ends))
        near = one | neighbourhood(network, one)
        yield from ((one, other) for other in ends if not near & other)


def _connected_sets(network: InvariantNetwork, size: int, roots: range, budget: Budget) -> set[int]:
    """Return the connected sets of `size` nodes that contain one of some roots, as sets of bits."""
    connected = {1 << root for root in roots}
    for grown in range(1, size):
        budget.spend(SET_WORK * len(connected) * grown * network.table.shape[1])
        # Each connected set grows from a smaller one by a neighbour; sets that arise in several ways fall together.
        connected = {nodes | 1 << peer for nodes in connected for peer in set_bits(neighbourhood(network, nodes))}
    return connected


def neighbourhood(network: InvariantNetwork, nodes: int) -> int:
    """Return the nodes outside a set that have a neighbour in it."""
    union = 0
    for node in set_bits(nodes):
        union |= network.masks[node]
    return union & ~nodes


def set_bits(mask: int) -> Iterator[int]:
    """Yield the members of a set of bits, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _leaves_large(network: InvariantNetwork, lost: int, g: int, budget: Budget) -> bool:
    """Return whether the rest is disconnected, with more than g nodes in every component."""
    rest, count = (1 << network.order) - 1 & ~lost, 0
    while rest:
        # A component grows from the lowest node of the rest, a whole neighbourhood at a time.
        component, grown = 0, rest & -rest
        while grown:
            component |= grown
            budget.spend(SET_WORK * component.bit_count())
            grown = neighbourhood(network, component) & rest
        if component.bit_count() <= g:
            return False
        rest &= ~component
        count += 1
    return count > 1


def _separator(network: InvariantNetwork, one: int, other: int, limit: int) -> int:
    """Return the fewest nodes that separate two sets with no link between them; `limit` if there are as many or more."""
    # Nodes of the two sets may not be lost, so paths begin and end beside them.
    removed = one | other
    adjacency = [
        [] if removed >> rank & 1 else [peer for peer in peers if not removed >> peer & 1]
        for rank, peers in enumerate(network.adjacency)
    ]
    # The first set is contracted to one more node; a path has arrived at a neighbour of the other one.
    adjacency.append(list(set_bits(neighbourhood(network, one))))
    return node_disjoint_paths(adjacency, network.order, set(set_bits(neighbourhood(network, other))), limit)
