"""Parents of hosts, workers of campaigns and graders of submissions as forks of processes that have imported their modules
already: importing takes most of a short run.

`start_process` stands for `subprocess.Popen` where the product starts these. A fork is a child of the test process, as a new
interpreter would be, and has streams, files, session, folder, environment and exit status of its own. The test process had
its limits and namespaces when it first forked the same module. Other threads and processes start interpreters.

`python -m tests.warm_children MODULE FD` forks a process for each message from a socket until the socket is closed.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

import psutil

from tests.warm_programs import MOST_BYTES, ROOT, become, suits_forks

MOST_FILES: Final = 16
PYTHON: Final = sys.executable  # a test names another one
CLONE3, CLONE_PARENT = 435, 0x8000
IMPORTED: Final = {
    "emunode": "emunode.host.command",
    "coordinator.api.map_worker": "coordinator.api.map_worker",
    "coordinator.campaigns.worker": "coordinator.campaigns.worker",
    "coordinator.grading.worker": "coordinator.grading.worker",
}
"""By the module that a process executes, the module that its server imports."""


# --- the server ------------------------------------------------------------------------------------------------------


def serve(name: str, number: int) -> None:
    """Import what a module needs and fork siblings of this process, which execute it, until the socket is closed."""
    gc.disable()
    importlib.import_module(IMPORTED[name])
    if IMPORTED[name] == name:
        del sys.modules[name]  # a fork executes it under another name
    if name == "coordinator.grading.worker":  # its first act is to go through these
        from emunode.algorithms.base import ALGORITHMS
        from emunode.topologies.base import FAMILIES

        for registry in (ALGORITHMS, FAMILIES):
            list(registry)
    gc.freeze()
    control = socket.socket(fileno=number)
    while True:
        request, files, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_FILES)
        if not request:
            return
        if not fork_sibling():
            _become_child(json.loads(request), files, control)
        for file in files:
            os.close(file)


def fork_sibling() -> int:
    """Fork as `os.fork`, but make the new process a child of the parent of this one."""
    python = ctypes.PyDLL(None, use_errno=True)  # the calling thread keeps Python's lock
    arguments = (ctypes.c_uint64 * 8)(CLONE_PARENT)  # struct clone_args, with the signal of this process at the end
    python.PyOS_BeforeFork()
    pid: int = python.syscall(CLONE3, arguments, ctypes.sizeof(arguments))
    if pid:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return pid


def _become_child(request: dict[str, Any], files: Sequence[int], control: socket.socket) -> None:
    """Make this fork the process of a request; never returns."""
    try:
        os.setsid()
        # Only now: a test may stop the process at once, and its end is a signal to the session.
        control.send(b"%d" % os.getpid())
        control.close()
        places = request["files"]
        # Beyond all places first: a file could be in the place of another one.
        held = [fcntl.fcntl(file, fcntl.F_DUPFD, 1 + max(*files, *places)) for file in files]
        for file in files:
            os.close(file)
        for file, place in zip(held[3:], places[3:], strict=True):
            os.dup2(file, place)
            os.close(file)
        become(request, held[:3])
    finally:
        os._exit(70)


# --- the client ------------------------------------------------------------------------------------------------------


_children = psutil.Process.children
_servers: set[int] = set()


def other_children(process: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
    """Return the children without servers, since tests look at the children of their own process."""
    return [child for child in _children(process, recursive) if child.pid not in _servers]


@cache
def server(name: str) -> tuple[int, socket.socket]:
    """Start the server of a module; return the number of this process, and the socket."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.warm_children", name, str(its.fileno())]
    with its:
        process = subprocess.Popen(
            command,
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # before: the server ends with this
    _servers.add(process.pid)
    psutil.Process.children = other_children
    return os.getpid(), ours


def module_of(words: Sequence[str]) -> str:
    """Return the module that a command line executes with this Python, if forks can execute it; otherwise an empty text."""
    rest = [word for word in words[1:4] if word != "-P"]
    return rest[1] if words[0] == PYTHON and rest[0] == "-m" and rest[1] in IMPORTED else ""


def start_process(words: Sequence[str], **options: Any) -> "subprocess.Popen[bytes] | ForkedProcess":
    """Start a process as `subprocess.Popen` does, as a fork if one can stand for it."""
    name = module_of(words) if threading.current_thread() is threading.main_thread() else ""
    if name and suits_forks(options.get("env", os.environ)) and server(name)[0] == os.getpid():
        return ForkedProcess(words, **options)
    return subprocess.Popen(words, **options)


class ForkedProcess:
    """A forked child of this process, with the methods of `subprocess.Popen` that the product uses."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        start_new_session: bool,
        stderr: IO[Any] | None = None,
        env: Mapping[str, str] = os.environ,
        pass_fds: Sequence[int] = (),
    ) -> None:
        assert start_new_session
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        with ExitStack() as passed:
            nothing = os.open(os.devnull, os.O_RDWR)
            passed.callback(os.close, nothing)
            source = target = nothing
            if stdin == subprocess.PIPE:
                source, ours = os.pipe()
                passed.callback(os.close, source)
                self.stdin = os.fdopen(ours, "wb")
            if stdout == subprocess.PIPE:
                ours, target = os.pipe()
                passed.callback(os.close, target)
                self.stdout = os.fdopen(ours, "rb")
            request = {
                "program": words[1:],
                "folder": str(Path.cwd()),
                "variables": dict(env),
                "session": False,  # it has one by then
                "files": [0, 1, 2, *pass_fds],
            }
            _, control = server(module_of(words))
            errors = 2 if stderr is None else stderr.fileno()
            socket.send_fds(control, [json.dumps(request).encode()], [source, target, errors, *pass_fds])
        self.pid = int(control.recv(32))

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status; TimeoutExpired after `timeout` seconds."""
        if timeout is not None and self.returncode is None:
            handle = os.pidfd_open(self.pid)
            ended = select.select([handle], [], [], timeout)[0]
            os.close(handle)
            if not ended:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        status = self._wait(0)
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, without effect on a process that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
