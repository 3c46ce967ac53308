"""`coordinator run`: its output and the files that it leaves."""

import json
from pathlib import Path

from tests.helpers.command_line import Call

GREEDY = "--topology star:4 --collective broadcast --algorithm greedy-tree"
STAR = f"{GREEDY} --driver memory"
FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


# --- run -------------------------------------------------------------------------------------------------------------


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
    assert "S_4, 24 nodes, 36 TCP connections (" in ended.out


def test_a_file_is_run_and_flags_override_it(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'topology = "star:4"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\ndriver = "memory"\nseed = 3\n'
        'fault = ["crash:4321@2", "crash:1234@5"]\n'
    )
    assert call("run mine.toml --json").data["seed"] == 3
    flagged = call("run mine.toml --seed 4 --fault crash:2341@9 --json").data
    assert (flagged["seed"], flagged["faults"], flagged["algorithm"]) == (4, ["crash:2341@9"], "greedy-tree")
    again = call("run --scenario mine.toml --algorithm flood --json").data
    assert (again["seed"], again["algorithm"]) == (3, "flood")


def test_labels_may_begin_with_a_minus(call: Call) -> None:
    ej = "--topology ej:2+3 --collective broadcast --algorithm improved --driver memory"
    assert call(f"run {ej} --source -1,0 --json").data["source"] == "-1,0"
    assert call(f"run {ej} --source=-1,0 --json --fault crash:-1,1@1").data["faults"] == ["crash:-1,1@1"]


def test_paths_may_look_like_markup_or_patterns(call: Call, tmp_path: Path) -> None:
    ended = call(f"run {FLOOD} --out", "[/red]*?[bold]")
    assert ended.status == 0
    assert f"run directory: {tmp_path / '[/red]*?[bold]'}" in ended.out
