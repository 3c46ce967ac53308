"""Repair by the next live port, on any network."""

from collections.abc import Sequence

from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.pull import PullRule
from emunode.model import Port, Rank
from emunode.registry import register


class NextPort(PullRule):
    """Requests by the port after the port of the parent, and so on cyclically; the parent comes last.

    Every healthy rank that is connected to the source by healthy ranks and links is served: on a shortest such path
    from a served rank the first unserved rank asks its predecessor, as one of at most `degree` requests.
    """

    name = "next-port"
    citation = "repair by the next live port"
    describe = "ask the next live port after the parent's, cyclically; on any network"

    def ports(self, algorithm: TreeCollective, relative: Rank, tree: int) -> Sequence[Port]:
        ports = sorted(algorithm.rooted.ports(relative))
        place = ports.index(algorithm.trees.parent(relative, tree))
        # The parent last: it did not send in time, and may have got the segment by then.
        return [*ports[place + 1 :], *ports[: place + 1]]


register(NextPort())
