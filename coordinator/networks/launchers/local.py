"""The local driver: host processes on this machine, forked from one warm parent."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import trio

from coordinator.networks.launchers.base import Launch, ProcessState
from coordinator.planning.plan import Plan
from coordinator.scenario.drivers import DRIVERS
from coordinator.scenario.programs import ProgramOptions
from emunode.algorithms.base import Need
from emunode.errors import RunError
from emunode.model import CollectiveSpec
from emunode.net import wire
from emunode.net.records import encode_record
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology

MOST_TABLE_SECONDS = 180.0
"""How long the parent of all hosts may compute tables before the first host joins; the largest take about two minutes."""
LEAVE_SECONDS = 1.5
"""How long hosts may take to exit on their own."""


class LocalLaunch(Launch):
    """Host processes on this machine.

    Each host has its own address in the loopback network, drawn at random for each run, so that concurrent runs do not
    collide and every link can be bound to an (address, port) pair.
    """

    can_kill = True
    join_seconds = DRIVERS["local"].join_seconds
    """Forking is fast: if no host joins for longer, the parent of all hosts is stopped or stuck."""

    def __init__(
        self,
        log: TextIO,
        topology: Topology | None = None,
        allow_plugins: bool = False,
        job: CollectiveSpec | None = None,
    ) -> None:
        self._log = log
        self._allow_plugins = allow_plugins
        self._network: int | None = None
        """A file in memory with the network; the parent of all hosts reads the file once before it forks them."""
        if isinstance(topology, TableTopology):
            self._network = _file_in_memory(topology.to_bytes())
        self._job: int | None = None
        """A file in memory that holds the job, whose tables the parent of all hosts computes before it forks them."""
        if job is not None:
            sha256 = topology.sha256 if isinstance(topology, TableTopology) else ""
            self._job = _file_in_memory(wire.encode_control("job", sha256, encode_record(job.with_data(b""))))
        self.preloads_network = self._network is not None
        # A random block of the loopback network: concurrent runs get different addresses, as 127.0.0.0/8 has 2^24 of
        # them.
        self._net = secrets.randbelow(1 << 22) + (1 << 16)
        self._parent: subprocess.Popen[bytes] | None = None
        self._pidfds: list[int] = []
        self._command: list[str] = []
        self._token = b""
        self._restarted: list[subprocess.Popen[bytes]] = []

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self._command = [sys.executable, "-m", "emunode", "--coordinator", f"127.0.0.1:{port}", "--token-file", "-"]
        if self._allow_plugins:
            self._command.append("--allow-plugins")
        self._token = token
        self._parent = self._spawn("--index", "0", "--processes", str(hosts))
        return self._pidfds[0]

    def _spawn(self, *more: str) -> "subprocess.Popen[bytes]":
        # Not through trio: its worker threads end, and the parent-death signal comes when the thread that forked ends.
        # No code of ours between fork and exec: other threads of a notebook or a script may hold locks at that moment. The
        # new process asks for the signal itself, and compares its parent with ours.
        files = {"--network-descriptor": self._network, "--job-descriptor": self._job}
        passed = {flag: descriptor for flag, descriptor in files.items() if descriptor is not None}
        flags = [f"{flag}={descriptor}" for flag, descriptor in passed.items()]
        process = subprocess.Popen(
            [*self._command, f"--parent={os.getpid()}", *flags, *more],
            pass_fds=tuple(passed.values()),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self._token + b"\n")
            process.stdin.close()
        # A descriptor that is readable when the process has ended, without a signal handler.
        self._pidfds.append(os.pidfd_open(process.pid))
        return process

    def addresses(self, host: int) -> tuple[str, str]:
        # Wraps around within 127.0.0.0/8.
        number = (127 << 24) + (self._net + host) % (1 << 24)
        address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        return address, address

    def check(self) -> None:
        if self._parent is not None and self._parent.poll() is not None:
            raise RunError(f"the parent of all hosts ended with status {self._parent.returncode}")

    async def kill(self, host: int, pid: int) -> None:
        self._signal(pid, signal.SIGKILL)

    async def restart(self, host: int) -> None:
        """Start the host as a separate process, since the parent of all hosts forks only once."""
        self._restarted.append(self._spawn("--index", str(host)))

    async def pause(self, host: int, pid: int) -> None:
        self._signal(pid, signal.SIGSTOP)

    async def resume(self, host: int, pid: int) -> None:
        self._signal(pid, signal.SIGCONT)

    async def state(self, host: int, pid: int) -> ProcessState:
        return state_of(pid)

    def _signal(self, pid: int, number: signal.Signals) -> None:
        # A host that is connected is running or a zombie, so its process id cannot belong to another process.
        ours = any(process.pid == pid for process in self._restarted)
        if not ours and (self._parent is None or parent_of(pid) != self._parent.pid):
            raise RunError(f"cannot send {number.name} to process {pid}: it is not a host of this run")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    async def stop(self) -> None:
        for descriptor in (self._network, self._job):
            if descriptor is not None:
                os.close(descriptor)
        self._network = self._job = None
        parent = self._parent
        if parent is None:
            return
        self._parent = None
        try:
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                for pidfd in self._pidfds:
                    await trio.lowlevel.wait_readable(pidfd)
        finally:
            for pidfd in self._pidfds:
                os.close(pidfd)
        for process in (parent, *self._restarted):
            if process.returncode is None:
                # It has not been waited for, so its id still names its process group. Its children die with it, except
                # a child that was stopped before it requested the parent-death signal: hence the signal to the whole
                # group. There is no such group if an interrupt of ours ended the process before it left our group.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _file_in_memory(content: bytes) -> int:
    """Return the descriptor of a new file without a path."""
    descriptor = os.memfd_create("content")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return descriptor


def launch(plan: Plan, log: TextIO) -> LocalLaunch:
    """Return the launcher of the local driver."""
    foreign = bool(plan.scenario.plugin or ProgramOptions.of(plan.scenario).program)
    # The parent of the hosts has no plug-ins: each host loads them itself. Otherwise the parent prepares the job: that
    # saves each host 23 ms of its start, mostly imports.
    shared = Need.TABLE in plan.algorithm.needs and not foreign
    found = LocalLaunch(log, plan.topology, foreign, None if foreign else plan.spec)
    if shared:
        found.join_seconds += MOST_TABLE_SECONDS
    if plan.join_seconds is not None:
        found.join_seconds = plan.join_seconds
    return found


def state_of(pid: int) -> ProcessState:
    """Return the state of a process by /proc; a zombie has ended."""
    try:
        return state_in(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return ProcessState.ENDED


def state_in(stat: str) -> ProcessState:
    """Return the state of a process from the content of its file `stat` in /proc (proc(5))."""
    letter, *_ = stat.rpartition(")")[2].split() or ["X"]
    stopped = {"T": ProcessState.STOPPED, "t": ProcessState.STOPPED}
    return stopped.get(letter, ProcessState.ENDED if letter in "ZXx" else ProcessState.RUNNING)


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it does not exist."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
