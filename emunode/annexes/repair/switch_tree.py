"""Repair by switching to another tree, among several."""

from collections.abc import Sequence

from emunode.algorithms.base import Algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.pull import PullRule
from emunode.model import Port, Rank
from emunode.registry import register


class SwitchTree(PullRule):
    """Requests to the parents in other trees: a rank whose tree is broken asks the parent in the next tree first, and
    serves its subtree.

    The segment belongs to the broken tree, so the children of the rank there get it as usual. Every healthy rank is
    served that the arcs of all trees together connect to the source, as far as ranks and links are healthy.
    """

    name = "switch-tree"
    citation = "repair over another tree"
    describe = "take what one tree lost from the parent in another tree; for algorithms of several trees"

    def require(self, algorithm: Algorithm) -> TreeCollective:
        found = super().require(algorithm)
        if found.trees.count < 2:
            raise self.refusal(f"{algorithm.name} has one tree, and no other to switch to; use next-port")
        return found

    def ports(self, algorithm: TreeCollective, relative: Rank, tree: int) -> Sequence[Port]:
        trees = algorithm.trees
        others = [(tree + place) % trees.count for place in range(1, trees.count)]
        own = trees.parent(relative, tree)
        # Ask the old parent last: it may have recovered by then. Trees may share an arc.
        ports = dict.fromkeys(trees.parent(relative, other) for other in others)
        return [*(port for port in ports if port != own), own]


register(SwitchTree())
