"""Host processes: however a run ends, it ends soon, says why, and leaves no process and no unfinished run directory."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.networks import control_channel as control
from coordinator.networks.launchers import local
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.results.claims import Verdict
from emunode.errors import RunError
from emunode.net.wire import FRAME_LIMIT, HELLO_LIMIT, LENGTH, NONCE_BYTES, frame
from tests.helpers.command_line import SECONDS, Running, command, fields, wait_until
from tests.helpers.process_support import connection_counts, is_gone
from tests.helpers.scenarios import Case
from tests.helpers.support import run_scenario

FLOOD = "--collective broadcast --algorithm flood"
ENDLESS = f"run --topology star:3 {FLOOD} --messages 90000 --message-bytes 8"
"""Takes minutes unless it is stopped."""
ENDLESS_LINKS = 6
MANY_HOSTS = f"run --topology star:5 {FLOOD} --ranks-per-host 1"
"""Forks 120 hosts before its first step."""


def connections(process: psutil.Process, state: str) -> int:
    """Return how many TCP sockets of a process are in this state."""
    with suppress(psutil.NoSuchProcess):
        return sum(connection.status == state for connection in process.net_connections("tcp"))
    return 0


def name(process: psutil.Process) -> str:
    """Return the name of a process; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


class Coordinator(Running):
    """`coordinator` as a process of its own, with the processes that it starts."""

    def __init__(self, folder: Path, line: str, descriptors: int | None = None) -> None:
        limit = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"] if descriptors else []
        super().__init__(folder, [*limit, *command(f"coordinator {line}")])
        self.seen: set[psutil.Process] = set()
        """Every process below it that was seen so far."""

    def close(self) -> None:
        self.hosts()
        super().close()
        for process in self.seen:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    # --- its state ---------------------------------------------------------------------------------------------------

    def parent(self) -> psutil.Process | None:
        """Return the parent of its hosts, if it exists already."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children()
            self.seen.update(children)
            # between fork and exec it is a copy of the coordinator, which sleeps in the kernel until then
            return next((child for child in children if "emunode" in child.cmdline()), None)
        return None

    def hosts(self) -> list[psutil.Process]:
        """Return its hosts, in the order of forking."""
        with suppress(psutil.NoSuchProcess):
            parent = self.parent()
            children = parent.children() if parent else []
            self.seen.update(children)
            # trio runs ldconfig when it is imported
            hosts = [child for child in children if name(child) != "ldconfig"]
            return sorted(hosts, key=lambda host: host.pid)
        return []

    def partial(self) -> list[Path]:
        """Return unfinished run directories."""
        return list(self.folder.rglob(".partial-*"))

    def log(self) -> list[dict[str, Any]]:
        """Return the events of its run, finished or not; each must be a JSON object on a line."""
        (file,) = self.folder.rglob("log.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def summary(self) -> dict[str, Any]:
        """Return the summary of its only run."""
        (file,) = self.folder.glob("runs/*/2*/summary.json")
        return json.loads(file.read_text())  # type: ignore[no-any-return]

    def listening_port(self, pid: int) -> tuple[str, int]:
        """Return the address where its process `pid` listens."""
        (address,) = (
            connection.laddr
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        )
        return address.ip, address.port

    # --- waiting -----------------------------------------------------------------------------------------------------

    def wait_for_parent(self) -> psutil.Process:
        """Wait for the parent of its hosts."""
        self.wait_for(self.parent, "the parent of its hosts")
        parent = self.parent()
        assert parent is not None
        return parent

    def wait_for_hosts(self, count: int, state: str) -> list[psutil.Process]:
        """Wait until this number of hosts have a connection in this state."""
        self.wait_for(lambda: sum(connections(host, state) > 0 for host in self.hosts()) >= count, f"{count} hosts")
        return self.hosts()

    def wait_for_steps(self) -> list[psutil.Process]:
        """Wait until all links of `ENDLESS` are open and steps are executed."""
        ends = 2 * ENDLESS_LINKS

        def linked() -> bool:
            hosts = self.hosts()  # each has a connection to the coordinator, too
            return sum(connection_counts(hosts, ends + len(hosts)).values()) == ends + len(hosts)

        self.wait_for(linked, "links")
        self.wait_for_more_steps()
        return self.hosts()

    def wait_for_more_steps(self) -> None:
        """Wait until every host has slept a hundred times: in a step it does so once or more."""
        before = {host: host.num_ctx_switches().voluntary for host in self.hosts()}
        self.wait_for(
            lambda: all(host.num_ctx_switches().voluntary > count + 100 for host, count in before.items()), "steps"
        )

    def status(self) -> int:
        """Return its exit status. When it has ended, its processes and unfinished run directories must be gone."""
        self.hosts()
        status = self.end().status
        wait_until(lambda: all(map(is_gone, self.seen)), f"all of {self.seen} end")
        assert self.partial() == []
        return status


Start = Callable[..., Coordinator]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start coordinators, each in a folder of its own; they are killed after the test."""
    with ExitStack() as stack:

        def start_one(line: str, folder: str = "run", **options: int) -> Coordinator:
            coordinator = Coordinator(tmp_path / folder, line, **options)
            stack.callback(coordinator.close)
            return coordinator

        yield start_one


