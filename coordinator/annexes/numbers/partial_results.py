"""Partial results of reductions, measured: their bytes on links, and the most bytes that one rank holds of them."""

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.features.journals.rows import ARRIVED, data_hops
from emunode.model import ALL_RANKS


def partial_result_metrics(run: ResolvedRun, journal: pl.LazyFrame) -> dict[str, int]:
    """Measure partial results. A rank holds them from their arrival until it sends a partial result for the same target
    and segment, or to the end.
    """
    hops = data_hops(run, journal).filter(pl.col("target") != ALL_RANKS)
    total = hops.select(pl.col("bytes").cast(pl.Int64).sum())
    block = ["target", "segment"]
    left = hops.group_by("sender", *block).agg(gone=pl.col("step").max())
    held = (
        hops.filter(ARRIVED)
        .select("receiver", *block, "step", pl.col("bytes").cast(pl.Int64))
        .join(left, how="left", left_on=["receiver", *block], right_on=["sender", *block])
    )
    released = held.filter(pl.col("gone") > pl.col("step"))
    changes = pl.concat(
        [
            held.select("receiver", step="step", change="bytes"),
            released.select("receiver", step="gone", change=-pl.col("bytes")),
        ]
    )
    most = (
        changes.group_by("receiver", "step")
        .agg(pl.col("change").sum())
        .sort("receiver", "step")
        .select(pl.col("change").cum_sum().over("receiver").max())
    )
    found, peak = pl.collect_all([total, most], engine="streaming")
    return {"partial_result_bytes": found.item() or 0, "held_bytes": (peak.item() if len(peak) else 0) or 0}
