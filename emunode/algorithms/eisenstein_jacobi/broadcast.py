"""One-to-all broadcasts of Eisenstein-Jacobi networks: the improved algorithm, and the iterative algorithm that it improves.

Both run down the sector tree, for every 0 <= a <= b and any number of dimensions, from any source; they differ in
when a node starts the lower dimensions. A node serves its whole sector and all lower dimensions, so each link is used
in one direction only, and half-duplex links suffice.
"""

from collections.abc import Sequence
from functools import cached_property

from emunode.algorithms.base import Algorithm
from emunode.algorithms.breadth_first import TreeBroadcast, exact_for_successors
from emunode.algorithms.claims import Claim, Relation
from emunode.algorithms.eisenstein_jacobi import counts as ej_counts
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.trees.eisenstein_jacobi.sectors import SectorTree


def claims_of_counts(algorithm: Algorithm, counts: ej_counts.StepCounts, table: str) -> list[Claim]:
    """Return the claims that follow from the counts of one message."""
    citation = algorithm.citation
    links = [
        Claim("links_used", counts.order - 1, "==", f"{citation}: every node receives once"),
        Claim("max_link_segments", 1, "==", f"{citation}: every node receives once"),
    ]
    if algorithm.collective is not Collective.BROADCAST:  # the counts of steps and arrivals are for a broadcast
        return links
    average = float(counts.average_receive_step)
    return [
        Claim("senders_per_step", counts.senders, "==", f"{citation}, {table}"),
        Claim("receivers_per_step", counts.receivers, "==", f"{citation}, {table}"),
        Claim("average_receive_step", average, "==", f"{citation}, section 4.1: average step of receipt"),
        *links,
    ]


@register
class ImprovedBroadcast(TreeBroadcast):
    """The improved one-to-all broadcast of Eisenstein-Jacobi networks (Hussain).

    All-port (one-port: children one after the other, not in the paper), half or full duplex. A node knows its own
    relative label only. It sends everything in the step after its receipt, so that each node receives in the step that
    is its distance: nD steps, D = floor((a+2b)/3), N^n - 1 packets; (N - 6D) N^(n-1) senders where b = a + 1. P
    segments take nD + P - 1 steps. One faulty node or link cuts off the subtree behind it.

    Source: Hussain, "An Improved One-to-All Broadcasting in Higher Dimensional Eisenstein-Jacobi Networks",
    Algorithms 1 and 2, eqs. (20) to (23), tables 2 and 3. Errata: Algorithm 1 line 6 prints major -rho2 for the packet
    leaving via -rho; it must be -rho; the counters D-1 fit b = a + 1 only and are replaced by the sector position of
    the receiver: the events are the same there, and right everywhere; M is floor((a+2b)/3).
    """

    family = "ej"
    name = "improved"
    citation = "Hussain, Algorithms 1 and 2 (corrected)"
    trees_class = SectorTree

    def one_port_height(self) -> tuple[int, Relation, str]:
        """Return the height of the sector tree over one port: 2D + 4 steps per dimension."""
        # One dimension after the other: the slowest path spends 2D + 4 steps in each.
        network = SectorTree(self.topology).network
        return 2 * network.diameter + 4 * network.dimensions, exact_for_successors(network), "n(2D+4)"

    def claims(self) -> list[Claim]:
        claims = super().claims()
        if self.numbers == 1 and self.spec.port_model is PortModel.ALL_PORT:
            # The exact counts by step replace the base class's claim by distance, since they contain it.
            claims = [claim for claim in claims if claim.name != "receivers_per_step"]
            counts = ej_counts.improved(SectorTree(self.topology).network)
            claims += claims_of_counts(self, counts, "eqs. (20) to (23) and table 2")
        return claims


@register
class IterativeBroadcast(TreeCollective):
    """The iterative one-to-all broadcast of Eisenstein-Jacobi networks (Hussain and Shamaei), which `improved` improves.

    All-port, half or full duplex. n rounds of D steps, D = floor((a+2b)/3); in round r every node that has the message
    sends it to all nodes of dimension n - r + 1. nD steps and N^n - 1 packets, as `improved`, but a node sends again in
    every later round, and most receive in the last one. A node knows its own relative label and the current step. P
    segments, one a step behind the other, take nD + P - 1 steps. One faulty node or link cuts off the subtree behind
    it.

    Source: Hussain and Shamaei, "Higher dimensional Eisenstein-Jacobi networks", 2016, as given in Hussain, section
    3, eqs. (12) and (13), tables 1 and 3. Errata: rounds count from 1 to n in (12) and (13); (13) is wrong for the
    first step of a round, when N^(r-1) nodes send; rounds of D steps fit every alpha.
    """

    family = "ej"
    name = "iterative"
    collective = Collective.BROADCAST
    citation = "Hussain-Shamaei 2016"
    trees: SectorTree
    trees_class = SectorTree

    def round_begin(self, base: int) -> Step:
        """Return the step before the round of dimension base + 1."""
        network = self.trees.network
        # Round r works in dimension n - r + 1, so dimension n (the highest base) begins first, after step 0.
        return (network.dimensions - 1 - base) * (network.diameter // network.dimensions)

    def receipt(self, relative: Rank) -> Step:
        """Return the weight in the lowest nonzero dimension, counted from the beginning of its round; 0 at the source."""
        network = self.trees.network
        for base, index in enumerate(network.digits(relative)):
            # `digits` begins with dimension 1: the first nonzero one is the last to be entered.
            if index:
                return self.round_begin(base) + network.weight(index)
        return 0

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> list[Step]:
        """Return the delays of the children: none along the sector, until its round begins for a lower dimension."""
        receipt = self.receipt(relative)
        # Ports of the own dimension continue at once; ports of a lower dimension wait for its round.
        return [max(receipt, self.round_begin(port // 6)) + 1 - receipt for port in ports]

    @cached_property
    def last_offset(self) -> Step:
        return self.topology.diameter

    def claims(self) -> list[Claim]:
        claims = super().claims()
        steps = self.topology.diameter + self.numbers - 1
        claims.append(Claim("steps", steps, "==", f"{self.citation}; Hussain, section 4.1: nD"))
        if self.numbers == 1:
            erratum = "eqs. (12) and (13) and table 1; erratum: N^(r-1) send in step 1 of round r"
            claims += claims_of_counts(self, ej_counts.iterative(self.trees.network), erratum)
        return claims
