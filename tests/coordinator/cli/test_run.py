"""`coordinator run`, `plan`, `list`, `report` and `export`: what they print and which files they leave."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from coordinator.cli import render
from coordinator.cli.app import LISTS
from coordinator.planning import machine
from coordinator.scenario.blocks import BLOCK_KINDS
from coordinator.scenario.fault_sets import STRATEGIES
from emunode.algorithms.registry import registered
from emunode.faults.kinds import KINDS
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from tests.command_line import Call

GREEDY = "--topology star:4 --collective broadcast --algorithm greedy-tree"
STAR = f"{GREEDY} --driver memory"
FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


# --- run -------------------------------------------------------------------------------------------------------------


def test_a_run_prints_claims_deliveries_and_its_directory(call: Call, tmp_path: Path) -> None:
    ended = call(f"run {STAR} --source 1234")
    assert (ended.status, ended.err) == (0, "")
    (folder,) = (tmp_path / "runs" / "star-4-broadcast-greedy-tree").glob("2*")
    for part in (
        "permutation star graph S_4, 24 nodes, in memory",
        "broadcast from 1234 by greedy-tree, all-port, 1 message of 64 bytes",
        "Tseng-Sheu 1997",
        "delivered 23 of 23 in 4 steps with 23 packets",
        "verdict: holds",
        f"run directory: {folder.relative_to(tmp_path)}",
    ):
        assert part in ended.out
    names = {path.name for path in folder.iterdir()}
    assert names >= {"scenario.toml", "summary.json", "faults.json", "log.jsonl"}
    assert names >= {f"{table}.parquet" for table in ("journal", "nodes", "links", "steps")}
    assert (folder.parent / "latest").readlink() == Path(folder.name)


def test_json_is_the_summary(call: Call, tmp_path: Path) -> None:
    ended = call(f"run {STAR} --json --out here")
    assert (ended.status, ended.err) == (0, "")
    summary = json.loads((tmp_path / "here" / "summary.json").read_text())
    assert ended.data == {**summary, "path": str(tmp_path / "here")}
    assert set(ended.data) >= {
        "topology", "order", "degree", "collective", "algorithm", "port_model", "driver", "clock", "seed", "redundancy",
        "steps", "packets", "segments", "bytes", "max_link_segments_per_step", "expected_deliveries", "deliveries",
        "intact_deliveries", "delivery_ratio", "duplicates", "virtual_seconds", "wall_seconds", "setup_seconds",
        "links_opened", "journal_hash", "verdict", "claims",
    }  # fmt: skip
    for claim in ended.data["claims"]:
        assert set(claim) == {"name", "predicted", "measured", "relation", "verdict", "ratio", "source", "derived"}


def test_connections_are_counted(call: Call) -> None:
    ended = call(f"run {GREEDY} --driver local")
    assert ended.status == 0
    assert "S_4, 24 nodes, 36 TCP connections, " in ended.out


def test_a_file_is_run_and_flags_override_it(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'topology = "star:4"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\ndriver = "memory"\nseed = 3\n'
    )
    assert call("run mine.toml --json").data["seed"] == 3
    assert call("run mine.toml --seed 4 --json").data["seed"] == 4
    again = call("run --scenario mine.toml --algorithm flood --json").data
    assert (again["seed"], again["algorithm"]) == (3, "flood")


@pytest.mark.parametrize(
    ("faults", "kinds"),
    [
        ("--fault crash:2134@2 --fault crash:4321@3", ["crash:2134@2", "crash:4321@3"]),
        ("--fault 'random:nodes=1;links=1@1' --seed 3", ["crash", "down"]),
    ],
    ids=["given", "drawn"],
)
def test_the_scenario_of_a_run_gives_the_same_faults_and_history(call: Call, faults: str, kinds: list[str]) -> None:
    first = call(f"run {STAR} {faults} --out one --json").data
    again = call("run one/scenario.toml --json").data
    assert [fault[: len(kind)] for fault, kind in zip(first["faults"], kinds, strict=True)] == kinds
    assert again["faults"] == first["faults"]
    assert again["journal_hash"] == first["journal_hash"]


def test_labels_may_begin_with_a_minus(call: Call) -> None:
    ej = "--topology ej:2+3 --collective broadcast --algorithm improved --driver memory"
    assert call(f"run {ej} --source -1,0 --json").data["source"] == "-1,0"
    assert call(f"run {ej} --source=-1,0 --json --fault crash:-1,1@1").data["faults"] == ["crash:-1,1@1"]


def test_paths_may_look_like_markup_or_patterns(call: Call, tmp_path: Path) -> None:
    ended = call(f"run {FLOOD} --out", "[/red]*?[bold]")
    assert ended.status == 0
    assert f"run directory: {tmp_path / '[/red]*?[bold]'}" in ended.out


def test_report_and_export_print_the_files_that_they_write(call: Call, tmp_path: Path) -> None:
    path = call(f"run {FLOOD} --json").data["path"]
    assert call("report --json", path).data == {"written": str(tmp_path / path / "report.html")}
    assert call("export --graphml a.graphml --goal a.goal --json", path).data == {
        "written": {"graphml": "a.graphml", "goal": "a.goal"}
    }
    assert call("export --graphml b.graphml", path).out == "wrote graphml: b.graphml\n"
    assert call("export --topology star:3 --graphml c.graphml").out == "wrote graphml: c.graphml\n"
    assert all((tmp_path / name).stat().st_size for name in ("a.graphml", "a.goal", "b.graphml", "c.graphml"))


# --- plan ------------------------------------------------------------------------------------------------------------


def test_a_plan_has_resources_and_claims(call: Call, tmp_path: Path) -> None:
    ended = call(f"plan {GREEDY} --ranks-per-host 6 --json")
    assert ended.status == 0
    needs = ended.data
    expected = {
        "order": 24, "degree": 3, "diameter": 4, "processes": 6, "hosts": 4, "ranks_per_host": 6, "links": 36,
        "descriptors_per_host": 6 * 3 + machine.RESERVED_DESCRIPTORS, "listening_ports": 5,
    }  # fmt: skip
    assert {key: needs[key] for key in expected} == expected
    assert 0 < needs["links_across_hosts"] < 36
    assert needs["memory_bytes"] < needs["memory_available_bytes"]
    assert {"name": "segments", "predicted": 23, "relation": "=="}.items() <= needs["claims"][1].items()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_printed(call: Call) -> None:
    ended = call(f"plan {STAR}")
    assert (ended.status, ended.err) == (0, "")
    assert "permutation star graph S_4: broadcast by greedy-tree, driver memory" in ended.out
    assert "receivers per step" in ended.out


def test_a_large_network_is_planned_without_building_it(call: Call) -> None:
    large = call("plan --topology star:8 --collective broadcast --algorithm greedy-tree --driver memory --json").data
    assert (large["order"], large["links"], large["processes"]) == (40_320, 0, 1)


def test_an_impossible_plan_has_all_claims_and_the_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 100)
    ended = call(f"plan {GREEDY} --ranks-per-host 24 --json")
    assert ended.status == 4
    assert ended.data["descriptor_limit"] == 100
    assert ended.data["claims"]
    assert ended.data["possible"] is False
    assert "use --ranks-per-host 12 or less" in ended.data["impossible_because"]
    assert ended.err == f"coordinator: {ended.data['impossible_because']}\n"
    monkeypatch.setattr(machine, "descriptor_limit", lambda: 65)  # no room for a single node
    printed = call(f"plan {GREEDY}")
    assert printed.status == 4
    assert "receivers per step" in printed.out
    assert "file descriptors" in printed.err


def test_the_memory_of_many_messages_is_estimated(call: Call) -> None:
    few, many = (call(f"plan {STAR} --messages {count} --json").data for count in (1, 1_000_000))
    assert many["memory_bytes"] - few["memory_bytes"] > 23 * 999_999 * 300


# --- list ------------------------------------------------------------------------------------------------------------


def test_topologies_are_listed_with_an_example(call: Call) -> None:
    rows = call("list topologies --json").data
    assert [row["family"] for row in rows] == list(FAMILIES)
    for row in rows:
        topology = parse_topology(row["example"])
        assert (row["order"], row["degree"], row["diameter"]) == (topology.order, topology.degree, topology.diameter)


def test_every_algorithm_is_listed_once(call: Call) -> None:
    rows = call("list algorithms --json").data
    listed = {(row["topology"], row["collective"], row["algorithm"]) for row in rows}
    assert listed == {(entry.family, str(entry.collective), entry.name) for _, entry in registered()}
    assert all(row["citation"] and row["port_models"] for row in rows)
    assert len(listed) == len(rows)


def test_every_fault_is_listed(call: Call) -> None:
    rows = call("list faults --json").data
    for use, names in (("fault", KINDS), ("block", BLOCK_KINDS), ("strategy", STRATEGIES)):
        assert [row["kind"] for row in rows if row["use"] == use] == list(names)
    text = call("list faults").out
    # None of them is taken for an emoji, such as `:label:`.
    for written in ("crash:LABEL@STEP", "silent-ports:LABEL:RATE", "random:substar=1", "worst:nodes=3"):
        assert written in text


@pytest.mark.parametrize("name", LISTS)
def test_names_are_listed_in_full_in_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=80, highlight=False))
    printed = call(f"list {name}")
    assert printed.status == 0
    assert "…" not in printed.out
    columns = ("family", "example") if name == "topologies" else ("algorithm", "kind")
    for row in call(f"list {name} --json").data:
        assert all(row[column] in printed.out for column in columns if column in row)
