"""Packets as marks of links and nodes: the traffic of each link, and the gain of each node, in each frame.

A frame is one step, or in long runs several. A finished run has many frames; a watched run adds one after the other.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from coordinator.reports.computed_layout import Ranks
from emunode.model import HopOutcome

SENT: Final = [outcome.name.lower() for outcome in HopOutcome if outcome < HopOutcome.WITHHELD]
"""Outcomes of packets that crossed a link or were lost on it."""


def packets_of(journal: pl.LazyFrame, due: pl.Expr | None = None) -> pl.DataFrame:
    """Return one row per packet: step, sender, port, receiver, and its segments: all, lost, altered, and first copies.

    If only some segments are due to any node, `due` names them; copies of other segments do not count as first.
    """
    outcome = pl.col("outcome").cast(pl.String)
    first = outcome == "first"
    return (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(
            segments=pl.len().cast(pl.Int64),
            lost=(outcome == "lost").sum().cast(pl.Int64),
            altered=(outcome == "corrupt").sum().cast(pl.Int64),
            first=(first if due is None else first & due).sum().cast(pl.Int64),
        )
        .sort("step", "sender", "port")
        .collect(engine="streaming")
    )


class Marks(NamedTuple):
    """Marks of links and nodes in each frame, as tables that are sorted by `frame` (from 0)."""

    links: pl.DataFrame
    """Busy directed links: frame, sender, port, receiver, and their segments: all, lost, altered."""
    gains: pl.DataFrame
    """Segments that nodes receive for the first time, or that they send without loss: frame, rank, segments."""
    withheld: pl.DataFrame
    """Directed links where the sender withholds a packet: frame, sender, port, receiver."""
    heard: pl.DataFrame
    """Segments whose first copy arrives, intact or altered, where copies are voted on: frame, rank, segments."""
    votes: pl.DataFrame
    """Segments with settled votes: frame, rank, state, segments."""


def _none(*columns: str) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))


LINK: Final = ("frame", "sender", "port", "receiver")
GAIN: Final = ("frame", "rank", "segments")
VOTE: Final = ("frame", "rank", "state", "segments")
NO_MARKS: Final = Marks(
    _none(*LINK, "segments", "lost", "altered"), _none(*GAIN), _none(*LINK), _none(*GAIN), _none(*VOTE)
)


def marks_of(packets: pl.DataFrame, width: int = 1, *, giving: bool) -> Marks:
    """Return the marks of packets in frames of `width` steps; a `giving` node gains the segments that it sends and that
    are not lost.
    """
    rows = framed(packets, width)
    end, gain = ("sender", pl.col("segments") - pl.col("lost")) if giving else ("receiver", pl.col("first"))
    # Each query of polars takes as long as the work on a small run, so few are made.
    moved = rows.lazy().filter(gain > 0).group_by("frame", rank=end).agg(segments=gain.sum()).sort("frame", "rank")
    links = rows.lazy().group_by(LINK).agg(pl.col("segments", "lost", "altered").sum()).sort(LINK)
    if width == 1:
        # A row is a packet already, in order.
        links = rows.lazy().select(*LINK, "segments", "lost", "altered")
    return NO_MARKS._replace(links=links.collect(), gains=moved.collect())


def withheld_links(journal: pl.LazyFrame, width: int = 1) -> pl.DataFrame:
    """Return the directed links where a sender withholds a packet, as in `Marks`."""
    rows = journal.filter(pl.col("outcome").cast(pl.String) == "withheld").select("step", *LINK[1:]).unique()
    return framed(rows.collect(engine="streaming"), width).select(LINK).unique().sort(LINK)


def busy_count(packets: pl.DataFrame, width: int) -> int:
    """Return the number of busy links, summed over frames of `width` steps."""
    # In frames of one step, each packet is on a link of its own.
    return len(packets) if width == 1 else framed(packets, width).select("frame", "sender", "port").n_unique()


def framed(rows: pl.DataFrame, width: int) -> pl.DataFrame:
    """Return the rows with the `frame` of their step."""
    return rows.with_columns(frame=(pl.col("step").cast(pl.Int64) - 1) // width)


def until(marks: pl.DataFrame, at: int) -> Sequence[Ranks]:
    """Return the columns of a table of marks up to frame `at`."""
    count = int(np.searchsorted(marks["frame"].to_numpy(), at, side="right"))
    return [column.to_numpy()[:count] for column in marks.get_columns()]
