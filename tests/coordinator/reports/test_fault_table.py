"""Effects of faults in a report: their descriptions and the nodes that faults cut off."""

import json
from pathlib import Path

import polars as pl
import pytest

from coordinator.reports.data import RunData, read_run
from coordinator.reports.fault_table import fault_table
from coordinator.reports.panels.faults import cut_off
from coordinator.reports.scene.votes import votes_of
from emunode.terminal import plural
from emunode.topologies.registry import parse_topology
from tests.helpers.report_runs import (
    ALLGATHER,
    GATHER,
    STAR4,
    Run,
    Runs,
)


def test_faults_are_described_in_words() -> None:
    records: list[dict[str, object]] = [
        {"kind": "crash", "step": 2, "rank": 1, "label": "2134", "last": None, "seen": 3},
        {"kind": "recover", "step": 5, "rank": 1, "label": "2134", "last": None, "seen": None},
        {"kind": "crash", "step": 6, "rank": 1, "label": "2134", "last": None, "seen": None},
        {"kind": "loss", "step": 1, "sender": 0, "port": 1, "label": "1>2", "rate": 0.25, "last": 9, "seen": 1},
        {"kind": "delay", "step": 1, "sender": 0, "port": 2, "label": "1>3", "steps": 1, "last": None, "seen": None},
        {"kind": "down", "step": 3, "sender": 0, "port": 2, "label": "1>3", "last": 8, "seen": 4},
        {"kind": "up", "step": 7, "sender": 0, "port": 2, "label": "1>3", "last": None, "seen": 7},
        {"kind": "drop", "step": 1, "sender": 0, "port": 0, "label": "1>4", "packet": 3, "last": None, "seen": None},
        {"kind": "crash", "step": 1, "rank": 9, "label": "4321"},  # format of older runs
    ]
    table = fault_table(RunData(Path(), "run", faults=records))
    assert [row["words"] for row in table] == [
        "to the end of step 4; first effect in step 3",
        "no effect observed",
        "until the end; no effect observed",
        "with probability 0.25; to the end of step 9; first effect in step 1",
        "by 1 step; until the end; it touched no packet",
        "to the end of step 6; first effect in step 4",
        "first effect in step 7",
        "packet number 3; until the end; it touched no packet",
        "",
    ]
    assert {row["step"] for row in table} == {"1", "2", "3", "5", "6", "7"}


def test_a_crash_that_cuts_nodes_off_has_an_effect() -> None:
    """A leaf of a tree that crashed lost no packet, but the nodes behind it received nothing."""
    records: list[dict[str, object]] = [
        {"kind": "crash", "step": 2, "rank": 1, "label": name, "last": None, "seen": None} for name in ("4231", "2134")
    ]
    summary = {"cut_off": [{"label": "2341", "because": "crash:4231@2"}]}
    table = fault_table(RunData(Path(), "run", summary=summary, faults=records))
    assert [row["words"] for row in table] == [
        "until the end; 1 node cut off",
        "until the end; no effect observed",
    ]


def test_an_effect_of_a_fault_is_also_what_was_not_sent(runs: Runs) -> None:
    run = runs("star:4 broadcast greedy-tree fault=crash:4231@2")
    free = runs("star:4 broadcast greedy-tree")
    star = parse_topology("star:4")
    due = (
        free.journal.filter(pl.col("sender") == star.rank("4231"), pl.col("step") >= 2).select("step", "port").unique()
    )
    cut = run.summary["cut_off_count"]
    assert len(due) > 0
    assert cut > 0
    data = read_run(run.path)
    (row,) = fault_table(data)
    unsent = f"{plural(len(due), 'packet')} {'was' if len(due) == 1 else 'were'} never sent"
    assert row["words"].endswith(f"{unsent}; {plural(cut, 'node')} cut off")
    assert "no effect observed" not in row["words"]


LOSSY = {
    "crash": f"{STAR4} fault=crash:2134@1",
    "crashes": f"{STAR4} fault=crash:2134@1 fault=crash:3214@2",
    "link": f"{STAR4} fault=down:1234~2134@1",
    "messages": f"{STAR4} messages=3 segments=2 fault=down:1234~2134@3",
    "scatter": "star:4 scatter balanced-tree fault=crash:3214@2",
    "gather": f"{GATHER} fault=crash:3214@2",
    "allgather": f"{ALLGATHER} fault=crash:3214@4",
    "byzantine": f"{STAR4} fault=byzantine:2134",
    "voting": "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "whole": STAR4,
}


@pytest.mark.parametrize("name", LOSSY)
def test_cut_off_nodes_are_listed_with_their_cause(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", LOSSY[name])
    nodes = run.summary.pop("cut_off")
    labels = [node["label"] for node in nodes]
    assert bool(labels) == (name != "whole")
    assert ("cut-off" in run.page.ids) == bool(labels)
    causes = dict.fromkeys(node["because"] for node in nodes)
    for cause in causes:
        words = ", ".join(node["label"] for node in nodes if node["because"] == cause)
        assert f"by {cause}: {words}" in run.page.text if cause else words in run.page.text
    assert len(causes) == (2 if name == "crashes" else bool(labels))
    assert [label for label, _ in cut_off(read_run(run.path), votes_of(read_run(run.path))).nodes] == labels
    del run.summary["cut_off_count"]
    (run.path / "summary.json").write_text(json.dumps(run.summary))
    data = read_run(run.path)
    found = cut_off(data, votes_of(data))
    assert [label for label, _ in found.nodes] == labels
    assert found.count == len(labels)
