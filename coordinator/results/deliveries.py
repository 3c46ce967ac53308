"""Deliveries: due messages that arrived, and due messages that arrived intact.

A run reads its arrivals from a Parquet file of any size, a trial of a campaign from packed rows in memory. Both give one
`Arrivals` with the segments of each message next to each other, and both count them by `count_deliveries`, so that there is
one definition of a delivery.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.features.base import ResolvedRun
from coordinator.history.journal import Records
from coordinator.theory.dependence.losses import owners_are_silent
from emunode.algorithms.traits import listed_messages
from emunode.model import ALL_RANKS, FOLDING, Collective, HopOutcome, Rank

Integers = NDArray[np.signedinteger]
MessageFlags = NDArray[np.bool_]


class Arrivals(NamedTuple):
    """One entry per segment and receiver, in the order of `arrival_order`."""

    receiver: Integers
    owner: Integers
    """The owner of the message: the origin, or where contributions are folded the rank that owns the block of the result."""
    origin: Integers
    segment: Integers
    step: Integers
    """The step of the first copy's arrival."""
    intact: MessageFlags


@dataclass(frozen=True)
class Deliveries:
    """Messages with at least one segment received, and the messages due to each rank."""

    due: Integers
    """Messages due, by rank."""
    receiver: Integers
    origin: Integers
    """The origin of each message; where contributions are folded, the owner of the block of the result."""
    complete: MessageFlags
    """By message: whether all of its segments arrived."""
    intact: MessageFlags
    """By message: whether all of its segments arrived intact."""

    @cached_property
    def metrics(self) -> dict[str, int | float]:
        """The metrics of the summary that count messages."""
        expected, intact = int(self.due.sum()), int(self.intact.sum())
        return {
            "expected_deliveries": expected,
            "deliveries": int(self.complete.sum()),
            "intact_deliveries": intact,
            "delivery_ratio": intact / expected if expected else 0.0,
        }

    @property
    def unserved(self) -> tuple[Rank, ...]:
        """Ranks that miss a message due to them, ascending."""
        # Fewer intact messages than due: the rank misses at least one.
        return tuple(np.flatnonzero(self._intact_by(self.receiver) < self.due).tolist())

    @property
    def served(self) -> MessageFlags:
        """By rank, whether messages are due to it and all of them arrived intact."""
        return (self.due > 0) & (self._intact_by(self.receiver) >= self.due)

    def unheard(self, plan: ResolvedRun) -> tuple[Rank, ...]:
        """Return the healthy ranks whose message the target of a gather misses, ascending."""
        due = np.full(plan.topology.order, plan.spec.messages)
        # The target has its messages already, and nothing is due from faulty ranks.
        due[[plan.spec.source, *plan.judged.excluded]] = 0
        if plan.spec.source in plan.judged.states:
            return ()
        return tuple(np.flatnonzero(self._intact_by(self.origin) < due).tolist())

    def _intact_by(self, ranks: Integers) -> Integers:
        # Ranks come from a journal that may be altered: no message is due from a rank that does not exist.
        existing = (ranks >= 0) & (ranks < len(self.due))
        return np.bincount(ranks[self.intact & existing], minlength=len(self.due))


def silent_sources(plan: ResolvedRun) -> list[Rank]:
    """Return faulty ranks whose messages are due to no rank, in collectives with many sources."""
    return list(plan.judged.states) if owners_are_silent(plan.algorithm) else []


def messages_due(plan: ResolvedRun) -> Integers:
    """Count the messages due to each rank.

    A rank that ever crashes, hangs or alters messages counts as faulty throughout: nothing is due to it, even if it
    recovers. Where many ranks are sources, nothing is due from it either.
    """
    spec, order = plan.spec, plan.topology.order
    # In collectives with many sources, messages of faulty ranks are due to no rank.
    silent = set(silent_sources(plan))
    others = sum(rank not in silent for rank in plan.topology.data_ranks) - 1
    match spec.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            due = np.full(order, spec.messages)
            due[spec.source] = 0
        case Collective.GATHER | Collective.REDUCE:
            due = np.zeros(order, dtype=np.int64)
            due[spec.source] = spec.messages * (others if spec.collective is Collective.GATHER else 1)
        case Collective.ALLGATHER | Collective.ALLTOALL:
            due = np.full(order, others * spec.messages)
        case Collective.REDUCE_SCATTER:
            # One block of the result for each rank.
            due = np.full(order, spec.messages)
        case Collective.ALLREDUCE:
            # The other blocks of healthy ranks, and its own.
            due = np.full(order, spec.messages * (others + 1 if len(plan.algorithm.block_owners) > 1 else 1))
        case Collective.UNICAST:
            due = np.zeros(order, dtype=np.int64)
            due[[plan.spec.destination(rank) for rank in plan.algorithm.sources if rank not in silent]] = spec.messages
        case Collective.MESSAGES:
            listed = [each.target for each in listed_messages(plan.algorithm) if each.origin not in silent]
            due = np.bincount(listed, minlength=order)
    # Last, whatever the collective: nothing is due to a faulty rank.
    due[plan.judged.excluded] = 0
    return due


