"""One process that plays one rank: started on first use, asked line by line with a deadline, and killed with the rank.

The process has a session of its own, so that its children are killed with it, and gets SIGKILL when this process ends. What
it writes to standard error goes to the log, up to a bound.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Final

from emunode.errors import DeadlineError, RuleError, RunError
from emunode.logging import log
from emunode.model import Step
from emunode.programs import ALLOWED, command_text
from emunode.runtime import PR_SET_PDEATHSIG, call

MAX_LINE: Final = 2**20
"""The longest line of an answer, in bytes."""
MAX_LOGGED: Final = 16_384
"""Most bytes of standard error that are logged, for each program."""
CHUNK: Final = 65_536
LOOK_SECONDS: Final = 0.1
"""How soon an interruption is seen while a program does not answer."""
END_SECONDS: Final = 0.5
"""How long a program that closed its output may take to end, before it is killed."""


class Program:
    """The program of one rank; `name` is for messages. Nothing runs before the first `ask`."""

    def __init__(
        self, words: Sequence[str], deadline: float, name: str, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self.name = name
        self.lines = 0
        """Lines that it has written."""
        self._interrupted = interrupted
        self._words = words
        self._deadline = deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._out = bytearray()
        self._logged = 0
        self._last_error = b""

    def ask(self, line: bytes, step: Step) -> bytes:
        """Write a line and return the line that answers it.

        DeadlineError if none comes in time; RunError if the run is interrupted meanwhile;
        RuleError if the program ends, or writes something else than one line.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        inward, outward, errors = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        waiting = select.poll()
        waiting.register(inward, select.POLLOUT)
        waiting.register(outward, select.POLLIN)
        waiting.register(errors, select.POLLIN)
        rest = memoryview(line)
        end = time.monotonic() + self._deadline
        while rest or b"\n" not in self._out:
            left = end - time.monotonic()
            # In slices: a signal that only sets a flag does not end the poll.
            ready = dict(waiting.poll(min(left, LOOK_SECONDS) * 1000)) if left > 0 else {}
            if self._interrupted():
                self.end()
                raise RunError(f"interrupted while the program of {self.name} was answering in step {step}")
            if not ready and left <= 0:
                self.end()
                raise DeadlineError(
                    f"the program of {self.name} did not answer within {self._deadline:g} s in step {step}{self._errors}"
                )
            if errors in ready and not self._log_errors(errors):
                waiting.unregister(errors)
            if outward in ready and not self._read(outward):
                raise self._ended(step)
            if inward in ready:
                try:
                    rest = rest[os.write(inward, rest[:CHUNK]) :]
                except BrokenPipeError:
                    raise self._ended(step) from None
                if not rest:
                    waiting.unregister(inward)
        answer, _, more = bytes(self._out).partition(b"\n")
        self.lines += 1
        if more:
            self.end()
            where = f"in step {step}, line {self.lines} of its output"
            raise RuleError(f"the program of {self.name} answered with more than one line {where}: {more[:80]!r}")
        self._out.clear()
        return answer

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._words_text not in ALLOWED:
            raise RunError(f"the program {self._words_text!r} was not named here, so it is not executed")
        parent = os.getpid()
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("EMUNODE_")},
                preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509  # it only makes system calls
            )
        except OSError as error:
            raise RuleError(
                f"the program of {self.name} cannot be started: {error.strerror}: {self._words[0]}"
            ) from None
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        self._process = process
        # When its rank crashes or the run ends, nothing refers to this object any more.
        weakref.finalize(self, _end, process)
        return process

    @property
    def _words_text(self) -> str:
        return command_text(self._words)

    def _read(self, descriptor: int) -> bool:
        """Read the bytes that are there; return whether there can be more."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, CHUNK)
            if not data:
                return False
            self._out += data
            if len(self._out) > MAX_LINE:
                self.end()
                raise RuleError(f"the program of {self.name} wrote a line of more than {MAX_LINE:,} bytes")
        return True

    def _log_errors(self, descriptor: int) -> bool:
        """Log the standard error of the program, within the bound; return whether there can be more."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, CHUNK)
            if not data:
                return False
            self._last_error = (self._last_error + data)[-400:]
            room = MAX_LOGGED - self._logged
            if room > 0:
                self._logged += len(data)
                log("standard error of a program", of=self.name, text=data[:room].decode(errors="replace"))
        return True

    @property
    def _errors(self) -> str:
        """The end of its standard error, for messages."""
        lines = self._last_error.decode(errors="replace").splitlines()
        return f"; its last error output: {lines[-1][-200:]}" if lines else ""

    def _ended(self, step: Step) -> RuleError:
        """Return the error for a program that closed its output or input."""
        process = self._process
        assert process is not None
        assert process.stderr is not None
        pidfd = os.pidfd_open(process.pid)
        ended = select.select([pidfd], [], [], END_SECONDS)[0]
        os.close(pidfd)
        self._log_errors(process.stderr.fileno())
        how = "closed its output"
        # Not waited for yet: until `_end` has killed its session, the number of the process must stay its own.
        if ended and (info := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            exited = info.si_code == os.CLD_EXITED
            how = f"ended with status {info.si_status}" if exited else f"was killed by signal {info.si_status}"
        self.end()
        return RuleError(
            f"the program of {self.name} {how} in step {step}, after line {self.lines} of its output{self._errors}"
        )

    def end(self) -> None:
        """Kill the process and its children, if it was started."""
        if self._process is not None:
            _end(self._process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program and its session, and close the pipes."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # It has not been waited for, so its number still names its session.
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def _die_with(parent: int) -> None:
    """Bind the new process to its parent's life, before its program starts."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if os.getppid() != parent:
        os._exit(4)
