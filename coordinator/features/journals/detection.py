"""Detection by silence, measured: its duration, its errors, and their cost.

Under the lock-step clock a sign of life costs nothing and depends on no packet, so the suspicions of a run follow from its
faults and its seed. Packets that nodes withhold for that reason are in the journal, with the outcome `withheld`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.features.journals.rows import IS_CONTROL, IS_SIGN, WITHHELD
from coordinator.history.timetable import Timetable
from emunode.engine.known_paths import faults_in_time
from emunode.faults.detection import StepDetection, Suspicion
from emunode.faults.timeline import merged
from emunode.model import Port, Rank, Step
from emunode.timed.cost_model import NANO


class Suspected(NamedTuple):
    """The steps `first` to `last` of a rank's suspicion of the neighbour behind a port; `silent`: with reason at first."""

    first: Step
    last: Step
    silent: bool


def detection_metrics(run: ResolvedRun, journal: pl.LazyFrame) -> dict[str, int | float]:
    """Measure detection in lock-step."""
    last = int(journal.select(pl.col("step").max()).collect(engine="streaming").item() or 0)
    # Detectors go on after the last packet until they have noticed every fault.
    end = run.settled_by(last)
    changes, watching = suspicions(run, end + 1)
    delays = [
        # The suspicion at the beginning of step s follows from the silence up to step s - 1.
        change.step - silent_since(run, change.step - 1, change.rank, change.port)
        for change in changes
        if change.suspected and change.silent
    ]
    intervals = _intervals(changes, end)
    # Only suspicions that still stand at the end of the run are right or wrong about the end.
    suspected = {place for place in intervals if watching.suspects(*place)}
    withheld = _withheld(journal)
    return {
        "detections": len(delays),
        "mean_detection_steps": sum(delays) / len(delays) if delays else 0.0,
        "slowest_detection_steps": max(delays, default=0),
        "false_suspicions": sum(change.suspected and not change.silent for change in changes),
        # The symmetric difference: silent ports that are not suspected, and suspected ports that are not silent.
        "wrong_ports": len(watching.silent_ports() ^ suspected),
        "withheld_packets": len(withheld),
        "needlessly_withheld_packets": sum(
            not each.silent for step, *place in withheld for each in _covering(intervals, step, *place)
        ),
    }


def timed_detection_metrics(run: ResolvedRun, journal: pl.LazyFrame, timetable: Timetable) -> dict[str, int | float]:
    """Measure detection under the timed clock, and count its signs of life."""
    assert timetable.events is not None
    assert timetable.inputs is not None
    events, faults = timetable.events, faults_in_time(run.algorithm, timetable.inputs.faults)
    delays = [
        # Silence begins at the other end of the link: with a crash there, or when the direction from there went down.
        change.time - faults.dead_since(*run.topology.end(change.rank, change.port), change.time)
        for change in events.suspicions
        if change.suspected and change.silent
    ]
    suspected: dict[tuple[Rank, Port], bool] = {}
    for change in events.suspicions:
        # In the order of time, so that the last change of mind remains.
        suspected[change.rank, change.port] = change.suspected
    # When the signs of life have ended, or at the end of a run that was cut off.
    end = min(events.horizon, 1 + int(timetable.packets["start"].max() or 0))  # type: ignore[arg-type]
    wrong = sum(
        faults.is_dead_end(*run.topology.end(rank, port), end) is not suspected.get((rank, port), False)
        for rank in run.topology.ranks()
        if not faults.silent(rank, end)
        for port in run.topology.ports(rank)
    )
    # Signs of life are packets under the timed clock, and the journal has each of them.
    signs = journal.filter(IS_SIGN).select(all=pl.len(), lost=(pl.col("outcome") == "lost").sum()).collect()
    return {
        "detections": len(delays),
        "mean_detection_seconds": sum(delays) / len(delays) / NANO if delays else 0.0,
        "slowest_detection_seconds": max(delays, default=0) / NANO,
        "false_suspicions": sum(change.suspected and not change.silent for change in events.suspicions),
        "wrong_ports": wrong,
        "withheld_packets": len(events.withheld),
        "needlessly_withheld_packets": sum(not each.silent for each in events.withheld),
        "keep_alives": signs["all"].item(),
        "lost_keep_alives": signs["lost"].item(),
    }


def suspicions(run: ResolvedRun, end: Step) -> tuple[list[Suspicion], StepDetection]:
    """Return all changes of mind up to the beginning of step `end`, and the detectors in it."""
    spec = run.spec
    assert spec.detection is not None
    detection = StepDetection(run.topology, spec.seed, spec.detection, run.topology.ranks())
    return detection.advance(end, [fault for fault in run.faults if fault.step < end]), detection


def detection_violations(
    run: ResolvedRun, journal: pl.LazyFrame, timetable: Timetable | None = None
) -> list[pl.LazyFrame]:
    """Return packets that were withheld although their sender did not suspect that port, and signs of life in lock-step."""
    # In lock-step signs of life take no time and are not recorded, so such a row is illegal.
    signs = [] if run.goes_by_events else [journal.filter(IS_CONTROL, IS_SIGN).select("step")]
    if timetable is not None and timetable.events is not None:
        # The computed history has the packets that suspicions withhold, so it is compared with the journal.
        places = {(each.step, each.sender, each.port) for each in timetable.events.withheld}
        steps = [place[0] for place in _withheld(journal) if place not in places]
        return [pl.LazyFrame({"step": steps}, schema={"step": pl.Int32}), *signs]
    rows = _withheld(journal)
    last = max((step for step, _, _ in rows), default=0)
    intervals = _intervals(suspicions(run, last + 1)[0], last)
    wrong = [step for step, *place in rows if not _covering(intervals, step, *place)]
    return [pl.LazyFrame({"step": wrong}, schema={"step": pl.Int32}), *signs]


def silent_since(run: ResolvedRun, step: Step, rank: Rank, port: Port) -> Step:
    """Return the first step of the silence that lasts in `step`: of the neighbour behind a port, or of the link from it."""
    peer, its_port = run.topology.end(rank, port)
    # A neighbour is silent if it is stopped itself, or if the link from it is down; outages that meet are one silence.
    stops = (*run.judged.timeline.stops.get(peer, ()), *run.judged.timeline.stops.get((peer, its_port), ()))
    return min(interval.start for interval in merged(stops) if step in interval)


def _withheld(journal: pl.LazyFrame) -> list[tuple[Step, Rank, Port]]:
    """Return (step, sender, port) of every packet that was withheld."""
    return journal.filter(WITHHELD).select("step", "sender", "port").unique().collect(engine="streaming").rows()


def _intervals(changes: Iterable[Suspicion], end: Step) -> dict[tuple[Rank, Port], list[Suspected]]:
    """Return for each rank and port the intervals of suspicion of the neighbour there, up to step `end`."""
    found: dict[tuple[Rank, Port], list[Suspected]] = {}
    for change in changes:
        there = found.setdefault((change.rank, change.port), [])
        if change.suspected:
            there.append(Suspected(change.step, end, change.silent))
        else:
            # A detector suspects a port at most once at a time, so the last interval is the open one.
            there[-1] = there[-1]._replace(last=change.step - 1)
    return found


def _covering(
    intervals: Mapping[tuple[Rank, Port], list[Suspected]], step: Step, rank: Rank, port: Port
) -> list[Suspected]:
    return [each for each in intervals.get((rank, port), ()) if each.first <= step <= each.last]