def count_deliveries(plan: ResolvedRun, arrivals: Arrivals) -> Deliveries:
    """Combine the segments that arrived into messages."""
    if plan.spec.collective in FOLDING and not plan.algorithm.traits.states_order:
        arrivals = _segments_of_results(plan, arrivals)
    message = arrivals.segment // plan.algorithm.segments_per_message
    # Segment numbers come from a journal that may be altered: numbers of no message are left out.
    counted = (message >= 0) & (message < plan.spec.messages)
    silent = silent_sources(plan)
    if silent:
        counted &= ~np.isin(arrivals.owner, silent)
    receiver, owner, message = arrivals.receiver[counted], arrivals.owner[counted], message[counted]
    # Partial results of all origins count towards one block of the result.
    starts, segments = runs(receiver, message, owner)
    receiver, owner, message = receiver[starts], owner[starts], message[starts]
    complete = segments == due_segments(plan, receiver, owner, message)
    # `reduceat` ands the flags of each run of segments: one altered segment spoils the message.
    intact = complete & np.logical_and.reduceat(arrivals.intact[counted], starts)
    return Deliveries(messages_due(plan), receiver, owner, complete, intact)


def _segments_of_results(plan: ResolvedRun, arrivals: Arrivals) -> Arrivals:
    """Return one arrival for each segment of a result at a rank, where no timetable says how many arrivals make one."""
    owner = arrivals.owner
    if len(plan.algorithm.block_owners) == 1:
        # The vector is one result, whichever ranks it came from.
        owner = np.full_like(owner, plan.algorithm.block_owners[0])
    place = np.lexsort((arrivals.segment, owner, arrivals.receiver))
    starts, _ = runs(arrivals.receiver[place], owner[place], arrivals.segment[place])
    first = place[starts]
    return Arrivals(
        arrivals.receiver[first], owner[first], arrivals.origin[first], arrivals.segment[first], arrivals.step[first],
        arrivals.intact[first],
    )  # fmt: skip


def due_segments(plan: ResolvedRun, receiver: Integers, owner: Integers, message: Integers) -> Integers:
    """Return how many segments make up each message; of a rank's own block, the partial results for it."""
    algorithm, spec = plan.algorithm, plan.spec
    if spec.collective is Collective.ALLREDUCE:
        due = np.full(len(message), algorithm.segments_per_message)
    elif spec.collective in FOLDING:
        due = np.empty(len(message), dtype=np.int64)
    else:
        # Looked up once for each message number, then for all rows by indexing.
        return np.array([algorithm.segments_due(number) for number in range(spec.messages)])[message]
    own = np.flatnonzero(receiver == owner)
    due[own] = [
        algorithm.segments_due(number, rank)
        for number, rank in zip(message[own].tolist(), receiver[own].tolist(), strict=True)
    ]
    return due


