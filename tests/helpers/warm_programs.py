"""Programs of this project as forks of one process that has imported them already: importing takes most of a short command.

`WarmProcess` starts a program with a process, arguments, environment, streams, session and exit status of its own. What
happens before or during imports differs from a fresh interpreter: tests of imports, of limits that a shell sets, of options
of the interpreter and of signals at the start of a program use fresh processes.

`python -m tests.helpers.warm_programs SOCKET` serves requests until its standard input ends. A request is a line of JSON
with the open files of the new process; the answer is a line with the number of the process, and one with its status at
its end.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

ROOT = Path(__file__).parents[2]
PACKAGES = ("coordinator", "emunode")
START_SECONDS = 240.0
TEMPORARY = tempfile.gettempdir()  # a test names another one
MOST_BYTES = 2**24
"""Of a request: a command line with its environment."""
FRESH = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "FRESH_PROGRAM")
"""Variables that need a fresh process: coverage reads its own before imports, and a test looks for the last one in /proc."""


# --- the server ------------------------------------------------------------------------------------------------------


def serve(path: str) -> None:
    """Import both packages, continue in the background, and fork a process for each request until standard input ends."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as `coordinator` does
    gc.disable()
    from emunode.runtime import single_threaded_imports

    with single_threaded_imports():
        for package in map(importlib.import_module, PACKAGES):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    # Tests look at the children of their own process: this one shall not be among them.
    if os.fork():
        os._exit(0)
    os.setsid()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        _serve(listener, selector)


def _serve(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    while True:
        for key, _ in selector.select():
            if key.fileobj == 0:
                return
            if key.fileobj is listener:
                connection, _ = listener.accept()
                pid = _start(connection, selector)
                if pid:
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
                else:
                    connection.close()
            else:
                pid, connection = key.data
                selector.unregister(key.fileobj)
                os.close(key.fd)
                _, status = os.waitpid(pid, 0)
                with connection:
                    _answer(connection, os.waitstatus_to_exitcode(status))


def _answer(connection: socket.socket, number: int, descriptors: Sequence[int] = ()) -> None:
    """Send a number to a client, who may have gone."""
    try:
        socket.send_fds(connection, [b"%d\n" % number], descriptors)
    except OSError:
        return


def _start(connection: socket.socket, selector: selectors.BaseSelector) -> int:
    """Fork the process that a client asks for and return its number; 0 if the client has gone."""
    try:
        request, streams = receive(connection)
    except OSError:
        return 0
    pid = os.fork()
    if not pid:
        try:
            for key in list(selector.get_map().values()):
                os.close(key.fd)
                if key.data:
                    key.data[1].close()
            connection.close()
            selector.close()
            become(request, streams)
        finally:
            os._exit(70)
    for descriptor in streams:
        os.close(descriptor)
    handle = os.pidfd_open(pid)
    _answer(connection, pid, [handle])
    os.close(handle)
    return pid


def receive(connection: socket.socket) -> tuple[Mapping[str, object], list[int]]:
    """Return a request and the open files that came with it; OSError if it is not complete."""
    data, descriptors, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    while not data.endswith(b"\n"):
        more = connection.recv(MOST_BYTES)
        if not more:
            raise ConnectionError("an incomplete request")
        data += more
    return json.loads(data), descriptors


def words_of(program: object) -> list[str]:
    """Return the words of a command line in a request."""
    assert isinstance(program, list)
    return [str(word) for word in program]


def become(request: Mapping[str, object], streams: Sequence[int]) -> NoReturn:
    """Make this fork the process of a request; never returns."""
    from emunode.runtime import collect_seldom, exit_at_once

    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["variables"])  # type: ignore[call-overload]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # the stream of a whole process
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    option, name, *arguments = words = words_of(request["program"])
    if option == "-P":
        _, option, name, *arguments = words
    else:
        sys.path.insert(0, str(request["folder"]))
    status: object = 1
    collect_seldom()
    try:
        if option == "-m" and name in PACKAGES:
            sys.argv = [name, *arguments]
            status = importlib.import_module(f"{name}.__main__").main()
        elif option == "-m":
            sys.argv = [name, *arguments]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
            status = 0
        else:
            sys.argv = ["-c", *arguments]
            module = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(name, "<string>", "exec"), vars(module))
            status = 0
    except SystemExit as error:
        status = error.code
    except BaseException:
        traceback.print_exc()
    if isinstance(status, str):
        print(status, file=sys.stderr)
    exit_at_once(status if isinstance(status, int) else 1 if status else 0)


