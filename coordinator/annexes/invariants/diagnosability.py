"""Diagnosability: how many faulty nodes are identified for certain by tests between neighbours.

Two sets of faulty nodes are confused if some outcome of the tests fits both. A network is t-diagnosable if any two
sets of at most t nodes are distinguished.
"""

from math import ceil
from typing import ClassVar, Final

from coordinator.annexes.invariants.base import (
    Budget,
    ClosedForm,
    Invariant,
    InvariantNetwork,
    InvariantValue,
    OverBudgetError,
)
from coordinator.annexes.invariants.conditional import neighbourhood, set_bits
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

MODELS = ("pmc", "mm")
FALL: Final = 0.85
"""The factor by which the work of a search grows with the size hardly falls below this share from size to size."""
Decided = tuple[Rank, int, int, int, int]
"""The node that was decided last, and the nodes of A, B, C and W so far as sets of bits."""


class Diagnosability(Invariant):
    """The largest t for which the network is t-diagnosable."""

    name = "diagnosability"
    meaning = "most faulty nodes t that tests identify: neighbours test each other (pmc), or compare two of theirs (mm)"
    parameter = "model"
    usual = MODELS
    conditional: ClassVar[bool] = False
    closed_forms = (
        ClosedForm(StarGraph, lambda star, _: star.n - 1 if star.n >= 4 else None, "n-1, n >= 4"),
        ClosedForm(
            Hypercube,
            lambda cube, model: cube.n if cube.n >= (3 if model == "pmc" else 5) else None,
            "n; n >= 3 (pmc), n >= 5 (mm)",
        ),
    )

    def check(self, topology: Topology, parameter: str) -> None:
        if parameter not in MODELS:
            raise ScenarioError("figure", f"{self.name}:{parameter}", f"{self.name}:MODEL with {' or '.join(MODELS)}")

    def compute(self, network: InvariantNetwork, parameter: str, budget: Budget) -> InvariantValue:
        if parameter == "pmc" and not self.conditional:
            return by_closed_neighbourhoods(network, budget)
        size, last, factor = 0, 0.0, 0.0
        try:
            for size in range(1, network.order + 1):
                before = budget.spent
                # From size to size the work grows by a factor that falls slowly. A pair that exists is mostly found early.
                paid = budget.for_search(last * factor * FALL)
                if PairSearch(network, size, paid, compares=parameter == "mm", conditional=self.conditional).exists():
                    return size - 1
                if paid is not budget:
                    budget.spend(paid.spent)
                work = budget.spent - before
                last, factor = work, work / last if last else 0.0
        except OverBudgetError as error:
            raise OverBudgetError(f"at least {size - 1}; {error}") from None
        return None


class ConditionalDiagnosability(Diagnosability):
    """The same if no node has only faulty neighbours (Lai, Tan, Chang and Hsu 2005)."""

    name = "conditional_diagnosability"
    meaning = "the same among sets of faulty nodes that contain all neighbours of no node"
    conditional = True
    closed_forms = (
        ClosedForm(
            StarGraph,
            lambda star, model: 3 * star.n - 7 if model == "mm" and star.n >= 4 else None,
            "mm: 3n-7, n >= 4 (Lin et al. 2008)",
        ),
        ClosedForm(
            Hypercube,
            lambda cube, model: 3 * cube.n - 5 if model == "mm" and cube.n >= 5 else None,
            "mm: 3n-5, n >= 5",
        ),
    )


def by_closed_neighbourhoods(network: InvariantNetwork, budget: Budget) -> int:
    """Return t under the PMC model: the minimum of |N(S)| + ceil(|S| / 2), less one, over connected sets S of nodes.

    A link from outside both into their difference S distinguishes two sets. Without one both contain N(S), and the
    larger one at least half of S; a component of S alone needs no more nodes. The sets are grown from a root: every
    neighbour joins the set, or counts for N(S) from then on.
    """
    best = ceil(network.order / 2)  # S = V
    for root in network.roots:
        # A stack, not recursion: one node of a large degree would exceed the depth that Python allows.
        stack = [(1 << root, 0)]
        while stack:
            inside, outside = stack.pop()
            budget.spend(2)
            needed = outside.bit_count() + ceil(inside.bit_count() / 2)
            # Both terms only grow with further nodes, so this branch finds nothing better.
            if needed >= best:
                continue
            open_ = neighbourhood(network, inside) & ~outside
            if not open_:
                best = needed
                continue
            # One undecided neighbour at a time, either in the set or outside for the rest of the branch: every
            # connected set of the root is reached exactly once.
            peer = open_ & -open_
            stack += [(inside | peer, outside), (inside, outside | peer)]
    return best - 1


