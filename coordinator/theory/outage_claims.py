"""Claims about runs with nodes and links out of service in given steps."""

from collections.abc import Collection
from math import inf
from typing import Final

from coordinator.theory.dependence.outages import Outages
from emunode.algorithms.base import Algorithm, Dependence, shortest_segment_bytes
from emunode.algorithms.claims import Claim, distinct
from emunode.model import FOLDING, Port, Rank

FEW_BYTES: Final = 3
"""Below this size a contribution may be all zero by chance (once in 2^16, or more often): losing it changes no result."""


def claims_with_outages(algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Return the claims of an algorithm under outages.

    They are the promise for this number of faults, and the losses of its schedule.
    """
    # It imports polars, whose threads keep a process from moving to a network namespace.
    from coordinator.theory.dependence.losses import losses  # noqa: PLC0415

    if not algorithm.spec.sources_live(outages.faulty):
        return []
    claims = []
    # A faulty rank may be out of service on some of its links only: a node that withholds packets.
    nodes = {*outages.nodes, *(rank for rank, _ in outages.links if rank in outages.faulty)}
    # The promise of the paper counts faults, whatever their places, so it does not depend on the schedule.
    if _count_broken(algorithm, nodes, outages.links) <= algorithm.tolerated_faults:
        source = f"{algorithm.citation}: survives {algorithm.tolerated_faults} faults"
        claims.append(Claim("delivery_ratio", 1.0, "==", source))
    # In queues an outage that ends moves packets to other steps. Places that are out of service throughout lose at
    # least as much, so a lower bound is left.
    certain = algorithm.dependence is not Dependence.QUEUED or outages.permanent
    lost = losses(algorithm, outages if certain else outages.always())
    if lost is None:
        return claims
    source = f"{algorithm.citation}: what its paths carry around the outages"
    # A fold that lacks a contribution may be right all the same: one byte is zero once in 256.
    by_chance = algorithm.collective in FOLDING and shortest_segment_bytes(algorithm) < FEW_BYTES
    deliveries = Claim(
        "intact_deliveries", lost.delivered, "==" if certain and not by_chance else ">=", source, derived=lost.traced
    )
    return [*claims, deliveries, *outage_bounds(algorithm)]


def _count_broken(algorithm: Algorithm, nodes: Collection[Rank], links: Collection[tuple[Rank, Port]]) -> float:
    """Count nodes and directions of links as faults. A node includes its links; both directions of a link count once."""
    topology = algorithm.topology
    if nodes and not algorithm.traits.survives_nodes:
        return inf
    if algorithm.traits.trees_per_link > 1:
        return len(links)
    apart = {
        min((sender, port), topology.end(sender, port))
        for sender, port in links
        if sender not in nodes and topology.neighbour(sender, port) not in nodes
    }
    return len(nodes) + len(apart)


def outage_bounds(algorithm: Algorithm) -> list[Claim]:
    """Return bounds on traffic and time: where packets keep their steps, outages add neither."""
    if not algorithm.timing.on_schedule:
        return []
    return distinct(
        Claim(claim.name, claim.predicted, "<=", f"{claim.source}; less with outages")
        for claim in algorithm.claims()
        if claim.relation == "==" and claim.name in ("steps", "segments")
    )
