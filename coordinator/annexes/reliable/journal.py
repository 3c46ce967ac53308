"""Reliable links in a journal: their cost, and hops that they rule out."""

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.features.journals.rows import ARRIVED, IS_ANSWER, IS_DATA, IS_REQUEST, LINK
from coordinator.history.timetable import Timetable, with_starts
from emunode.faults.effects import Delays, Drifts
from emunode.model import ReliableLinks

COPY = ["sender", "port", "origin", "target", "tree", "segment"]
"""A copy of a segment on a directed link."""


def reliable_metrics(links: ReliableLinks, journal: pl.LazyFrame) -> dict[str, int]:
    """Count the traffic of reliable links beyond the first copy of every segment."""
    answers = journal.filter(IS_ANSWER).select(all=pl.len(), lost=(~ARRIVED).sum()).collect()
    copies = _copies(journal).collect(engine="streaming")
    arrivals = journal.filter(IS_DATA, ARRIVED).group_by(*COPY).agg(copies=pl.len())
    discarded = arrivals.select((pl.col("copies") - 1).sum()).collect(engine="streaming").item()
    # An answer travels against its segment, so sender and receiver are exchanged in the joins below.
    answered = journal.filter(IS_ANSWER, ARRIVED).select(LINK).unique().collect(engine="streaming")
    abandoned = copies.filter(pl.col("attempts") >= links.attempts).join(
        answered, how="anti", left_on=LINK, right_on=["receiver", "sender", *LINK[2:]]
    )
    return {
        "acknowledgements": answers["all"].item(),
        "lost_acknowledgements": answers["lost"].item(),
        # The first attempt of every copy is no retransmission.
        "retransmissions": int((copies["attempts"] - 1).sum()),
        "discarded_copies": int(discarded or 0),
        "abandoned_segments": len(abandoned),
    }


def reliable_violations(
    run: ResolvedRun, links: ReliableLinks, journal: pl.LazyFrame, times: Timetable | None = None
) -> list[pl.LazyFrame]:
    """Return the hops that reliable links rule out: too many or too early attempts, and answers to copies that have not
    arrived.

    Under the timed clock, `times` give the distances of attempts; a clock that drifts may measure any distance.

    Where a fault delays packets, hops have the steps of their crossing, so their distances say nothing. A rank that
    recovers counts its attempts from 1 again.
    """
    timeline = run.judged.timeline
    lives = 1 + len(timeline.recoveries)
    # A segment may be sent to a child, and then to the same node because it has asked for it meanwhile, perhaps twice.
    repair = run.spec.repair
    lives *= 1 + run.spec.asks * (2 if repair is not None and repair.heals else 1)
    delayed = Delays in timeline.effects or timeline.opaque
    copies = _copies(journal)
    too_many = copies.filter(pl.col("attempts") > links.attempts * lives).select(step="first")
    received = journal.filter(IS_DATA | IS_REQUEST, ARRIVED)
    # An answer names no tree, so copies on several trees are counted together.
    arrived = received.group_by(*LINK).agg(first=pl.col("step").min(), copies=pl.len())
    answers = (
        journal.filter(IS_ANSWER).group_by(*LINK).agg(step=pl.col("step").min(), answers=pl.col("step").n_unique())
    )
    unfounded = (
        answers.join(arrived, how="left", left_on=LINK, right_on=["receiver", "sender", *LINK[2:]])
        .filter(
            # An answer in step s is to a packet that crossed in step s - 1 or before, and every arrival is answered
            # once.
            pl.col("first").is_null() | (pl.col("first") >= pl.col("step")) | (pl.col("answers") > pl.col("copies"))
        )
        .select("step")
    )
    if delayed or lives > 1:
        return [too_many, unfounded]
    if times is not None and times.events is not None:
        copies = _copies(with_starts(journal.filter(IS_DATA), times), when="start")
        if Drifts in timeline.effects:
            return [too_many, unfounded, _beyond_window(links, journal, copies)]
    too_early = copies.filter(pl.col("nearest") < links.retransmit_after).select(step="first")
    return [too_many, too_early, unfounded, _beyond_window(links, journal, copies)]


def _beyond_window(links: ReliableLinks, journal: pl.LazyFrame, copies: pl.LazyFrame) -> pl.LazyFrame:
    """Select first attempts that left while the window was full of unanswered copies, on links that gave no copy up."""
    given_up = copies.filter(pl.col("attempts") >= links.attempts).select("sender", "receiver")
    # Attempts that a suspicion withheld count as well.
    withheld = journal.filter(pl.col("outcome") == "withheld").select("sender", "receiver")
    given_up = pl.concat([given_up, withheld]).unique()
    opened = (
        copies.join(given_up, on=["sender", "receiver"], how="anti")
        .sort("first")
        # Copies that left in one step are all open after it: each has the highest rank of its step.
        .with_columns(opened=pl.col("first").rank("max").over("sender", "receiver"))
    )
    number = pl.int_range(1, 1 + pl.len()).over("receiver", "sender")
    answers = (
        journal.filter(IS_ANSWER, ARRIVED)
        .sort("step")
        .select("step", sender="receiver", receiver="sender", answered=number)
    )
    # The copies that were answered before the step of the first attempt; all answers count, so that the check is never
    # too strict.
    by = ["sender", "receiver"]
    known = opened.join_asof(
        answers, left_on="first", right_on="step", by=by, allow_exact_matches=False, check_sortedness=False
    )
    return known.filter(pl.col("opened") - pl.col("answered").fill_null(0) > links.window).select(step="first")


def _copies(journal: pl.LazyFrame, when: str = "step") -> pl.LazyFrame:
    """Return every copy that was sent over a link: the number of attempts, the first step and the least distance of two
    attempts.

    Distances are measured in the column `when`.
    """
    # A link that duplicates packets makes several rows of one attempt, all with one step.
    steps, times = pl.col("step").unique(), pl.col(when).unique().sort()
    return (
        journal.filter(IS_DATA)
        .group_by(*COPY, "receiver")
        .agg(attempts=steps.len(), first=pl.col("step").min(), nearest=times.diff().min())
    )
