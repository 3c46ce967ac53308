"""Under the timed clock: when each node had everything that is due to it."""

import polars as pl

from coordinator.history.timetable import PACKET
from coordinator.planning.plan import Plan
from coordinator.results.metrics import Measurement
from emunode.model import Collective

DeliveryRecord = dict[str, object]


def delivery_records(
    plan: Plan, measurement: Measurement, journal: pl.LazyFrame, timeline: pl.DataFrame
) -> list[DeliveryRecord]:
    """Return the entries of served.json: each healthy node with something due to it, and the time of its last new
    segment.

    `seconds` is the intended time and `achieved_seconds` the achieved time; null for a node that misses something.
    """
    missing = set(measurement.cut_off)
    if plan.spec.collective is Collective.GATHER and measurement.metrics["delivery_ratio"] != 1.0:
        # There the nodes that are cut off are origins, and the target is what misses something.
        missing = {plan.spec.source}
    firsts = journal.filter(pl.col("outcome") == "first").select(*PACKET, "receiver").unique().collect()
    last = firsts.join(timeline.select(*PACKET, "end", "ended").drop_nulls("end"), on=PACKET).group_by("receiver")
    times = {rank: times for rank, *times in last.agg(pl.col("end", "ended").max()).iter_rows()}
    due = measurement.nodes.filter(pl.col("expected") > 0, pl.col("state") == "alive").select("rank", "label")
    records = []
    for rank, label in due.iter_rows():
        intended, achieved = times.get(rank, (None, None)) if rank not in missing else (None, None)
        records.append({"rank": rank, "label": label, "seconds": intended, "achieved_seconds": achieved})
    return records
