"""`coordinator sweep`: tables, pages, and folders that go on where they stopped."""

import json
from pathlib import Path

import polars as pl
import pytest

from coordinator.campaigns import sweep as sweeps
from coordinator.campaigns.sweep import ROWS
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import Call

STARS = "sweep --topology star:3..5 --algorithm greedy-tree,edt"


def test_metrics_of_features_have_rows_and_are_verified(tmp_path: Path, call: Call) -> None:
    line = "sweep --topology star:3..4 --algorithm edt --reliable --out out --metric"
    assert call(line, "acknowledgements").status == 0
    # A folder serves every metric of its runs, and the claims of the feature are the predictions.
    (small, large) = call(line, "acknowledgements", "--json").data["rows"]
    assert (small["measured"], small["predicted"]) == (5, 5)
    assert (large["measured"], large["predicted"]) == (23, 23)
    (first, _) = call(line, "retransmissions", "--json").data["rows"]
    assert (first["measured"], first["predicted"]) == (0, 0)
    assert len((tmp_path / "out" / ROWS).read_text().splitlines()) == 2
    assert "verified: 2 runs, 2 of them made again" in call("verify out").out


def test_runs_without_a_number_are_left_out(call: Call) -> None:
    line = "sweep --topology star:3..4 --algorithm flood --fault-knowledge detect:2 --out out --metric"
    # Times are measured under the timed clock alone.
    found = call(line, "mean_detection_seconds", "--json").data
    assert found["rows"] == []
    assert found["left_out"] == [f"flood on star:{n}: the run has no mean_detection_seconds" for n in (3, 4)]
    assert call("verify out").status == 0


@needs_every_annex
def test_the_command_writes_table_chart_and_page(call: Call, tmp_path: Path) -> None:
    ended = call(f"{STARS} --metric steps --out out")
    assert ended.status == 0
    assert "lower" in ended.out
    folder = tmp_path / "out"
    assert sorted(file.name for file in folder.iterdir()) == [
        ROWS,
        "sweep.html",
        "sweep.svg",
        "sweep.tex",
        "sweep.toml",
        "table.csv",
    ]
    assert pl.read_csv(folder / "table.csv")["measured"].to_list() == [3, 5, 4, 7, 6, 8]
    picture = (folder / "sweep.svg").read_text()
    assert all(name in picture for name in ("greedy-tree", "edt", "lower bound"))
    page = (folder / "sweep.html").read_text()
    assert "steps of broadcast on star:3..5" in page
    assert "distance 6 from 12345" in page


def test_a_sweep_takes_over_finished_runs(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = call(f"{STARS} --out out --json").data
    with (tmp_path / "out" / ROWS).open("ab") as file:
        file.write(b'{"half a line')

    def refuse(*_: object) -> None:
        raise AssertionError("it was run again")

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "run_point", refuse)
        again = call(f"{STARS} --metric segments --out out --json").data
    assert [row["journal_hash"] for row in again["rows"]] == [row["journal_hash"] for row in first["rows"]]
    assert [row["measured"] for row in again["rows"]] == [5, 5, 23, 23, 119, 119]
    more = call("sweep --topology star:3..4 --algorithm greedy-tree,flood --out out --json").data
    assert len((tmp_path / "out" / ROWS).read_text().splitlines()) == 8
    assert len(more["rows"]) == 4


def test_an_interrupted_sweep_keeps_what_is_done(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = sweeps.run_point
    left = iter([True, True])
    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "run_point", lambda point: measure(point) if next(left, False) else None)
        ended = call(f"{STARS} --out out --json")
    assert ended.status == 130
    assert (ended.data["finished"], len(ended.data["rows"])) == (False, 2)
    assert len(pl.read_csv(tmp_path / "out" / "table.csv")) == 2
    whole = call(f"{STARS} --out out --json")
    assert (whole.status, len(whole.data["rows"])) == (0, 6)


def test_other_folders_are_left_alone(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    ended = call(f"{STARS} --out mine")
    assert ended.status == 2
    assert "it exists and is not the folder of a sweep" in ended.err
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["letter"]


def test_a_program_runs_beside_other_algorithms(call: Call, tmp_path: Path) -> None:
    (tmp_path / "node.sh").write_text("while read -r line; do echo '{\"sends\": []}'; done\n")
    told = call("sweep --topology ring:4 --algorithm program,flood --json --program 'sh node.sh'")
    found = [(row["algorithm"], row["measured"], row["verdict"]) for row in told.data["rows"]]
    assert found == [("program", 0, "violated"), ("flood", 2, "holds")]


def test_fold_trees_follow_the_table_in_one_piece(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    line = "sweep --topology ring:6 --algorithm bfb --collective allreduce --values float32 --message-bytes 960"
    ended = call(f"{line} --vary leaves=6,12 --metric distinct_results")
    assert "first difference of bfb on ring:6, leaves=12: element 0: ((0+(1+2))+((3+4)+5)) against " in ended.out
    (heading,) = (line for line in ended.out.splitlines() if "% changed" in line)
    assert heading.split() == ["network", "algorithm", "measured", "verdict", "setting", "result", "%", "changed"]


KEY_OF_0_3_0 = "9e935c75908225aa15e5043ec38663919239c82d771947cc37ecbc3557a8e28e"
"""Of the broadcast of star:3 by bfs-tree, as version 0.3.0 stored it."""


@needs_every_annex  # without the annex exports no sweep has a picture for LaTeX
def test_a_sweep_of_an_earlier_version_is_verified(tmp_path: Path, call: Call) -> None:
    assert call("sweep --topology star:3 --algorithm bfs-tree --out out").status == 0
    rows = tmp_path / "out" / "rows.jsonl"
    row = json.loads(rows.read_text())
    assert row["key"] == KEY_OF_0_3_0
    bound = next(claim for claim in row["claims"] if claim[0] == "startups" and claim[1] == ">=")
    row["claims"].remove(bound)
    rows.write_text(json.dumps(row) + "\n")
    assert call("verify out").status == 1
    (tmp_path / "out" / "sweep.tex").unlink()  # 0.3.0 wrote none
    ended = call("verify out")
    assert (ended.status, "its version states other lower bounds" in ended.out) == (0, True)
    row["claims"][0][2] += 1
    rows.write_text(json.dumps(row) + "\n")
    assert call("verify out").status == 1


def test_a_sweep_without_any_of_its_runs_is_undecided(tmp_path: Path, call: Call) -> None:
    assert call("sweep --topology star:3 --algorithm bfs-tree --out out").status == 0
    settings = tmp_path / "out" / "sweep.toml"
    settings.write_text(settings.read_text().replace("bfs-tree", "flood"))
    ended = call("verify out")
    assert (ended.status, "undecided: 0 runs" in ended.out) == (3, True)
