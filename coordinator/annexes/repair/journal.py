"""Repair, measured: its duration, its cost, and the hops that it rules out.

A *request* is a control segment that asks a neighbour for a segment. A *repair* is the first arrival of a segment over
a link after its receiver requested the segment there.
"""

import polars as pl

from coordinator.features.base import ResolvedRun, last_data_step
from coordinator.features.journals.rows import ARRIVED, IS_DATA, IS_REQUEST, LINK, SEGMENT
from coordinator.history.prediction import completed, prediction
from coordinator.history.timetable import PACKET, Timetable, with_starts
from coordinator.scenario.model import costs_of
from emunode.algorithms.tree_collective import TreeCollective, original_of
from emunode.annexes.repair.pull import healed
from emunode.annexes.repair.rules import RepairedBroadcast
from emunode.faults.effects import Delays, Drifts, Duplicates
from emunode.model import Port, Rank, Step
from emunode.protocols.base import LOCK_STEP, Durations
from emunode.timed.cost_model import NANO
from emunode.timed.rank import PositiveCosts
from emunode.timed.through_protocol import timing_of
from emunode.trees.base import Trees

ASKED = ["receiver", "sender", *SEGMENT]
"""The columns of a request, in the order of the columns of its answer (LINK)."""


def repair_metrics(
    run: ResolvedRun, journal: pl.LazyFrame, times: Timetable | None = None
) -> dict[str, int | float | tuple[int, ...]]:
    """Measure repair. `times` is the timetable of a run under the timed clock."""
    original = fault_free(run)
    requests = journal.filter(IS_REQUEST).select(all=pl.len(), lost=(~ARRIVED).sum()).collect()
    data = journal.filter(IS_DATA)
    firsts = data.filter(pl.col("outcome") == "first")
    segments = data.select(pl.len()).collect(engine="streaming").item()
    # A requested segment that arrives after another copy repairs nothing.
    repaired = answers(journal).filter(pl.col("outcome") == "first").group_by("step").agg(pl.len())
    by_step = dict(repaired.collect(engine="streaming").iter_rows())
    metrics: dict[str, int | float | tuple[int, ...]] = {
        "repair_requests": requests["all"].item(),
        "lost_requests": requests["lost"].item(),
        "repairs": sum(by_step.values()),
        "repairs_per_step": tuple(by_step.get(step, 0) for step in range(1, max(by_step, default=0) + 1)),
        # Without faults every copy crosses one link to each node but the source.
        "extra_segments": segments - original.copies * (run.topology.order - 1),
    }
    algorithm = over_trees(run)
    kept = algorithm.repaired.kept if isinstance(algorithm, RepairedBroadcast) else algorithm.trees
    if kept is not None:
        metrics["repair_links"] = len(_outside(run, kept, data))
    return metrics | _recovery(run, firsts, times)


def _recovery(run: ResolvedRun, firsts: pl.LazyFrame, times: Timetable | None) -> dict[str, int | float]:
    """Return how much later the last first arrival is than without faults, unless acknowledgements decide about it."""
    if times is None:
        expected = last_step(run)
        last = firsts.select(pl.col("step").max()).collect(engine="streaming").item() or 0
        return {} if expected is None else {"recovery_steps": max(0, last - expected)}
    if run.spec.reliable is not None:
        return {}
    if run.spec.asks and times.inputs is not None:
        # Packets of a step are overdue after its end, so a run without faults is complete at the end of its last step.
        expected = times.inputs.steps.begins(fault_free(run).last_step + 1)
    else:
        planned = times if times.inputs is None else times.inputs.fault_free
        if original_of(run.algorithm) is not run.algorithm:
            planned = completed(prediction(fault_free(run), (), costs_of(run.scenario), run.scenario.step_limit))
        expected = round(planned.intended_seconds * NANO)
    arrived = times.arriving.lazy().join(firsts, on=PACKET, how="semi").select(pl.col("end").max())
    return {"recovery_seconds": max(0, (arrived.collect().item() or 0) - expected) / NANO}


def over_trees(run: ResolvedRun) -> TreeCollective:
    """Return the algorithm as an algorithm that runs over trees; repair refuses others."""
    algorithm = run.algorithm
    assert isinstance(algorithm, TreeCollective)
    return algorithm


def fault_free(run: ResolvedRun) -> TreeCollective:
    """Return the algorithm as it runs without faults."""
    algorithm = original_of(run.algorithm)
    assert isinstance(algorithm, TreeCollective)
    return algorithm


def last_step(run: ResolvedRun) -> Step | None:
    """Return the step of the last arrival without faults, or None where acknowledgements decide about it."""
    original = fault_free(run)
    return original.last_step if run.spec.reliable is None else last_data_step(run.spec, original)


