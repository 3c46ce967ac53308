"""Differential check: a run over sockets must have the same history as the same plan in memory, hop for hop.

Claims and the audit accept any order and any route of equal quality. This check does not: the plan is run again in the
memory engine, faults included, and every hop that is in only one of the two histories counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from coordinator.history.journal import COLUMNS, RECORD, SORT_KEY, table
from coordinator.history.timetable import PredictionInputs
from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy
from emunode.model import Step
from emunode.play import play

REPLAYED_ROWS = 10_000
"""Hops of the longest history that is replayed at the end of a run: some tenths of a second."""


@dataclass(frozen=True)
class Replay:
    """The differences between a journal and a replay in memory."""

    differences: int
    """Hops that are in only one of the two."""
    surplus: int
    """Hops that are only in the journal."""
    altered: Sequence[AlteredCopy]
    """Altered copies that arrived in the replay."""
    first: Mapping[str, Any] | None = None
    """The first hop, in the order of a journal, that only one side has.

    Its `times` is positive if the journal has it.
    """


def replay_mismatches(plan: Plan, journal: pl.LazyFrame, inputs: PredictionInputs | None = None) -> int:
    """Count the hops that are only in the journal or only in its replay; `inputs` has the faults of the timed clock."""
    last = journal.select(pl.col("step").max()).collect(engine="streaming").item() or 0
    return replay(plan, journal, last, inputs=inputs).differences


def replay(
    plan: Plan,
    journal: pl.LazyFrame,
    last: Step,
    most_rows: int | None = None,
    inputs: PredictionInputs | None = None,
) -> Replay:
    """Run a plan again up to two steps after `last`, or up to `most_rows` hops, and compare."""
    try:
        network, rows = MemoryEngine(plan.algorithm) if inputs is None else inputs.engine(plan.algorithm), bytearray()
        if inputs is not None:
            turns = play(network, limit=plan.scenario.step_limit)
        else:
            # Two steps more than the journal has: one to read the last arrivals, one to show that nothing follows.
            turns = play(network, plan.faults, limit=last + 2, over=plan.is_over)
        for turn in turns:
            rows += turn
            # A stored scenario may have been altered, so that it makes far more hops than its journal has.
            if most_rows is not None and len(rows) > most_rows * RECORD.itemsize:
                break
    finally:
        plan.algorithm.close()
    ours, theirs = table(np.frombuffer(bytes(rows), dtype=RECORD)).lazy(), journal.select(COLUMNS)
    # Equal hops cancel: +1 for the journal, -1 for the replay.
    both = pl.concat([theirs.with_columns(times=1), ours.with_columns(times=-1)], how="vertical_relaxed")
    counted = both.group_by(COLUMNS).agg(pl.col("times").sum())
    times = counted.select("times").collect(engine="streaming")["times"]
    # Every hop that is left over counts, also if it occurs several times.
    differences = int(times.abs().sum())
    first = counted.filter(pl.col("times") != 0).sort(*SORT_KEY, "outcome").head(1).collect() if differences else None
    return Replay(
        differences,
        int(times.clip(0).sum()),
        network.altered_copies,
        None if first is None else first.row(0, named=True),
    )