class PairSearch:
    """A search for two sets F1, F2 of at most `size` nodes that are confused.

    Every node is in F1 only (A), in F2 only (B), in both (C) or in none (W). Under the PMC model no neighbour of A or B is
    in W. Under the MM* model a node w of W with a neighbour in A or B has no neighbour in W, at most one in A and at most
    one in B (Sengupta and Dahbura 1992). The search starts with a node in A and decides only nodes that these
    conditions depend on; all others may be in W. Leaving nodes out of F1 and F2 keeps the sets conditional.
    """

    def __init__(
        self, network: InvariantNetwork, size: int, budget: Budget, *, compares: bool, conditional: bool
    ) -> None:
        self._network = network
        self._masks = network.masks
        self._size = size
        self._budget = budget
        self._compares = compares
        self._conditional = conditional

    def exists(self) -> bool:
        """Return whether there are such sets."""
        for root in self._network.roots:
            stack: list[Decided] = [(root, 1 << root, 0, 0, 0)]
            while stack:
                node, a, b, c, w = stack.pop()
                if not self._possible(node, a, b, c, w):
                    continue
                choices = self._choices(a, b, c, w)
                if not choices:
                    return True
                # The last entry of a stack is tried first.
                stack += reversed(choices)
        return False

    def _possible(self, node: Rank, a: int, b: int, c: int, w: int) -> bool:
        """Return whether the sets break no condition after `node` was put into one of them."""
        self._budget.spend(3)
        # F1 is A with C, and F2 is B with C.
        if max(a.bit_count(), b.bit_count()) + c.bit_count() > self._size:
            return False
        # Only neighbours of the new node can have lost their last neighbour outside.
        if self._conditional and not w >> node & 1 and (self._isolates(node, a | c) or self._isolates(node, b | c)):
            return False
        # Only nodes whose neighbours have just changed can break their condition.
        changed = self._masks[node] & w | 1 << node & w
        return all(self._fits(tester, a, b, w) for tester in set_bits(changed))

    def _choices(self, a: int, b: int, c: int, w: int) -> list["Decided"]:
        """Return the sets with one more node decided, in the order of trial; none if all relevant nodes are decided."""
        known = a | b | c | w
        # Neighbours of nodes in W first: they have the fewest choices, so the search ends sooner.
        near_testers = self._around(w) & ~known
        undecided = near_testers or self._around(a | b) & ~known
        if not undecided:
            return []
        bit = undecided & -undecided
        node = bit.bit_length() - 1
        # Only tests by comparison allow a neighbour of A or B in W, and a node of W next to A or B has no neighbour in
        # W.
        tester = [(node, a, b, c, w | bit)] if self._compares and not near_testers else []
        return [*tester, (node, a, b, c | bit, w), (node, a | bit, b, c, w), (node, a, b | bit, c, w)]

    def _around(self, nodes: int) -> int:
        union = 0
        for node in set_bits(nodes):
            union |= self._masks[node]
        return union

    def _fits(self, tester: Rank, a: int, b: int, w: int) -> bool:
        """Return whether a node of W does not tell F1 and F2 apart so far."""
        peers = self._masks[tester]
        return not peers & w and (peers & a).bit_count() <= 1 and (peers & b).bit_count() <= 1

    def _isolates(self, node: Rank, faulty: int) -> bool:
        """Return whether a set contains all neighbours of a neighbour of `node`."""
        return any(not self._masks[peer] & ~faulty for peer in self._network.adjacency[node])
