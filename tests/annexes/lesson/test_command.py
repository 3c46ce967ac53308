"""`coordinator export lesson`."""

import json
from pathlib import Path

from tests.annexes.lesson.lessons import data_of
from tests.helpers.command_line import Call


def test_export_writes_a_lesson(call: Call, tmp_path: Path) -> None:
    line = "run --topology star:3 --collective broadcast --algorithm greedy-tree --driver memory"
    assert call(line, "--out", tmp_path / "run").status == 0
    ended = call("export lesson", tmp_path / "run", tmp_path / "lesson.html")
    assert (ended.status, ended.out) == (0, f"wrote lesson: {tmp_path / 'lesson.html'}\n")
    assert all(line.startswith("lesson: ") for line in ended.err.splitlines())
    assert len(data_of(tmp_path / "lesson.html")["branches"]) == 36
    ended = call("export lesson --json", tmp_path / "run", tmp_path / "lesson.html")
    assert json.loads(ended.out) == {"written": {"lesson": str(tmp_path / "lesson.html")}}


def test_errors_name_the_run(call: Call, tmp_path: Path) -> None:
    ended = call("export lesson", tmp_path / "none", tmp_path / "lesson.html")
    assert (ended.status, ended.out) == (2, "")
    assert "no such run" in ended.err
    line = "run --topology star:3 --collective broadcast --algorithm greedy-tree --clock timed --driver memory"
    assert call(line, "--out", tmp_path / "run").status == 0
    ended = call("export lesson", tmp_path / "run", tmp_path / "lesson.html")
    assert (ended.status, ended.out) == (2, "")
    assert "a lesson has steps: expected a run with --clock steps" in ended.err
