"""Packets with their times, and the trace that other programs read."""

import json
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coordinator.annexes.exports.space_time.chart import CIRCLE
from coordinator.annexes.exports.space_time.packet_times import packet_times
from coordinator.annexes.exports.space_time.panel import space_time_panel
from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from tests.helpers.command_line import Call, fields
from tests.helpers.support import run_scenario

Values = dict[str, object]
CUBE = "hypercube:3 broadcast sbt segments=3 startup=1ms per_byte=0s"
SCENARIOS: dict[str, Values] = {
    "steps": fields(CUBE, fault=["crash:001@3", "duplicate:000>010:1"]),
    "timed": fields(f"{CUBE} clock=timed", fault=["crash:001@2.5ms", "slow:010:2", "delay:000>100:2", "jitter:*:0.1"]),
    "plain": fields(f"{CUBE} clock=timed"),
    "reliable": fields("hypercube:3 broadcast sbt reliable=true", fault=["drop:000>001:1"]),
    "detect": fields(
        f"{CUBE} clock=timed fault_knowledge=detect:1 keep_alive=3ms reliable=true",
        fault=["crash:001@0s", "slow:010:4"],
    ),
    "silent": fields("hypercube:3 broadcast sbt startup=1ms clock=timed", fault=["crash:000@0s"]),
}


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_trace_keeps_the_rules_of_its_format(name: str, call: Call, tmp_path: Path) -> None:
    """As in the description of the format: known phases, numbers, named processes and threads, events that nest."""
    run_scenario(tmp_path / "run", **SCENARIOS[name])
    assert call("export run --trace t.json").status == 0
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    names: dict[str, set[tuple[int, int]]] = defaultdict(set)
    threads: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert {"ph", "pid", "tid", "ts", "name"} <= event.keys()
        assert all(type(event[key]) is int and event[key] >= 0 for key in ("pid", "tid"))
        assert type(event["ts"]) in (int, float)
        assert event["ts"] >= 0
        place = (event["pid"], event["tid"])
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name")
            names[event["name"]].add(place)
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            threads[place].append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["ph"] == "i"
            assert event["s"] in ("g", "p", "t")
    assert threads.keys() <= names["thread_name"]
    assert {pid for pid, _ in threads} <= {pid for pid, _ in names["process_name"]}
    for events in threads.values():
        events.sort()
        assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(events))


def events_of(tmp_path: Path, call: Call, values: Values) -> list[dict[str, Any]]:
    run_scenario(tmp_path / "run", **values)
    assert call("export run --trace t.json --json").data == {"written": {"trace": "t.json"}}
    events: list[dict[str, Any]] = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    return events


def test_a_trace_has_every_packet_and_fault_at_its_time(call: Call, tmp_path: Path) -> None:
    events = events_of(tmp_path, call, SCENARIOS["timed"])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    sent = [event for event in events if event["ph"] == "X" and event["tid"] < 1000]
    assert len(sent) == summary["packets"]
    assert sum(event["cat"] == "lost" for event in sent) == 3, "one to the node that crashes and two from it"
    marks = {event["name"]: event["ts"] for event in events if event["ph"] == "i"}
    assert marks["crash 001"] == 2500
    assert marks["slow 010"] == 0
    assert max(event["args"]["end"] for event in sent) == pytest.approx(summary["intended_seconds"] * 1e6, abs=0.01)
    ahead = [event for event in events if event["ph"] == "X" and event["tid"] > 1000]
    assert len(ahead) == len(sent), "in memory every packet was achieved at its time"


def test_packets_of_lockstep_begin_with_their_steps(tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **SCENARIOS["steps"])
    packets = packet_times(read_run(tmp_path / "run"))
    assert packets is not None
    assert packets["start"].to_list() == pytest.approx([(step - 1) * 1e-3 for step in packets["step"]])
    assert (packets["end"] - packets["start"]).to_list() == pytest.approx([1e-3] * len(packets))
    assert set(packets["kind"]) == {"packet", "lost", "again"}, "what arrives twice is forwarded twice"


def test_what_is_sent_again_and_what_carries_no_data_is_marked(tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **SCENARIOS["reliable"])
    packets = packet_times(read_run(tmp_path / "run"))
    assert packets is not None
    # Seven acknowledgements, one for each node; the last one crosses a step after all data.
    kinds = dict(packets["kind"].value_counts().iter_rows())
    assert (kinds["lost"], kinds["again"], kinds["control"]) == (1, 1, 7)


def test_a_withheld_packet_is_a_circle_at_its_sender(tmp_path: Path) -> None:
    """It never left, so no line leads to its receiver; the journal has it with the step when it was due."""
    run_scenario(tmp_path / "run", **fields(f"{CUBE} fault_knowledge=detect:1", fault=["crash:001@1"]))
    data = read_run(tmp_path / "run")
    packets = packet_times(data)
    assert packets is not None
    assert data.journal is not None
    withheld = packets.filter(kind="withheld")
    kept = data.journal.filter(outcome="withheld").select("step", "sender").collect()
    assert sorted(withheld.select("step", "sender").iter_rows()) == sorted(kept.unique().iter_rows()) != []
    assert withheld["start"].to_list() == withheld["end"].to_list()
    wide = str(space_time_panel(Report(data))).partition("narrow")[0]
    assert wide.count(CIRCLE) == len(withheld)
    assert len(re.findall(r"M[0-9.]+ [0-9.]+L", wide)) == len(packets) - len(withheld)


def test_packets_with_altered_segments_have_their_own_colour(tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **fields("star:3 broadcast edt redundancy=2 fault=byzantine:213"))
    data = read_run(tmp_path / "run")
    packets = packet_times(data)
    assert packets is not None
    assert data.journal is not None
    forged = data.journal.filter(outcome="corrupt").select("step", "sender", "port").unique().collect()
    altered = packets.filter(kind="altered").select("step", "sender", "port")
    assert sorted(altered.iter_rows()) == sorted(forged.iter_rows()) != []
    panel = str(space_time_panel(Report(data)))
    (path,) = re.findall(r'stroke="var\(--purple\)" stroke-width="1.2" d="([^"]*)"', panel.partition("narrow")[0])
    assert path.count("L") == len(forged)
    assert "with altered segments" in panel


def test_the_diagram_has_lines_for_packets_and_bars_for_faults(tmp_path: Path) -> None:
    run_scenario(tmp_path / "run", **SCENARIOS["timed"])
    data = read_run(tmp_path / "run")
    panel = str(space_time_panel(Report(data)))
    packets = packet_times(data)
    assert packets is not None
    wide = panel.partition("narrow")[0]
    lines = re.findall(r"M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)", wide)
    assert len(lines) == len(packets)
    # A line leads from the row of its sender to that of its receiver.
    rows = {rank: 30 + 18 * rank + 9 for rank in range(8)}
    drawn = Counter((float(one), float(other)) for _, one, _, other in lines)
    pairs = packets.select("sender", "receiver").iter_rows()
    assert drawn == Counter((rows[sender], rows[receiver]) for sender, receiver in pairs)
    assert all(float(left) <= float(right) for left, _, right, _ in lines)
    assert "crash 001" in wide
    assert "slow 010" in wide
