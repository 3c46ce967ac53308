"""Voting: which of the copies of a piece a receiver takes, once the run is over.

One vote a tree, cast by the first copy that came over it (in a step, over the receiver's lowest port). A value that more
than half of the votes name is elected; where none has so many, nothing is, and the piece counts as not delivered intact.
So x copies bear floor((x-1)/2) liars even if all liars agree (Fragopoulou and Akl 1996), and where a message has a single
tree its first copy is taken, whatever it says.
"""

from collections.abc import Sequence

import polars as pl

from coordinator.planning.plan import Plan
from coordinator.results.deliveries import meant_for_receiver
from emunode.engine.rank_set import AlteredCopy

COPY = {
    "step": pl.Int32,
    "receiver": pl.Int32,
    "port": pl.Int16,
    "origin": pl.Int32,
    "tree": pl.Int32,
    "segment": pl.Int32,
}
"""What names an arrival; `port` is the receiver's."""
PIECE = ("receiver", "origin", "segment")


def elect(plan: Plan, journal: pl.LazyFrame, altered_copies: Sequence[AlteredCopy]) -> pl.DataFrame:
    """The election of every piece at every rank that it is meant for and that has no fault of its own.

    One row a piece: receiver, origin, segment, step (of the first copy), copies (votes), right (votes for what its origin
    sent), wrong (most votes for one other value), elected (`right`, `wrong` or `none`). What altered copies say is in
    `altered_copies`; without them they agree.
    """
    reverse = {port: plan.topology.reverse_port(port) for port in range(plan.topology.degree)}
    said = pl.DataFrame(altered_copies, schema={**COPY, "value": pl.Int64}, orient="row").unique(subset=list(COPY))
    copies = journal.filter(
        pl.col("outcome").is_in(["first", "duplicate", "corrupt"]),
        meant_for_receiver(plan),
    ).with_columns(pl.col("port").replace_strict(reverse, default=-1, return_dtype=pl.Int16))
    votes = (
        copies.sort("step", "port", "outcome")
        .group_by(*PIECE, "tree", maintain_order=True)
        .agg(pl.col("step", "port", "outcome").first())
        .join(said.lazy(), on=list(COPY), how="left")
        .with_columns(right=pl.col("outcome") != "corrupt")
        .collect()
    )
    heard = copies.filter(pl.col("outcome") != "duplicate").group_by(*PIECE).agg(pl.col("step").min()).collect()
    parties = votes.filter(~pl.col("right")).group_by(*PIECE, "value").len("wrong")
    strongest = parties.group_by(*PIECE).agg(pl.col("wrong").max())
    right, wrong, total = 2 * pl.col("right"), 2 * pl.col("wrong"), pl.col("copies")
    elected = pl.when(right > total).then(pl.lit("right")).when(wrong > total).then(pl.lit("wrong"))
    return (
        votes.group_by(*PIECE)
        .agg(copies=pl.len(), right=pl.col("right").sum())
        .join(heard, on=list(PIECE))
        .join(strongest, on=list(PIECE), how="left")
        .with_columns(pl.col("wrong").fill_null(0))
        .with_columns(elected=elected.otherwise(pl.lit("none")))
        .select(*PIECE, "step", "copies", "right", "wrong", "elected")
        .sort(*PIECE)
    )
