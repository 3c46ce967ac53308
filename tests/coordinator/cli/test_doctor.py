"""`coordinator doctor`: findings about this machine, each with a remedy."""

import resource
from pathlib import Path

import pytest

from coordinator.cli import doctor
from tests.coordinator.cli.conftest import Examine
from tests.helpers.command_line import Call

FLOOD = "--topology star:3 --collective broadcast --algorithm flood --driver memory"


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
