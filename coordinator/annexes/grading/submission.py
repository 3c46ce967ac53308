"""The judge's side of a submission: a process that answers requests within limits, or ends with a reason.

The judge keeps the network, the messages and the clock; a submission only states the sends of its ranks, and every
statement goes through the schema of `answers`. So no change to its own process can change a verdict in its favour.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from math import inf
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self

from coordinator.annexes.grading import system_calls
from coordinator.annexes.grading.answers import LoadedFile, MalformedAnswerError, SubmissionAnswer, read_answer
from coordinator.annexes.grading.attempts import MOST_CALLS
from coordinator.annexes.grading.confinement import Limits
from coordinator.annexes.grading.layers import ALL_LAYERS, Layer, Protection
from coordinator.annexes.grading.worker import ATTEMPTS, ENDED, LENGTH, LOOK, NUMBER, START, STOP, STOPPED, TRIED
from emunode.errors import EmulatorError, RunError
from emunode.runtime import LOOK_SECONDS, is_stopped

SERVER_SECONDS: Final = 60.0
"""Deadline for the server to start: it imports modules, and makes namespaces."""
STALL_SECONDS: Final = 25.0
"""Deadline for the server to answer: with the look before it within the 30 s until a stalled host is noticed."""
ENVIRONMENT: Final = ("PYTHON", "LANG", "LC_", "LD_LIBRARY_PATH", "OPENBLAS_", "TZ")
"""Variables, by their beginning, that a submission gets; all others may be secrets."""
OWN_SIGNALS: Final = frozenset({
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
    signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGPIPE,
})  # fmt: skip
"""Signals that a process can cause itself. It cannot send itself others."""
NONSENSE: Final = "its process sent a malformed answer"
SHOWN_OUTPUT: Final = 200
"""Characters of the output of a submission that a report shows."""


class SubmissionEndedError(EmulatorError):
    """A submission did not answer: it ended, hung, printed too much, or answered with nonsense."""


class GradingTimeError(EmulatorError):
    """The time for all checks is over, so the remaining checks are undecided."""


class NotGradedError(RunError):
    """A submission was ended or stopped from outside, or its grader was: that says nothing about it."""


class SubmissionServer:
    """Makes fresh processes for one submission; a context manager that leaves none behind."""

    def __init__(
        self, name: str, text: str, limits: Limits, layers: Sequence[Layer] = ALL_LAYERS, *, elsewhere: bool = False
    ) -> None:
        self.limits = limits
        self._layers = layers
        self._elsewhere = elsewhere
        """Whether its processes have another hash seed, clock and layout of memory than those of other servers."""
        self._file = {"name": name, "text": text}
        self.deadline = time.monotonic() + limits.total_seconds
        self.printed = ""
        """The beginning of the output of the submission."""
        self.protection = Protection()
        """The layers that hold in all processes so far, and why others do not."""
        self._lost = False
        """Whether an order has no reply yet, so that the next reply would be taken for another's."""

    def __enter__(self) -> Self:
        self._control, its = socket.socketpair()
        self._control.settimeout(LOOK_SECONDS)
        setting = {"limits": asdict(self.limits), "layers": list(map(str, self._layers)), "elsewhere": self._elsewhere}
        kept = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
        with its:
            self._server = subprocess.Popen(
                # -P: a file beside the submission must not replace a module.
                [sys.executable, "-P", "-m", f"{__package__}.worker", str(its.fileno()), json.dumps(setting)],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Two known seeds: the same file gets the same grade again.
                env={**kept, "PYTHONHASHSEED": "2" if self._elsewhere else "1"},
                # Ctrl-C is for the grader alone, also while the server is not ready yet.
                start_new_session=True,
            )
        try:
            # The layers that hold, before anybody relies on them.
            self._confined().close()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        deadline = time.monotonic() + STALL_SECONDS
        while self._server.poll() is None and time.monotonic() < deadline and not is_stopped(self._server.pid):
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(LOOK_SECONDS)
        self._server.kill()
        self._server.wait()

    def order(self, order: bytes, number: int, reply: Struct, descriptors: Sequence[int] = ()) -> Any:
        """Give the server an order; returns the values of its reply, NotGradedError if the reply does not come in time."""
        if self._lost:
            raise NotGradedError("could not grade it: an order was interrupted")
        # Until the first reply the server may still import modules.
        deadline = time.monotonic() + (STALL_SECONDS if self.protection else SERVER_SECONDS)
        data = b""
        try:
            socket.send_fds(self._control, [order + NUMBER.pack(number)], descriptors)
            while len(data) < reply.size:
                try:
                    part = self._control.recv(reply.size - len(data))
                except TimeoutError:
                    if is_stopped(self._server.pid):
                        raise NotGradedError("could not grade it: the grader's own process is stopped") from None
                    if time.monotonic() > deadline:
                        raise NotGradedError("could not grade it: the grader's own process does not answer") from None
                    continue
                if not part:
                    break
                data += part
        except OSError as error:
            raise NotGradedError(f"could not grade it: the grader's own process is gone: {error}") from None
        except BaseException:  # Ctrl-C: the reply will come, but it is not read
            self._lost = True
            raise
        if len(data) < reply.size:
            raise NotGradedError("could not grade it: the grader's own process has ended")
        return reply.unpack(data)

    def process(self) -> "SubmissionProcess":
        """Return a process that has loaded the submission; raises SubmissionEndedError if it cannot."""
        started = self._confined()
        try:
            started.load(self._file)
        except BaseException:
            started.close()
            raise
        return started

    def elsewhere(self) -> "SubmissionServer":
        """Return a server for the same submission and deadline whose processes have other surroundings."""
        other = SubmissionServer(self._file["name"], self._file["text"], self.limits, self._layers, elsewhere=True)
        other.deadline = self.deadline
        return other

    def _confined(self) -> "SubmissionProcess":
        """Return a process that has confined itself, and has not seen the submission."""
        ours, its = socket.socketpair()
        output, written = os.pipe()
        try:
            with its:
                (pid,) = self.order(START, 0, NUMBER, [its.fileno(), written])
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            os.close(written)
        started = SubmissionProcess(self, pid, ours, output)
        try:
            # Sent before the process reads the submission.
            held = json.loads(started.message(time.monotonic() + SERVER_SECONDS, inf))["protection"]
            self.note(Protection({Layer(name): reason for name, reason in held.items()}))
        except BaseException as error:
            started.close()
            if isinstance(error, SubmissionEndedError):
                raise NotGradedError(f"could not grade it: no process for it: {error}") from None
            raise
        return started

    def note(self, found: Protection) -> None:
        """Record that a layer holds only if it holds in every process."""
        self.protection.update({layer: reason for layer, reason in found.items() if not self.protection.get(layer)})


