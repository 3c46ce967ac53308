"""Files for Compose and swarms: both engines read them, and their commands as processes have the journal of memory."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.annexes.clusters.support import KINDS, SCENARIO
from tests.helpers.command_line import SECONDS, Call, Running, free_port
from tests.helpers.scenarios import Case


def file_of(kind: str, call: Call) -> Any:
    """Return the file of a kind as values."""
    ended = call(f"manifest {kind} {SCENARIO}")
    assert ended.status == 0, ended.err
    return yaml.safe_load(ended.out)


def start(command: list[str], folder: Path, port: int) -> Running:
    """Start the command of a service, with files below a folder and the coordinator on this machine."""
    places = {"0.0.0.0:7000": f"127.0.0.1:{port}", "=coordinator:7000": f"=127.0.0.1:{port}"}
    places |= dict.fromkeys(("=/token/", "=/run/secrets/", "=/runs/"), f"={folder}/")
    words = [sys.executable, "-m", *command]
    for word, ours in places.items():
        words = [each.replace(word, ours) for each in words]
    return Running(folder, words, XDG_STATE_HOME=folder / "state")


@pytest.mark.parametrize("kind", KINDS)
def test_the_services_have_the_journal_of_memory(kind: str, call: Call, tmp_path: Path) -> None:
    services = file_of(kind, call)["services"]
    if kind == "swarm":  # the secret of the swarm
        (tmp_path / "testbench-token").write_text("0123456789abcdef" * 4)
    port = free_port()
    commands = [services["coordinator"]["command"]]
    commands += [services["host"]["command"]] * services["host"]["deploy"]["replicas"]
    processes = [start(command, tmp_path, port) for command in commands]
    try:
        assert [process.end().status for process in processes] == [0] * 5
    finally:
        for process in processes:
            process.close()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["journal_hash"] == Case("star:4 broadcast edt").summary["journal_hash"]


@pytest.mark.parametrize("kind", KINDS)
def test_services_have_no_rights_and_bounds(kind: str, call: Call) -> None:
    for service in file_of(kind, call)["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"]
        assert "pids" in json.dumps(service)
        assert "mem" in json.dumps(service)


@pytest.mark.parametrize(("kind", "line"), [
    ("compose", "docker-compose --file file.yaml config --quiet"), ("swarm", "docker stack config --compose-file file.yaml"),
])  # fmt: skip
def test_the_engine_reads_the_file(kind: str, line: str, call: Call, tmp_path: Path) -> None:
    words = line.split()
    if not shutil.which(words[0]):
        pytest.skip(f"needs {words[0]}")
    (tmp_path / "file.yaml").write_text(call(f"manifest {kind} {SCENARIO}").out)
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    assert kind == "compose" or "testbench-token" in ended.stdout
