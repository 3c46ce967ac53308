"""Repair by the next live port, on any network."""

from collections.abc import Sequence

from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Port, Rank
from emunode.protocols.repair.pull import PullRule
from emunode.registry import register


class NextPort(PullRule):
    """A rank asks the port after that of its parent, and so on cyclically; its parent comes last.

    Every healthy rank that is connected to the source by healthy ranks and links is served: on a shortest such path from a
    served rank the first unserved one asks its predecessor, as one of at most `degree` requests.
    """

    name = "next-port"
    citation = "repair by the next live port"
    describe = "ask the next live port after the parent's, cyclically; on any network"

    def ports(self, algorithm: TreeCollective, relative: Rank, tree: int) -> Sequence[Port]:
        ports = sorted(algorithm.rooted.ports(relative))
        place = ports.index(algorithm.trees.parent(relative, tree))
        return [*ports[place + 1 :], *ports[: place + 1]]


register(NextPort())
