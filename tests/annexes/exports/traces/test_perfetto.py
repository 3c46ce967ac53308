"""Perfetto's own traces, read by a decoder of the test and by the library of Perfetto if it is installed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.annexes.exports.traces.events import TraceEvents
from coordinator.annexes.exports.traces.perfetto import perfetto_trace
from coordinator.reports.data import RunData, read_run
from tests.annexes.exports.traces.test_chrome import SCENARIOS as EVERY_SCENARIO
from tests.helpers.command_line import Call
from tests.helpers.support import run_scenario

SCENARIOS = {name: values for name, values in EVERY_SCENARIO.items() if name in ("steps", "timed", "silent", "detect")}
Fields = Mapping[int, list[Any]]


def decoded(data: bytes) -> Fields:
    """Decode a message without a schema: number of the field -> values."""
    found: dict[int, list[Any]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        assert key & 7 in (0, 2), "only numbers and parts are written"
        value = number()
        if key & 7 == 2:
            assert at + value <= len(data)
            found.setdefault(key >> 3, []).append(data[at : at + value])
            at += value
        else:
            found.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return found


class DecodedTrace:
    """Tracks by number (name, parent), and events in their order (time, type, track, name, category, notes)."""

    def __init__(self, data: bytes) -> None:
        self.tracks: dict[int, tuple[str, int | None]] = {}
        self.events: list[tuple[int, int, int, str, str, dict[str, Any]]] = []
        for packet in map(decoded, decoded(data)[1]):
            assert packet[10] == [1]
            if 60 in packet:
                track = decoded(packet[60][0])
                (number,), (name,) = track[1], track[2]
                assert number not in self.tracks
                self.tracks[number] = (name.decode(), track.get(5, [None])[0])
                continue
            event, (at,) = decoded(packet[11][0]), packet[8]
            notes = dict(self._note(decoded(note)) for note in event.get(4, []))
            name, category = (event.get(key, [b""])[0].decode() for key in (23, 22))
            self.events.append((at, event[9][0], event[11][0], name, category, notes))

    @staticmethod
    def _note(note: Fields) -> tuple[str, object]:
        return note[10][0].decode(), note[3][0] if 3 in note else note[6][0].decode()

    def slices(self) -> Iterator[tuple[str, str, str, str, int, int, dict[str, Any]]]:
        """Yield the slices of ports: node, track, name, category, begin, end, notes; one after the other on each track."""
        open_slices: dict[int, tuple[Any, ...]] = {}
        for at, kind, track, *about in self.events:
            assert track in self.tracks
            if kind == 1:
                assert track not in open_slices
                open_slices[track] = (at, *about)
            elif kind == 2:
                begin, name, category, notes = open_slices.pop(track)
                label, parent = self.tracks[track]
                if parent is not None:
                    yield self.tracks[parent][0], label, name, category, begin, at, notes
        assert not open_slices


def trace_of(path: Path, values: dict[str, object]) -> tuple[RunData, bytes]:
    run_scenario(path, **values)
    data = read_run(path)
    return data, b"".join(perfetto_trace(TraceEvents(data)))


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_slices_are_the_packets_of_the_journal(name: str, tmp_path: Path) -> None:
    data, content = trace_of(tmp_path / "run", SCENARIOS[name])
    assert data.journal is not None
    assert data.topology is not None
    sent = (
        data.journal.filter(pl.col("outcome").cast(pl.String) != "withheld")
        .group_by("step", "sender", "port", "receiver", lost=pl.col("outcome").cast(pl.String) == "lost")
        .agg(pl.col("bytes").cast(pl.Int64).sum())
        .collect()
    )
    label = data.topology.label
    journal = Counter(
        (label(sender), f"port {port} to {label(receiver)}", label(receiver), f"step {step}", size, lost)
        for step, sender, port, receiver, lost, size in sent.iter_rows()
    )
    traced = Counter(
        (node, track, notes["to"], step, notes["bytes"], kind == "lost")
        for node, track, step, kind, begin, end, notes in DecodedTrace(content).slices()
        if not track.endswith("achieved") and kind != "withheld"
    )
    assert traced == journal


def test_times_are_those_of_the_timeline_to_the_nanosecond(tmp_path: Path) -> None:
    data, content = trace_of(tmp_path / "run", SCENARIOS["timed"])
    assert data.timeline is not None
    assert data.topology is not None
    label = data.topology.label
    rows = data.timeline.filter(pl.col("end").is_not_null()).select("sender", "port", "step", "start", "end").unique()
    expected = Counter(
        (label(sender), f"port {port}", f"step {step}", round(start * 1e9), round(end * 1e9))
        for sender, port, step, start, end in rows.iter_rows()
    )
    drawn = Counter(
        (node, track.partition(" to ")[0], step, begin, end)
        for node, track, step, kind, begin, end, _ in DecodedTrace(content).slices()
        if not track.endswith("achieved") and kind != "lost"
    )
    assert drawn == expected
    names = [name for name, _ in DecodedTrace(content).tracks.values()]
    assert len(set(names)) < len(names), "a packet that a fault delays lies on a further track, not cut"


def test_faults_and_suspicions_are_marks_of_their_nodes(tmp_path: Path) -> None:
    data, content = trace_of(tmp_path / "run", SCENARIOS["detect"])
    trace = DecodedTrace(content)
    marks = [
        (trace.tracks[track][0], name, category, at) for at, kind, track, name, category, _ in trace.events if kind == 3
    ]
    assert ("001", "crash 001", "fault", 0) in marks
    suspicions = [(each["label"], round(each["seconds"] * 1e9)) for each in data.suspicions]
    assert sorted((node, at) for node, _, kind, at in marks if kind == "suspicion") == sorted(suspicions) != []


@pytest.mark.parametrize("ending", ["pftrace", "perfetto-trace"])
def test_the_ending_chooses_the_format(ending: str, call: Call, tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **SCENARIOS["steps"])
    assert call(f"export run --trace t.{ending}").status == 0
    trace = DecodedTrace((tmp_path / f"t.{ending}").read_bytes())
    (run,) = [notes for _, kind, track, _, _, notes in trace.events if kind == 1 and trace.tracks[track][1] is None]
    assert run["topology"] == "hypercube:3"
    assert len(run["journal_hash"]) == 32


def test_another_ending_is_refused(call: Call, tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **SCENARIOS["silent"])
    refused = call("export run --trace t.txt")
    assert refused.status == 2
    assert ".json, .pftrace, .perfetto-trace" in refused.err
    assert not (tmp_path / "t.txt").exists()


def test_the_library_of_perfetto_reads_the_same(tmp_path: Path) -> None:
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    _, content = trace_of(tmp_path / "run", SCENARIOS["timed"])
    ours, theirs = DecodedTrace(content), schema.Trace.FromString(content)
    events = [packet for packet in theirs.packet if packet.HasField("track_event")]
    assert [
        (packet.timestamp, packet.track_event.type, packet.track_event.track_uuid, packet.track_event.name)
        for packet in events
    ] == [event[:4] for event in ours.events]
    notes = [
        {note.name: note.string_value or note.uint_value for note in packet.track_event.debug_annotations}
        for packet in events
    ]
    assert notes == [event[5] for event in ours.events]
    tracks = [packet.track_descriptor for packet in theirs.packet if packet.HasField("track_descriptor")]
    assert {track.uuid: (track.name, track.parent_uuid or None) for track in tracks} == ours.tracks
    theirs.DiscardUnknownFields()
    assert theirs.ByteSize() == len(content), "every field is known"
