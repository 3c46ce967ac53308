"""The judge's side of a submission: a process that answers requests within limits, or ends with a reason.

The judge keeps the network, the messages and the clock; a submission only says what its ranks send. So nothing that it does
to its own process can change a verdict in its favour.
"""

import json
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from os import close, pipe, read
from types import TracebackType
from typing import Any, Final, Self

from coordinator.grading.confinement import Limits
from coordinator.grading.worker import LENGTH, NUMBER, START, STOP
from emunode.errors import EmulatorError, RunError

SERVER_SECONDS: Final = 60.0
"""Deadline for the server to start and to answer: it imports modules and forks."""
NONSENSE: Final = "its process sent a malformed answer"
SHOWN_OUTPUT: Final = 200
"""Characters of the output of a submission that a report shows."""


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


SHAPES: Final = {
    "failed": lambda value: isinstance(value, str),
    "refused": lambda value: _texts(value) and len(value) == 2,
    "denied": _texts,
    "forbidden": _texts,
}
"""Fields of any answer beside the requested ones: an exception, a refusal, and denied and forbidden calls."""


class SubmissionEndedError(EmulatorError):
    """A submission did not answer: it ended, hung, printed too much, or answered with nonsense."""


class OutOfTimeError(EmulatorError):
    """The time for all checks is over, so what is left is undecided."""


class SubmissionServer:
    """Makes fresh processes for one submission; a context manager that leaves none behind."""

    def __init__(self, name: str, text: str, limits: Limits) -> None:
        self.limits = limits
        self._file = {"name": name, "text": text}
        self.deadline = time.monotonic() + limits.total_seconds
        self.printed = ""
        """The beginning of what the submission printed."""

    def __enter__(self) -> Self:
        self._control, its = socket.socketpair()
        self._control.settimeout(SERVER_SECONDS)
        with its:
            self._server = subprocess.Popen(
                # -P: a file beside the submission must not replace a module.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    f"{__package__}.worker",
                    str(its.fileno()),
                    json.dumps(asdict(self.limits)),
                ],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        try:
            self._server.wait(SERVER_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def process(self) -> "SubmissionProcess":
        """A process that has loaded the submission; raises SubmissionEndedError if it cannot."""
        started = SubmissionProcess(self, *self._start())
        try:
            started.loaded = started.ask("load", **self._file)
        except BaseException:
            started.close()
            raise
        return started

    def _start(self) -> tuple[int, socket.socket, int]:
        ours, its = socket.socketpair()
        output, written = pipe()
        try:
            with its:
                socket.send_fds(self._control, [START + NUMBER.pack(0)], [its.fileno(), written])
            pid = NUMBER.unpack(self._control.recv(NUMBER.size))[0]
        except (OSError, Exception) as error:
            ours.close()
            close(output)
            raise RunError(f"no process for the submission: {error}") from error
        finally:
            close(written)
        return pid, ours, output

    def stop(self, pid: int) -> int:
        """End a process; its exit status, or the negative number of the signal that ended it."""
        self._control.sendall(STOP + NUMBER.pack(pid))
        status: int = NUMBER.unpack(self._control.recv(NUMBER.size))[0]
        return status


class SubmissionProcess:
    """One process that has loaded the submission; a context manager."""

    def __init__(self, server: SubmissionServer, pid: int, channel: socket.socket, output: int) -> None:
        self.pid = pid
        self.loaded: dict[str, Any] = {}
        """The names that the submission registered."""
        self._server = server
        self._channel = channel
        self._output = output
        self._printed = 0
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._selector.register(output, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """End the process and all that it started; returns its status (see `SubmissionServer.stop`)."""
        if self._closed:
            return 0
        self._closed = True
        self._selector.close()
        self._channel.close()
        close(self._output)
        return self._server.stop(self.pid)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request; SubmissionEndedError if it does not come, OutOfTimeError if the time is over."""
        limits = self._server.limits
        deadline = time.monotonic() + limits.answer_seconds
        final = min(deadline, self._server.deadline)
        data = json.dumps({"do": do, "with": arguments}).encode()
        try:
            self._channel.settimeout(limits.answer_seconds)
            self._channel.sendall(LENGTH.pack(len(data)) + data)
        except OSError:
            raise self._ended() from None
        answer = bytearray()
        while True:
            left = final - time.monotonic()
            if left <= 0 and final < deadline:
                raise OutOfTimeError(f"the grader stops after {limits.total_seconds:g} s")
            if left <= 0:
                raise SubmissionEndedError(f"it did not answer within {limits.answer_seconds:g} s")
            for key, _ in self._selector.select(left):
                if key.fd == self._output:
                    self._read_output()
                elif self._read_answer(answer):
                    return self._parsed(answer)

    def _read_output(self) -> None:
        data = read(self._output, 1 << 16)
        if not data:
            self._selector.unregister(self._output)
        self._printed += len(data)
        room = SHOWN_OUTPUT - len(self._server.printed)
        self._server.printed += data.decode(errors="replace")[: max(0, room)]
        if self._printed > self._server.limits.output_bytes:
            raise SubmissionEndedError(f"it printed more than {self._server.limits.output_bytes:,} bytes")

    def _read_answer(self, answer: bytearray) -> bool:
        """Read what is there; True if the answer is complete."""
        try:
            data = self._channel.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            raise self._ended()
        answer += data
        if len(answer) < LENGTH.size:
            return False
        size: int = LENGTH.unpack_from(answer)[0]
        if size > self._server.limits.answer_bytes:
            raise SubmissionEndedError(f"it answered with more than {self._server.limits.answer_bytes:,} bytes")
        return len(answer) >= LENGTH.size + size

    def _parsed(self, answer: bytearray) -> dict[str, Any]:
        try:
            found = json.loads(answer[LENGTH.size :])
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not all(
            right(found[name]) for name, right in SHAPES.items() if name in found
        ):
            raise SubmissionEndedError(NONSENSE)
        return found

    def _ended(self) -> SubmissionEndedError:
        # What it printed last may say why.
        with suppress(OSError, SubmissionEndedError):
            while any(key.fd == self._output for key, _ in self._selector.select(0)):
                before = self._printed
                self._read_output()
                if self._printed == before:
                    break
        status = self.close()
        if status >= 0:
            return SubmissionEndedError(f"it ended its process with exit status {status}")
        if status == -signal.SIGKILL:
            return SubmissionEndedError("it closed its connection to the grader")
        return SubmissionEndedError(f"its process was ended by {signal.Signals(-status).name}")
