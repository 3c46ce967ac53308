"""The packets of a run with their times: under the timed clock those of the timeline, in lock-step those of virtual time.

In lock-step a step begins when the one before has ended, which its heaviest packet determines. A packet is `again` if it
carries a segment that has left by the same port before.
"""

import polars as pl

from coordinator.planning.costs import costs_of
from coordinator.reports.data import RunData
from emunode.timed.cost_model import NANO

PACKET = ("step", "sender", "port", "receiver")
SEGMENT = ("sender", "port", "origin", "target", "tree", "segment")


def packet_times(data: RunData) -> pl.DataFrame | None:
    """One row per packet, by start: PACKET, bytes, start, end, started, ended (seconds), and `kind`; None without a journal.

    `kind` is `packet`, `again`, `control` or `lost`. A lost packet has the end that it would have had unslowed.
    `started` and `ended` are achieved times, null in lock-step.
    """
    if data.journal is None or data.plan is None:
        return None
    outcome = pl.col("outcome").cast(pl.String)
    rows = data.journal.with_columns(
        lost=outcome == "lost",
        control=outcome == "control",
        again=pl.col("step").rank("dense").over(SEGMENT) > 1,
    )
    packets = (
        rows.group_by(*PACKET, "lost")
        .agg(pl.col("bytes").cast(pl.Int64).sum(), pl.col("control").all(), pl.col("again").any())
        .collect(engine="streaming")
    )
    kind = pl.when("lost").then(pl.lit("lost")).when("control").then(pl.lit("control"))
    packets = packets.with_columns(kind=kind.when("again").then(pl.lit("again")).otherwise(pl.lit("packet")))
    costs = costs_of(data.plan.scenario)
    duration = pl.col("bytes").map_elements(lambda size: costs.nanoseconds(size) / NANO, return_dtype=pl.Float64)
    timed = _timed(data, packets) if data.timeline is not None else _stepped(data, packets)
    if timed is None:
        return None
    timed = timed.with_columns(end=pl.coalesce("end", pl.col("start") + duration))
    return timed.select(*PACKET, "bytes", "start", "end", "started", "ended", "kind").sort("start", "sender", "port")


def _timed(data: RunData, packets: pl.DataFrame) -> pl.DataFrame:
    assert data.timeline is not None
    times = data.timeline.select(*PACKET, "start", "end", "started", "ended", lost=pl.col("end").is_null())
    return packets.join(times.unique([*PACKET, "lost"], keep="first", maintain_order=True), on=[*PACKET, "lost"])


def _stepped(data: RunData, packets: pl.DataFrame) -> pl.DataFrame | None:
    if data.steps is None:
        return None
    begins = data.steps.select("step", start=pl.col("virtual_seconds").cum_sum() - pl.col("virtual_seconds"))
    none = pl.lit(None, dtype=pl.Float64)
    return packets.join(begins, on="step").with_columns(end=none, started=none, ended=none)