def runs(*columns: Integers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where each run of rows that agree in all columns starts, and its number of rows."""
    bounds = np.ones(len(columns[0]) + 1, dtype=np.bool_)
    # A run ends where any of the columns changes.
    bounds[1:-1] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        bounds[1:-1] |= column[1:] != column[:-1]
    positions = np.flatnonzero(bounds)
    # Hot path: np.diff(starts, append=..) takes 15 us more.
    return positions[:-1], positions[1:] - positions[:-1]


# --- reading arrivals --------------------------------------------------------------------------------------------------


def arrival_order(plan: ResolvedRun) -> tuple[str, ...]:
    """Return the columns that arrivals are sorted by, so that the segments of one message are adjacent."""
    if plan.spec.collective in FOLDING:
        return "receiver", "owner", "segment", "origin"
    return "receiver", "origin", "segment"


def owner(plan: ResolvedRun) -> pl.Expr:
    """Return the owner of the message that a hop to its target carries, as in `Arrivals`."""
    if plan.spec.collective not in FOLDING:
        return pl.col("origin").alias("owner")
    # A finished result names its owner as the origin; a partial result is for a block of its receiver.
    return pl.when(pl.col("target") == ALL_RANKS).then("origin").otherwise("receiver").alias("owner")


def meant_for_receiver(plan: ResolvedRun) -> pl.Expr:
    """Return whether a hop reached a healthy rank that the segment is meant for."""
    return (
        ((pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver")))
        & (pl.col("receiver") != pl.col("origin"))
        & ~pl.col("receiver").is_in(plan.judged.excluded)
    )


def journal_arrivals(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the arrivals of a journal without altered packets.

    It has the columns of `Arrivals`, with `intact` always true.
    """
    order = arrival_order(plan)
    rows = (
        journal.filter(pl.col("outcome") == "first", meant_for_receiver(plan))
        .select("receiver", owner(plan), "origin", "segment", "step", intact=pl.lit(value=True))
        .sort(*order, "step")
    )
    # A sorted table has repetitions next to each other: no second hash table of all arrivals is needed.
    repeated = pl.all_horizontal(pl.col(order) == pl.col(order).shift())
    return rows.filter(~repeated.fill_null(value=False))


def elected_arrivals(plan: ResolvedRun, elections: pl.DataFrame) -> pl.DataFrame:
    """Return the arrivals of a journal with altered copies: a segment is intact if its right value was elected."""
    intact = pl.col("elected") == "right"
    return elections.select("receiver", "owner", "origin", "segment", "step", intact=intact).sort(*arrival_order(plan))


def arrivals_of(table: pl.DataFrame) -> Arrivals:
    """Return the columns of a table of arrivals."""
    return Arrivals(*(table[name].to_numpy() for name in Arrivals._fields))


def record_arrivals(plan: ResolvedRun, records: Records) -> tuple[Arrivals, NDArray[np.intp]]:
    """Return arrivals of unaltered copies in sorted packed rows, and the number of such copies of each segment.

    The plain form is `journal_arrivals`; on the few hundred rows of a trial, polars would take longer than the trial.
    """
    receiver, target = records["receiver"], records["target"]
    healthy = np.ones(plan.topology.order, dtype=np.bool_)
    healthy[list(plan.judged.states)] = False
    # FIRST and DUPLICATE are the two lowest outcomes: an intact copy at its target.
    arrived = (records["outcome"] <= HopOutcome.DUPLICATE) & ((target == ALL_RANKS) | (target == receiver))
    rows = records[arrived & (receiver != records["origin"]) & healthy[receiver]]
    columns: dict[str, Integers] = {name: rows[name] for name in ("receiver", "origin", "segment", "step")}
    # Without folding, the owner of a message is its origin; the rules of `owner`, in numpy.
    columns["owner"] = columns["origin"]
    if plan.spec.collective in FOLDING:
        columns["owner"] = np.where(rows["target"] == ALL_RANKS, rows["origin"], rows["receiver"])
    order = arrival_order(plan)
    # `lexsort` takes the last key first. It is stable, so the first of a run of copies arrived first.
    place = np.lexsort([columns[name] for name in reversed(order)])
    columns = {name: column[place] for name, column in columns.items()}
    starts, copies = runs(*(columns[name] for name in order))
    segments = {name: column[starts] for name, column in columns.items()}
    arrivals = Arrivals(**segments, intact=np.ones(len(starts), dtype=np.bool_))
    return arrivals, copies


def outcome_metrics(counts: Sequence[int]) -> dict[str, int]:
    """Return the metrics of the summary that count hops by their outcome; `counts` is indexed by HopOutcome."""
    return {
        "duplicates": counts[HopOutcome.DUPLICATE],
        "relays": counts[HopOutcome.RELAY],
        "lost": counts[HopOutcome.LOST],
        "corrupt": counts[HopOutcome.CORRUPT],
    }
