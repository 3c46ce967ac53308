"""Johnsson and Ho on the hypercube."""

from coordinator.annexes.papers.johnsson_ho import (
    allgather,
    alltoall,
    broadcast,
    figures,
    graphs,
    ipsc,
    scatter,
    summary,
    timed_speedup,
)

REPRODUCTIONS = tuple(
    module.REPRODUCTION
    for module in (graphs, figures, broadcast, scatter, allgather, alltoall, summary, ipsc, timed_speedup)
)
