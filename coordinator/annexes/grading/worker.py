"""The processes of submissions. `python -m coordinator.annexes.grading.worker FD` is a server that forks them.

The server imports everything that a submission may need and never executes one. So each process that it forks is as fresh as
a new interpreter, and is there in milliseconds. A process confines itself, names the layers that hold, then answers
requests over a socket until that is closed. Server and processes end with the process that started the server.
"""

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NoReturn

from coordinator.annexes.grading import sealed_root
from coordinator.annexes.grading.attempts import MOST_CALLS, AttemptList
from coordinator.annexes.grading.confinement import PR_SET_DUMPABLE, Limits, Surroundings, confine, surroundings
from coordinator.annexes.grading.layers import Layer
from coordinator.annexes.grading.session import SubmissionSession
from coordinator.annexes.grading.system_calls import TELLING
from emunode import runtime as libc
from emunode.algorithms.base import ALGORITHMS
from emunode.terminal import say
from emunode.topologies.base import FAMILIES

LENGTH: Final = Struct("<I")
NUMBER: Final = Struct("<i")
ENDED: Final = Struct("<i?d")
"""The exit status of a process, whether the server ended it, and its processor time in seconds."""
TRIED: Final = Struct(f"<{MOST_CALLS}i")
"""The numbers of the refused system calls of a process; -1 in the places that are left."""
START, LOOK, STOP, ATTEMPTS = b"s", b"l", b"x", b"t"
RUNNING, STOPPED = 0, 1
CLOSING_SECONDS: Final = 5.0
"""A process whose connection is closed has this time to end: it closes its descriptors shortly before it has ended."""
SCATTERED: Final[list[bytes]] = []
FAILED: Final = 70
"""The exit status of a process whose error is in the grader's own code."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings that all processes of a server share."""

    limits: Limits
    layers: list[Layer]
    surroundings: Surroundings


def serve(control: socket.socket, setting: Setting) -> None:
    """Carry out orders until `control` is closed, each with the number of a process.

    START comes with two descriptors and forks a process; LOOK tells whether one is stopped, ATTEMPTS its refused calls; STOP
    ends one.
    """
    attempts = AttemptList(control)
    for _ in attempts.orders():
        order, descriptors, _, _ = socket.recv_fds(control, 1 + NUMBER.size, 2)
        if not order:
            return
        (number,) = NUMBER.unpack(order[1:])
        if order[:1] == START:
            control.sendall(NUMBER.pack(_fork(control, descriptors, setting, attempts)))
        elif order[:1] == LOOK:
            control.sendall(NUMBER.pack(STOPPED if libc.is_stopped(number) else RUNNING))
        elif order[:1] == ATTEMPTS:
            control.sendall(TRIED.pack(*attempts.taken(number)))
        else:
            control.sendall(ENDED.pack(*_stop(abs(number), closing=number < 0)))


def _stop(pid: int, *, closing: bool) -> tuple[int, bool, float]:
    """End a process (with `closing` it may end by itself); return its status, whether it had to be killed, and its
    processor time.
    """
    deadline = time.monotonic() + (CLOSING_SECONDS if closing else 0)
    while not (ended := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and time.monotonic() < deadline:
        time.sleep(0.005)
    for each in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            each(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), ended is None, used.ru_utime + used.ru_stime


def _fork(control: socket.socket, descriptors: list[int], setting: Setting, attempts: AttemptList) -> int:
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid:
        its.close()
        attempts.expect(pid, ours)
        # Here too: the process may not have got that far when it has to end.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    try:
        control.close()
        ours.close()
        _run(descriptors, setting, its.detach())
    except BaseException:  # a forked child must not continue in its parent's code
        say(traceback.format_exc(), err=True)
        sys.stderr.flush()
        os._exit(FAILED)
    finally:
        os._exit(0)


def _run(descriptors: list[int], setting: Setting, telling: int) -> None:
    """Run as the process of a submission, which hands the listener of its filter on over `telling`."""
    talk, output = descriptors
    os.setpgid(0, 0)
    # The server's own standard input is empty already.
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, closefd=False)  # noqa: SIM115  # they stay open to the end of the process
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    channel = socket.socket(fileno=talk)
    told = _moved(telling)
    keep = {talk} if told is None else {talk, told}
    protection, denied = confine(setting.limits, setting.surroundings, keep, setting.layers, told)
    if told is not None:
        with contextlib.suppress(OSError):  # closed, unless there is no filter
            os.close(told)
    send(channel, {"protection": protection})
    session = SubmissionSession(denied)
    while (request := receive(channel)) is not None:
        send(channel, session.answer(request))


def _moved(descriptor: int) -> int | None:
    """Move a descriptor to the number `TELLING`; None where the user's limit of descriptors is lower."""
    try:
        return os.dup2(descriptor, TELLING)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def receive(channel: socket.socket) -> Any:
    """Return the next message; None when the other side has closed."""
    header = _exactly(channel, LENGTH.size)
    if header is None:
        return None
    data = _exactly(channel, LENGTH.unpack(header)[0])
    return None if data is None else json.loads(data)


def send(channel: socket.socket, message: object) -> None:
    """Send one message. A value that JSON cannot hold is a mistake of the submission, and is reported in place of the
    message.
    """
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


def scatter_memory() -> None:
    """Occupy every other one of many blocks of memory, so that later objects have other addresses in another order."""
    chance = random.Random(1)
    for size in range(0, 480, 8):
        blocks = [bytes(size) for _ in range(200)]
        chance.shuffle(blocks)
        SCATTERED.extend(blocks[::2])


def main() -> NoReturn:
    """Serve on the socket whose descriptor is the first argument, under the limits and layers in the second."""
    libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    control = socket.socket(fileno=int(sys.argv[1]))
    # Once here, not in every process: going through the registries imports all algorithms and networks.
    for registry in (ALGORITHMS, FAMILIES):
        list(registry)
    given = json.loads(sys.argv[2])
    layers = [Layer(name) for name in given["layers"]]
    readable = sealed_root.library()
    if given["elsewhere"]:
        scatter_memory()
    namespaces = sealed_root.enter(layers, readable, shifted=given["elsewhere"])
    if namespaces.holds(Layer.PROCESSES):
        sealed_root.go_on_as_first_process(control)
    if namespaces.holds(Layer.ROOT):
        readable.append(sealed_root.OWN_FOLDER)
    else:
        os.chdir("/")
    # A submission of the same user must not look into the memory of the server.
    libc.require("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    setting = Setting(Limits(**given["limits"]), layers, surroundings(layers, readable, namespaces))
    # The grader has gone, which Ctrl-C may cause at any moment.
    with contextlib.suppress(ConnectionError):
        serve(control, setting)
    sys.exit(0)


if __name__ == "__main__":
    main()
