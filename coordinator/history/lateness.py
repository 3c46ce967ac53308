"""The lateness of a run under the timed clock: the times that hosts report, against the times of the timetable."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from coordinator.history.timetable import PACKET, Timetable
from emunode.net.wire import TIME
from emunode.timed.cost_model import NANO

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
            *PACKET, pl.col("intended").alias(name), achieved=pl.col("achieved")
        )
        one = one.unique([*PACKET, name], keep="first", maintain_order=True).rename({"achieved": achieved})
        other += len(one.join(hops, on=[*PACKET, name], how="anti"))
        hops = hops.join(one, on=[*PACKET, name], how="left", maintain_order="left")
    done = hops.filter(pl.col("ended").is_not_null())
    late = pl.concat([done["ended"] - done["end"], (hops["started"] - hops["start"]).drop_nulls()])
    intended, last = (int(done[name].max() or 0) / NANO for name in ("end", "ended"))  # type: ignore[arg-type]
    seconds = hops.select(
        *PACKET, "receiver", "bytes", *(pl.col(name) / NANO for name in ("start", "started", "end", "ended"))
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
