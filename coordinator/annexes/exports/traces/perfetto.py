"""Perfetto's own trace of a run: track events as protocol buffers (https://perfetto.dev/docs/reference/synthetic-track-event).

Below the track of the run lie the tracks of nodes, and below these the tracks of ports, with the packets that they send as
slices. Under the timed clock a second track has the achieved times. Faults and suspicions are instants. Times are
nanoseconds. Slices of one track must nest; a packet that begins before the end of another one is on a further track of the
same name, so that no packet is cut.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from coordinator.annexes.exports.protobuf import part, whole
from coordinator.annexes.exports.traces.events import PacketSpan, TraceEvents, TraceMark
from emunode.model import Port, Rank
from emunode.timed.cost_model import NANO

PACKET: Final = 1
"""Field of the trace; the others are fields of a packet of the trace, of a track, of an event and of an annotation."""
TIMESTAMP, SEQUENCE, EVENT, TRACK = 8, 10, 11, 60
TRACK_ID, TRACK_NAME, TRACK_PARENT, TRACK_ORDER, TRACK_RANK = 1, 2, 5, 11, 12
ANNOTATION, EVENT_TYPE, EVENT_TRACK, CATEGORY, EVENT_NAME = 4, 9, 11, 22, 23
NUMBER, TEXT, ANNOTATION_NAME = 3, 6, 10
BEGIN, END, INSTANT = 1, 2, 3
"""Types of events."""
EXPLICIT: Final = 3
"""Tracks below this one are in the order of their numbers."""
RUN_TRACK: Final = 1


class _Row(NamedTuple):
    """An event: its time in nanoseconds, and its message."""

    at: int
    message: bytes


def perfetto_trace(trace: TraceEvents) -> Iterator[bytes]:
    """Yield the packets of the trace: its tracks, then its events by time."""
    label = trace.topology.label
    title = f"{trace.about['collective']} by {trace.about['algorithm']} on {trace.about['topology']}"
    yield _track(RUN_TRACK, title)
    nodes = {rank: RUN_TRACK + 1 + at for at, rank in enumerate(trace.ranks)}
    for at, (rank, number) in enumerate(nodes.items()):
        yield _track(number, label(rank), RUN_TRACK, at)
    tracks = _PortTracks(nodes)
    rows = [row for achieved in (False, True) for row in _slices(trace, tracks, achieved=achieved)]
    for number, ((rank, port, achieved, _), receiver) in tracks.found.items():
        name = f"port {port} to {label(receiver)}{', achieved' if achieved else ''}"
        yield _track(number, name, nodes[rank], 2 * port + achieved)
    rows += [_instant(mark, nodes[mark.rank]) for mark in trace.marks]
    last = max((row.at for row in rows), default=0)
    about = [_text(name, str(value)) for name, value in trace.about.items() if value is not None]
    yield _event(0, _message(BEGIN, RUN_TRACK, title, "run", about))
    # The sort is stable: an end stays before the beginning of the next slice of its track at the same time.
    for row in sorted(rows, key=lambda row: row.at):
        yield _event(*row)
    yield _event(last, _message(END, RUN_TRACK))


class _PortTracks:
    """The tracks of ports, numbered as they are needed: of slices that overlap each lies on a track of its own."""

    def __init__(self, nodes: dict[Rank, int]) -> None:
        self.found: dict[int, tuple[tuple[Rank, Port, bool, int], Rank]] = {}
        self._first = RUN_TRACK + 1 + len(nodes)
        self._numbers: dict[tuple[Rank, Port, bool], list[int]] = {}
        self._free: dict[int, int] = {}

    def of(self, span: PacketSpan, start: int, end: int, *, achieved: bool) -> int:
        """Return the first track of the port that is free at the start, and occupy it."""
        place = (span.sender, span.port, achieved)
        numbers = self._numbers.setdefault(place, [])
        number = next((each for each in numbers if self._free[each] <= start), None)
        if number is None:
            number = self._first + len(self.found)
            self.found[number] = ((*place, len(numbers)), span.receiver)
            numbers.append(number)
        self._free[number] = end
        return number


def _slices(trace: TraceEvents, tracks: _PortTracks, *, achieved: bool) -> Iterator[_Row]:
    label = trace.topology.label
    for span in trace.spans(achieved=achieved):
        start, end = round(span.start * NANO), round(max(span.start, span.end) * NANO)
        track = tracks.of(span, start, end, achieved=achieved)
        notes = [_text("to", label(span.receiver)), _number("bytes", span.bytes), _number("step", span.step)]
        yield _Row(start, _message(BEGIN, track, f"step {span.step}", span.kind, notes))
        yield _Row(end, _message(END, track))


def _instant(mark: TraceMark, node: int) -> _Row:
    notes = [] if mark.port is None else [_number("port", mark.port)]
    return _Row(round(mark.seconds * NANO), _message(INSTANT, node, mark.name, mark.kind, notes))


def _track(number: int, name: str, parent: int | None = None, place: int = 0) -> bytes:
    message = whole(TRACK_ID, number) + part(TRACK_NAME, name.encode()) + whole(TRACK_ORDER, EXPLICIT)
    if parent is not None:
        message += whole(TRACK_PARENT, parent) + whole(TRACK_RANK, place)
    return part(PACKET, whole(SEQUENCE, 1) + part(TRACK, message))


def _message(kind: int, track: int, name: str = "", category: str = "", notes: list[bytes] | None = None) -> bytes:
    message = whole(EVENT_TYPE, kind) + whole(EVENT_TRACK, track)
    if name:
        message += part(CATEGORY, category.encode()) + part(EVENT_NAME, name.encode())
    return message + b"".join(part(ANNOTATION, note) for note in notes or ())


def _event(at: int, message: bytes) -> bytes:
    return part(PACKET, whole(TIMESTAMP, at) + whole(SEQUENCE, 1) + part(EVENT, message))


def _number(name: str, value: int) -> bytes:
    return part(ANNOTATION_NAME, name.encode()) + whole(NUMBER, value)


def _text(name: str, value: str) -> bytes:
    return part(ANNOTATION_NAME, name.encode()) + part(TEXT, value.encode())