def answers(journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the hops of data that crossed a link after their receiver had requested them over it."""
    asked = journal.filter(IS_REQUEST, ARRIVED).group_by(ASKED).agg(asked=pl.col("step").min())
    found = journal.filter(IS_DATA).join(asked, left_on=LINK, right_on=ASKED, how="inner")
    # Data that crossed in the step of the request, or before it, was on its way without the request.
    return found.filter(pl.col("step") > pl.col("asked"))


def repair_violations(run: ResolvedRun, journal: pl.LazyFrame, times: Timetable | None = None) -> list[pl.LazyFrame]:
    """Return the hops that a rule of repair rules out: needless, early and repeated requests, and data without a
    request.

    Where a fault delays packets, hops have the steps of their crossing, so their distances say nothing. A rank that
    recovers has forgotten its receipts and requests. Links that are reliable repeat requests. Under the timed clock
    requests are judged by their `times`, unless clocks drift.
    """
    if not run.spec.asks:
        return [journal.filter(IS_REQUEST).select("step")]
    assert run.spec.repair is not None
    timeline = run.judged.timeline
    changed = timeline.effects & {Delays, Duplicates} or timeline.recoveries or timeline.opaque
    unasked = _unasked(run, journal)
    # Then steps do not tell when a packet was there, a rank may have lost its segments, or a link repeats requests.
    if changed or run.spec.reliable is not None:
        return [unasked]
    # In lock-step a packet is read at the beginning of the next step.
    timing, dated = LOCK_STEP, journal.with_columns(left=pl.col("step"), read=pl.col("step") + 1)
    if times is not None and times.inputs is not None:
        timing = timing_of(times.inputs.steps, PositiveCosts(*times.inputs.costs))
        dated = with_starts(journal, times).with_columns(left=pl.col("start"), read=pl.col("end"))
    # A withheld request has no time, and a packet that is not planned is judged elsewhere.
    requests = dated.filter(IS_REQUEST, pl.col("left").is_not_null())
    # Once nothing is broken any more, the round that has begun goes on, and one more round follows.
    calm = healed(timing, run.spec.repair)
    again = requests.filter(pl.col("left") >= calm).group_by("sender", "port", *SEGMENT)
    repeated = again.agg(step=pl.col("step").min(), times=pl.len()).filter(pl.col("times") > (2 if calm else 1))
    found = [unasked, repeated.select("step")]
    # The first copy on any tree counts, because a node needs a segment once.
    had = dated.filter(IS_DATA, ARRIVED).group_by("receiver", *SEGMENT).agg(had=pl.col("read").min())
    needless = requests.join(had, left_on=["sender", *SEGMENT], right_on=["receiver", *SEGMENT]).filter(
        pl.col("had") <= pl.col("left")
    )
    found.append(needless.select("step"))
    # A clock that drifts measures other distances than the timetable does.
    if Drifts in timeline.effects:
        return found
    left = pl.col("left").unique().sort()
    by_rank = requests.group_by("sender", *SEGMENT).agg(
        step=pl.col("step").min(), left=left.min(), nearest=left.diff().min()
    )
    # Stated anew, not by the functions that the nodes execute: a request and its answer cross before the next request.
    hasty = by_rank.filter(pl.col("nearest") < timing.control + timing.step).select("step")
    return [*found, hasty, _early(run, by_rank, timing)]


def _early(run: ResolvedRun, requests: pl.LazyFrame, timing: Durations) -> pl.LazyFrame:
    """Select first requests for a segment that come before the segment is overdue."""
    algorithm, repair = over_trees(run), run.spec.repair
    assert repair is not None
    found = []
    columns = requests.select("sender", "segment", "step", "left").collect(engine="streaming")
    for rank, segment, step, left in columns.iter_rows():
        relative = run.topology.relative(rank, run.spec.source)
        # The source has every segment, and segments that do not exist cannot be overdue.
        if not 0 <= segment < len(algorithm.places_of_copies) or not relative:
            found.append(step)
            continue
        # A node waits from the time of its earliest copy on.
        due = min(algorithm.crossing_step(relative, *place) for place in algorithm.places_of_copies[segment])
        # Stated anew here too: a packet that crosses in a step has arrived at the beginning of the next one.
        if left < timing.begins(due + 1) + repair.after * timing.step:
            found.append(step)
    return pl.LazyFrame({"step": found}, schema={"step": pl.Int32})


def _unasked(run: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Select data over an arc outside its tree, although its receiver had not requested it there."""
    algorithm = over_trees(run)
    data = journal.filter(IS_DATA)
    arcs = data.select("sender", "port", "tree").unique().collect(engine="streaming")
    rows = [row for row in arcs.iter_rows() if not _in_tree(algorithm, *row)]
    if not rows:
        return journal.filter(pl.lit(value=False)).select("step")
    # Most arcs are in their trees, so the few others are looked up by a join.
    off = pl.LazyFrame(rows, schema=arcs.schema, orient="row")
    asked = journal.filter(IS_REQUEST, ARRIVED).group_by(ASKED).agg(asked=pl.col("step").min())
    sent = data.join(off, on=["sender", "port", "tree"], how="semi").join(
        asked, left_on=LINK, right_on=ASKED, how="left"
    )
    return sent.filter(pl.col("asked").is_null() | (pl.col("asked") >= pl.col("step"))).select("step")


def _in_tree(algorithm: TreeCollective, sender: Rank, port: Port, tree: int) -> bool:
    """Return whether a tree has an arc from a rank over a port."""
    # Trees are stated for root 0, and translated to the source.
    relative = algorithm.topology.relative(sender, algorithm.spec.source)
    if not 0 <= tree < algorithm.trees.count or (relative and relative not in algorithm.reached):
        return False
    return port in algorithm.trees.children(relative, tree)


def _outside(run: ResolvedRun, kept: Trees, data: pl.LazyFrame) -> set[tuple[Rank, Port]]:
    """Return the links that carried data and are in none of these trees, each by its lower end."""
    topology, source = run.topology, run.spec.source
    links = set()
    for sender, port in data.select("sender", "port").unique().collect(engine="streaming").iter_rows():
        ends = [(sender, port), topology.end(sender, port)]
        seen = [(topology.relative(rank, source), port) for rank, port in ends]
        # A link belongs to a tree in either direction.
        if not any(port in kept.children(rank, tree) for tree in range(kept.count) for rank, port in seen):
            links.add(min(ends))
    return links
