"""Real processes: whatever happens to a run, it ends soon, says why, and leaves no process and no half-written run."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from coordinator.execution.run import run
from coordinator.networks import control_channel as control
from coordinator.networks.launchers import local
from coordinator.networks.launchers.local import LocalLaunch
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.errors import RunError
from emunode.net.wire import FRAME_LIMIT, HELLO_LIMIT, LENGTH, NONCE_BYTES, frame
from tests.support import run_scenario

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 60.0
"""For anything that should take a moment, on however busy a machine."""

FLOOD = ("--collective", "broadcast", "--algorithm", "flood")
ENDLESS = ("--topology", "star:3", *FLOOD, "--messages", "90000", "--message-bytes", "8")
"""Takes minutes if nothing comes between."""
ENDLESS_LINKS = 6
MANY_HOSTS = ("--topology", "star:5", *FLOOD, "--ranks-per-host", "1")
"""Forks 120 hosts before its first step."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look again and again until something is the case; it must happen."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.02)


def is_gone(process: psutil.Process) -> bool:
    """Whether a process is no more, or waits to be buried by somebody else."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Coordinator:
    """`coordinator` as a process of its own, in a folder of its own; nothing of it is left after the `with` block."""

    def __init__(self, folder: Path, *arguments: str, descriptors: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        command = [sys.executable, "-m", "coordinator", *arguments]
        if descriptors:
            command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.seen: set[psutil.Process] = set()
        """Every process below it that was seen so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hosts()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for process in self.seen:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    # --- what can be seen of it --------------------------------------------------------------------------------------

    @property
    def stderr(self) -> str:
        """What it said on standard error so far."""
        return (self.folder / "stderr").read_text()

    def parent(self) -> psutil.Process | None:
        """The parent of its hosts, once it is there."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children()
            self.seen.update(children)
            # between fork and exec it is a copy of the coordinator, which sleeps in the kernel until then
            return next((child for child in children if "emunode" in child.cmdline()), None)
        return None

    def hosts(self) -> list[psutil.Process]:
        """Its hosts, in the order in which they were forked."""
        with suppress(psutil.NoSuchProcess):
            parent = self.parent()
            hosts = sorted(parent.children(), key=lambda host: host.pid) if parent else []
            self.seen.update(hosts)
            return hosts
        return []

    def partial(self) -> list[Path]:
        """Folders that are being written."""
        return list(self.folder.rglob(".partial-*"))

    def log(self) -> list[dict[str, Any]]:
        """The events of its run, finished or not; each must be a JSON object on a line."""
        (file,) = self.folder.rglob("log.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def summary(self) -> dict[str, Any]:
        """The summary of the one run that it left."""
        (file,) = self.folder.glob("runs/*/2*/summary.json")
        return json.loads(file.read_text())  # type: ignore[no-any-return]

    def listening_port(self, pid: int) -> tuple[str, int]:
        """Where its process `pid` listens."""
        for connection in psutil.Process(pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                return connection.laddr.ip, connection.laddr.port
        raise AssertionError(f"process {pid} listens nowhere")

    # --- what can be waited for --------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait while it runs; it must not end before."""

        def met() -> object:
            assert self.process.poll() is None, f"it ended before {what}: {self.stderr}"
            return condition()

        wait_until(met, what)

    def wait_for_hosts(self, count: int, state: str) -> list[psutil.Process]:
        """Wait until so many hosts have a connection in this state."""
        self.wait_for(lambda: sum(connections(host, state) > 0 for host in self.hosts()) >= count, f"{count} hosts")
        return self.hosts()

    def wait_for_steps(self, links: int = ENDLESS_LINKS) -> list[psutil.Process]:
        """Wait until all links are up, and steps go by."""
        ends = 2 * links
        self.wait_for(
            lambda: sum(connections(host, psutil.CONN_ESTABLISHED) - 1 for host in self.hosts()) == ends, "links"
        )
        self.wait_for_more_steps()
        return self.hosts()

    def wait_for_more_steps(self) -> None:
        """Wait until every host has come to rest a hundred times: in a step it does so once or more."""
        before = {host: host.num_ctx_switches().voluntary for host in self.hosts()}
        self.wait_for(
            lambda: all(host.num_ctx_switches().voluntary > rests + 100 for host, rests in before.items()), "steps"
        )

    def status(self) -> int:
        """Its exit status; nothing of it may be left when it has ended."""
        self.hosts()
        status = self.process.wait(DEADLINE_SECONDS)
        wait_until(lambda: all(map(is_gone, self.seen)), f"all of {self.seen} to leave")
        assert self.partial() == []
        return status


