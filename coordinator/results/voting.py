"""Voting: the value of a segment that a receiver accepts, determined at the end of the run.

Each tree has one vote, cast by the first copy that arrived over it (within a step, over the receiver's lowest port). A
value with more than half of the votes is elected. If no value has a majority, none is, and the segment counts as not
delivered intact. So x copies tolerate floor((x-1)/2) byzantine nodes, even if these agree (Fragopoulou and Akl 1996). A
message with a single tree is accepted with the content of its first copy.
"""

from collections.abc import Sequence

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.results.deliveries import meant_for_receiver, owner
from coordinator.results.queries import at_receiver, collect
from emunode.engine.rank_set import AlteredCopy

COPY = {
    "step": pl.Int32,
    "receiver": pl.Int32,
    "port": pl.Int16,
    "origin": pl.Int32,
    "tree": pl.Int32,
    "segment": pl.Int32,
}
"""The columns that identify an arrival; `port` is the receiver's."""
VOTED_SEGMENT = ("receiver", "owner", "origin", "segment")
"""The columns that identify the vote of a receiver on a segment."""


def elect(
    plan: ResolvedRun, journal: pl.LazyFrame, altered_copies: Sequence[AlteredCopy], rows: int | None = None
) -> pl.DataFrame:
    """Return the election of every segment at every healthy rank that it is meant for.

    One row per segment: receiver, owner (see `Arrivals`), origin, segment, step (of the first copy), copies (votes), right
    (votes for the value that its origin sent), wrong (most votes for one other value), elected (`right`, `wrong` or `none`).
    The values of altered copies are in `altered_copies`; missing values count as equal. `rows` is a bound on the length of
    the journal, if one is known.
    """
    return count_votes(cast_votes(plan, journal, altered_copies, rows))


def cast_votes(
    plan: ResolvedRun, journal: pl.LazyFrame, altered_copies: Sequence[AlteredCopy], rows: int | None = None
) -> pl.DataFrame:
    """Return the votes on the segments of `elect`, by segment and tree.

    A row has step, port, outcome, value, and whether the value is right. `value` is null for copies that were not
    altered, or whose value is unknown. `rows` as in `elect`.
    """
    # A copy has one vote, even if it is reported twice.
    altered = pl.LazyFrame(altered_copies, schema={**COPY, "value": pl.Int64}, orient="row").unique(subset=list(COPY))
    meant = journal.filter(pl.col("outcome").is_in(["first", "duplicate", "corrupt"]), meant_for_receiver(plan))
    # The order of votes within a step is by the port of the receiver; a journal has the port of the sender.
    copies = at_receiver(meant, plan.topology).with_columns(owner(plan))
    votes = (
        # The first copy over each tree votes; `outcome` makes the order total.
        copies.sort("step", "port", "outcome")
        .group_by(*VOTED_SEGMENT, "tree", maintain_order=True)
        .agg(pl.col("step", "port", "outcome").first())
        .join(altered, on=list(COPY), how="left", maintain_order="left")
        .with_columns(right=pl.col("outcome") != "corrupt")
    )
    return collect([votes], rows)[0]


def count_votes(votes: pl.DataFrame) -> pl.DataFrame:
    """Return the election of every segment, from its votes."""
    # Altered copies with one value are one party. Copies of unknown value fall into one group too, the worst case.
    cast = votes.lazy()
    parties = cast.filter(~pl.col("right")).group_by(*VOTED_SEGMENT, "value").len("wrong")
    strongest = parties.group_by(*VOTED_SEGMENT).agg(pl.col("wrong").max())
    # Strictly more than half: doubled, so that no fraction is rounded.
    right, wrong, total = 2 * pl.col("right"), 2 * pl.col("wrong"), pl.col("copies")
    elected = pl.when(right > total).then(pl.lit("right")).when(wrong > total).then(pl.lit("wrong"))
    elections = (
        cast.group_by(*VOTED_SEGMENT)
        # A duplicate is never the first copy of a segment.
        .agg(
            step=pl.col("step").filter(pl.col("outcome") != "duplicate").min(),
            copies=pl.len(),
            right=pl.col("right").sum(),
        )
        .filter(pl.col("step").is_not_null())
        # Segments without a wrong vote have no row here.
        .join(strongest, on=list(VOTED_SEGMENT), how="left")
        .with_columns(pl.col("wrong").fill_null(0))
        .with_columns(elected=elected.otherwise(pl.lit("none")))
        .select(*VOTED_SEGMENT, "step", "copies", "right", "wrong", "elected")
        .sort(*VOTED_SEGMENT)
    )
    # As one query: each step by itself would take as long as all of them.
    return collect([elections], len(votes))[0]
