"""`coordinator doctor` and `clean`: findings about this machine, and removal of what killed runs left."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.history.run_directory import temporary_prefix
from coordinator.maintenance import doctor
from coordinator.networks.launchers.records import Record
from emunode.errors import RunError
from tests.command_line import Call, Start

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"
Examine = Callable[[], dict[str, tuple[str, str]]]


@pytest.fixture
def examine(call: Call) -> Examine:
    """Call `doctor` and return the state and what was seen, by subject."""
    return lambda: {finding["subject"]: (finding["state"], finding["seen"]) for finding in call("doctor --json").data}


def ended_process() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


# --- doctor ----------------------------------------------------------------------------------------------------------


def test_every_subject_has_a_state_and_every_problem_a_remedy(call: Call) -> None:
    ended = call("doctor --json")
    assert {finding["state"] for finding in ended.data} <= {"good", "limit", "problem"}
    assert ended.status == (4 if any(finding["state"] == "problem" for finding in ended.data) else 0)
    subjects = [finding["subject"] for finding in ended.data]
    assert subjects == [
        "descriptors", "file table", "processes", "loopback", "accept queue", "connection tracking",
        "network namespaces", "memory", "cores", "leftovers", "run directories", "disk", "clock", "containers",
    ]  # fmt: skip
    assert all(finding["remedy"] for finding in ended.data if finding["state"] == "problem")
    assert "descriptors" in call("doctor").out


def test_too_few_descriptors_are_a_problem(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "descriptor_limit", lambda: 65)
    ended = call("doctor --json")
    assert ended.status == 4
    assert {"state": "problem", "remedy": "ulimit -n 4096"}.items() <= ended.data[0].items()


def test_a_clock_that_was_set_back_is_found(call: Call, examine: Examine, tmp_path: Path) -> None:
    call(f"run {FLOOD}")
    assert examine()["clock"][0] == "good"
    (latest,) = tmp_path.glob("runs/*/latest")
    latest.unlink()
    latest.symlink_to("2999-01-01T00-00-00.000Z-0")
    state, seen = examine()["clock"]
    assert state == "limit"
    assert "2999-01-01T00-00-00.000Z-0" in seen


def test_a_limit_on_the_size_of_files_is_a_problem(call: Call) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        ended = call("doctor --json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (disk,) = (finding for finding in ended.data if finding["subject"] == "disk")
    assert (ended.status, disk["state"]) == (4, "problem")
    assert disk["seen"].endswith("1.0 MiB a file")


def test_a_removed_working_directory_is_a_problem(
    call: Call, examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    assert call("doctor").status == 4
    assert examine()["run directories"] == ("problem", "the working directory: No such file or directory")


def test_an_engine_that_does_not_answer_is_a_limit(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    (finding,) = (finding for finding in call("doctor --json").data if finding["subject"] == "containers")
    assert finding["state"] == "limit"
    assert "no Docker engine answers" in finding["seen"]
    assert "DOCKER_HOST" in finding["remedy"]


# --- clean -----------------------------------------------------------------------------------------------------------


def test_clean_removes_only_what_killed_runs_left(call: Call, examine: Examine, tmp_path: Path) -> None:
    call(f"run {FLOOD}")
    process = ended_process()
    folder = tmp_path / "runs" / "star-3-broadcast-flood"
    left = folder / f".partial-{process}-2026-01-01T00-00-00.000Z-0"
    left.mkdir()
    (left / "journal-00000.parquet").write_bytes(b"half a journ")
    (folder / f".partial-{process}-latest").symlink_to(left.name)
    mine = folder / f".partial-{os.getpid()}-2026-01-01T00-00-00.000Z-0"
    mine.mkdir()
    assert examine()["leftovers"][0] == "limit"
    ended = call("clean --json")
    assert ended.status == 0
    assert ended.data == {
        "removed": [str(path.relative_to(tmp_path)) for path in (left, folder / f".partial-{process}-latest")]
    }
    assert min(path.name for path in folder.iterdir()) == mine.name
    assert len(list(folder.iterdir())) == 3
    assert call("clean").out == "nothing to clean\n"


def test_clean_finds_a_run_that_was_killed_elsewhere(
    call: Call, start: Start, examine: Examine, tmp_path: Path
) -> None:
    """A run with `--out` is killed while it writes; `clean` is called in another folder."""
    state = Path(os.environ["XDG_STATE_HOME"])
    run = start(f"coordinator run {FLOOD} --messages 5000 --out", tmp_path / "far" / "away")
    run.wait_for(lambda: list(tmp_path.glob("far/.partial-*")), "a folder")
    (left,) = tmp_path.glob("far/.partial-*")
    assert call("clean --json").data == {"removed": []}, "its process is alive"
    run.process.kill()
    run.process.wait()
    assert examine()["leftovers"][0] == "limit"
    assert call("clean --json").data == {"removed": [str(left)]}
    assert not left.exists()
    assert list(state.rglob("*/partial/*")) == []
    assert call("clean").out == "nothing to clean\n"


def test_a_finished_run_leaves_no_note(call: Call, tmp_path: Path) -> None:
    assert call(f"run {FLOOD} --out", tmp_path / "there").status == 0
    assert list(Path(os.environ["XDG_STATE_HOME"]).rglob("*/partial/*")) == []


def test_a_forged_note_removes_nothing(call: Call, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    notes = Path(os.environ["XDG_STATE_HOME"]) / "collective-testbench" / "partial"
    notes.mkdir(parents=True)
    (notes / "0123456789abcdef").write_bytes(bytes(other))
    assert call("clean").status == 0
    assert other.exists()


def test_clean_removes_what_a_killed_reproduction_left(
    call: Call, examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.history.run_directory.gettempdir", lambda: str(tmp_path))
    left = tmp_path / f"coordinator-reproduce-{ended_process()}-abc"
    (left / "1").mkdir(parents=True)
    others = [tmp_path / temporary_prefix(), tmp_path / "coordinator-reproduce-notes"]
    for other in others:
        other.mkdir()
    assert examine()["leftovers"][0] == "limit"
    assert call("clean --json").data == {"removed": [str(left)]}
    assert all(other.exists() for other in others)


def test_folders_are_removed_even_if_no_engine_answers(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "runs" / "x" / f".partial-{ended_process()}-2026"
    left.mkdir(parents=True)
    Record("1", ended_process(), 0.0, "", "net", ("one",)).write()

    def refuse(_: Record) -> list[str]:
        raise RunError("no Docker engine answers")

    monkeypatch.setattr("coordinator.networks.launchers.docker.sweep", refuse)
    ended = call("clean")
    assert ended.status == 4
    assert ended.out == f"removed {left.relative_to(tmp_path)}\n"
    assert not left.exists()
