"""Prediction of a run under the timed clock: its timetable without faults, and then the one with them.

A fault that is given by a step begins with that step in the virtual time of lock-step: at (step - 1) x c where every packet
takes the time c. The engine of `emunode.timed.memory` then computes the whole history, losses included, before any host.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from coordinator.history.timetable import Timetable, make_timetable
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import FOREVER, Fault, Moment
from emunode.faults.timeline import FaultTimeline
from emunode.model import FaultKnowledge, Port, Rank, Step
from emunode.net.wire import DEPARTURE, RECEIPTS
from emunode.timed import faulty_rank, step_times
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.event_memory import EventMemoryEngine
from emunode.timed.memory import TimedMemoryEngine, TimedPacket


class StepTimes(step_times.StepTimes):
    """The times at which the steps of a fault-free run begin in lock-step: each takes as long as its heaviest packet."""

    def __init__(self, packets: pl.DataFrame, costs: LinearCostModel) -> None:
        heaviest = dict(packets.group_by("step").agg(pl.col("bytes").max()).iter_rows())
        super().__init__([costs.nanoseconds(heaviest.get(step, 0)) for step in range(1, max(heaviest, default=0) + 1)])

    def is_kept_by(self, packets: pl.DataFrame) -> bool:
        """Whether every packet starts with its step and ends with it."""
        return all(
            self.begins(step) == start and self.begins(step + 1) == end
            for step, start, end in packets.select("step", "start", "end").unique().iter_rows()
        )


@dataclass(frozen=True)
class UnderFaults:
    """The faults of a run and its timetable without them, from which the one with them follows."""

    faults: tuple[TimedFault, ...]
    fault_free: Timetable
    costs: LinearCostModel
    steps: StepTimes
    limit: Step
    """The last step in which anything may be sent."""

    @cached_property
    def timeline(self) -> FaultTimeline:
        """The effects of the faults, with their times."""
        return FaultTimeline(self.faults)

    def engine(self, algorithm: Algorithm) -> TimedMemoryEngine | EventMemoryEngine:
        """The engine that computes the history; its next step is 1."""
        common = (algorithm, self.faults, self.costs, self.steps, self.limit)
        if algorithm.spec.has_control:
            return EventMemoryEngine(*common)
        if algorithm.goes_by_arrivals:
            return EventMemoryEngine(*common, self.plans())
        return TimedMemoryEngine(algorithm, self.faults, self.costs, self.plans(), self.limit)

    def plans(self) -> dict[Rank, faulty_rank.Timetable]:
        """The part of each rank in the fault-free timetable."""
        counts: dict[Rank, dict[Step, int]] = defaultdict(dict)
        ends: dict[Rank, dict[Step, int]] = defaultdict(dict)
        starts: dict[Rank, dict[tuple[Step, Port], int]] = defaultdict(dict)
        for step, sender, port, receiver, start, end in self.fault_free.packets.select(
            "step", "sender", "port", "receiver", "start", "end"
        ).iter_rows():
            counts[receiver][step] = counts[receiver].get(step, 0) + 1
            ends[receiver][step] = max(end, ends[receiver].get(step, 0))
            starts[sender][step, port] = start
        return {
            rank: faulty_rank.Timetable(counts.get(rank, {}), starts.get(rank, {}), ends.get(rank, {}))
            for rank in counts.keys() | starts.keys()
        }

    def packed(self) -> dict[Rank, tuple[bytes, bytes]]:
        """The same as bytes: the receipts of each step (`wire.RECEIPTS`), and the departures (`wire.DEPARTURE`)."""
        return {
            rank: (
                b"".join(RECEIPTS.pack(step, count, plan.ends[step]) for step, count in plan.receipts.items()),
                b"".join(DEPARTURE.pack(step, port, start) for (step, port), start in plan.starts.items()),
            )
            for rank, plan in self.plans().items()
        }


def timed_faults(faults: Iterable[Fault], steps: StepTimes) -> tuple[TimedFault, ...]:
    """Faults with their times, in the order in which they act."""
    found = []
    for fault in faults:
        start = fault.step if isinstance(fault.step, Moment) else steps.begins(fault.step)
        last = fault.end if isinstance(fault.end, Moment) else steps.begins(fault.end + 1)
        end = ALWAYS if fault.end == FOREVER else last
        found.append(TimedFault(int(start), int(end), fault))
    return tuple(sorted(found, key=lambda each: each.start))


def prediction(
    algorithm: Algorithm, faults: Sequence[Fault], costs: LinearCostModel, limit: Step
) -> Generator[Step, None, Timetable]:
    """The computation of the timetable of a run; yields after every step, and returns it."""
    engine, rows, step = MemoryEngine(without_protocols(algorithm)), [], 0
    while (engine.busy or not step) and step <= limit:
        step += 1
        rows.append(engine.step(step))
        yield step
    fault_free = make_timetable(rows, algorithm.spec.port_model, algorithm.topology.degree, costs, not engine.busy)
    if not faults and not algorithm.spec.has_control:
        return fault_free
    steps = StepTimes(fault_free.packets, costs)
    return (yield from history_of(UnderFaults(timed_faults(faults, steps), fault_free, costs, steps, limit), algorithm))


def history_of(under: UnderFaults, algorithm: Algorithm) -> Generator[Step, None, Timetable]:
    """The computation of the timetable under faults; yields after every step, and returns it."""
    timed, step = under.engine(algorithm), 0
    while (timed.busy or not step) and step <= under.limit:
        step += 1
        timed.step(step)
        yield step
    table = _table(timed.packets, under.fault_free.packets.schema)
    complete = under.fault_free.complete and not timed.busy
    if isinstance(timed, TimedMemoryEngine):
        return Timetable(table, complete, under)
    return Timetable(table, complete, under, timed.history if algorithm.spec.has_control else None, timed.crossings)


def without_protocols(algorithm: Algorithm) -> Algorithm:
    """The algorithm of the same run over plain links, without signs of life."""
    spec = algorithm.spec
    if not spec.has_control:
        return algorithm
    knowledge = FaultKnowledge.NONE if spec.knowledge is FaultKnowledge.DETECT else spec.knowledge
    repair = None if spec.asks else spec.repair
    plain = spec._replace(reliable=None, detection=None, knowledge=knowledge, repair=repair)
    return make_algorithm(algorithm.topology, plain)


def completed(computation: Generator[Step, None, Timetable]) -> Timetable:
    """Run a computation to its end; the timetable."""
    while True:
        try:
            next(computation)
        except StopIteration as ended:
            timetable: Timetable = ended.value
            return timetable


def _table(packets: Sequence[TimedPacket], schema: pl.Schema) -> pl.DataFrame:
    names = TimedPacket._fields
    columns = list(zip(*packets, strict=True)) or [()] * len(names)
    table = pl.DataFrame(
        {name: pl.Series(name, column, dtype=schema[name]) for name, column in zip(names, columns, strict=True)}
    )
    return table.with_columns(end=pl.when(pl.col("end") >= 0).then(pl.col("end"))).sort(
        "step", "sender", "port", "start"
    )
