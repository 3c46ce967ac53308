"""Hussain on Eisenstein-Jacobi networks."""

from coordinator.annexes.papers.hussain import allgather, broadcast, figures, network

REPRODUCTIONS = tuple(module.REPRODUCTION for module in (network, figures, broadcast, allgather))
