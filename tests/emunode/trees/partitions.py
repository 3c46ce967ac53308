"""A partition of the nodes of a network as a proof that more edge-disjoint spanning trees do not exist."""

from collections.abc import Collection, Sequence

from emunode.model import Rank
from emunode.topologies.base import Topology


def partition_problem(topology: Topology, parts: Sequence[Collection[Rank]], count: int) -> str | None:
    """Return why this partition of the ranks does not prove that there are no `count` edge-disjoint spanning trees.

    Every spanning tree needs at least q - 1 of the links between q parts; fewer than `count` (q - 1) of them are the proof
    (Nash-Williams 1961, Tutte 1961: where there are no `count` trees, such a partition exists).
    """
    ranks = sorted(rank for part in parts for rank in part)
    if ranks != list(topology.ranks()):
        return f"the parts hold {len(ranks)} nodes ({len(set(ranks))} different), not every node once"
    if not all(parts):
        return "a part is empty"
    crossing, needed = crossing_links(topology, parts), count * (len(parts) - 1)
    if crossing >= needed:
        return f"{crossing} links join the {len(parts)} parts, and {count} trees need only {needed} of them"
    return None


def crossing_links(topology: Topology, parts: Sequence[Collection[Rank]]) -> int:
    """Return the number of links between different parts of a partition of the ranks."""
    part_of = {rank: part for part, ranks in enumerate(parts) for rank in ranks}
    return sum(part_of[one] != part_of[other] for one, _, other, _ in topology.links())
