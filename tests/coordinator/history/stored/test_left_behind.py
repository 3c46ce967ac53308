"""Records: they tell a process from another one with its number, and are read only if they are well-formed."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.history.stored.left_behind import UNKNOWN, digest_of, new_record, noted, process_start, read_records
from emunode.errors import RunError

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_a_process_is_told_from_another_one_with_its_number() -> None:
    record = new_record()
    assert record.is_running()
    assert not replace(record, began=record.began - 1).is_running()
    assert not replace(record, boot="of another start of the machine").is_running()
    assert replace(record, began=0, machine="another one").is_running(), "only that machine can tell"


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert process_start(process.pid) is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) is None
    process.wait()


def test_an_unreadable_start_counts_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    record, ended = new_record(), subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    def refuse(path: Path, *_: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    assert replace(record, began=UNKNOWN).is_running(), "it could not read its own start"
    monkeypatch.setattr(Path, "read_text", refuse)
    assert process_start(os.getpid()) == UNKNOWN
    assert record.is_running(), "the number of the start of the machine cannot be read either"
    assert replace(record, began=record.began - 1).is_running()
    assert not replace(record, pid=ended.pid).is_running()
    assert not replace(record, pid=-1).is_running()
    assert not replace(record, pid=1 << 80).is_running()


def test_a_process_of_another_user_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid its folder in /proc is missing, and a signal is not permitted."""

    def hide(path: Path, *_: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "read_text", hide)
    monkeypatch.setattr(os, "kill", refuse)
    assert process_start(12345) == UNKNOWN


def test_a_record_is_read_as_written() -> None:
    record = new_record(run="a", driver="docker", objects=("one", "two"), files={"/x": ""}, parents=("/",))
    record.write()
    assert read_records() == [record]
    with pytest.raises(RunError, match="run a already exists"):
        record.write()
    record.remove()
    assert read_records() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": "1"}, {"run": "../../elsewhere"}, {"files": {"/x": 1}}, {"files": ["/x"]}, {"objects": None}, {"folder": 1},
    ],
)  # fmt: skip
def test_a_malformed_record_is_not_read(changed: dict[str, object]) -> None:
    record = new_record(run="a")
    record.write()
    record.path.write_text(json.dumps({**json.loads(record.path.read_text()), **changed}))
    assert read_records() == []


def test_an_unwritable_state_folder_hinders_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with noted(tmp_path / "x"):
        pass
    with pytest.raises(RunError, match="cannot record what the run creates"):
        new_record().write()


def test_a_file_of_two_runs_goes_with_the_last(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    first, second = (new_record(files={str(token): digest_of(b"secret")}) for _ in range(2))
    first.write()
    second.write()
    first.discard()
    assert token.exists()
    second.discard()
    assert not token.exists()
    assert read_records() == []
