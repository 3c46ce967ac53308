"""Repair by a spanning tree of the healthy nodes that keeps what is left of the algorithm's tree, on any network."""

from heapq import heapify, heappop, heappush

from emunode.algorithms.claims import Claim
from emunode.algorithms.repair import PlannedRule, RepairedBroadcast, RepairedTree
from emunode.algorithms.tree_collective import TreeCollective
from emunode.registry import register
from emunode.trees.components import Broken, Forest, Joining


class SpanningTree(PlannedRule):
    """The components of the tree are joined by links between them, one after the other.

    Of all links from what is joined to another component the one is taken below which that component reaches least deep;
    of several the one with the lowest ranks. c components take c - 1 links, the fewest that can join them. Links that work
    in one direction only are not used.
    """

    name = "spanning-tree"
    citation = "repair by a spanning tree"
    describe = "join what is left of the tree by as few links as possible; on any network, with fault knowledge all"

    def repair(self, algorithm: TreeCollective, broken: Broken) -> RepairedTree:
        forest = Forest(algorithm.trees, broken)
        joining = Joining(forest)
        ways = joining.ways_from(0)
        heapify(ways)
        left = set(joining.left)
        while left:
            entry, number = heappop(ways)
            if number in left:
                left.remove(number)
                joining = joining.join(number, entry)
                for way in joining.ways_from(number):
                    heappush(ways, way)
        return RepairedTree(joining.tree(), algorithm.trees, len(forest.components))

    def claims(self, algorithm: RepairedBroadcast) -> list[Claim]:
        components = algorithm.repaired.components
        source = f"{self.citation}: c - 1 links join {components} components"
        return [Claim("repair_links", components - 1, "==", source)]


register(SpanningTree())
