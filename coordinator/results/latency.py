"""Latency of delivery: when the served nodes had everything that was due to them.

A node is served if every message due to it arrived intact. Its latency is the step in which the last piece due to it arrived
first. A node that is not served has no latency: it enters neither mean nor maximum, and no penalty stands for it.
"""

import numpy as np

from coordinator.results.deliveries import Integers

Latency = int | float | tuple[int, ...]


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