# --- the client ------------------------------------------------------------------------------------------------------


@cache
def server() -> str:
    """Return the path of the socket of this process's server; the first call starts the server."""
    path = Path(tempfile.mkdtemp(prefix="testbench-warm-", dir=TEMPORARY)) / "socket"
    command = [sys.executable, "-m", "tests.helpers.warm_programs", str(path)]
    # It ends when its standard input does, so with this process.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.wait(START_SECONDS) == 0
    _pipes.append(process)
    return str(path)


_pipes: list["subprocess.Popen[bytes]"] = []


def can_be_warm(program: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Return whether a fork can stand for this command line in this environment."""
    return (
        program[0] == sys.executable
        and (program[1] == "-c" or (program[1] == "-m" and program[2] in PACKAGES))
        and suits_forks(variables)
    )


def suits_forks(variables: Mapping[str, str]) -> bool:
    """Return whether an environment asks for nothing that only a fresh process has."""
    return variables.get("PYTHONPATH", "") in ("", str(ROOT)) and not any(name in variables for name in FRESH)


class WarmProcess:
    """A process that the server has forked; its methods are those of `subprocess.Popen`."""

    def __init__(
        self, program: Sequence[str], folder: Path, variables: Mapping[str, str], streams: Sequence[int], session: bool
    ) -> None:
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(server())
        request = {
            "program": [*program[1:]],
            "folder": str(folder),
            "variables": dict(variables),
            "session": session,
        }
        data = json.dumps(request).encode() + b"\n"
        # Sending nothing fails too, once the process has ended and the server has closed its end.
        if rest := data[socket.send_fds(self._connection, [data], streams) :]:
            self._connection.sendall(rest)
        number, (self._handle,), _, _ = socket.recv_fds(self._connection, 32, 1)
        os.set_inheritable(self._handle, False)
        first, _, self._status = number.partition(b"\n")
        self.pid = int(first)

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status; TimeoutExpired after `timeout` seconds."""
        status = self._wait(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            while not self._status.endswith(b"\n"):
                more = self._connection.recv(32)
                assert more, "the server of warm programs has ended"
                self._status += more
            self.returncode = int(self._status)
            self._connection.close()
            os.close(self._handle)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, without effect on a process that has ended."""
        if self.poll() is None:
            try:
                signal.pidfd_send_signal(self._handle, number)
            except ProcessLookupError:
                return

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


SHIM = """#!{python} -IS
import json, os, select, signal, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({socket!r})
request = dict(program=[*{program!r}, *sys.argv[1:]], folder=os.getcwd(), variables=dict(os.environ), session=False)
data = json.dumps(request).encode() + b"\\n"
if rest := data[socket.send_fds(connection, [data], [0, 1, 2]) :]:
    connection.sendall(rest)
answer, (handle,), _, _ = socket.recv_fds(connection, 32, 1)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: signal.pidfd_send_signal(handle, number))
while answer.count(b"\\n") < 2:
    answer += connection.recv(32)
status = int(answer.split()[1])
os._exit(status if status >= 0 else 128 - status)
"""
"""A program for shell scripts that has a warm process do its work."""


def make_shim(shim: Path, *program: str) -> None:
    """Write an executable that has a warm process run a program: `-m` and a module, or `-c` and code.

    The process outlives an executable that is killed.
    """
    shim.write_text(SHIM.format(python=sys.executable, socket=server(), program=program))
    shim.chmod(0o755)


if __name__ == "__main__":
    serve(sys.argv[1])
