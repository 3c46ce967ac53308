"""Ranks dealt in turn."""

from coordinator.planning.placements.base import place
from emunode.topologies.registry import parse_topology


def test_ranks_are_dealt_in_turn() -> None:
    placement = place("round-robin", parse_topology("star:4"), 5)
    assert [list(placement.ranks(host)) for host in (0, 4)] == [[0, 5, 10, 15, 20], [4, 9, 14, 19]]