# --- interrupts ------------------------------------------------------------------------------------------------------


def check_stop(run: Coordinator, stop: signal.Signals, times: int = 1) -> None:
    """Send a signal to the process group, as a terminal or a supervisor does; the run must end."""
    run.hosts()
    for _ in range(times):
        os.killpg(run.process.pid, stop)
    assert run.status() == 130, run.err
    assert "Traceback" not in run.err


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("flags", "hosts", "stop", "times"),
    [
        ("", 1, signal.SIGTERM, 1),
        ("", 1, signal.SIGHUP, 1),
        ("", 1, signal.SIGINT, 3),
        ("--ranks-per-host 1", 6, signal.SIGINT, 1),
    ],
    ids=["SIGTERM", "SIGHUP", "Ctrl-C, three times", "Ctrl-C, one process per rank"],
)
def test_an_interrupted_run_keeps_what_was_measured(
    start: Start, flags: str, hosts: int, stop: signal.Signals, times: int
) -> None:
    run = start(f"{ENDLESS} {flags}")
    assert len(run.wait_for_steps()) >= hosts
    check_stop(run, stop, times)
    summary = run.summary()
    assert (summary["verdict"], summary["undecided_because"]) == ("undecided", "interrupted")
    assert {claim["verdict"] for claim in summary["claims"]} == {"undecided"}
    assert summary["deliveries"] > 0
    assert summary["journal_rows"] >= summary["packets"] > 0
    assert (run.folder / "runs" / "star-3-broadcast-flood" / "latest" / "journal.parquet").exists()


MOMENTS: dict[str, tuple[str, Callable[[Coordinator], object]]] = {
    "before any process": (ENDLESS, lambda run: run.wait_for(run.partial, "a folder")),
    "before any host": (ENDLESS, lambda run: run.wait_for_parent().suspend()),
    "while hosts start": (MANY_HOSTS, lambda run: run.wait_for_hosts(1, psutil.CONN_ESTABLISHED)),
    "while a host hangs": (f"{ENDLESS} --ranks-per-host 1", lambda run: run.wait_for_steps()[3].suspend()),
    # a step of this network takes more than a moment, and an interrupt does not wait for its end
    "in memory": (
        f"run --topology hypercube:16 {FLOOD} --driver memory --messages 4",
        lambda run: run.wait_for(lambda: ": steps " in run.err, "steps"),
    ),
}


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("moment", "stop"),
    [("before any process", signal.SIGINT), *((moment, signal.SIGTERM) for moment in MOMENTS)],
)
def test_a_run_can_be_interrupted_at_any_time(start: Start, moment: str, stop: signal.Signals) -> None:
    line, reach = MOMENTS[moment]
    run = start(line)
    reach(run)
    check_stop(run, stop)
    if moment in ("while a host hangs", "in memory"):
        # and not because nothing was heard of a host for a while
        assert run.summary()["undecided_because"] == "interrupted"


# --- processes that are stopped or killed ----------------------------------------------------------------------------


