"""Chrome trace JSON of a run, for Perfetto (ui.perfetto.dev) and chrome://tracing.

A node is a process of the trace, and each of its ports is a thread with the packets that it sends, as complete events: by
intended times and, under the timed clock, in a second thread by the times that were achieved. Faults and suspicions are
instant events. Times are microseconds. In the format, events of one thread must not overlap in part; a packet that a fault
delays beyond the start of the next one is cut there, and states its end among its arguments.
"""

from collections.abc import Iterator
from json import dumps
from typing import Any

import polars as pl

from coordinator.reports.data import RunData
from coordinator.reports.packet_times import packet_times, suspicion_words
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

MICRO = 1_000_000
ACHIEVED = 100_000
"""The number of the thread of a port's achieved times, less the port; larger than any port."""
INTERVALS = (("start", "end", 0), ("started", "ended", ACHIEVED))


def trace_of_run(data: RunData) -> Iterator[str]:
    """Yield the lines of the document. Raises ScenarioError (field `run`) if the network or the journal is not
    available.
    """
    packets = packet_times(data)
    if data.topology is None or packets is None:
        raise ScenarioError("run", str(data.path), "its network or journal is missing; " + data.reasons)
    about = {key: data.get(key) for key in ("topology", "collective", "algorithm", "clock", "journal_hash")}
    yield f'{{"displayTimeUnit":"ms","otherData":{dumps(about)},"traceEvents":[\n'
    events = _events(data.topology, packets, data.faults, data.suspicions)
    yield dumps(next(events))
    for event in events:
        yield ",\n" + dumps(event)
    yield "\n]}\n"


def _events(
    topology: Topology, packets: pl.DataFrame, faults: list[dict[str, Any]], suspicions: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    named = packets.select(rank=pl.concat_list("sender", "receiver").explode()).unique().sort("rank")["rank"].to_list()
    placed = [fault.get("rank", fault.get("sender")) for fault in faults]
    suspicions = [each for each in suspicions if _is_placed(topology, each)]
    placed += [each["rank"] for each in suspicions]
    for rank in sorted({*named, *(rank for rank in placed if isinstance(rank, int)), 0}):
        yield _metadata("process_name", rank, 0, name=topology.label(rank))
        yield _metadata("process_sort_index", rank, 0, sort_index=rank)
    used = packets.select("sender", "port", "receiver", achieved=pl.col("started").is_not_null())
    for rank, port, receiver, achieved in used.unique().sort("sender", "port", "achieved").iter_rows():
        label = topology.label(receiver)
        yield _metadata("thread_name", rank, port + 1, name=f"port {port} to {label}")
        if achieved:
            yield _metadata("thread_name", rank, ACHIEVED + port + 1, name=f"port {port} to {label}, achieved")
    for began, ended, thread in INTERVALS:
        yield from _packets(topology, packets.filter(pl.col(began).is_not_null()), began, ended, thread)
    for each in suspicions:
        yield {
            "ph": "i",
            "name": suspicion_words(each),
            "cat": "suspicion",
            "pid": each["rank"],
            "tid": each["port"] + 1,
            "ts": round(float(each["seconds"]) * MICRO, 3),
            "s": "t",
        }
    for fault, rank in zip(faults, placed, strict=False):
        if isinstance(rank, int):
            yield _fault(fault, rank, packets)


def _is_placed(topology: Topology, suspicion: dict[str, Any]) -> bool:
    """Return whether an entry of suspicions.json names a node, a port and a time."""
    rank, port, seconds = (suspicion.get(key) for key in ("rank", "port", "seconds"))
    if not (isinstance(rank, int) and isinstance(port, int) and isinstance(seconds, int | float)):
        return False
    return 0 <= rank < topology.order and port >= 0


def _metadata(kind: str, rank: int, thread: int, **values: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "ts": 0, "args": values}


def _packets(
    topology: Topology, packets: pl.DataFrame, began: str, ended: str, thread: int
) -> Iterator[dict[str, Any]]:
    """Yield the packets as complete events; a packet without an achieved end gets the duration 0."""
    ordered = packets.sort("sender", "port", began).with_columns(
        following=pl.col(began).shift(-1).over("sender", "port"), last=pl.coalesce(ended, began)
    )
    columns = ("sender", "port", "receiver", "step", "bytes", "kind", began, "last", "following")
    for rank, port, receiver, step, size, kind, start, end, following in ordered.select(columns).iter_rows():
        until = end if following is None else min(end, following)
        yield {
            "ph": "X",
            "name": f"step {step}",
            "cat": kind,
            "pid": rank,
            "tid": thread + port + 1,
            "ts": round(start * MICRO, 3),
            "dur": round(max(0.0, round(until * MICRO, 3) - round(start * MICRO, 3)), 3),
            "args": {"to": topology.label(receiver), "bytes": size, "kind": kind, "end": round(end * MICRO, 3)},
        }


def _fault(fault: dict[str, Any], rank: int, packets: pl.DataFrame) -> dict[str, Any]:
    """Return a fault at its time; in lock-step at the beginning of its step."""
    seconds = fault.get("seconds")
    if not isinstance(seconds, int | float):
        later = packets.filter(pl.col("step") >= fault.get("step", 0))["start"].min()
        seconds = later if isinstance(later, float) else packets["end"].max() or 0.0
    port = fault.get("port")
    return {
        "ph": "i",
        "name": f"{fault.get('kind')} {fault.get('label')}",
        "cat": "fault",
        "pid": rank,
        "tid": port + 1 if isinstance(port, int) else 0,
        "ts": round(float(seconds) * MICRO, 3),  # type: ignore[arg-type]
        # The scope of the mark: the thread of a port, or the whole node.
        "s": "t" if isinstance(port, int) else "p",
    }
