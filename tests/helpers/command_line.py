"""Command lines in tests: called in this process or run as processes of their own, and how they ended."""

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from tests.helpers.warm_programs import WarmProcess, can_be_warm

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("TESTBENCH_TEST_SECONDS", "240"))
"""Deadline for anything that takes a moment, on however busy a machine."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.out)


Call = Callable[..., Ended]
"""The type of the fixture `call`."""


def flags(**values: object) -> list[str]:
    """Return the flags that give a scenario these values."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def fields(scenario: str, **more: object) -> dict[str, object]:
    """Return the values of a scenario: topology, collective and algorithm, then NAME=VALUE; `fault` may be repeated."""
    topology, collective, algorithm, *others = scenario.split()
    values: dict[str, object] = {"topology": topology, "collective": collective, "algorithm": algorithm}
    faults = [other.removeprefix("fault=") for other in others if other.startswith("fault=")]
    if faults:
        values["fault"] = faults
    for other in others:
        name, _, value = other.partition("=")
        values.setdefault(name, value)
    return values | more


def arguments(line: str, *more: object) -> list[str]:
    """Return the words of a command line, as a shell splits it, and further words as they are."""
    return [*shlex.split(line), *map(str, more)]


# --- processes -------------------------------------------------------------------------------------------------------


def command(line: str, *more: object) -> list[str]:
    """Return the command line of a process; the first word is `coordinator` or another module of this project."""
    return [sys.executable, "-m", *arguments(line, *more)]


def fresh(program: Sequence[str]) -> list[str]:
    """Return the command line of a process that imports anew, for a test of what happens before or while it does."""
    return ["env", *program]


def environment(**variables: object) -> dict[str, str]:
    """Return the variables of a process that finds this project."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **{name: str(value) for name, value in variables.items()}}


def run_process(folder: Path, program: Sequence[object], **variables: object) -> Ended:
    """Run a program to its end; one of this project is a fork of a warm process, unless it is `fresh`."""
    running = Running(folder, program, **variables)
    try:
        return running.end()
    finally:
        running.close()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; it must hold in the end. Pauses grow, as some conditions take processor time."""
    deadline, pause = time.monotonic() + SECONDS, 0.02
    while not condition():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(pause)
        pause = min(1.2 * pause, 0.15)


def free_port() -> int:
    """Return a port at which nothing listens, and which the kernel gives to no other socket meanwhile: those are in its
    range.
    """
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = secrets.choice(range(10_000, first) or range(last + 1, 2**16))
        with suppress(OSError), socket.create_server(("", port)):
            return port


class Running:
    """A program that runs in a folder; its output can be read meanwhile."""

    def __init__(self, folder: Path, program: Sequence[object], **variables: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with ExitStack() as stack:
            self._out, self._err = (stack.enter_context(TemporaryFile()) for _ in range(2))
            words, env = [str(word) for word in program], environment(**variables)
            self.process: subprocess.Popen[bytes] | WarmProcess
            if can_be_warm(words, env):
                nothing = stack.enter_context(Path(os.devnull).open())
                streams = [file.fileno() for file in (nothing, self._out, self._err)]
                self.process = WarmProcess(words, folder, env, streams, session=True)
            else:
                self.process = subprocess.Popen(
                    words,
                    cwd=folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=self._out,
                    stderr=self._err,
                    start_new_session=True,
                )
            self._files = stack.pop_all()

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return os.pread(self._out.fileno(), 2**24, 0).decode()

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return os.pread(self._err.fileno(), 2**24, 0).decode()

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition; the program must not end before."""

        def met() -> object:
            assert self.process.poll() is None, f"it ended before {what}: {self.err}"
            return condition()

        wait_until(met, what)

    def end(self) -> Ended:
        """Wait for its end."""
        return Ended(self.process.wait(SECONDS), self.out, self.err)

    def close(self) -> None:
        """Kill it if it still runs, and forget its output."""
        self.process.kill()
        self.process.wait()
        self._files.close()


Start = Callable[..., Running]
"""The type of the fixture `start`."""
