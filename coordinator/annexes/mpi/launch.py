"""One start of mpirun: its processes, its folder and its time limits. Nothing is left after it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.annexes.mpi.library import MpiLibrary
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.planning.namespace import unavailable_reason
from emunode.errors import RunError

LOOK_SECONDS: Final = 0.05
LEAVE_SECONDS: Final = 2.0
"""How long mpirun may take to end its ranks after SIGTERM."""
TAIL_BYTES: Final = 16 << 10
"""Size of the end of the output of mpirun that is kept."""


class MpiExit(NamedTuple):
    """The end of one start of mpirun."""

    status: int
    timed_out: bool
    output: str
    """The end of standard output and standard error."""

    @property
    def reason(self) -> str:
        """The last line of the output that says something, or the exit status."""
        rules = ("-", "=", "*")
        lines = [
            line.strip() for line in self.output.splitlines() if line.strip() and not line.strip().startswith(rules)
        ]
        name = f"mpirun ended with status {self.status}"
        return f"{name}: {lines[0][:160]}" if lines else name


def network_of(open_ports: bool) -> str:
    """Return `own` where a network namespace can be made, else `shared`; RunError if that lacks `open_ports`."""
    reason = unavailable_reason()
    if reason is None:
        return "own"
    if not open_ports:
        raise RunError(
            f"{reason}; with --open-ports it runs in the network of this machine, where mpirun listens on all addresses"
        )
    return "shared"


class MpiStart:
    """A running mpirun with all its ranks; they are gone after `end`, and after the death of this process."""

    def __init__(
        self,
        library: MpiLibrary,
        command: Sequence[str],
        folder: Path,
        network: str,
        echo: Callable[[str], object] | None = None,
    ) -> None:
        self._tail = b""
        self._echo = echo
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "coordinator.annexes.mpi.enter", network, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=library.environment(folder),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)

    def wait(
        self, silent_seconds: float, progress: Callable[[], object], stopped: Callable[[], bool] = lambda: False
    ) -> MpiExit:
        """Wait for the end, until `stopped`, and at most `silent_seconds` after the value of `progress` last changed."""
        seen, since = progress(), time.monotonic()
        while self._process.poll() is None:
            time.sleep(LOOK_SECONDS)
            self._read()
            now = progress()
            if now != seen:
                seen, since = now, time.monotonic()
            if stopped() or time.monotonic() - since > silent_seconds:
                self.end()
                return MpiExit(self._process.returncode, True, self._text())
        self._read()
        return MpiExit(self._process.returncode, False, self._text())

    def end(self) -> None:
        """End mpirun and its ranks: by SIGTERM (mpirun passes it on), then by SIGKILL (its ranks die with it)."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
                deadline = time.monotonic() + LEAVE_SECONDS
                while self._process.poll() is None and time.monotonic() < deadline:
                    time.sleep(LOOK_SECONDS)
                    self._read()  # mpirun waits for a reader of its output
        self._process.wait()
        self._read()
        self._output.close()

    def _read(self) -> None:
        # Whatever ranks print is read, since they would wait otherwise; only its end is kept.
        with contextlib.suppress(OSError, ValueError):
            while data := self._output.read(1 << 16):
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                if self._echo is not None:
                    self._echo(data.decode(errors="replace"))

    def _text(self) -> str:
        return self._tail.decode(errors="replace")


def run_mpi(
    library: MpiLibrary,
    command: Sequence[str],
    folder: Path,
    network: str,
    silent_seconds: float,
    progress: Callable[[], object],
    echo: Callable[[str], object] | None = None,
) -> MpiExit:
    """Run mpirun to its end; `echo` receives its output. No process is left after an interrupt or an error."""
    # Ctrl-C is noted, not raised: an exception could come between the start of mpirun and the care for its end.
    with InterruptGuard() as guard:
        start = MpiStart(library, command, folder, network, echo)
        try:
            ended = start.wait(silent_seconds, progress, lambda: guard.requested)
        finally:
            start.end()
    if guard.requested:
        raise KeyboardInterrupt
    return ended
