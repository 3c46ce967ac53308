"""The rules as a judge: what a journal of sockets says must be what the same rules do in memory, hop for hop.

Claims and the audit leave room for another order or another way that would be as good. This leaves none: the plan is run
again in the memory engine, faults included, and every hop that is in one history and not in the other counts.
"""

import numpy as np
import polars as pl

from coordinator.journal import COLUMNS, RECORD, table
from coordinator.plan import Plan
from emunode.memory import MemoryNetwork
from emunode.model import Step

REPLAYED_ROWS = 10_000
"""Hops of the longest history that is replayed at the end of a run: some tenths of a second."""


def strange_hops(plan: Plan, journal: pl.LazyFrame) -> int:
    """How many hops are in the journal and not what the rules do, or the other way round."""
    last = journal.select(pl.col("step").max()).collect(engine="streaming").item() or 0
    records = np.frombuffer(bytes(_history(plan, last + 1)), dtype=RECORD)
    ours, theirs = table(records).lazy(), journal.select(COLUMNS)
    both = pl.concat([theirs.with_columns(times=1), ours.with_columns(times=-1)], how="vertical_relaxed")
    counted = both.group_by(COLUMNS).agg(pl.col("times").sum())
    return int(counted.select(pl.col("times").abs().sum()).collect(engine="streaming").item())


def _history(plan: Plan, last: Step) -> bytearray:
    """Journal rows of the plan in memory, up to a step or a little more."""
    network, rows = MemoryNetwork(plan.algorithm), bytearray()
    for step in range(1, last + 2):
        rows += network.step(step, plan.faults_at(step))
        if not network.busy and step >= plan.last_revival:
            break
    return rows
