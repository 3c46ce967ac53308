"""Contributions: how often each rank's contribution is in a result of a reduction, by the hops of the journal alone.

Payloads are folded by exclusive or, where three folds of a contribution look like a single one. So the folds are
repeated here by addition modulo 2^64. Every rank contributes a number of its own: a rank that sends a partial result
sends its own number and all that it received before. A result is right if it has the sum of all numbers. A wrong result
passes with a chance of 2^-64.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.features.base import ResolvedRun
from emunode.model import ALL_RANKS, FOLDING, Collective, Rank, Step
from emunode.topologies.base import switches

Numbers = NDArray[np.uint64]
MOST_SUMS = 20_000_000
"""Most sums that are kept, one for each rank, block and segment; of more blocks, an even sample is counted."""


class Contributions(NamedTuple):
    """The contributions to the results of a reduction."""

    metrics: dict[str, int]
    """`miscounted_results`, and with faults `least_contributions`."""
    missing: tuple[Rank, ...] = ()
    """The ranks whose contributions the first of the results with the fewest lacks, ascending."""


def count_contributions(plan: ResolvedRun, journal: pl.LazyFrame) -> Contributions:
    """Count the contributions in all results.

    `miscounted_results` are results that do not have every contribution exactly once, or were distributed too early;
    `least_contributions` is the smallest number in a result that a healthy rank folds; a contribution counts as often
    as the result contains it.
    """
    # What an algorithm adds by itself is not seen in the journal, and judged by its results.
    if plan.spec.collective not in FOLDING or not plan.algorithm.traits.states_order:
        return Contributions({})
    order, segments = plan.topology.order, plan.spec.messages * plan.algorithm.segments_per_message
    owners = plan.algorithm.block_owners
    whole = len(owners) == 1
    sampled = owners[:: 1 + len(owners) * segments * order // MOST_SUMS]
    # Blocks that are not sampled keep -1, so that their hops are dropped below.
    place = np.full(order, 0 if whole else -1, dtype=np.int64)
    place[list(sampled)] = range(len(sampled))
    hops = _hops(journal, order, segments)
    if plan.delivers_late:
        # A segment that is sent again is folded once.
        hops = hops.unique(["sender", "receiver", "segment", "finished", "block"], keep="first", maintain_order=True)
    block = place[hops["block"].to_numpy()]
    hops = hops.with_columns(block=pl.Series(block)).filter(pl.col("block") >= 0)
    # By (block, segment, rank): the number that the rank holds, at first its own.
    own = _numbers(order)
    # Switches fold their receipts, and contribute nothing.
    own[switches(plan.topology)] = 0
    held = np.tile(own, len(sampled) * segments)
    total = own.sum(dtype=np.uint64)
    recoveries = plan.judged.timeline.recoveries
    early = _replay(hops, held, segments, order, total, recoveries)
    results = held.reshape(len(sampled), segments, order)
    wrong = sum(int((results[number][:, _holders(plan, owner)] != total).sum()) for number, owner in enumerate(sampled))
    metrics = {"miscounted_results": wrong + early}
    # Under the timed clock the step of a recovery does not follow from the journal.
    if not plan.judged.harmful_faults or plan.scenario.clock != "steps" or plan.delivers_late:
        return Contributions(metrics)
    # The same folds with 1 in place of the numbers count the contributions.
    counts = np.tile((own > 0).astype(np.uint64), len(sampled) * segments)
    _replay(hops, counts, segments, order, np.uint64(order), recoveries)
    counts = counts.reshape(len(sampled), segments, order)
    least = min(
        (
            (int(counts[number, segment, holder]), number, segment, holder)
            for number, owner in enumerate(sampled)
            for holder in healthy_holders(plan, owner)
            for segment in range(segments)
        ),
        default=None,
    )
    if least is None:
        return Contributions(metrics)
    count, number, segment, holder = least
    return Contributions(
        metrics | {"least_contributions": count},
        _missing(plan, hops.filter(pl.col("block") == number, pl.col("segment") == segment), holder, recoveries),
    )


def _missing(
    plan: ResolvedRun, hops: pl.DataFrame, holder: Rank, recoveries: Sequence[tuple[Step, Rank]]
) -> tuple[Rank, ...]:
    """Return the ranks whose contributions one result lacks at `holder`; `hops` are the hops of its block and segment."""
    # Sets of bits in place of sums: the question is not how many contributions are missing, but whose. Only one result
    # is followed, so the sets may be large.
    own = {rank: 1 << rank for rank in plan.topology.data_ranks}
    held = dict(own)
    left = list(recoveries)
    for step, arrivals in hops.filter(~pl.col("finished")).group_by("step", maintain_order=True):
        while left and left[0][0] <= step[0]:
            _, rank = left.pop(0)
            held[rank] = own.get(rank, 0)
        pairs = list(arrivals.select("sender", "receiver").iter_rows())
        # All senders of a step are read before any receiver changes, because no segment leaves in the step of its
        # arrival.
        sent = [held.get(sender, 0) for sender, _ in pairs]
        for (_, receiver), ranks in zip(pairs, sent, strict=True):
            held[receiver] = held.get(receiver, 0) | ranks
    return tuple(rank for rank in plan.topology.data_ranks if not held.get(holder, 0) >> rank & 1)


def _hops(journal: pl.LazyFrame, order: int, segments: int) -> pl.DataFrame:
    """Return the arrivals of partial results, and the departures of finished ones from their owners, by step."""
    partial = (pl.col("target") != ALL_RANKS) & (pl.col("outcome") != "lost")
    finished = (pl.col("target") == ALL_RANKS) & (pl.col("sender") == pl.col("origin"))
    ends = pl.col("sender", "receiver", "origin").is_between(0, order - 1)
    # Rows with ranks or segments that do not exist would index past the tables; the audit counts them.
    known = ends & pl.col("segment").is_between(0, segments - 1) & (pl.col("target") < order)
    return (
        journal.filter(partial | finished, known)
        .select(
            "step",
            "sender",
            "receiver",
            "segment",
            finished=finished,
            block=pl.when(finished).then("sender").otherwise("target"),
        )
        .sort("step")
        .collect(engine="streaming")
    )


def _replay(
    hops: pl.DataFrame,
    held: Numbers,
    segments: int,
    order: int,
    total: np.uint64,
    recoveries: Sequence[tuple[Step, Rank]] = (),
) -> int:
    """Fold step by step; returns the number of finished results that left before they were complete."""
    fresh, left = held.copy() if recoveries else held, list(recoveries)
    # The sums are one flat array with the index (block x segments + segment) x order + rank, so that the folds of a
    # whole step are one read and one addition in numpy.
    base = (hops["block"].to_numpy() * segments + hops["segment"].to_numpy()) * order
    sender, receiver = base + hops["sender"].to_numpy(), base + hops["receiver"].to_numpy()
    finished, steps = hops["finished"].to_numpy(), hops["step"].to_numpy()
    early: set[int] = set()
    # The hops are sorted by step, so a step begins where the number changes.
    bounds = np.flatnonzero(np.diff(steps, prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        while left and left[0][0] <= steps[first]:
            _, rank = left.pop(0)
            # A rank that recovers has only its own contributions left, in every block and segment: every entry `order`
            # places apart.
            held[rank::order] = fresh[rank::order]
        step = slice(first, last)
        # The sends of a step contain the arrivals of earlier steps only.
        sent, results = held[sender[step]], finished[step]
        # A set of places: an owner distributes one result over several links, and is too early once.
        early.update(sender[step][results & (sent != total)].tolist())
        # Several hops of a step may reach one rank. `add.at` adds all of them, where indexing would keep the last one
        # only.
        np.add.at(held, receiver[step][~results], sent[~results])
    return len(early)


def healthy_holders(plan: ResolvedRun, owner: Rank) -> list[Rank]:
    """Return the ranks without a fault of their own that fold the result of a block."""
    return [rank for rank in _holders(plan, owner) if rank not in plan.judged.states]


def _holders(plan: ResolvedRun, owner: Rank) -> list[Rank]:
    """Return the ranks that fold the result of a block."""
    if plan.spec.collective is not Collective.ALLREDUCE or len(plan.algorithm.block_owners) > 1:
        return [owner]
    # A result in one piece may be folded at several ranks: at each rank with partial results due to it.
    return [rank for rank in plan.topology.data_ranks if plan.algorithm.segments_due(0, rank)]


def _numbers(order: int) -> Numbers:
    """Return a 64-bit number for every rank, without a pattern (the finalizer of splitmix64)."""
    # Sums of ranks would agree too often, as 1 + 4 and 2 + 3 do; sums of numbers without a pattern agree once in 2^64.
    z = np.arange(1, order + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
