"""Prediction of a run under the timed clock: its timetable without faults, and then the one with them.

A fault that is given by a step begins with that step in the virtual time of lock-step: at (step - 1) x c where every packet
takes the time c. The engine of `emunode.timed.memory_engine` then computes the whole history, with all losses, before any
host runs.
"""

from collections.abc import Generator, Iterable, Sequence

import polars as pl

from coordinator.history.timetable import FaultFreeSteps, PredictionInputs, Timetable, make_timetable
from emunode.algorithms.base import Algorithm, goes_by_arrivals
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import FOREVER, Fault, Moment
from emunode.model import FaultKnowledge, Step
from emunode.play import play
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.transmission import TimedPacket


def timed_faults(faults: Iterable[Fault], steps: FaultFreeSteps) -> tuple[TimedFault, ...]:
    """Return the faults with their times, in the order of their effects."""
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
    """Compute the timetable of a run; yields after every step, and returns the timetable."""
    engine, rows = MemoryEngine(without_protocols(algorithm)), []
    for turn in play(engine, limit=limit + 1):
        rows.append(turn)
        yield len(rows)
    fault_free = make_timetable(rows, algorithm.spec.port_model, algorithm.topology.degree, costs, not engine.busy)
    if not faults and not algorithm.spec.has_control:
        return fault_free
    steps = FaultFreeSteps(fault_free.packets, costs)
    inputs = PredictionInputs(timed_faults(faults, steps), fault_free, costs, steps, limit)
    return (yield from history_of(inputs, algorithm))


def history_of(inputs: PredictionInputs, algorithm: Algorithm) -> Generator[Step, None, Timetable]:
    """Compute the timetable under faults; yields after every step, and returns the timetable."""
    timed = inputs.engine(algorithm)
    for step, _ in enumerate(play(timed, limit=inputs.limit + 1), 1):
        yield step
    table = _table(timed.packets, inputs.fault_free.packets.schema)
    complete = inputs.fault_free.complete and not timed.busy
    events = timed.history if algorithm.spec.has_control else None
    by_arrivals = events is None and goes_by_arrivals(algorithm)
    return Timetable(table, complete, inputs, events, timed.crossings, by_arrivals, timed.notices)


def without_protocols(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm of the same run over plain links, without signs of life."""
    spec = algorithm.spec
    if not spec.has_control:
        return algorithm
    knowledge = FaultKnowledge.NONE if spec.knowledge is FaultKnowledge.DETECT else spec.knowledge
    return make_algorithm(algorithm.topology, spec.without_protocols()._replace(knowledge=knowledge))


def completed(computation: Generator[Step, None, Timetable]) -> Timetable:
    """Run a computation to its end; return its timetable."""
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
