"""Chrome trace JSON of a run, for Perfetto (ui.perfetto.dev) and chrome://tracing.

A node is a process of the trace, and each of its ports is a thread with the packets that it sends, as complete events: by
intended times and, under the timed clock, in a second thread by the times that were achieved. Faults and suspicions are
instant events. Times are microseconds. In the format, events of one thread must not overlap in part; a packet that a fault
delays beyond the start of the next one is cut there, and states its end among its arguments.
"""

from collections.abc import Iterator
from json import dumps
from typing import Any

from coordinator.annexes.exports.traces.events import PacketSpan, TraceEvents, TraceMark

MICRO = 1_000_000
ACHIEVED = 100_000
"""The number of the thread of a port's achieved times, less the port; larger than any port."""


def chrome_trace(trace: TraceEvents) -> Iterator[bytes]:
    """Yield the lines of the document."""
    yield f'{{"displayTimeUnit":"ms","otherData":{dumps(trace.about)},"traceEvents":[\n'.encode()
    events = _events(trace)
    yield dumps(next(events)).encode()
    for event in events:
        yield b",\n" + dumps(event).encode()
    yield b"\n]}\n"


def _events(trace: TraceEvents) -> Iterator[dict[str, Any]]:
    label = trace.topology.label
    for rank in trace.ranks:
        yield _metadata("process_name", rank, 0, name=label(rank))
        yield _metadata("process_sort_index", rank, 0, sort_index=rank)
    for rank, port, receiver, achieved in trace.links():
        yield _metadata("thread_name", rank, port + 1, name=f"port {port} to {label(receiver)}")
        if achieved:
            yield _metadata(
                "thread_name", rank, ACHIEVED + port + 1, name=f"port {port} to {label(receiver)}, achieved"
            )
    for achieved in (False, True):
        for span in trace.spans(achieved=achieved):
            yield _packet(span, label(span.receiver), ACHIEVED if achieved else 0)
    yield from map(_mark, trace.marks)


def _metadata(kind: str, rank: int, thread: int, **values: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "ts": 0, "args": values}


def _packet(span: PacketSpan, receiver: str, thread: int) -> dict[str, Any]:
    until = span.end if span.following is None else min(span.end, span.following)
    return {
        "ph": "X",
        "name": f"step {span.step}",
        "cat": span.kind,
        "pid": span.sender,
        "tid": thread + span.port + 1,
        "ts": round(span.start * MICRO, 3),
        "dur": round(max(0.0, round(until * MICRO, 3) - round(span.start * MICRO, 3)), 3),
        "args": {"to": receiver, "bytes": span.bytes, "kind": span.kind, "end": round(span.end * MICRO, 3)},
    }


def _mark(mark: TraceMark) -> dict[str, Any]:
    whole_node = mark.port is None
    return {
        "ph": "i",
        "name": mark.name,
        "cat": mark.kind,
        "pid": mark.rank,
        "tid": 0 if mark.port is None else mark.port + 1,
        "ts": round(mark.seconds * MICRO, 3),
        # The scope of the mark: the thread of a port, or the whole node.
        "s": "p" if whole_node else "t",
    }
