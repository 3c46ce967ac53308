"""Children that are forks have what new interpreters have."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil
import pytest

from tests.command_line import SECONDS, fields, wait_until
from tests.warm_children import ForkedProcess, start_process
from tests.warm_programs import FRESH

WORDS = [sys.executable, "-m", "emunode", "--coordinator", "127.0.0.1:9", "--token-file", "-"]
FIXED: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "start_new_session": True}
"""The options that the local driver gives to every process."""


@pytest.mark.parametrize("kind", [ForkedProcess, subprocess.Popen])
def test_forks_are_like_new_interpreters(kind: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMUNODE_TOKEN", "unused")
    with TemporaryFile() as log, TemporaryFile() as passed:
        process = kind(WORDS, pass_fds=(passed.fileno(),), stderr=log, **FIXED)
        place, found = Path(f"/proc/{process.pid}"), psutil.Process(process.pid)
        wait_until(
            lambda: os.getsid(process.pid) == process.pid and found.cwd() == str(tmp_path), "its session, folder"
        )
        wait_until(
            lambda: {int(file.name) for file in (place / "fd").iterdir()} == {0, 1, 2, passed.fileno()}, "its files"
        )
        assert (place / "fd" / str(passed.fileno())).stat().st_ino == os.fstat(passed.fileno()).st_ino
        assert found in psutil.Process().children()
        assert process.poll() is None
        process.stdin.close()
        assert process.wait() == 2
        log.seek(0)
        assert b"a host needs the run's token" in log.read()
        assert psutil.Process().children() == []


def test_only_the_main_thread_has_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host dies with the thread that forked it, so a test of another thread needs a child of that thread."""
    for name in (*FRESH, "PYTHONPATH"):  # as where nothing asks for new interpreters
        monkeypatch.delenv(name, raising=False)
    with TemporaryFile() as log:
        started: list[Any] = []

        def start() -> None:
            started.append(start_process(WORDS, pass_fds=(), stderr=log, **FIXED))

        other = threading.Thread(target=start)
        other.start()
        other.join()
        start()
        assert [type(process) for process in started] == [subprocess.Popen, ForkedProcess]
        for process in started:
            process.stdin.close()
            assert process.wait() == 2


def test_a_worker_of_a_campaign_answers_and_ends(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "coordinator.campaigns.worker"]
    with (tmp_path / "log").open("w") as log:
        worker = ForkedProcess(words, stderr=log, **FIXED | {"stdout": subprocess.PIPE})
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.01)
        assert worker.stdin is not None
        assert worker.stdout is not None
        greeting = {"plugins": [], "named": [], "scenarios": [fields("star:3 broadcast edt driver=memory")]}
        worker.stdin.write(f"{json.dumps(greeting)}\n[0,[],1]\n".encode())
        worker.stdin.close()
        with worker.stdout as answers:
            assert json.loads(answers.read())["delivered"] == 5
        assert worker.wait(SECONDS) == 0
        worker.kill()
