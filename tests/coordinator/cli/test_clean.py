"""`coordinator clean`: it removes what killed runs left, and nothing else."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.history.stored.left_behind import TEMPORARY, Record, new_record
from emunode.errors import RunError
from tests.coordinator.cli.conftest import Examine
from tests.helpers.command_line import Call
from tests.helpers.process_support import ended_process

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


# --- clean -----------------------------------------------------------------------------------------------------------


def test_clean_removes_only_what_killed_runs_left(call: Call, examine: Examine, tmp_path: Path) -> None:
    call(f"run {FLOOD}")
    process = ended_process()
    folder = tmp_path / "runs" / "star-3-broadcast-flood"
    left = folder / f".partial-{process}-2026-01-01T00-00-00.000Z-0"
    left.mkdir()
    (left / "journal-00000.parquet").write_bytes(b"half a journ")
    (folder / f".partial-{process}-latest").symlink_to(left.name)
    for strange in (".partial-strange", "partial-1-run"):
        (folder / strange).mkdir()
    mine = folder / f".partial-{os.getpid()}-2026-01-01T00-00-00.000Z-0"
    mine.mkdir()
    index, my_index = (folder.parent / f".partial-{pid}-index.html" for pid in (process, os.getpid()))
    index.write_text("<!doctype")
    my_index.touch()
    assert examine()["leftovers"][0] == "limit"
    ended = call("clean --json")
    assert ended.status == 0
    assert ended.data == {
        "removed": [str(path.relative_to(tmp_path)) for path in (index, left, folder / f".partial-{process}-latest")],
        "elsewhere": 0,
    }
    assert mine.exists()
    assert my_index.exists()
    assert len(list(folder.iterdir())) == 5
    assert call("clean").out == "nothing to clean\n"


def test_a_finished_run_leaves_no_note(call: Call, tmp_path: Path) -> None:
    assert call(f"run {FLOOD} --out", tmp_path / "there").status == 0
    assert list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json")) == []


def test_clean_removes_what_a_killed_reproduction_left(
    call: Call, examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.cli.leftovers.gettempdir", lambda: str(tmp_path))
    left = tmp_path / f"coordinator-reproduce-{ended_process()}-abc"
    (left / "1").mkdir(parents=True)
    others = [tmp_path / f"{TEMPORARY}{os.getpid()}-x", tmp_path / "coordinator-reproduce-notes"]
    for other in others:
        other.mkdir()
    assert examine()["leftovers"][0] == "limit"
    assert call("clean --json").data == {"removed": [], "elsewhere": 1}, "nothing says that it was started here"
    assert call("clean --everywhere --json").data == {"removed": [str(left.relative_to(tmp_path))], "elsewhere": 0}
    assert all(other.exists() for other in others)


def test_folders_are_removed_even_if_no_engine_answers(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "runs" / "x" / f".partial-{ended_process()}-2026"
    left.mkdir(parents=True)
    replace(new_record(driver="docker", objects=("one", "net")), pid=ended_process()).write()

    def refuse(_: Record) -> list[str]:
        raise RunError("no Docker engine answers")

    monkeypatch.setattr("coordinator.networks.launchers.docker.sweep", refuse)
    ended = call("clean")
    assert ended.status == 4
    assert ended.out == f"removed {left.relative_to(tmp_path)}\n"
    assert not left.exists()