class SubmissionProcess:
    """One process that has loaded the submission; a context manager."""

    def __init__(self, server: SubmissionServer, pid: int, channel: socket.socket, output: int) -> None:
        self.pid = pid
        self.loaded: LoadedFile | None = None
        """The names that the submission registered; None if it could not be loaded."""
        self.problem: str | None = None
        """Why it could not be loaded."""
        self.load_calls: list[str] = []
        """The calls that were refused while it was loaded."""
        self._denied: list[str] = []
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

    def close(self) -> None:
        """End the process and all that it started."""
        # The next order finds out that the server is gone.
        with suppress(NotGradedError):
            self._end(closing=False)

    def _end(self, *, closing: bool) -> tuple[int, bool, float]:
        """End the process; return its status, whether it had to be killed, and its processor time.

        With `closing`, the process may be about to end by itself.
        """
        if self._closed:
            return 0, True, 0.0
        self._closed = True
        self._selector.close()
        self._channel.close()
        os.close(self._output)
        status, killed, seconds = self._server.order(STOP, -self.pid if closing else self.pid, ENDED)
        return status, killed, seconds

    def load(self, file: Mapping[str, str]) -> None:
        """Let the process execute the file of the submission."""
        answer = self.ask("load", **file)
        self.loaded, self.problem = answer.given, answer.problem
        self.load_calls = self.refused_calls()

    def refused_calls(self) -> list[str]:
        """Return the calls refused since the last time: by the kernel, and as its answers say by the audit hook."""
        numbers = self._server.order(ATTEMPTS, self.pid, TRIED)
        names = [*map(system_calls.told_name, (number for number in numbers if number >= 0)), *self._denied]
        self._denied.clear()
        return list(dict.fromkeys(names))

    def ask(self, do: str, **arguments: Any) -> SubmissionAnswer[Any]:
        """Return the answer to a request; SubmissionEndedError if no answer comes, OutOfTimeError if the time is over."""
        limits = self._server.limits
        deadline = time.monotonic() + limits.answer_seconds
        data = json.dumps({"do": do, "with": arguments}).encode()
        try:
            self._channel.settimeout(limits.answer_seconds)
            self._channel.sendall(LENGTH.pack(len(data)) + data)
        except TimeoutError:
            self._require_running()
            raise SubmissionEndedError(f"it did not answer within {limits.answer_seconds:g} s") from None
        except OSError:
            raise self._ended() from None
        try:
            answer = read_answer(do, self.message(deadline, self._server.deadline))
        except MalformedAnswerError as error:
            raise SubmissionEndedError(f"{NONSENSE}: {error}") from None
        self._denied += answer.denied[:MOST_CALLS]
        return answer

    def message(self, deadline: float, end: float) -> bytearray:
        """Return the next message: SubmissionEndedError if it is not complete at `deadline`, OutOfTimeError at `end`."""
        limits = self._server.limits
        final = min(deadline, end)
        answer = bytearray()
        late = 0.0
        while True:
            now = time.monotonic()
            left = max(0.0, final - now)
            ready = self._selector.select(min(left, LOOK_SECONDS))
            for key, _ in ready:
                if key.fd == self._output:
                    self._read_output()
                elif self._read_answer(answer):
                    return answer[LENGTH.size :]
            # Answers that came while the grader itself was stopped count, so they are read after the deadline too, for
            # a second.
            late = late or (0.0 if left else now)
            if ready and (not late or now < late + 1):
                continue
            self._require_running()
            if late and final < deadline:
                raise GradingTimeError(f"the grader stops after {limits.total_seconds:g} s")
            if late:
                raise SubmissionEndedError(f"it did not answer within {limits.answer_seconds:g} s")

    def _require_running(self) -> None:
        """Raise NotGradedError if the process was stopped from outside; a submission cannot stop itself."""
        (state,) = self._server.order(LOOK, self.pid, NUMBER)
        if state == STOPPED:
            raise NotGradedError("could not grade it: its process was stopped from outside (SIGSTOP)")

    def _read_output(self) -> None:
        data = os.read(self._output, 1 << 16)
        if not data:
            self._selector.unregister(self._output)
        self._printed += len(data)
        room = SHOWN_OUTPUT - len(self._server.printed)
        self._server.printed += data.decode(errors="replace")[: max(0, room)]
        if self._printed > self._server.limits.output_bytes:
            raise SubmissionEndedError(f"it printed more than {self._server.limits.output_bytes:,} bytes")

    def _read_answer(self, answer: bytearray) -> bool:
        """Read the available bytes; return whether the answer is complete."""
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

    def _ended(self) -> SubmissionEndedError | NotGradedError:
        # Its last output may give the reason.
        with suppress(OSError, SubmissionEndedError):
            while any(key.fd == self._output for key, _ in self._selector.select(0)):
                before = self._printed
                self._read_output()
                if self._printed == before:
                    break
        status, killed, seconds = self._end(closing=True)
        if killed:
            return SubmissionEndedError("it closed its connection to the grader")
        if status >= 0:
            return SubmissionEndedError(f"it ended its process with exit status {status}")
        most = self._server.limits.processor_seconds
        if -status == signal.SIGXCPU or (-status == signal.SIGKILL and seconds >= most):
            return SubmissionEndedError(f"it used more than {most} s of processor time")
        # Most real-time signals have no names.
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        if -status in OWN_SIGNALS:
            return SubmissionEndedError(f"its process was ended by {name}")
        cause = (
            "by somebody, or because this machine had no memory left" if -status == signal.SIGKILL else "by somebody"
        )
        return NotGradedError(f"could not grade it: its process was ended from outside by {name}, {cause}")
