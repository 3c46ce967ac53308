"""Allgather on any network by breadth-first broadcast."""

from coordinator.annexes.papers.any_network import both_bounds

REPRODUCTIONS = (both_bounds.REPRODUCTION,)
