"""Launchers on machines that are already there: the common part of the drivers ssh, mpi and slurm.

A starter is a command that starts hosts: `ssh NODE ..`, `mpirun ..` or `srun ..`. Endpoint and token of the run reach hosts
in a join file that only their user can read, or through the standard input of the starter, never on a command line. A
fault reaches the process of a host by a command on its node, and so it hits this process alone: schedulers signal whole
steps.
"""

import contextlib
import math
import os
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TextIO

import trio

from coordinator.annexes.clusters.options import ClusterOptions
from coordinator.history.stored.left_behind import Record
from coordinator.history.stored.reading import read_text
from coordinator.networks.launchers.base import Launch, ProcessState
from coordinator.networks.launchers.join import record_join
from coordinator.networks.launchers.local import state_in
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS
from emunode.errors import RunError, ScenarioError
from emunode.launched import JOIN_FILE, job_join_file, join_text

LEAVE_SECONDS: Final = 5.0
"""How long starters may take to end on their own once their hosts have left."""
COMMAND_SECONDS: Final = 30.0
"""How long a command on a node may take."""
SPARE_SECONDS: Final = 20.0
"""How long before the time limit of its job a run ends, so that hosts can leave and results are stored."""
MOST_HOST_FILE_BYTES: Final = 1 << 20
MOST_NODES: Final = 10_000
MOST_SLOTS: Final = 1024
"""The most hosts that a line of a host file may ask for."""


class ClusterMachine(NamedTuple):
    """A machine of a host file, and how many hosts it takes."""

    name: str
    slots: int


class Starter(NamedTuple):
    """A command that starts hosts."""

    command: Sequence[str]
    join_by_input: bool = False
    """Whether hosts read the join file from the standard input of the command; it stays open until the run is over."""


class ClusterLaunch(Launch):
    """Hosts that a command starts on other machines, or on this one."""

    can_kill = True
    means: Mapping[str, str] = {
        "kill": "kill -KILL on its node",
        "stop": "kill -STOP on its node",
        "continue": "kill -CONT on its node",
        "restart": "a new process on its node",
    }
    program = ""
    """The command of the launcher, unless the scenario gives another one."""
    package = ""
    """The package of this command."""

    def __init__(self, plan: Plan, log: TextIO) -> None:
        self._log = log
        self._plan = plan
        self._allow_plugins = bool(plan.scenario.plugin)
        self.join_seconds = plan.join_seconds or DRIVERS[plan.scenario.driver].join_seconds
        options = ClusterOptions.of(plan.scenario)
        self.launcher = shlex.split(options.launcher) if options.launcher else [self.program]
        """The command of the launcher, with further arguments of the user."""
        self.nodes = read_host_file(options.host_file) if options.host_file else ()
        """The machines of the host file; empty: the launcher chooses."""
        self.job = os.environ.get("SLURM_JOB_ID", "")
        """The job of Slurm that hosts run in; empty outside Slurm."""
        self.run = secrets.token_hex(6)
        self.join_file = job_join_file(f"run-{self.run}")
        self._join_record: Record | None = None
        self._starters: list[subprocess.Popen[bytes]] = []
        self._watched: dict[int, subprocess.Popen[bytes]] = {}
        """The starters by a descriptor that is readable once they have ended."""
        self._ends: select.epoll | None = None
        self._address, self._endpoint, self._token = "", "", b""
        self._nodes: dict[int, str] = {}
        """The node of each host that has joined."""

    # --- what a launcher defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def starters(self, hosts: int) -> Sequence[Starter]:
        """Return the commands that start `hosts` hosts."""

    @abstractmethod
    def starter_on(self, node: str, host: int) -> Starter:
        """Return the command that starts host `host` on a node, alone."""

    @abstractmethod
    def command_on(self, node: str, command: Sequence[str]) -> Sequence[str]:
        """Return the command that executes another one on a node."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment of starters."""
        return os.environ

    async def coordinator_address(self) -> str:
        """Return the address of this machine that hosts dial."""
        return address_towards(self.nodes[0].name) if self.nodes else "127.0.0.1"

    # --- up ----------------------------------------------------------------------------------------------------------

    def programs(self) -> Sequence[str]:
        """Return the programs of this machine that a run needs."""
        return self.launcher[:1]

    async def prepare(self) -> tuple[str, int]:
        for name in self.programs():
            require_program(name, self.package)
        self._address = await self.coordinator_address()
        left = await seconds_left(self.job)
        # With a short limit half of it is for the run.
        self.ends_at = time.monotonic() + left - min(SPARE_SECONDS, left / 2)
        return self._address, 0

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self._ends = select.epoll()
        self._endpoint, self._token = f"{self._address}:{port}", token
        self._join_record = record_join(self.join_file, self._endpoint, token)
        self.join_file.write(self._endpoint, token)
        for starter in self.starters(hosts):
            self._spawn(starter)
        return self._ends.fileno()

    def host_command(self, join_file: str = "", *flags: object) -> list[str]:
        """Return the command of a host that reads the join file, by default by its path."""
        plugins = ["--allow-plugins"] if self._allow_plugins else []
        file = join_file or str(self.join_file.path)
        return [sys.executable, "-m", "emunode", "--join-file", file, *plugins, *map(str, flags)]

    def _spawn(self, starter: Starter) -> None:
        try:
            process = subprocess.Popen(
                starter.command,
                stdin=subprocess.PIPE if starter.join_by_input else subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env={**self.environment(), JOIN_FILE: str(self.join_file.path)},
                start_new_session=True,
            )
        except OSError as error:
            raise RunError(f"cannot start {starter.command[0]!r}: {error.strerror}") from None
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(join_text(self._endpoint, self._token).encode())
                process.stdin.flush()
        self._starters.append(process)
        descriptor = os.pidfd_open(process.pid)
        self._watched[descriptor] = process
        assert self._ends is not None
        self._ends.register(descriptor, select.EPOLLIN)

    def joined(self, host: int, node: str) -> None:
        self._nodes[host] = node

    def check(self) -> None:
        ended = [process for process in self._starters if process.poll() is not None]
        if ended:
            command = ended[0].args[0] if isinstance(ended[0].args, Sequence) else ended[0].args
            raise RunError(f"{command!s} ended with status {ended[0].returncode}; its output is in the log of the run")

    # --- faults ------------------------------------------------------------------------------------------------------

    async def kill(self, host: int, pid: int) -> None:
        await self._signal(host, pid, "KILL")

    async def pause(self, host: int, pid: int) -> None:
        await self._signal(host, pid, "STOP")

    async def resume(self, host: int, pid: int) -> None:
        await self._signal(host, pid, "CONT")

    async def restart(self, host: int) -> None:
        self._spawn(self.starter_on(self._nodes[host], host))

    async def state(self, host: int, pid: int) -> ProcessState:
        # `kill -0` would take a zombie for a process.
        status, text = await self._run_on(self._nodes[host], ["cat", f"/proc/{pid}/stat"])
        return state_in(text) if status == 0 else ProcessState.ENDED

    async def _signal(self, host: int, pid: int, name: str) -> None:
        node = self._nodes[host]
        # The shell has `kill` itself; the program of that name is in a package that a minimal system lacks.
        status, text = await self._run_on(node, ["sh", "-c", f"kill -{name} {pid}"])
        # A host that has just ended needs no signal.
        if status and await self.state(host, pid) is not ProcessState.ENDED:
            raise RunError(f"cannot send SIG{name} to process {pid} on {node}: {text.strip() or f'status {status}'}")

    async def _run_on(self, node: str, command: Sequence[str]) -> tuple[int, str]:
        """Execute a command on a node; return its exit status and output. RunError if it takes too long."""
        return await run_command(self.command_on(node, command), f"{shlex.join(command)} on {node}")

    # --- down --------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        if self._join_record is not None:
            self._join_record.discard()
        for process in self._starters:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        # SIGTERM first: launchers pass it on to their processes.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                for descriptor in self._watched:
                    await trio.lowlevel.wait_readable(descriptor)
            for process in self._starters:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
        for process in self._starters:
            process.wait()
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched.clear()
        self._starters.clear()
        if self._ends is not None:
            self._ends.close()
            self._ends = None