def connections(process: psutil.Process, state: str) -> int:
    """How many TCP sockets of a process are in this state."""
    with suppress(psutil.NoSuchProcess):
        return sum(connection.status == state for connection in process.net_connections("tcp"))
    return 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Coordinator]]:
    """Start coordinators that are gone after the test."""
    started: list[Coordinator] = []

    def start_one(*arguments: str, **options: Any) -> Coordinator:
        started.append(Coordinator(tmp_path / str(len(started)), *arguments, **options))
        return started[-1]

    yield start_one
    for coordinator in started:
        coordinator.__exit__()


Start = Callable[..., Coordinator]


# --- being told to stop ----------------------------------------------------------------------------------------------

STOPS = pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])


def check_stop(run: Coordinator, stop: signal.Signals, times: int = 1) -> None:
    """Tell a run to stop, as a terminal or a supervisor would; it must be gone in about two seconds."""
    run.hosts()
    began = time.monotonic()
    for _ in range(times):
        os.killpg(run.process.pid, stop)
    assert run.status() == 130
    assert time.monotonic() - began < 2 + 10  # and some for a busy machine
    assert "Traceback" not in run.stderr


@STOPS
def test_stopping_in_the_middle_keeps_what_was_measured(start: Start, stop: signal.Signals) -> None:
    run = start("run", *ENDLESS)
    run.wait_for_steps()
    check_stop(run, stop)
    summary = run.summary()
    assert (summary["verdict"], summary["undecided_because"]) == ("undecided", "interrupted")
    assert {claim["verdict"] for claim in summary["claims"]} == {"undecided"}
    assert summary["deliveries"] > 0
    assert summary["journal_rows"] >= summary["packets"] > 0
    assert (run.folder / "runs" / "star-3-broadcast-flood" / "latest" / "journal.parquet").exists()


def test_stopping_a_process_a_rank(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "1")
    assert len(run.wait_for_steps()) == 6
    check_stop(run, signal.SIGINT)
    assert run.summary()["verdict"] == "undecided"


def test_stopping_twice_is_stopping(start: Start) -> None:
    run = start("run", *ENDLESS)
    run.wait_for_steps()
    check_stop(run, signal.SIGINT, times=3)
    assert run.summary()["undecided_because"] == "interrupted"


def test_stopping_while_hosts_come_up(start: Start) -> None:
    run = start("run", *MANY_HOSTS)
    run.wait_for_hosts(1, psutil.CONN_ESTABLISHED)
    check_stop(run, signal.SIGTERM)


def test_stopping_while_a_host_does_not_answer(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "1")
    run.wait_for_steps()[3].suspend()
    check_stop(run, signal.SIGINT)


def test_stopping_while_no_host_comes_up(start: Start) -> None:
    run = start("run", *ENDLESS)
    run.wait_for(run.parent, "the parent of its hosts")
    parent = run.parent()
    assert parent is not None
    parent.suspend()
    check_stop(run, signal.SIGTERM)


