"""The audit of a run under the timed clock with faults: the possible outcomes of each packet, given the times of its
timetable.
"""

from collections.abc import Iterator

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.history.timetable import PACKET, PredictionInputs, Timetable, with_starts
from emunode.engine.known_paths import faults_in_time
from emunode.faults.effects import Delays, Duplicates
from emunode.faults.in_time import FaultsInTime

Possible = tuple[int, int, int, bool, bool, bool]
"""Step, sender and port of a packet; whether it may arrive, may be lost and may be altered."""


def with_reads(journal: pl.LazyFrame, timetable: Timetable) -> pl.LazyFrame:
    """Return the journal with the starts of packets and the order of reading.

    It has the form of `with_starts`. The column `read` orders the packets as their receiver reads them.
    """
    dated = with_starts(journal, timetable)
    inputs = timetable.inputs
    if inputs is None or not (timetable.events or timetable.by_arrivals):
        # In the order of steps.
        return dated.with_columns(read=pl.col("step"))
    if timetable.events is not None:
        return dated.with_columns(read=pl.col("end"))
    # By arrival, but no earlier than a rank has everything of the same steps without faults.
    ends = inputs.fault_free.packets.lazy().group_by("receiver", "step").agg(due=pl.col("end").max()).sort("step")
    # A rank reads step after step, so no step is due before an earlier one: the largest end so far.
    due = ends.with_columns(pl.col("due").cum_max().over("receiver"))
    return (
        dated.sort("step")
        .join_asof(due, on="step", by="receiver", check_sortedness=False)
        .with_columns(read=pl.max_horizontal("end", "due"))
    )


def unplanned(journal: pl.LazyFrame, timetable: Timetable) -> pl.LazyFrame:
    """Return the hops of packets that the timetable does not have.

    A packet that only the journal or only the timetable loses counts as one.
    """
    return with_starts(journal, timetable).filter(pl.col("start").is_null()).select("step")


def possible_outcomes(plan: ResolvedRun, timetable: Timetable, inputs: PredictionInputs) -> Iterator[Possible]:
    """Yield the possible outcomes of packets at faulty nodes and links, by their times and the faults alone."""
    faults = faults_in_time(plan.algorithm, inputs.faults)
    places = {each.fault.place for each in inputs.faults}
    # A packet that a fault repeats or delays has another size, or another end, than when it left.
    changed = {place for place, _, effect in inputs.timeline if isinstance(effect, Delays | Duplicates)}
    changed |= inputs.timeline.opaque_places
    # By start: a fault that counts packets counts them in this order.
    packets = timetable.packets.sort("sender", "port", "start")
    for step, sender, port, receiver, size, start in packets.select(*PACKET, "receiver", "bytes", "start").iter_rows():
        if places.isdisjoint((sender, receiver, (sender, port))):
            continue
        if (sender, port) in changed:
            yield step, sender, port, True, True, True
            continue
        yield step, sender, port, *_possible(faults, inputs, step, sender, port, start, size)


def _possible(
    faults: FaultsInTime, inputs: PredictionInputs, step: int, sender: int, port: int, start: int, size: int
) -> tuple[bool, bool, bool]:
    """Return whether one packet may arrive, may be lost and may be altered."""
    transit = faults.transit(step, sender, port, (), start)
    altered = transit.altered or faults.is_byzantine(sender, start)
    # A silent node sends nothing, and a node that knows of a dead link sends nothing over it, so no packet may be
    # there.
    if faults.silent(sender, start) or (faults.knows and faults.is_dead(sender, port, start)):
        return False, False, altered
    end = start + faults.occupancy(step, sender, port, start, inputs.costs.nanoseconds(size))
    lost = transit.lost or not faults.crosses(sender, port, start, end)
    # A byzantine node may withhold some of the copies in a packet; they are recorded as lost.
    return not lost, lost or faults.is_byzantine(sender, start), altered
