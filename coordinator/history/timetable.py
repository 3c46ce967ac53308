"""The timetable of a run under the timed clock: when each packet is sent and received if no host is late.

The memory engine determines the packets that cross each link in each step, and `emunode.timed.cost_model` how long each
takes. Each node gets the steps of its receipts (`receipts`), as programs for the machines of the papers contain their
receive operations. Hosts compute the times on their own, and must obtain the same ones. The timetable of a run with
faults (`prediction`) has the packets that the faults let through, and the lost packets.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from coordinator.history.journal import RECORD
from emunode.algorithms.base import Algorithm
from emunode.annexes import load
from emunode.engine import step_times
from emunode.faults.in_time import TimedFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import Port, PortModel, Rank, Step
from emunode.net.wire import DEPARTURE, RECEIPTS, TIME
from emunode.timed.cost_model import NANO, LinearCostModel, PortOccupancy
from emunode.timed.transmission import RankTimetable

if TYPE_CHECKING:
    from emunode.timed.memory_engine import EventHistory, TimedMemoryEngine

PACKET: Final = ["step", "sender", "port"]
"""The columns that identify a packet."""
ENGINE: Final = "emunode.timed.memory_engine:TimedMemoryEngine"
"""The engine of the timed clock; the module is imported for a run with faults or protocols."""


@dataclass(frozen=True)
class Timetable:
    """Every packet of a run: step, sender, port, receiver, bytes, start and end in nanoseconds; no end if it was lost."""

    packets: pl.DataFrame
    complete: bool
    """Whether the algorithm ends by itself, before the step limit."""
    inputs: "PredictionInputs | None" = None
    """The faults that it is for, and the timetable without them; None without faults and protocols."""
    events: "EventHistory | None" = None
    """Suspicions and signs of life of nodes with protocols; None for other runs."""
    crossings: "Mapping[Rank, array[int]]" = field(default_factory=dict)
    """By rank, the times when packets have crossed to it, ascending; nothing without faults and protocols."""
    by_arrivals: bool = False
    """Whether nodes without protocols pass on packets as they come, whatever their steps."""
    notices: Mapping[Rank, Sequence[tuple[int, Step]]] = field(default_factory=dict)
    """By rank that goes by steps, the times when it learns of packets that do not come, and their steps."""

    @property
    def steps(self) -> Step:
        """The last step with a send."""
        return int(self.packets["step"].max() or 0)  # type: ignore[arg-type]

    @property
    def intended_seconds(self) -> float:
        """Time of the last receipt of a packet."""
        return int(self.packets["end"].max() or 0) / NANO  # type: ignore[arg-type]

    @property
    def arriving(self) -> pl.DataFrame:
        """The packets that are not lost."""
        return self.packets.filter(pl.col("end").is_not_null())

    def receipts(self) -> Mapping[Rank, bytes]:
        """Return for each rank the steps of all packets that it receives, ascending, as 4-byte numbers."""
        ordered = self.arriving.select("receiver", pl.col("step").cast(pl.UInt32)).sort("receiver", "step")
        return {
            # Four bytes a step, as the wire carries them.
            rank: array("I", group["step"].to_numpy()).tobytes()
            for (rank,), group in ordered.group_by("receiver", maintain_order=True)
        }

    def times(self) -> bytes:
        """Return the times that hosts report on a machine that is never late."""
        return b"".join(
            TIME.pack(step, sender, port, ended, moment, moment)
            for step, sender, port, *moments in self.packets.select(*PACKET, "start", "end").iter_rows()
            for ended, moment in enumerate(moments)
            if moment is not None
        )


class FaultFreeSteps(step_times.StepTimes):
    """The times when the steps of a fault-free run begin in lock-step: each takes as long as its heaviest packet."""

    def __init__(self, packets: pl.DataFrame, costs: LinearCostModel) -> None:
        heaviest = dict(packets.group_by("step").agg(pl.col("bytes").max()).iter_rows())
        super().__init__([costs.nanoseconds(heaviest.get(step, 0)) for step in range(1, max(heaviest, default=0) + 1)])

    def is_kept_by(self, packets: pl.DataFrame) -> bool:
        """Return whether every packet starts with its step and ends with it."""
        return all(
            self.begins(step) == start and self.begins(step + 1) == end
            for step, start, end in packets.select("step", "start", "end").unique().iter_rows()
        )


@dataclass(frozen=True)
class PredictionInputs:
    """The inputs of the prediction of a run with faults or protocols: the faults, and the timetable without them."""

    faults: tuple[TimedFault, ...]
    fault_free: Timetable
    costs: LinearCostModel
    steps: FaultFreeSteps
    limit: Step
    """The last step that may have a send."""

    @cached_property
    def timeline(self) -> FaultTimeline:
        """The effects of the faults, with their times."""
        return FaultTimeline(self.faults)

    def engine(self, algorithm: Algorithm) -> "TimedMemoryEngine":
        """Return the engine that computes the history; its next step is 1."""
        plans = None if algorithm.spec.has_control else self.plans()
        engine: TimedMemoryEngine = load(ENGINE)(algorithm, self.faults, self.costs, self.steps, self.limit, plans)
        return engine

    def plans(self) -> dict[Rank, RankTimetable]:
        """Return the part of each rank in the fault-free timetable."""
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
            rank: RankTimetable(counts.get(rank, {}), starts.get(rank, {}), ends.get(rank, {}))
            for rank in counts.keys() | starts.keys()
        }

    def packed(self) -> dict[Rank, tuple[bytes, bytes]]:
        """Pack the plans of ranks: the receipts of each step (`wire.RECEIPTS`), and the departures (`wire.DEPARTURE`)."""
        return {
            rank: (
                b"".join(RECEIPTS.pack(step, count, plan.ends[step]) for step, count in plan.receipts.items()),
                b"".join(DEPARTURE.pack(step, port, start) for (step, port), start in plan.starts.items()),
            )
            for rank, plan in self.plans().items()
        }


def make_timetable(
    rows: Iterable[bytes | bytearray], model: PortModel, degree: int, costs: LinearCostModel, complete: bool
) -> Timetable:
    """Return the timetable of a fault-free run from its journal rows."""
    # In a fault-free run all rows are arrivals, so every row belongs to a packet that was sent and received.
    records = np.frombuffer(b"".join(rows), dtype=RECORD)
    packets = (
        pl.DataFrame({name: records[name] for name in (*PACKET, "receiver", "bytes")})
        .group_by(*PACKET, "receiver")
        .agg(pl.col("bytes").cast(pl.Int64).sum())
        .sort(*PACKET)
    )
    starts, ends = [], []
    for start, end in _times(packets, model, degree, costs):
        starts.append(start)
        ends.append(end)
    times = {"start": pl.Series(starts, dtype=pl.Int64), "end": pl.Series(ends, dtype=pl.Int64)}
    return Timetable(packets.with_columns(**times), complete)


def _times(packets: pl.DataFrame, model: PortModel, degree: int, costs: LinearCostModel) -> Iterator[tuple[int, int]]:
    """Return start and end of every packet: within a step all departures, then all receipts."""
    ports: dict[Rank, PortOccupancy] = {}
    # Step by step, as the nodes do: `PortOccupancy` wants calls in the order of steps.
    for (step,), group in packets.group_by("step", maintain_order=True):
        # A node received earlier what it sends in a step, so departures do not wait for receipts of the same step.
        crossing = []
        for sender, port, receiver, size in group.select("sender", "port", "receiver", "bytes").iter_rows():
            # Created on first use: many ranks of a large network never send or receive.
            for rank in (sender, receiver):
                if rank not in ports:
                    ports[rank] = PortOccupancy(model, degree)
            duration = costs.nanoseconds(size)
            crossing.append((ports[sender].depart(step, port, duration), duration, receiver))
        for start, duration, receiver in crossing:
            yield start, ports[receiver].arrive(step, start + duration, duration)


def with_starts(journal: pl.LazyFrame, timetable: Timetable) -> pl.LazyFrame:
    """Add the times of each packet in nanoseconds, in the columns `start` and `end`.

    `start` is null for an unplanned packet, `end` also for a lost one.
    """
    planned = timetable.packets.select(*PACKET, "start", "end", is_lost=pl.col("end").is_null())
    # A late packet and one of its own time may be in the same step of a port: then the earlier start counts.
    earliest = planned.lazy().group_by(*PACKET, "is_lost").agg(pl.col("start", "end").min())
    lost = journal.with_columns(is_lost=pl.col("outcome") == "lost")
    return lost.join(earliest, on=[*PACKET, "is_lost"], how="left").drop("is_lost")
