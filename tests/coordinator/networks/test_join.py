"""Hosts that somebody else starts: waited for, told apart from strangers, and there until the coordinator is gone."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import run_scenario

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120
Start = Callable[..., subprocess.Popen[str]]
BROADCAST = ("--collective", "broadcast", "--algorithm", "flood")
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
def endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_hosts_join_and_the_history_is_the_same(start: Start, endpoint: str, tmp_path: Path) -> None:
    patience = ("--join-seconds", "20")
    hosts = [start("emunode", "--coordinator", endpoint, "--token-file", "token", *patience) for _ in range(4)]
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "3", "--out", "out", "--json")
    out, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 0, err
    memory = run_scenario(tmp_path / "m", topology="star:3", collective="broadcast", algorithm="flood", driver="memory")
    assert str(memory.summary["journal_hash"]) in out
    statuses = sorted(host.wait(SECONDS) for host in hosts)
    assert statuses[:3] == [0, 0, 0]
    assert statuses[3] in (0, 4), "one was in reserve, or came when all was over"
    assert not (tmp_path / "token").exists()


def test_a_host_without_token_or_coordinator_gives_up_in_time(start: Start, endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("token")
    patience = ("--join-seconds", "0.5")
    for file, status, complaint in (
        ("absent", 4, "timed out waiting for the token file 'absent'"),
        ("there", 4, "ConnectionRefusedError"),
        (".", 2, "--token-file: '.' cannot be read: Is a directory"),
    ):
        host = start("emunode", "--coordinator", endpoint, "--token-file", file, *patience)
        _, err = host.communicate(timeout=SECONDS)
        assert (host.returncode, complaint in err) == (status, True), err


def test_a_host_that_never_joins_is_missed_and_a_wrong_token_named(start: Start, endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("right\n")
    (tmp_path / "other").write_text("wrong\n")
    stranger = start("emunode", "--coordinator", endpoint, "--token-file", "other")
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "2", "--join-seconds", "8s")
    assert stranger.wait(SECONDS) == 4
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 4
    assert "2 of 2 hosts never joined; none did; refused 1 times: the host does not know the run's token" in err
    assert (tmp_path / "token").read_text() == "right\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--listen", "nowhere"), "invalid listen 'nowhere'"),
        (("--hosts", "7"), "invalid hosts 7: from 1 to 6"),
        (("--join-seconds", "soon"), "invalid join_seconds 'soon'"),
        (("--token-file", "no/such/folder/token"), "invalid token_file 'no/such/folder/token'"),
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
    assert "only available with `coordinator serve`" in err


FAST = ("--join-seconds", "30")
ENDLESS = ("--messages", "200000", "--message-bytes", "8")


def own_address() -> str | None:
    """An address of this machine outside 127.0.0.0/8, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


needs_address = pytest.mark.skipif(own_address() is None, reason="this machine has no address outside 127.0.0.0/8")


def wait_for_steps(serve: subprocess.Popen[str]) -> None:
    """Return once the coordinator says that it runs steps."""
    assert serve.stderr is not None
    for line in serve.stderr:
        if ": steps" in line:
            return
    raise AssertionError("the run never began")


@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_hosts_whose_coordinator_is_killed_fail(start: Start, endpoint: str, processes: tuple[str, ...]) -> None:
    hosts = [start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST, *processes) for _ in range(2)]
    count = str(2 * int(processes[1]) if processes else 2)
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", count, *ENDLESS)
    wait_for_steps(serve)
    serve.kill()
    for host in hosts:
        _, err = host.communicate(timeout=SECONDS)
        assert (host.returncode, "lost the connection to the coordinator" in err) == (4, True), err


def test_hosts_whose_peer_is_killed_fail(start: Start, endpoint: str) -> None:
    hosts = [start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST) for _ in range(3)]
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "3", *ENDLESS)
    wait_for_steps(serve)
    hosts[0].kill()
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 3, err
    assert [host.wait(SECONDS) for host in hosts[1:]] == [4, 4]


def test_hosts_whose_coordinator_is_interrupted_fail(start: Start, endpoint: str) -> None:
    hosts = [start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST) for _ in range(2)]
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "2", *ENDLESS)
    wait_for_steps(serve)
    serve.terminate()
    assert serve.wait(SECONDS) == 130
    assert [host.wait(SECONDS) for host in hosts] == [4, 4]


def test_a_host_that_cannot_be_dialled_fails_with_all_others(start: Start, endpoint: str) -> None:
    # nobody has this address, so links to the host that claims it never come up
    lost = start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST, "--advertise", "127.1.2.3")
    other = start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST, "--advertise", "192.0.2.1")
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "2", "--join-seconds", "4s")
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 4, err
    assert (lost.wait(SECONDS), other.wait(SECONDS)) == (4, 4)


