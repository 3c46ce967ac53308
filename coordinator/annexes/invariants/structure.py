"""Structure connectivity: fewest copies of a small graph whose nodes, removed, disconnect the network."""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from coordinator.annexes.invariants.base import (
    Budget,
    ClosedForm,
    Invariant,
    InvariantNetwork,
    InvariantValue,
    OverBudgetError,
)
from coordinator.annexes.invariants.conditional import neighbourhood
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube

SETS_BYTES: Final = 2**30
"""Memory for sets of nodes; each set takes about 100 bytes and one bit for every node of the network."""
STRUCTURE: Final = re.compile(r"K1,([1-9])|P([2-9])|C([3-9])")


class StructureConnectivity(Invariant):
    """kappa(G; H) (Lin, Zhang, Fan and Wang 2016)."""

    name = "structure_connectivity"
    meaning = "fewest subgraphs H, which may overlap, whose nodes removed disconnect the network or leave one node"
    parameter = "H"
    usual = ("K1,1", "K1,2", "K1,3", "P4", "C4", "C6")
    closed_forms = (
        ClosedForm(
            Hypercube,
            lambda cube, structure: _cube(cube.n, structure),
            "K1,1: n-1, n >= 3; K1,2, K1,3: ceil(n/2), n >= 4",
        ),
    )

    def check(self, topology: Topology, parameter: str) -> None:
        if not STRUCTURE.fullmatch(parameter):
            allowed = "structure_connectivity:H with a star K1,1 .. K1,9, a path P2 .. P9 or a cycle C3 .. C9 of nodes"
            raise ScenarioError("figure", f"{self.name}:{parameter}", allowed)

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        most = SETS_BYTES // (100 + network.order // 8)
        distinct = set[int]()
        for copy in _copies(network, parameter, budget):
            distinct.add(copy)
            _require_room(distinct, most)
        # Sorted, because the order of trials decides where the budget ends.
        copies = sorted(distinct)
        everything = (1 << network.order) - 1
        search = network.order * (0.8 + network.order / 500)
        # One of the copies contains node 0, where all nodes are equivalent.
        unions = {copy for copy in copies if copy & 1} if network.transitive else set(copies)
        seen: set[int] = set()
        count = 1
        try:
            while unions:
                paid = budget.for_search(search * len(unions))
                for union in sorted(unions):
                    paid.spend(search)
                    if _breaks(network, everything & ~union):
                        return count
                seen |= unions
                budget.spend(0.6 * len(unions) * len(copies))
                # Breadth first by the number of copies, so that the first union that disconnects has the fewest. A
                # union that fewer copies gave is not looked at again.
                larger = set[int]()
                for union in unions:
                    larger.update(union | copy for copy in copies)
                    _require_room(larger, most)
                unions = larger - seen
                count += 1
        except OverBudgetError as error:
            raise OverBudgetError(f"at least {count}, or there are no such subgraphs; {error}") from None
        return None


def _require_room(sets: set[int], most: int) -> None:
    if len(sets) > most:
        raise OverBudgetError(f"more than {most:,} sets of nodes would have to be kept")


def _cube(n: int, structure: str) -> InvariantValue:
    if structure == "K1,1":
        return n - 1 if n >= 3 else None
    return -(-n // 2) if structure in ("K1,2", "K1,3") and n >= 4 else None


def _copies(network: InvariantNetwork, structure: str, budget: Budget) -> Iterator[int]:
    """Yield the sets of nodes of the subgraphs that are isomorphic to a structure; some of them repeatedly."""
    star, path, cycle = (int(number or 0) for number in STRUCTURE.fullmatch(structure).groups())  # type: ignore[union-attr]
    if star:
        for node, peers in enumerate(network.adjacency):
            for leaves in combinations(peers, star):
                budget.spend(1)
                yield 1 << node | sum(1 << leaf for leaf in leaves)
        return
    for start in range(network.order):
        # Depth first along paths without repeated nodes. A cycle is a path whose last node has a link to the first.
        stack = [(start, 1 << start)]
        while stack:
            budget.spend(1)
            node, nodes = stack.pop()
            if nodes.bit_count() == (path or cycle):
                if path or network.masks[node] >> start & 1:
                    yield nodes
                continue
            stack += [(peer, nodes | 1 << peer) for peer in network.adjacency[node] if not nodes >> peer & 1]


def _breaks(network: InvariantNetwork, rest: int) -> bool:
    """Return whether a set of nodes is disconnected or a single node."""
    if not rest:
        return False
    component, grown = 0, rest & -rest
    while grown:
        component |= grown
        # Of the new nodes alone: along a ring every step adds two nodes.
        grown = neighbourhood(network, grown) & rest & ~component
    # By the definition, a single node that is left counts as disconnected.
    return component != rest or rest.bit_count() == 1
