"""Parents of hosts as forks of one process that has imported `emunode` already: importing takes most of a short run.

`start_process` stands for `subprocess.Popen` in the local driver. A fork is a child of the test process, as a new
interpreter would be, and has streams, files, session, folder, environment and exit status of its own. Limits and namespaces
are those of the test process when it started its first hosts. Runs in other threads and processes start interpreters.

`python -m tests.warm_emunode FD` forks a process for each message from a socket until the socket is closed.
"""

import atexit
import ctypes
import fcntl
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import psutil

from tests.warm_programs import MOST_BYTES, ROOT, become, can_be_warm

MOST_FILES: Final = 16
PYTHON: Final = sys.executable  # a test names another one
CLONE3, CLONE_PARENT = 435, 0x8000
FIXED: Final = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "start_new_session": True}
"""The options that the local driver gives to every process."""


# --- the server ------------------------------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Import `emunode` and fork siblings of this process until the socket is closed."""
    importlib.import_module("emunode.host.command")
    control = socket.socket(fileno=number)
    while True:
        request, files, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_FILES)
        if not request:
            return
        if not fork_sibling():
            _become_parent(json.loads(request), files, control)
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


def _become_parent(request: dict[str, Any], files: Sequence[int], control: socket.socket) -> None:
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


@cache
def server() -> tuple[int, socket.socket]:
    """Start the server of this process; return the number of this process, and the socket."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.warm_emunode", str(its.fileno())]
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
    children = psutil.Process.children

    def other_children(self: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
        """Return the children without the server, since tests look at the children of their own process."""
        return [child for child in children(self, recursive) if child.pid != process.pid]

    psutil.Process.children = other_children
    return os.getpid(), ours


def start_process(words: Sequence[str], **options: Any) -> "subprocess.Popen[bytes] | ForkedProcess":
    """Start a process as `subprocess.Popen` does, as a fork if one can stand for it."""
    possible = threading.current_thread() is threading.main_thread() and words[0] == PYTHON
    if possible and can_be_warm(words, os.environ) and server()[0] == os.getpid():
        return ForkedProcess(words, **options)
    return subprocess.Popen(words, **options)


class ForkedProcess:
    """A forked child of this process, with the methods of `subprocess.Popen` that the local driver uses."""

    def __init__(self, words: Sequence[str], *, pass_fds: Sequence[int], stderr: Any, **fixed: object) -> None:
        assert fixed == FIXED
        self.returncode: int | None = None
        nothing = os.open(os.devnull, os.O_WRONLY)
        source, target = os.pipe()
        self.stdin = os.fdopen(target, "wb")
        request = {
            "program": words[1:],
            "folder": str(Path.cwd()),
            "variables": dict(os.environ),
            "session": False,  # it has one by then
            "files": [0, 1, 2, *pass_fds],
        }
        _, control = server()
        socket.send_fds(control, [json.dumps(request).encode()], [source, nothing, stderr.fileno(), *pass_fds])
        os.close(source)
        os.close(nothing)
        self.pid = int(control.recv(32))

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the end of the process and return its exit status."""
        status = self._wait(0)
        assert status is not None
        return status

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


if __name__ == "__main__":
    serve(int(sys.argv[1]))
