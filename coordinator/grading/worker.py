"""The processes in which submissions run. `python -m coordinator.grading.worker FD` is a server that forks them.

The server imports everything that a submission may need and never executes one. So each process that it forks is as fresh as
a new interpreter, and is there in milliseconds. A process confines itself, then answers requests over a socket until that is
closed. Server and processes end with the process that started the server.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from struct import Struct
from typing import Any, Final, NoReturn

from coordinator.grading.confinement import Limits, confine
from coordinator.grading.session import Session
from emunode import runtime as libc

LENGTH: Final = Struct("<I")
NUMBER: Final = Struct("<i")
START, STOP = b"s", b"x"
FAILED: Final = 70
"""The exit status of a process in which the grader's own code fails."""


def serve(control: socket.socket, limits: Limits) -> None:
    """Fork a process for every START, which comes with its two descriptors; end one at STOP; until `control` is closed."""
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, 1 + NUMBER.size, 2)
        if not order:
            return
        if order[:1] == START:
            control.sendall(NUMBER.pack(_fork(control, descriptors, limits)))
        else:
            (pid,) = NUMBER.unpack(order[1:])
            for each in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    each(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            control.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _fork(control: socket.socket, descriptors: list[int], limits: Limits) -> int:
    pid = os.fork()
    if pid:
        # Here too: the process may not have got that far when it has to end.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    try:
        control.close()
        _run(descriptors, limits)
    except BaseException:  # a forked child must not continue in its parent's code
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    finally:
        os._exit(0)


def _run(descriptors: list[int], limits: Limits) -> None:
    """Be the process of a submission."""
    talk, output = descriptors
    libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, closefd=False)  # noqa: SIM115  # they stay open to the end of the process
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    channel = socket.socket(fileno=talk)
    session = Session(confine(limits))
    while (request := receive(channel)) is not None:
        send(channel, session.answer(request))


def receive(channel: socket.socket) -> Any:
    """The next message; None when the other side has closed."""
    header = _exactly(channel, LENGTH.size)
    if header is None:
        return None
    data = _exactly(channel, LENGTH.unpack(header)[0])
    return None if data is None else json.loads(data)


def send(channel: socket.socket, message: object) -> None:
    """Send one message; what JSON cannot hold is the submission's mistake, and is reported in its place."""
    try:
        data = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        data = json.dumps({"failed": f"an answer cannot be sent: {type(error).__name__}: {error}"}).encode()
    channel.sendall(LENGTH.pack(len(data)) + data)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(1 << 16, size - len(data)))
        if not part:
            return None
        data += part
    return bytes(data)


def main() -> NoReturn:
    """Serve on the socket whose descriptor is the first argument, under the limits in the second."""
    libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    serve(socket.socket(fileno=int(sys.argv[1])), Limits(**json.loads(sys.argv[2])))
    sys.exit(0)


if __name__ == "__main__":
    main()