def test_a_planned_crash_is_a_normal_end(start: Start, endpoint: str) -> None:
    hosts = [start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST) for _ in range(2)]
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "2", "--fault", "crash:213@2")
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode in (0, 3), err
    assert [host.wait(SECONDS) for host in hosts] == [0, 0]


def test_two_parents_share_the_places(start: Start, endpoint: str) -> None:
    parents = [
        start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST, "--processes", "2")
        for _ in range(2)
    ]
    serve = start("coordinator", "serve", "--listen", endpoint, "--hosts", "4", "--json")
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 0, err
    assert [parent.wait(SECONDS) for parent in parents] == [0, 0]


def test_processes_none_of_which_can_join_fail_in_time(start: Start, endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("token")
    began = time.monotonic()
    parent = start(
        "emunode", "--coordinator", endpoint, "--token-file", "there", "--processes", "3", "--join-seconds", "4"
    )
    _, err = parent.communicate(timeout=SECONDS)
    assert (parent.returncode, err.count("host cannot join")) == (4, 3), err
    assert time.monotonic() - began >= 4, "--join-seconds was ignored"


@needs_address
def test_a_loopback_host_beside_a_remote_one_is_refused_at_once(start: Start) -> None:
    address = own_address()
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
    serve = start("coordinator", "serve", "--listen", f"0.0.0.0:{port}", "--hosts", "3", "--join-seconds", "60s")
    endpoints = {"loopback": f"127.0.0.1:{port}", "remote": f"{address}:{port}"}
    hosts = {
        kind: start("emunode", "--coordinator", endpoint, "--token-file", "token", *FAST)
        for kind, endpoint in endpoints.items()
    }
    _, err = hosts["loopback"].communicate(timeout=SECONDS)
    assert hosts["loopback"].returncode == 4
    assert f"it joined at 127.0.0.1, where the host at {address} cannot dial it" in err
    # a refused host leaves its place to others
    extra = [start("emunode", "--coordinator", endpoints["remote"], "--token-file", "token", *FAST)]
    advertised = ("--advertise", str(address))
    extra.append(start("emunode", "--coordinator", endpoints["loopback"], "--token-file", "token", *FAST, *advertised))
    _, err = serve.communicate(timeout=SECONDS)
    assert serve.returncode == 0, err
    assert [host.wait(SECONDS) for host in (hosts["remote"], *extra)] == [0, 0, 0]


@pytest.mark.parametrize("address", ["no.such.name.invalid", "0.0.0.0", "224.0.0.1", "1.2.3.4.5"])
def test_an_address_that_nobody_can_dial_is_refused(start: Start, endpoint: str, address: str) -> None:
    host = start("emunode", "--coordinator", endpoint, "--advertise", address)
    _, err = host.communicate(timeout=SECONDS)
    assert (host.returncode, f"--advertise: invalid address {address!r}" in err) == (2, True), err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--driver", "memory", "--join-seconds", "5s"), "the memory driver has no hosts"),
        (("--driver", "local", "--join-seconds", "0s"), "more than 0s"),
        (("--driver", "local", "--join-seconds", "soon"), "invalid join_seconds 'soon'"),
    ],
)
def test_bad_join_seconds_of_a_run(start: Start, arguments: tuple[str, ...], complaint: str) -> None:
    run = start("coordinator", "run", "--topology", "star:3", *BROADCAST, *arguments)
    _, err = run.communicate(timeout=SECONDS)
    assert (run.returncode, complaint in err) == (2, True), err


def test_a_run_waits_as_long_as_it_is_told(start: Start) -> None:
    run = start("coordinator", "run", "--topology", "star:3", *BROADCAST, "--join-seconds", "0.001s")
    _, err = run.communicate(timeout=SECONDS)
    assert (run.returncode, "no message for 0.001 s while waiting for hosts to join" in err) == (4, True), err


@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_a_host_can_be_interrupted(start: Start, tmp_path: Path, processes: tuple[str, ...]) -> None:
    (tmp_path / "there").write_text("token")
    # A shell starts background jobs with SIGINT ignored, and so would be the host of a test that runs in one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
            host = start("emunode", "--coordinator", endpoint, "--token-file", "there", *processes)
            stream, _ = listener.accept()
            with stream:
                host.send_signal(signal.SIGINT)
                _, err = host.communicate(timeout=SECONDS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (host.returncode, err) == (130, "")
