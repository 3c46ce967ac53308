"""Hosts that somebody else starts: waited for, told apart from strangers, and there until the coordinator is gone."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import run_scenario

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120
Start = Callable[..., subprocess.Popen[str]]
FLOOD = {"TESTBENCH_TOPOLOGY": "star:3", "TESTBENCH_COLLECTIVE": "broadcast", "TESTBENCH_ALGORITHM": "flood"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a module of ours as a program, in a folder of the test; it is gone afterwards."""
    started = []

    def begin(module: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=tmp_path,
            env={**os.environ, **FLOOD, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def door() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_hosts_join_and_the_history_is_the_same(start: Start, door: str, tmp_path: Path) -> None:
    patience = ("--join-seconds", "20")
    hosts = [start("emunode", "--coordinator", door, "--token-file", "token", *patience) for _ in range(4)]
    serve = start("coordinator", "serve", "--listen", door, "--hosts", "3", "--out", "out", "--json")
    out, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 0, err
    memory = run_scenario(tmp_path / "m", topology="star:3", collective="broadcast", algorithm="flood", driver="memory")
    assert str(memory.summary["journal_hash"]) in out
    statuses = sorted(host.wait(SECONDS) for host in hosts)
    assert statuses[:3] == [0, 0, 0]
    assert statuses[3] in (0, 4), "one was in reserve, or came when all was over"
    assert not (tmp_path / "token").exists()


def test_a_host_without_token_or_coordinator_gives_up_in_time(start: Start, door: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("token")
    patience = ("--join-seconds", "0.5")
    for file, status, complaint in (
        ("absent", 4, "no token file 'absent' came"),
        ("there", 4, "ConnectionRefusedError"),
        (".", 2, "--token-file: '.' cannot be read: Is a directory"),
    ):
        host = start("emunode", "--coordinator", door, "--token-file", file, *patience)
        _, err = host.communicate(timeout=SECONDS)
        assert (host.returncode, complaint in err) == (status, True), err


def test_a_host_that_never_joins_is_missed_and_a_wrong_token_named(start: Start, door: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("right\n")
    (tmp_path / "other").write_text("wrong\n")
    stranger = start("emunode", "--coordinator", door, "--token-file", "other")
    serve = start("coordinator", "serve", "--listen", door, "--hosts", "2", "--join-seconds", "8s")
    assert stranger.wait(SECONDS) == 4
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 4
    assert "2 of 2 hosts never joined; none did; refused 1 times: a host without proof of the run's token" in err
    assert (tmp_path / "token").read_text() == "right\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--listen", "nowhere"), "listen: 'nowhere' will not do"),
        (("--hosts", "7"), "hosts: 7 will not do; from 1 to 6"),
        (("--join-seconds", "soon"), "join_seconds: 'soon' will not do"),
        (("--token-file", "no/such/folder/token"), "token_file: 'no/such/folder/token' will not do"),
    ],
)
def test_bad_input(start: Start, arguments: tuple[str, ...], complaint: str) -> None:
    serve = start("coordinator", "serve", *arguments)
    _, err = serve.communicate(timeout=SECONDS)
    assert (serve.returncode, complaint in err) == (2, True), err


def test_a_run_lets_nobody_join(start: Start) -> None:
    run = start(
        "coordinator",
        "run",
        "--topology",
        "star:3",
        "--collective",
        "broadcast",
        "--algorithm",
        "flood",
        "--driver",
        "join",
    )
    _, err = run.communicate(timeout=SECONDS)
    assert run.returncode == 2
    assert "use `coordinator serve`" in err
