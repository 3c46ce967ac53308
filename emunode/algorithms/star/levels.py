"""Multinode broadcast (allgather) on the star graph by the necklace tree MBST, with a whole level in a packet."""

from functools import cached_property

from emunode.algorithms.base import Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.star.bounds import MULTIPLE, REPORT, TimeBounded, time_bounds
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Duplex, Step
from emunode.registry import register
from emunode.trees.star.necklace import NecklaceTree


@register
class NecklaceLevels(TimeBounded, TreeCollective):
    """Down the tree MBST level by level: step t carries everything for the nodes at distance t. All-port, every link
    busy in every step but where a level has fewer than n-1 nodes.

    The nodes of a level are consecutive in the order of MBST, so their links take the n-1 types in turn and the
    heaviest link of step t carries ceil(|D_t|/(n-1)) messages, D_t the nodes at distance t. D_n start-ups, n!(n!-1)
    transmissions, m sum over t of ceil(|D_t|/(n-1)) bytes. M messages travel together. Every node computes the same
    table of n! entries. The algorithm survives no fault. This is the row NL of table 2 of Tseng and Sheu
    1997, the algorithm of TR 93-346, section 3.2, with packets of any size. Erratum: they print (n!-1) m/(n-1) bytes,
    rounded only once; messages are not cut here, so that every step rounds up.
    """

    name = "mbst-levels"
    collective = Collective.ALLGATHER
    needs = frozenset({Need.TABLE})
    citation = f"{REPORT}, section 3.2, a level in a packet"
    link_capacity = None
    duplexes = (Duplex.FULL,)
    splits_across_trees = False
    period = 0
    trees_class = NecklaceTree

    @cached_property
    def last_offset(self) -> Step:
        return self.topology.diameter

    def claims(self) -> list[Claim]:
        topology, spec = self.topology, self.spec
        source = f"{MULTIPLE}, table 2 (NL) and section 6.2"
        rounded = f"{source}; erratum: ceil(|D_t|/(n-1)) messages in step t"
        # The nodes of a level are consecutive in the order, so the n-1 types share them within one.
        level_sizes = topology.distribution_from(0)[1:]
        loads = tuple(-(-nodes // topology.degree) for nodes in level_sizes)
        # A level with fewer than n-1 nodes leaves some types idle.
        links = topology.order * sum(min(nodes, topology.degree) for nodes in level_sizes)
        claims = [
            *super().claims(),
            Claim("steps", topology.diameter, "==", f"{source}: D_n"),
            Claim("packets", links, "==", f"{REPORT}, section 3.2: the types in turn"),
            Claim("heaviest_link_segments_per_step", tuple(self.copies * load for load in loads), "==", rounded),
            Claim("transfer_bytes", spec.messages * spec.message_bytes * sum(loads), "==", rounded),
            *time_bounds(topology, spec),
        ]
        if not spec.packet_limit:
            # With a packet limit a level may take several start-ups, which the paper does not count.
            claims.append(Claim("startups", topology.diameter, "==", f"{source}: D_n"))
        return claims