def require_program(name: str, package: str) -> None:
    """Raise RunError unless a program of a package is there."""
    if not shutil.which(name):
        raise RunError(f"{package} is not installed: no program {name} on the path")


async def run_command(command: Sequence[str], doing: str, seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
    """Execute a command; return its exit status and its output. RunError if it cannot start or takes too long."""
    try:
        with trio.fail_after(seconds):
            done = await trio.run_process(
                command, stdin=b"", capture_stdout=True, stderr=subprocess.STDOUT, check=False
            )
    except OSError as error:
        raise RunError(f"cannot start {command[0]!r}: {error.strerror}") from None
    except trio.TooSlowError:
        raise RunError(f"{doing} took more than {seconds:g} s") from None
    return done.returncode, done.stdout.decode(errors="replace")


async def seconds_left(job: str) -> float:
    """Return the time until Slurm ends a job; infinity without a job, a limit or an answer."""
    if not job or not shutil.which("squeue"):
        return math.inf
    status, text = await run_command(["squeue", "--noheader", "--format=%L", "--jobs", job], "squeue")
    return math.inf if status else parse_time_left(text.strip())


def parse_time_left(text: str) -> float:
    """Return the seconds of a time as squeue writes it: [[DAYS-]HOURS:]MINUTES:SECONDS; infinity for words."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts) or not (days or "0").isdecimal():
        return math.inf
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return seconds + 86400.0 * int(days or 0)


def read_host_file(path: str) -> tuple[ClusterMachine, ...]:
    """Return the machines of a host file as Open MPI writes it: a name and perhaps `slots=N` on each line.

    ScenarioError if a line has another form, or the file names no machine.
    """
    try:
        text = read_text(Path(path), MOST_HOST_FILE_BYTES)
    except OSError as error:
        raise ScenarioError("host_file", path, f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ScenarioError("host_file", path, str(error)) from None
    nodes: list[ClusterMachine] = []
    for number, line in enumerate(text.splitlines(), 1):
        name, *words = line.partition("#")[0].split() or [""]
        if not name:
            continue
        slots = 1
        for word in words:
            key, _, value = word.partition("=")
            if key != "slots" or not value.isdecimal() or not 1 <= int(value) <= MOST_SLOTS:
                raise ScenarioError(
                    "host_file", path, f"line {number}: {word!r} is not slots=N with N from 1 to {MOST_SLOTS}"
                )
            slots = int(value)
        # A name that begins with a hyphen would be read as an option of ssh or mpirun.
        if not all(letter.isalnum() or letter in ".-_:" for letter in name) or name.startswith("-"):
            raise ScenarioError("host_file", path, f"line {number}: {name!r} is no name of a machine")
        nodes.append(ClusterMachine(name, slots))
    if not 0 < len(nodes) <= MOST_NODES:
        raise ScenarioError("host_file", path, f"it names {len(nodes)} machines; from 1 to {MOST_NODES} are allowed")
    return tuple(nodes)


def address_towards(node: str) -> str:
    """Return the address of this machine on the way to a node; RunError if the name of the node has no address."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Sends nothing, and lets the kernel choose the route.
            probe.connect((node, 9))
            address: str = probe.getsockname()[0]
    except OSError as error:
        raise RunError(f"cannot find the way to {node}: {error.strerror or error}") from None
    return address
