"""Hosts that are started elsewhere: they join, are refused, and end with the coordinator."""

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.helpers.command_line import SECONDS, Running, Start, command, fields, free_port, run_process
from tests.helpers.support import run_scenario

SCENARIO = "--topology star:3 --collective broadcast --algorithm flood"
SERVE = f"coordinator serve {SCENARIO}"
ENDLESS = "--messages 200000 --message-bytes 8"
JOIN = "emunode --token-file token --join-seconds 120"


@pytest.fixture
def endpoint() -> str:
    return f"127.0.0.1:{free_port()}"


def own_address() -> str | None:
    """Return an address of this machine outside 127.0.0.0/8, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


def statuses(*hosts: Running) -> list[int]:
    """Return the exit statuses of hosts."""
    return [host.process.wait(SECONDS) for host in hosts]


# --- runs that succeed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "flags"), [(4, "--join-seconds 60"), (2, "--processes 2")], ids=["one of four in reserve", "processes"]
)
def test_joined_hosts_give_the_history_of_memory(
    start: Start, endpoint: str, tmp_path: Path, parents: int, flags: str
) -> None:
    hosts = [start(f"emunode --token-file token {flags} --coordinator", endpoint) for _ in range(parents)]
    count = 3 if parents == 4 else 4
    output = ("--json", "--out", "out", "--metrics", "run.prom")
    served = start(SERVE, *output, "--listen", endpoint, "--hosts", count).end()
    assert served.status == 0, served.err
    assert f"\ntestbench_hosts {count}\n" in (tmp_path / "run.prom").read_text()
    memory = run_scenario(tmp_path / "memory", **fields("star:3 broadcast flood"))
    assert served.data["journal_hash"] == memory.summary["journal_hash"]
    *joined, last = sorted(statuses(*hosts))
    assert set(joined) == {0}
    assert last == 0 or (last == 4 and parents == 4), "the host in reserve may come when all is over"
    assert not (tmp_path / "token").exists()


def test_a_scenario_is_read_from_the_environment(start: Start, endpoint: str) -> None:
    variables = {"TOPOLOGY": "star:3", "COLLECTIVE": "broadcast", "ALGORITHM": "flood"}
    hosts = [start(JOIN, "--coordinator", endpoint) for _ in range(2)]
    serve = start(
        "coordinator serve --hosts 2 --fault crash:213@2 --listen",
        endpoint,
        **{f"TESTBENCH_{name}": value for name, value in variables.items()},
    )
    assert serve.end().status in (0, 3), serve.err
    assert statuses(*hosts) == [0, 0], "a planned crash is a normal end"


# --- hosts that cannot join ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "status", "message"),
    [
        ("absent", 4, "timed out waiting for the token file 'absent'"),
        ("there", 4, "ConnectionRefusedError"),
        (".", 2, "--token-file: '.' cannot be read: Is a directory"),
        ("there --network-descriptor 0", 2, "--network-descriptor: 0 holds no network: malformed network: 0 bytes"),
        (
            "there --network-descriptor 77",
            2,
            "--network-descriptor: 77 holds no network: [Errno 9] Bad file descriptor",
        ),
    ],
)
def test_a_host_without_token_or_coordinator_ends_in_time(
    endpoint: str, tmp_path: Path, file: str, status: int, message: str
) -> None:
    (tmp_path / "there").write_text("token")
    line = f"emunode --coordinator {endpoint} --token-file {file} --join-seconds 0.5"
    ended = run_process(tmp_path, command(line))
    assert ended.status == status
    assert message in ended.err


def test_several_processes_that_cannot_join_end_in_time(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("token")
    began = time.monotonic()
    line = f"emunode --coordinator {endpoint} --token-file there --processes 3 --join-seconds 4"
    ended = run_process(tmp_path, command(line))
    assert (ended.status, ended.err.count("host cannot join")) == (4, 3), ended.err
    assert time.monotonic() - began >= 4, "--join-seconds was ignored"


@pytest.mark.parametrize("address", ["no.such.name.invalid", "0.0.0.0", "224.0.0.1", "1.2.3.4.5"])
def test_an_address_that_cannot_be_dialled_is_refused(endpoint: str, tmp_path: Path, address: str) -> None:
    ended = run_process(tmp_path, command(f"emunode --coordinator {endpoint} --advertise {address}"))
    assert ended.status == 2
    assert f"--advertise: invalid address {address!r}" in ended.err


def test_missing_hosts_are_counted_and_a_wrong_token_is_named(start: Start, endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("right\n")
    (tmp_path / "other").write_text("wrong\n")
    refused = start("emunode --token-file other --coordinator", endpoint)
    served = start(SERVE, "--hosts", "2", "--join-seconds", "8s", "--listen", endpoint).end()
    assert statuses(refused) == [4]
    assert served.status == 4
    assert "2 of 2 hosts never joined; none did; refused 1 times: the host does not know the run's token" in served.err
    assert (tmp_path / "token").read_text() == "right\n"
    assert not (tmp_path / "runs").exists()


def test_a_host_that_cannot_be_dialled_fails_the_run(start: Start, endpoint: str) -> None:
    # these addresses belong to no host, so links to the hosts that advertise them never open
    hosts = [start(JOIN, "--coordinator", endpoint, "--advertise", each) for each in ("127.1.2.3", "192.0.2.1")]
    served = start(SERVE, "--hosts", "2", "--join-seconds", "4s", "--listen", endpoint).end()
    assert served.status == 4, served.err
    assert statuses(*hosts) == [4, 4]


@pytest.mark.skipif(own_address() is None, reason="this machine has no address outside 127.0.0.0/8")
def test_a_loopback_host_beside_a_remote_one_is_refused_at_once(start: Start) -> None:
    address = own_address()
    port = free_port()
    serve = start(SERVE, "--hosts", "3", "--join-seconds", "60s", "--listen", f"0.0.0.0:{port}")
    loopback, remote = (start(JOIN, "--coordinator", f"{each}:{port}") for each in ("127.0.0.1", address))
    refused = loopback.end()
    assert refused.status == 4
    assert f"it joined at 127.0.0.1, where the host at {address} cannot dial it" in refused.err
    # a refused host leaves its place to others
    extra = start(JOIN, "--coordinator", f"{address}:{port}")
    advertised = start(JOIN, "--coordinator", f"127.0.0.1:{port}", "--advertise", address)
    assert serve.end().status == 0, serve.err
    assert statuses(remote, extra, advertised) == [0, 0, 0]


def test_a_local_run_waits_for_hosts_as_long_as_its_limit(tmp_path: Path) -> None:
    ended = run_process(tmp_path, command(f"coordinator run {SCENARIO} --join-seconds 0.001s"))
    assert ended.status == 4
    assert "no message for 0.001 s while waiting for hosts to join" in ended.err


# --- hosts that lose a process or the coordinator --------------------------------------------------------------------


def running(start: Start, endpoint: str, count: int, processes: int = 1) -> tuple[Running, list[Running]]:
    """Return a coordinator that runs steps, and its hosts."""
    flags = ("--processes", processes) if processes > 1 else ()
    hosts = [start(JOIN, *flags, "--coordinator", endpoint) for _ in range(count)]
    metrics = f"127.0.0.1:{free_port()}"
    serve = start(f"{SERVE} {ENDLESS} --metrics {metrics}", "--hosts", count * processes, "--listen", endpoint)

    def is_running() -> bool:
        with suppress(OSError), urlopen(f"http://{metrics}/metrics") as answer:  # this machine
            return re.search(r"^testbench_steps(_total)? [1-9]", answer.read().decode(), re.MULTILINE) is not None
        return False

    serve.wait_for(is_running, "steps")  # long before the first line of progress
    return serve, hosts


@pytest.mark.parametrize("processes", [1, 2])
def test_hosts_fail_when_the_coordinator_is_killed(start: Start, endpoint: str, processes: int) -> None:
    serve, hosts = running(start, endpoint, 2, processes)
    serve.process.kill()
    for host in hosts:
        ended = host.end()
        assert ended.status == 4
        assert "lost the connection to the coordinator" in ended.err


def test_hosts_fail_when_the_coordinator_is_interrupted(start: Start, endpoint: str) -> None:
    serve, hosts = running(start, endpoint, 2)
    serve.process.terminate()
    assert serve.end().status == 130
    assert statuses(*hosts) == [4, 4]


def test_hosts_fail_when_another_host_is_killed(start: Start, endpoint: str) -> None:
    serve, (victim, *others) = running(start, endpoint, 3)
    victim.process.kill()
    assert serve.end().status == 3, serve.err
    assert statuses(*others) == [4, 4]


@contextmanager
def interrupts_not_ignored() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, and so would be the hosts of a test that runs in one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("flags", ["", "--processes 2"])
def test_a_host_can_be_interrupted(start: Start, tmp_path: Path, flags: str) -> None:
    (tmp_path / "there").write_text("token")
    with interrupts_not_ignored(), socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        host = start(f"emunode --token-file there {flags} --coordinator", f"127.0.0.1:{port}")
        stream, _ = listener.accept()
        with stream:
            host.process.send_signal(signal.SIGINT)
            assert host.end() == (130, "", "")
