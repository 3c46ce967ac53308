"""Rows of a journal with the times of their packets."""

from typing import Final

import polars as pl

from coordinator.history.timetable import Timetable

PACKET: Final = ["step", "sender", "port"]
"""The columns that identify a packet."""


def with_starts(journal: pl.LazyFrame, timetable: Timetable) -> pl.LazyFrame:
    """Add the times of each packet in nanoseconds, in the columns `start` and `end`.

    `start` is null for an unplanned packet, `end` also for a lost one.
    """
    planned = timetable.packets.select(*PACKET, "start", "end", is_lost=pl.col("end").is_null())
    # A late packet and one of its own time may be in the same step of a port: then the earlier start counts.
    earliest = planned.lazy().group_by(*PACKET, "is_lost").agg(pl.col("start", "end").min())
    lost = journal.with_columns(is_lost=pl.col("outcome") == "lost")
    return lost.join(earliest, on=[*PACKET, "is_lost"], how="left").drop("is_lost")
