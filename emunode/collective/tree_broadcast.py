"""Broadcast down one shortest-path tree: what every network offers, and what the multiple-tree algorithms are held against."""

from functools import cached_property

from emunode.collective.base import Claim
from emunode.collective.dissemination import Dissemination
from emunode.model import Collective, PortModel, Step
from emunode.topology.base import Topology
from emunode.trees.base import Trees
from emunode.trees.bfs import BreadthFirstTree
from emunode.trees.eisenstein_jacobi import SectorTree
from emunode.trees.hypercube import BinomialTree
from emunode.trees.star import GreedyTree


class TreeBroadcast(Dissemination):
    """Pieces follow each other down a shortest-path tree: one a step over all ports.

    Over one port a node serves its children one after the other, and the source starts a piece whenever it has served all its
    children, which nobody has more of.
    """

    collective = Collective.BROADCAST
    port_models: tuple[PortModel, ...] = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    @cached_property
    def last_offset(self) -> Step:
        if self.job.port_model is PortModel.ALL_PORT:
            return self.topology.diameter
        return max(step for _, step in self._walk(0))

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.job.port_model is PortModel.ALL_PORT:
            steps = self.topology.diameter + self.numbers - 1
            claims.append(Claim("steps", steps, "==", f"{self.citation}: height + pieces - 1"))
            if self.numbers == 1:
                receivers = self.topology.distance_distribution()[1:]
                claims.append(
                    Claim("receivers_per_step", receivers, "==", f"{self.citation}: everybody at its distance")
                )
        else:
            rounds = (self.topology.order - 1).bit_length()
            claims.append(Claim("steps", rounds, ">=", "ceil(log2 N): the informed can at most double"))
        return claims


class BreadthFirstBroadcast(TreeBroadcast):
    """Down the breadth-first tree in which every rank hangs under its lowest port that leads one closer."""

    name = "bfs-tree"
    citation = "breadth-first spanning tree (E. F. Moore 1959)"

    def make_trees(self, topology: Topology) -> Trees:
        return BreadthFirstTree(topology)


class GreedyBroadcast(TreeBroadcast):
    """Down the greedy tree of the star graph: each node hangs where its first symbol goes home.

    A shortest-path tree: height floor(3(n-1)/2) = the diameter, n!-1 transmissions a piece. One faulty node or link cuts
    off its subtree. Tseng and Sheu 1997, section 3 (tree L(r)).
    """

    name = "greedy-tree"
    citation = "Tseng-Sheu 1997, tree L(r)"

    def make_trees(self, topology: Topology) -> Trees:
        return GreedyTree(topology)


class BinomialBroadcast(TreeBroadcast):
    """Down the spanning binomial tree of the hypercube.

    n + P - 1 steps over all ports; over one port dimension d of packet q is used in cycle qn + d, nP cycles in all. Johnsson
    and Ho 1986, section 3.2 and table 4. Legal under every port model, even with one send or one receive a step.
    """

    name = "sbt"
    citation = "Johnsson-Ho 1986, table 4 (SBT)"
    port_models = (PortModel.ALL_PORT, PortModel.EXCHANGE, PortModel.ONE_PORT, PortModel.SEND_OR_RECEIVE)

    def make_trees(self, topology: Topology) -> Trees:
        return BinomialTree(topology)

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.job.port_model is not PortModel.ALL_PORT:
            claims.append(Claim("steps", self.topology.degree * self.numbers, "==", f"{self.citation}: nP"))
        return claims


class ImprovedBroadcast(TreeBroadcast):
    """The improved one-to-all broadcast of Eisenstein-Jacobi networks, for every 0 <= a <= b and any dimension.

    Every node sends all it ever sends in the step after it received, so that each receives in the step that is its
    distance: nD steps, D = floor((a+2b)/3), and N^n - 1 packets. Hussain, Algorithms 1 and 2. Errata: Algorithm 1
    line 6 prints major -rho2 for the packet leaving via -rho, which must be -rho; the counters D-1 fit b = a+1 only and are
    replaced by the sector position of the receiver, which gives the same events there and is right everywhere.
    """

    name = "improved"
    citation = "Hussain, Algorithms 1 and 2 (corrected), tables 1-3"

    def make_trees(self, topology: Topology) -> Trees:
        return SectorTree(topology)
