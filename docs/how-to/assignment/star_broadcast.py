"""Solution of the assignment: a broadcast on the permutation star graph down a tree of shortest paths."""

from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, PortModel, Rank
from emunode.registry import register
from emunode.trees.base import Trees


class SortingTree(Trees):
    """The parent of a permutation is the next one on the way to the identity 12..n.

    Port p exchanges the first symbol with the symbol at place p + 2.
    """

    shortest = True

    def parent(self, rank: Rank, tree: int) -> Port:
        symbols = [int(symbol) for symbol in self.topology.label(rank)]
        first = symbols[0]
        if first != 1:
            return first - 2  # bring the first symbol to its own place
        for place, symbol in enumerate(symbols, start=1):
            if symbol != place:
                return place - 2  # the first symbol is in place: fetch the first one that is not
        raise ValueError("the root has no parent")


@register
class SortingBroadcast(TreeCollective):
    """Every node passes the message on to its children: in one step over all ports, or one after the other over one."""

    family = "star"
    name = "sorting-tree"
    collective = Collective.BROADCAST
    citation = "Akers and Krishnamurthy 1989: shortest paths by sorting"
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)
    trees_class = SortingTree

    def claims(self) -> list[Claim]:
        if self.spec.port_model is not PortModel.ALL_PORT:
            return []
        n = self.topology.degree + 1
        steps = 3 * (n - 1) // 2 + self.numbers - 1
        return [Claim("steps", steps, "==", f"{self.citation}: the diameter is floor(3(n-1)/2)")]
