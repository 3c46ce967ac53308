"""The packets of a run with their times: under the timed clock from the timeline, in lock-step in virtual time.

In lock-step a step begins when the step before has ended; the heaviest packet of a step determines its end. A packet is
`again` if it carries a segment that has left by the same port before, a `request` if it requests a missing segment, a
`repair` if its receiver had requested its segments over this link, and `withheld` if its sender suspected the receiver
and kept it.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from coordinator.annexes import annex_function
from coordinator.features.journals.rows import IS_REQUEST, WITHHELD, hops_of
from coordinator.reports.data import RunData
from coordinator.scenario.model import costs_of
from emunode.timed.cost_model import NANO

PACKET = ("step", "sender", "port", "receiver")
SEGMENT = ("sender", "port", "origin", "target", "tree", "segment")


def packet_times(data: RunData, among: Sequence[int] | None = None) -> pl.DataFrame | None:
    """Return one row per packet, by start: PACKET, bytes, start, end, started, ended (seconds), and `kind`; None
    without a journal.

    `kind` is one of `STYLES` (`chart`). A lost packet has the end that it
    would have had unslowed; a withheld one ends where it would have started, and is left out under the timed clock,
    since it has no time there. `started` and `ended` are achieved times, null in lock-step. `among` leaves out packets
    from or to other ranks.
    """
    if data.journal is None or data.plan is None:
        return None
    outcome = pl.col("outcome").cast(pl.String)
    journal = hops_of(data.plan, data.journal)
    if among is not None:
        journal = journal.filter(pl.col("sender").is_in(among) & pl.col("receiver").is_in(among))
    rows = journal.with_columns(
        lost=outcome == "lost",
        altered=outcome == "corrupt",
        withheld=WITHHELD,
        control=outcome == "control",
        request=IS_REQUEST,
        again=pl.col("step").rank("dense").over(*SEGMENT, WITHHELD) > 1,
    )
    packets = (
        rows.group_by(*PACKET, "lost", "withheld")
        .agg(
            pl.col("bytes").cast(pl.Int64).sum(),
            pl.col("control").all(),
            pl.col("request", "again", "altered").any(),
        )
        .collect(engine="streaming")
    )
    packets = _with_repairs(data, packets)
    kind = pl.when("withheld").then(pl.lit("withheld")).when("lost").then(pl.lit("lost"))
    kind = kind.when("altered").then(pl.lit("altered")).when("repair").then(pl.lit("repair"))
    kind = kind.when(pl.col("control") & pl.col("request")).then(pl.lit("request"))
    kind = kind.when("control").then(pl.lit("control"))
    packets = packets.with_columns(kind=kind.when("again").then(pl.lit("again")).otherwise(pl.lit("packet")))
    costs = costs_of(data.plan.scenario)
    # By a table: Polars keeps a Python function that it calls for each row, and whatever the function holds.
    sizes = packets["bytes"].unique().to_list()
    durations = [costs.nanoseconds(size) / NANO for size in sizes]
    duration = pl.col("bytes").replace_strict(sizes, durations, return_dtype=pl.Float64)
    timed = _timed(data, packets) if data.timeline is not None else _stepped(data, packets)
    if timed is None:
        return None
    unslowed = pl.when("withheld").then("start").otherwise(pl.col("start") + duration)
    timed = timed.with_columns(end=pl.coalesce("end", unslowed))
    return timed.select(*PACKET, "bytes", "start", "end", "started", "ended", "kind").sort("start", "sender", "port")


def _with_repairs(data: RunData, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the packets, and whether each answers a request."""
    assert data.journal is not None
    if not packets["request"].any():
        return packets.with_columns(repair=pl.lit(value=False))
    answers = annex_function("answers to requests")
    repairs: pl.LazyFrame = answers(data.journal.with_columns(pl.col("outcome").cast(pl.String)))
    keys = repairs.select(*PACKET, repair=pl.lit(value=True)).unique().collect(engine="streaming")
    return packets.join(keys, on=PACKET, how="left").with_columns(pl.col("repair").fill_null(value=False))


def suspicion_words(each: dict[str, Any]) -> str:
    """Write an entry of suspicions.json in words."""
    if not each.get("suspected"):
        return f"{each.get('label')} hears {each.get('neighbour')} again"
    return f"{each.get('label')} suspects {each.get('neighbour')}{'' if each.get('silent') else ', wrongly'}"


def _timed(data: RunData, packets: pl.DataFrame) -> pl.DataFrame:
    assert data.timeline is not None
    times = data.timeline.select(*PACKET, "start", "end", "started", "ended", lost=pl.col("end").is_null())
    times = times.unique([*PACKET, "lost"], keep="first", maintain_order=True)
    # A withheld packet has no time of its own; another one may have left in the same step.
    return packets.filter(~pl.col("withheld")).join(times, on=[*PACKET, "lost"])


def _stepped(data: RunData, packets: pl.DataFrame) -> pl.DataFrame | None:
    if data.steps is None:
        return None
    steps = data.steps.select("step", seconds="virtual_seconds")
    if data.plan is not None and not data.plan.has_only_data:
        heaviest = packets.filter(~pl.col("withheld")).group_by("step").agg(pl.col("bytes").max()).sort("step")
        if not {*heaviest["step"]} <= {*steps["step"]}:
            # Steps without data and steps of a repetition take time as well, or packets would be drawn on top of each
            # other.
            costs = costs_of(data.plan.scenario)
            seconds = pl.Series([costs.nanoseconds(size) / NANO for size in heaviest["bytes"]], dtype=pl.Float64)
            steps = heaviest.select("step", seconds=seconds)
    begins = steps.select("step", start=pl.col("seconds").cum_sum() - pl.col("seconds"))
    placed = packets.join(begins, on="step", how="left")
    # Steps after the last packet, with withheld packets alone, are not in the table.
    over = pl.when("withheld").then(pl.lit(steps["seconds"].sum()))
    none = pl.lit(None, dtype=pl.Float64)
    return (
        placed.with_columns(pl.coalesce("start", over))
        .drop_nulls("start")
        .with_columns(end=none, started=none, ended=none)
    )
