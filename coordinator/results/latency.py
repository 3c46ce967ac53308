"""Latency of delivery: when the served nodes had everything that was due to them.

A node is served if every message due to it arrived intact. Its latency is the step in which the first right copy of the last
piece due to it arrived. A node that is not served has no latency: it enters neither mean nor maximum, and no penalty stands
for it.
"""

import numpy as np

from coordinator.planning.plan import Plan
from coordinator.results.deliveries import Arrivals, Deliveries, Integers, silent_sources

Latency = int | float | tuple[int, ...]


def served_latencies(plan: Plan, deliveries: Deliveries, arrivals: Arrivals) -> Integers:
    """The latencies of the served ranks, by rank; `arrivals` are those of unaltered copies."""
    due = ~np.isin(arrivals.owner, silent_sources(plan))
    last = np.zeros(len(deliveries.due), np.int64)
    np.maximum.at(last, arrivals.receiver[due], arrivals.step[due])
    return last[deliveries.served]


def latency_metrics(latencies: Integers, nodes: int, packets: int, *, broadcast: bool) -> dict[str, Latency]:
    """The metrics of one run or trial, without those that do not apply.

    `latencies` are the steps of the served nodes, in any order. `nodes` own data, one of them the source.
    """
    metrics: dict[str, Latency] = {"served_nodes": len(latencies), "redundancy_cost": packets / max(1, nodes - 1)}
    if len(latencies):
        metrics["mean_latency"] = float(latencies.mean())
        metrics["max_latency"] = int(latencies.max())
    if broadcast:
        # Step 0 counts the source alone.
        served = np.bincount(latencies, minlength=1)
        metrics["informed_nodes_per_step"] = tuple((1 + served.cumsum()).tolist())
    return metrics
