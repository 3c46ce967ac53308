"""Contributions: how often each rank's contribution is in a result of a reduction, by the hops of the journal alone.

Payloads are folded by exclusive or, which cannot tell a contribution that is folded three times from one that is folded
once. So the folds are repeated here by addition modulo 2^64, in which every rank contributes a number of its own: a rank
that sends a partial result sends its own number and all that it received before. A result is right if it has the sum of all
numbers. A wrong result passes with a chance of 2^-64.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.results.deliveries import switches
from emunode.model import ALL_RANKS, FOLDING, Collective, Rank

Numbers = NDArray[np.uint64]
MOST_SUMS = 20_000_000
"""Most sums that are kept, one for each rank, block and segment; of more blocks, an even sample is."""


def contribution_metrics(plan: Plan, journal: pl.LazyFrame) -> dict[str, int]:
    """`miscounted_results`: results that do not have every contribution exactly once, or were distributed too early."""
    if plan.spec.collective not in FOLDING:
        return {}
    order, segments = plan.topology.order, plan.spec.messages * plan.algorithm.segments_per_message
    owners = plan.algorithm.block_owners
    whole = len(owners) == 1
    sampled = owners[:: 1 + len(owners) * segments * order // MOST_SUMS]
    place = np.full(order, 0 if whole else -1, dtype=np.int64)
    place[list(sampled)] = range(len(sampled))
    hops = _hops(journal, order, segments)
    if plan.spec.reliable is not None:
        # What is sent again is folded once.
        hops = hops.unique(["sender", "receiver", "segment", "finished", "block"], keep="first", maintain_order=True)
    block = place[hops["block"].to_numpy()]
    hops = hops.with_columns(block=pl.Series(block)).filter(pl.col("block") >= 0)
    # By (block, segment, rank): the number that the rank holds, at first its own.
    own = _numbers(order)
    # Switches fold what they receive, and contribute nothing.
    own[switches(plan.topology)] = 0
    held = np.tile(own, len(sampled) * segments)
    total = own.sum(dtype=np.uint64)
    late = _replay(hops, held, segments, order, total)
    results = held.reshape(len(sampled), segments, order)
    wrong = sum(int((results[number][:, _holders(plan, owner)] != total).sum()) for number, owner in enumerate(sampled))
    return {"miscounted_results": wrong + late}


def _hops(journal: pl.LazyFrame, order: int, segments: int) -> pl.DataFrame:
    """The arrivals of partial results, and the departures of finished ones from their owners, by step."""
    partial = (pl.col("target") != ALL_RANKS) & (pl.col("outcome") != "lost")
    finished = (pl.col("target") == ALL_RANKS) & (pl.col("sender") == pl.col("origin"))
    ends = pl.col("sender", "receiver", "origin").is_between(0, order - 1)
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


def _replay(hops: pl.DataFrame, held: Numbers, segments: int, order: int, total: np.uint64) -> int:
    """Fold step by step; returns the number of finished results that left before they were complete."""
    base = (hops["block"].to_numpy() * segments + hops["segment"].to_numpy()) * order
    sender, receiver = base + hops["sender"].to_numpy(), base + hops["receiver"].to_numpy()
    finished, steps = hops["finished"].to_numpy(), hops["step"].to_numpy()
    early: set[int] = set()
    bounds = np.flatnonzero(np.diff(steps, prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        step = slice(first, last)
        # What leaves in a step is what arrived before it.
        sent, results = held[sender[step]], finished[step]
        early.update(sender[step][results & (sent != total)].tolist())
        np.add.at(held, receiver[step][~results], sent[~results])
    return len(early)


def _holders(plan: Plan, owner: Rank) -> list[Rank]:
    """The ranks that fold the result of a block."""
    if plan.spec.collective is not Collective.ALLREDUCE or len(plan.algorithm.block_owners) > 1:
        return [owner]
    return [rank for rank in plan.topology.data_ranks if plan.algorithm.segments_due(0, rank)]


def _numbers(order: int) -> Numbers:
    """A 64-bit number for every rank, without a pattern (the finalizer of splitmix64)."""
    z = np.arange(1, order + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