def test_a_parent_of_all_hosts_that_is_stopped_ends_the_run_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the limit on silence plus 5 s; the limit itself is shortened here, and is 30 s."""
    assert LocalLaunch.join_seconds <= control.STALL_SECONDS == 30
    monkeypatch.setattr(LocalLaunch, "join_seconds", 2.0)
    stopped: list[psutil.Process] = []
    spawn = LocalLaunch._spawn

    def spawn_stopped(launch: LocalLaunch, *more: str) -> "subprocess.Popen[bytes]":
        process = spawn(launch, *more)
        stopped.append(psutil.Process(process.pid))
        stopped[0].suspend()
        return process

    monkeypatch.setattr(LocalLaunch, "_spawn", spawn_stopped)
    plan = make_plan(make_scenario({"topology": "star:4", "collective": "broadcast", "algorithm": "flood"}))
    began = time.monotonic()
    with pytest.raises(RunError, match="no message for 2 s while waiting for hosts to join") as caught:
        run(plan, tmp_path / "run", lambda *_: None)
    assert time.monotonic() - began < 2 + 5
    assert "log.jsonl" not in str(caught.value)
    assert is_gone(stopped[0])
    assert not list(tmp_path.iterdir())


@STOPS
def test_stopping_before_anything_came_up(start: Start, stop: signal.Signals) -> None:
    run = start("run", *ENDLESS)
    run.wait_for(run.partial, "a folder")
    check_stop(run, stop)


def test_stopping_in_memory(start: Start) -> None:
    """A step of this network takes more than a moment, and stopping does not wait for its end."""
    run = start("run", "--topology", "hypercube:17", *FLOOD, "--driver", "memory")
    run.wait_for(lambda: ": steps " in run.stderr, "steps")
    check_stop(run, signal.SIGTERM)
    assert run.summary()["verdict"] == "undecided"


# --- sudden death ----------------------------------------------------------------------------------------------------


def test_a_host_that_is_killed_leaves_a_run_undecided(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "2")
    victim = run.wait_for_steps()[1]
    victim.kill()
    assert run.status() == 3
    summary = run.summary()
    assert summary["verdict"] == "undecided"
    assert summary["undecided_because"].startswith(f"host 1 (process {victim.pid} on ")
    assert summary["deliveries"] > 0


def test_a_host_that_is_killed_before_the_first_step_fails_the_run(start: Start) -> None:
    run = start("run", *MANY_HOSTS)
    run.wait_for(run.hosts, "a host")
    parent = run.parent()
    assert parent is not None
    parent.suspend()  # so that the others never come
    victim = run.wait_for_hosts(1, psutil.CONN_ESTABLISHED)[0]
    victim.kill()
    assert run.status() == 4
    assert f"host 0 (process {victim.pid} on " in run.stderr
    assert not (run.folder / "runs").exists()


def test_a_host_that_hangs_is_named_when_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung: list[psutil.Process] = []

    def hang_one(phase: str, done: int, _: int) -> None:
        if (phase, done) == ("steps", 3):
            (parent,) = psutil.Process().children()
            hung.append(sorted(parent.children(), key=lambda host: host.pid)[2])
            hung[0].suspend()
            monkeypatch.setattr(control, "STALL_SECONDS", 0.5)

    flood = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "messages": 50}
    result = run(make_plan(make_scenario({**flood, "ranks_per_host": 1})), tmp_path / "run", hang_one)
    because = result.execution.undecided
    assert because is not None
    assert because.startswith(
        "timed out: no message for 0.5 s while waiting for step 4 to end; hosts without a report: 2"
    )
    assert result.verdict == Verdict.UNDECIDED
    wait_until(lambda: is_gone(hung[0]), "the host that hung to leave")


def test_when_the_parent_of_all_hosts_is_killed_they_all_go(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "1")
    run.wait_for_steps()
    parent = run.parent()
    assert parent is not None
    parent.kill()
    assert run.status() == 3
    assert run.summary()["verdict"] == "undecided"


def test_when_the_coordinator_is_killed_all_hosts_go_and_clean_takes_the_rest(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "1")
    hosts = run.wait_for_steps()
    run.process.kill()
    assert run.process.wait() == -signal.SIGKILL
    wait_until(lambda: all(map(is_gone, run.seen)), "hosts to leave")
    assert len(hosts) == 6
    (left,) = run.partial()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(run.folder / "state")}
    command = [sys.executable, "-m", "coordinator", "clean", "--json"]
    cleaned = subprocess.run(command, cwd=run.folder, env=environment, capture_output=True, check=True)
    assert json.loads(cleaned.stdout) == {"removed": [str(left.relative_to(run.folder))]}
    assert run.partial() == []


# --- side by side ----------------------------------------------------------------------------------------------------


def test_two_runs_at_once_do_not_meet(start: Start) -> None:
    arguments = ("run", "--topology", "star:4", *FLOOD, "--messages", "50", "--ranks-per-host", "8")
    runs = [start(*arguments), start(*arguments), start(*arguments, "--seed", "1")]
    assert [run.status() for run in runs] == [0, 0, 0]
    one, other, third = (run.summary() for run in runs)
    assert one["journal_hash"] == other["journal_hash"] == third["journal_hash"]
    assert one["verdict"] == third["verdict"] == "holds"


# --- strangers -------------------------------------------------------------------------------------------------------

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


def pester(address: tuple[str, int], data: bytes) -> None:
    """Say `data` to a listener, and wait until it closes the connection."""
    with socket.create_connection(address, DEADLINE_SECONDS) as stranger, suppress(ConnectionError):
        stranger.sendall(data)
        while stranger.recv(1000):
            pass


def refusals(run: Coordinator) -> list[dict[str, Any]]:
    """The strangers that a run speaks of in its log."""
    return [event for event in run.log() if event["event"] == "connection refused"]


def refused_by(run: Coordinator, pid: int) -> list[dict[str, Any]]:
    """The strangers that one process turned away."""
    return [event for event in refusals(run) if event["pid"] == pid]


def check_strangers(run: Coordinator, pid: int) -> None:
    """Pester one process of a run: it must close every connection, and say why in the log."""
    address = run.listening_port(pid)
    for data in NONSENSE.values():
        pester(address, data)
    with socket.create_connection(address):
        pass  # who says nothing and leaves
    with socket.create_connection(address) as stranger:
        stranger.sendall(b"\x09\0\0\0trunc")
    wait_until(lambda: len(refused_by(run, pid)) == len(NONSENSE) + 2, "lines in the log")
    assert all(event["why"] for event in refused_by(run, pid))


def test_strangers_are_turned_away_and_a_run_goes_on(start: Start) -> None:
    run = start("run", "--topology", "star:3", *FLOOD, "--messages", "2000", "--ranks-per-host", "3")
    one, other = run.wait_for_hosts(2, psutil.CONN_LISTEN)
    other.suspend()  # so that the run does not end meanwhile
    check_strangers(run, run.process.pid)
    check_strangers(run, one.pid)
    one.suspend()
    other.resume()
    check_strangers(run, other.pid)
    one.resume()
    assert run.status() == 0
    memory = run_scenario(topology="star:3", collective="broadcast", algorithm="flood", messages=2000)
    assert run.summary()["journal_hash"] == memory.summary["journal_hash"]
    assert len(refusals(run)) == 3 * (len(NONSENSE) + 2)
    assert "stranger" not in run.stderr


def test_strangers_who_say_nothing_are_shed(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "3")
    host, other = run.wait_for_hosts(2, psutil.CONN_LISTEN)
    other.suspend()  # nothing of this needs steps to go by
    with socket.create_connection(run.listening_port(run.process.pid), DEADLINE_SECONDS):
        pester(run.listening_port(host.pid), b"\x3c")  # says something, and then nothing
        wait_until(lambda: len(refusals(run)) == 2, "lines in the log")
    assert {event["why"] for event in refusals(run)} == {"no hello within 5 s"}
    check_stop(run, signal.SIGINT)


def test_strangers_who_take_every_descriptor_have_to_make_room(start: Start) -> None:
    run = start("run", *ENDLESS, "--ranks-per-host", "3", descriptors=128)
    host = run.wait_for_steps()[0]
    with ExitStack() as crowd:
        for pid in (run.process.pid, host.pid):
            address = run.listening_port(pid)
            for _ in range(200):
                crowd.enter_context(socket.create_connection(address, DEADLINE_SECONDS))
            wait_until(lambda pid=pid: refused_by(run, pid), "lines in the log")  # type: ignore[misc]
            assert refused_by(run, pid)[0]["why"] == "no room: Too many open files"
        run.wait_for_more_steps()
        check_stop(run, signal.SIGINT)
    assert run.summary()["undecided_because"] == "interrupted"


# --- what cannot work here -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "descriptors", "said"),
    [
        (
            ("--topology", "star:6", "--ranks-per-host", "720"),
            256,
            "limit is 256; use --ranks-per-host 38 or less, or raise it with `ulimit -n 3664`",
        ),
        (
            ("--topology", "star:5", "--ranks-per-host", "1"),
            128,
            "120 hosts need 184 file descriptors; the limit is 128",
        ),
        (("--topology", "star:4"), 65, "the limit of 65 file descriptors leaves no room for one node; raise it"),
    ],
    ids=["links", "hosts", "nothing"],
)
def test_too_few_descriptors_are_said_with_the_remedy(
    start: Start, arguments: Sequence[str], descriptors: int, said: str
) -> None:
    run = start("run", *arguments, *FLOOD, descriptors=descriptors)
    assert run.status() == 4
    assert said in run.stderr
    assert not (run.folder / "runs").exists()


def test_few_descriptors_make_more_hosts(start: Start) -> None:
    run = start("run", "--topology", "star:5", *FLOOD, descriptors=200)
    assert run.status() == 0
    assert run.summary()["hosts"] == 4


STILLBORN = """
import os, signal, sys, time
if not os.fork():
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
"""


async def test_a_host_stopped_before_it_asked_to_die_with_its_parent_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def stillborn(_command: Sequence[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", STILLBORN], **options)

    monkeypatch.setattr(subprocess, "Popen", stillborn)
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
