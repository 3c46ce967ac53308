"""Latency of delivery: when the served nodes had everything that was due to them.

A node is served if every message due to it arrived intact. Its latency is the step when the first right copy of the
last segment due to it arrived. A node that is not served has no latency: it enters neither mean nor maximum, and no
penalty stands for it.
"""

import numpy as np
import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.history.journal import Records
from coordinator.history.timetable import PACKET, Timetable
from coordinator.results.deliveries import Arrivals, Deliveries, Integers, silent_sources
from emunode.model import ALL_RANKS, HopOutcome
from emunode.timed.cost_model import NANO

Latency = int | float | tuple[int, ...]


def served_latencies(plan: ResolvedRun, deliveries: Deliveries, arrivals: Arrivals) -> Integers:
    """Return the latencies of the served ranks, by rank; `arrivals` are the arrivals of unaltered copies."""
    due = ~np.isin(arrivals.owner, silent_sources(plan))
    last = np.zeros(len(deliveries.due), np.int64)
    # A rank has several segments; `maximum.at` takes all of them into account, where indexing would keep the last one
    # only.
    np.maximum.at(last, arrivals.receiver[due], arrivals.step[due])
    # The last arrival of a rank that misses something says nothing, so only served ranks have a latency.
    return last[deliveries.served]


def latency_metrics(latencies: Integers, nodes: int, packets: int, *, broadcast: bool) -> dict[str, Latency]:
    """Return the metrics that apply to one run or trial.

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


def completion_seconds(plan: ResolvedRun, records: Records, timetable: Timetable) -> float:
    """Return the time when the last first copy of a segment reached a healthy rank that the segment is meant for.

    If every rank is served, all of them have everything due to them from then on. `records` are all rows of the run.
    """
    healthy = np.ones(plan.topology.order, dtype=np.bool_)
    healthy[list(plan.judged.states)] = False
    receiver, target = records["receiver"], records["target"]
    meant = ((target == ALL_RANKS) | (target == receiver)) & healthy[receiver]
    rows = records[(records["outcome"] == HopOutcome.FIRST) & meant & (receiver != records["origin"])]
    # The segments of a packet have one row each, and the same end.
    hops = pl.DataFrame({name: rows[name] for name in PACKET}).unique()
    ends = hops.join(timetable.arriving, on=PACKET)["end"]
    return int(ends.max() or 0) / NANO  # type: ignore[arg-type]