def test_a_stopped_parent_of_all_hosts_ends_the_run_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the limit on silence (30 s, shortened here)."""
    assert LocalLaunch.join_seconds <= control.STALL_SECONDS == 30
    monkeypatch.setattr(LocalLaunch, "join_seconds", 0.5)
    stopped: list[psutil.Process] = []
    spawn = LocalLaunch._spawn

    def spawn_stopped(launch: LocalLaunch, *more: str) -> "subprocess.Popen[bytes]":
        process = spawn(launch, *more)
        stopped.append(psutil.Process(process.pid))
        stopped[0].suspend()
        return process

    monkeypatch.setattr(LocalLaunch, "_spawn", spawn_stopped)
    with pytest.raises(RunError, match=r"no message for 0\.5 s while waiting for hosts to join") as caught:
        run_scenario(tmp_path / "run", **fields("star:4 broadcast flood driver=local"))
    assert "log.jsonl" not in str(caught.value)
    assert is_gone(stopped[0])
    assert not list(tmp_path.iterdir())


def test_a_killed_host_leaves_a_run_undecided(start: Start) -> None:
    run = start(f"{ENDLESS} --ranks-per-host 2")
    victim = run.wait_for_steps()[1]
    victim.kill()
    assert run.status() == 3
    summary = run.summary()
    assert summary["verdict"] == "undecided"
    assert summary["undecided_because"].startswith(f"host 1 (process {victim.pid} on ")
    assert summary["deliveries"] > 0


def test_a_host_killed_before_the_first_step_fails_the_run(start: Start) -> None:
    run = start(MANY_HOSTS)
    parent = run.wait_for_parent()
    while True:
        run.wait_for(run.hosts, "a host")
        parent.suspend()  # so that the others are never forked
        run.wait_for(lambda: parent.status() == psutil.STATUS_STOPPED, "the parent to stop")
        if run.hosts():
            break
        parent.resume()  # it was the ldconfig of trio, before it had this name
    victim = run.wait_for_hosts(1, psutil.CONN_ESTABLISHED)[0]
    victim.kill()
    assert run.status() == 4
    assert f"host 0 (process {victim.pid} on " in run.err
    assert not (run.folder / "runs").exists()


def test_a_host_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung: list[psutil.Process] = []

    def hang_one(phase: str, done: int, _: int) -> None:
        if (phase, done) == ("steps", 3):
            (parent,) = psutil.Process().children()
            hung.append(sorted(parent.children(), key=lambda host: host.pid)[2])
            hung[0].suspend()
            # The other hosts have to report within this time, also on a busy machine.
            monkeypatch.setattr(control, "STALL_SECONDS", 3.0)

    plan = Case("star:3 broadcast flood driver=local messages=50 ranks_per_host=1").plan
    result = run(plan, DirectorySink(tmp_path / "run", draw=False), hang_one)
    because = result.execution.undecided
    assert because is not None
    assert because.startswith(
        "timed out: no message for 3 s while waiting for step 4 to end; hosts without a report: 2"
    )
    assert result.verdict == Verdict.UNDECIDED
    wait_until(lambda: is_gone(hung[0]), "the end of the host that hung")


def test_hosts_end_with_their_parent(start: Start) -> None:
    run = start(f"{ENDLESS} --ranks-per-host 1")
    run.wait_for_steps()
    run.wait_for_parent().kill()
    assert run.status() == 3
    assert run.summary()["verdict"] == "undecided"


def test_hosts_end_with_the_coordinator(start: Start) -> None:
    run = start(f"{ENDLESS} --ranks-per-host 1")
    assert len(run.wait_for_steps()) == 6
    run.process.kill()
    assert run.process.wait() == -signal.SIGKILL
    wait_until(lambda: all(map(is_gone, run.seen)), "the end of all hosts")


STOPPED_CHILD = """
import os, signal, sys, time
if not os.fork():
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
"""


async def test_a_host_that_stops_at_its_start_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    popen = subprocess.Popen

    def stopped_child(_command: Sequence[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", STOPPED_CHILD], **options)

    monkeypatch.setattr("coordinator.networks.launchers.local.subprocess.Popen", stopped_child)
    launch = local.LocalLaunch(sys.__stderr__)  # type: ignore[arg-type]
    launch.start(1, b"token", 1)
    parent = psutil.Process(launch._parent.pid)  # type: ignore[union-attr]
    wait_until(lambda: any(child.status() == psutil.STATUS_STOPPED for child in parent.children()), "it stops itself")
    (child,) = parent.children()
    monkeypatch.setattr(local, "LEAVE_SECONDS", 0.1)
    try:
        await launch.stop()
        wait_until(lambda: is_gone(child), "it is killed")
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


# --- side by side ----------------------------------------------------------------------------------------------------


def test_concurrent_runs_do_not_affect_each_other(start: Start) -> None:
    line = f"run --topology star:3 {FLOOD} --messages 50 --ranks-per-host 3 --seed"
    runs = [start(f"{line} {seed}", folder) for seed, folder in ((0, "one"), (0, "other"), (1, "third"))]
    assert [run.status() for run in runs] == [0, 0, 0]
    one, other, third = (run.summary() for run in runs)
    assert one["journal_hash"] == other["journal_hash"] == third["journal_hash"]
    assert one["verdict"] == third["verdict"] == "holds"


# --- unauthenticated connections -------------------------------------------------------------------------------------

NONSENSE: dict[str, bytes] = {
    "no frame": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long frame": LENGTH.pack(HELLO_LIMIT + 1) + b"x",
    "a longer frame": LENGTH.pack(FRAME_LIMIT + 1) + bytes(100_000),
    "the longest frame": b"\xff" * 1000,
    "an empty frame": frame(b""),
    "no proof": frame(bytes(NONCE_BYTES + 32 + 10)),
    "a large whole frame": frame(bytes(60_000)),
    "a hello of zeros": frame(bytes(60)),
    "nested arrays": frame(b"\x91" * 200),
}


def send_nonsense(address: tuple[str, int], data: bytes) -> None:
    """Send `data` to a listener, and wait until it closes the connection."""
    with socket.create_connection(address, SECONDS) as connection, suppress(ConnectionError):
        connection.sendall(data)
        while connection.recv(1000):
            pass


def refusals(run: Coordinator, pid: int | None = None) -> list[str]:
    """Return why a run, or one process of it, refused connections, by its log."""
    return [
        event["why"] for event in run.log() if event["event"] == "connection refused" and pid in (None, event["pid"])
    ]


def check_refusals(run: Coordinator, pid: int) -> None:
    """Connect to one process of a run without its secret: it must close every connection, with a reason in the log."""
    address = run.listening_port(pid)
    for data in NONSENSE.values():
        send_nonsense(address, data)
    with socket.create_connection(address):
        pass  # sends nothing and closes
    with socket.create_connection(address) as connection:
        connection.sendall(b"\x09\0\0\0trunc")
    wait_until(lambda: len(refusals(run, pid)) == len(NONSENSE) + 2, "lines in the log")
    assert all(refusals(run, pid))


def test_unauthenticated_connections_do_not_end_the_run(start: Start) -> None:
    run = start(f"run --topology star:3 {FLOOD} --messages 300 --ranks-per-host 3")
    one, other = run.wait_for_hosts(2, psutil.CONN_LISTEN)
    other.suspend()  # so that the run does not end meanwhile
    check_refusals(run, run.process.pid)
    check_refusals(run, one.pid)
    one.suspend()
    other.resume()
    check_refusals(run, other.pid)
    one.resume()
    assert run.status() == 0
    memory = run_scenario(None, **fields("star:3 broadcast flood messages=300"))
    assert run.summary()["journal_hash"] == memory.summary["journal_hash"]
    assert len(refusals(run)) == 3 * (len(NONSENSE) + 2)
    assert "connection refused" not in run.err


def test_silent_connections_expire(start: Start) -> None:
    run = start(f"{ENDLESS} --ranks-per-host 3")
    host, other = run.wait_for_hosts(2, psutil.CONN_LISTEN)
    other.suspend()  # no steps are needed here
    with socket.create_connection(run.listening_port(run.process.pid), SECONDS):
        send_nonsense(run.listening_port(host.pid), b"\x3c")  # the beginning of a frame
        wait_until(lambda: len(refusals(run)) == 2, "lines in the log")
    assert set(refusals(run)) == {"no hello within 5 s"}
    check_stop(run, signal.SIGINT)


def test_connections_that_take_every_descriptor_are_evicted(start: Start) -> None:
    run = start(f"{ENDLESS} --ranks-per-host 3", descriptors=128)
    host = run.wait_for_steps()[0]
    with ExitStack() as crowd:
        for pid in (run.process.pid, host.pid):
            address = run.listening_port(pid)
            for _ in range(200):
                crowd.enter_context(socket.create_connection(address, SECONDS))
            wait_until(lambda pid=pid: refusals(run, pid), "lines in the log")  # type: ignore[misc]
            assert refusals(run, pid)[0] == "no room: Too many open files"
        run.wait_for_more_steps()
        check_stop(run, signal.SIGINT)
    assert run.summary()["undecided_because"] == "interrupted"


# --- limits of this machine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "descriptors", "message"),
    [
        (
            "--topology star:6 --ranks-per-host 720",
            256,
            (
                "a host would need 3664 file descriptors and the limit is 256; use --ranks-per-host 38 or less, "
                "or raise it with `ulimit -n 3664`\n"
            ),
        ),
        ("--topology star:5 --ranks-per-host 1", 128, "120 hosts need 184 file descriptors; the limit is 128"),
        ("--topology star:4", 65, "the limit of 65 file descriptors leaves no room for one node; raise it"),
    ],
    ids=["links", "hosts", "nothing"],
)
def test_too_few_descriptors_are_reported_with_the_remedy(
    start: Start, flags: str, descriptors: int, message: str
) -> None:
    run = start(f"run {flags} {FLOOD}", descriptors=descriptors)
    assert run.status() == 4
    assert message in run.err
    assert not (run.folder / "runs").exists()


def test_few_descriptors_make_more_hosts(start: Start) -> None:
    run = start(f"run --topology star:4 {FLOOD}", descriptors=80)
    assert run.status() == 0
    assert run.summary()["hosts"] == 5
