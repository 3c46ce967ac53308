"""The timetable of a run under the timed clock: when each packet is sent and received if no host is late.

The memory engine determines which packets cross which link in which step, and `emunode.timed.cost_model` how long each
takes. Each node gets the steps in which it receives packets (`receipts`), as programs for the machines of the papers contain
their receive operations. Hosts compute the times on their own, and must obtain the same ones. The timetable of a run with
faults (`faulty_timetable`) has the packets that these let through, and those that were lost.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from coordinator.history.journal import RECORD
from emunode.model import PortModel, Rank, Step
from emunode.net.wire import TIME
from emunode.timed.cost_model import NANO, LinearCostModel, PortOccupancy

TIME_RECORD = np.dtype(
    [
        ("step", "<i4"),
        ("sender", "<i4"),
        ("port", "<i2"),
        ("ended", "i1"),
        ("intended", "<i8"),
        ("achieved", "<i8"),
    ]
)
assert TIME_RECORD.itemsize == TIME.size
HOP = ("step", "sender", "port")

if TYPE_CHECKING:
    from coordinator.history.faulty_timetable import UnderFaults
    from emunode.timed.event_memory import EventHistory


@dataclass(frozen=True)
class Timetable:
    """Every packet of a run: step, sender, port, receiver, bytes, start and end in nanoseconds; no end if it was lost."""

    packets: pl.DataFrame
    complete: bool
    """Whether the algorithm ends by itself, before the step limit."""
    under: "UnderFaults | None" = None
    """The faults that it is for, and what it was before them; None without faults and protocols."""
    events: "EventHistory | None" = None
    """Suspicions and signs of life of nodes with protocols; None for other runs."""
    crossings: "Mapping[Rank, array[int]] | None" = None
    """By rank, the times at which packets have crossed to it, ascending, if nodes go by arrivals; None for other runs."""

    @property
    def steps(self) -> Step:
        """The last step in which anything is sent."""
        return int(self.packets["step"].max() or 0)  # type: ignore[arg-type]

    @property
    def intended_seconds(self) -> float:
        """Time at which the last packet is received."""
        return int(self.packets["end"].max() or 0) / NANO  # type: ignore[arg-type]

    @property
    def arriving(self) -> pl.DataFrame:
        """The packets that are not lost."""
        return self.packets.filter(pl.col("end").is_not_null())

    def receipts(self) -> Mapping[Rank, bytes]:
        """By rank, the steps of all packets that it receives, ascending, as 4-byte numbers."""
        ordered = self.arriving.select("receiver", pl.col("step").cast(pl.UInt32)).sort("receiver", "step")
        return {
            # Four bytes a step, as the wire carries them.
            rank: array("I", group["step"].to_numpy()).tobytes()
            for (rank,), group in ordered.group_by("receiver", maintain_order=True)
        }

    def times(self) -> bytes:
        """The times as hosts report them on a machine that is never late."""
        return b"".join(
            TIME.pack(step, sender, port, ended, moment, moment)
            for step, sender, port, *moments in self.packets.select(*HOP, "start", "end").iter_rows()
            for ended, moment in enumerate(moments)
            if moment is not None
        )


def make_timetable(
    rows: Iterable[bytes | bytearray], model: PortModel, degree: int, costs: LinearCostModel, complete: bool
) -> Timetable:
    """The timetable of a fault-free run from its journal rows."""
    # In a fault-free run all rows are arrivals, so every row belongs to a packet that was sent and received.
    records = np.frombuffer(b"".join(rows), dtype=RECORD)
    packets = (
        pl.DataFrame({name: records[name] for name in (*HOP, "receiver", "bytes")})
        .group_by(*HOP, "receiver")
        .agg(pl.col("bytes").cast(pl.Int64).sum())
        .sort(*HOP)
    )
    starts, ends = [], []
    for start, end in _times(packets, model, degree, costs):
        starts.append(start)
        ends.append(end)
    times = {"start": pl.Series(starts, dtype=pl.Int64), "end": pl.Series(ends, dtype=pl.Int64)}
    return Timetable(packets.with_columns(**times), complete)


def _times(packets: pl.DataFrame, model: PortModel, degree: int, costs: LinearCostModel) -> Iterator[tuple[int, int]]:
    """Start and end of every packet: within a step all departures, then all receipts."""
    ports: dict[Rank, PortOccupancy] = {}
    # Step by step, as the nodes do: `PortOccupancy` wants calls in the order of steps.
    for (step,), group in packets.group_by("step", maintain_order=True):
        # What a node sends in a step it received earlier, so departures do not wait for receipts of the same step.
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


# --- lateness ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LatenessReport:
    """Intended and achieved times of a timed run, in seconds."""

    hops: pl.DataFrame
    """One row per packet: step, sender, port, receiver, bytes; start and end as intended, started and ended as achieved."""
    metrics: dict[str, int | float | tuple[int, ...]]
    unexpected: str | None
    """Why the intended times differ from the timetable, or None."""


def judge_times(timetable: Timetable, times: Iterable[bytes]) -> LatenessReport:
    """Compare the times that hosts reported with the timetable; unfinished packets have null times."""
    records = np.frombuffer(b"".join(times), dtype=TIME_RECORD)
    reported = pl.DataFrame({name: records[name] for name in TIME_RECORD.names or ()})
    hops, other = timetable.packets, 0
    for ended, name, achieved in ((0, "start", "started"), (1, "end", "ended")):
        # By the intended time as well: under faults a step may have a packet that was lost and a late one by the same port.
        one = reported.filter(pl.col("ended") == ended).select(
            *HOP, pl.col("intended").alias(name), achieved=pl.col("achieved")
        )
        one = one.unique([*HOP, name], keep="first", maintain_order=True).rename({"achieved": achieved})
        other += len(one.join(hops, on=[*HOP, name], how="anti"))
        hops = hops.join(one, on=[*HOP, name], how="left", maintain_order="left")
    done = hops.filter(pl.col("ended").is_not_null())
    late = pl.concat([done["ended"] - done["end"], (hops["started"] - hops["start"]).drop_nulls()])
    intended, last = (int(done[name].max() or 0) / NANO for name in ("end", "ended"))  # type: ignore[arg-type]
    seconds = hops.select(
        *HOP, "receiver", "bytes", *(pl.col(name) / NANO for name in ("start", "started", "end", "ended"))
    )
    metrics: dict[str, int | float | tuple[int, ...]] = {
        "intended_seconds": timetable.intended_seconds,
        "achieved_seconds": last,
        "lateness_ratio": last / intended - 1 if intended else 0.0,
        "worst_lateness_seconds": int(late.max() or 0) / NANO,  # type: ignore[arg-type]
        "mean_lateness_seconds": float(late.mean() or 0.0) / NANO,  # type: ignore[arg-type]
        "early_hops": int((late < 0).sum()),
        "packets_per_ms": len(done) / (1000 * intended) if intended else 0.0,
    }
    reason = None
    due = len(timetable.arriving)
    if other:
        reason = f"{other} packets had other intended times than the timetable"
    elif len(done) < due:
        reason = f"{due - len(done)} packets of {due} never arrived"
    return LatenessReport(seconds, metrics, reason)
