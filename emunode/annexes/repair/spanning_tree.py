"""Repair by a spanning tree of the healthy nodes that keeps the rest of the algorithm's tree, on any network."""

from heapq import heapify, heappop, heappush

from emunode.algorithms.claims import Claim
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks, Forest, Joining
from emunode.annexes.repair.rules import PlannedRule, RepairedBroadcast, RepairedTree
from emunode.registry import register


class SpanningTree(PlannedRule):
    """A spanning tree of the components of the broken tree: links between components join them one after the other.

    The next link is the link from the joined part to another component that leaves that component least deep; ties go
    to the lowest ranks. c components take c - 1 links, the fewest that can join them. Links that work in one direction
    only are not used.
    """

    name = "spanning-tree"
    citation = "repair by a spanning tree"
    describe = "join what is left of the tree by as few links as possible; on any network, with fault knowledge all"

    def repair(self, algorithm: TreeCollective, broken: BrokenLinks) -> RepairedTree:
        forest = Forest(algorithm.trees, broken)
        joining = Joining(forest)
        ways = joining.ways_from(0)
        heapify(ways)
        left = set(joining.left)
        while left:
            # The depth of a joined component does not change any more, so an entry of the heap stays right; one whose
            # component was joined by another way in the meantime is skipped.
            entry, number = heappop(ways)
            if number in left:
                left.remove(number)
                # The component that was joined offers its own links from here on.
                joining = joining.join(number, entry)
                for way in joining.ways_from(number):
                    heappush(ways, way)
        return RepairedTree(joining.tree(), algorithm.trees, len(forest.components))

    def claims(self, algorithm: RepairedBroadcast) -> list[Claim]:
        components = algorithm.repaired.components
        source = f"{self.citation}: c - 1 links join {components} components"
        return [Claim("repair_links", components - 1, "==", source)]


register(SpanningTree())
