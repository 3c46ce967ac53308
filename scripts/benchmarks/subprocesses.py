"""Run a program within a deadline and leave no process behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent


class ProgramError(Exception):
    """A program failed or took too long; the message is the last line of its output."""


def run_program(
    command: Sequence[str | Path],
    *,
    seconds: float,
    question: str = "",
    pass_fds: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a program that reads `question` from standard input and inherits the descriptors.

    The program has its own session, and the whole session is ended afterwards. Raises ProgramError if the program cannot be
    started, fails or takes too long.
    """
    try:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=pass_fds,
            env={**os.environ, **(environment or {})},
        )
    except OSError as error:
        raise ProgramError(f"{command[0]}: {error.strerror}") from None
    with process:
        try:
            answer, complaint = process.communicate(question, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ProgramError(f"{Path(command[0]).name} took longer than {seconds:g} s") from None
        finally:
            _end_session(process)
    if process.returncode:
        last = (complaint.strip() or answer.strip() or f"exit status {process.returncode}").splitlines()[-1]
        raise ProgramError(f"{Path(command[0]).name}: {last}")
    return answer


def _end_session(process: "subprocess.Popen[str]") -> None:
    """End all processes of the session: first SIGTERM, so that they can clean up, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None or number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def measure(
    implementation: str, question: str, *, fds: Sequence[int] = (), seconds: float = 300, **values: object
) -> float:
    """Return the answer of a module of `implementations`, run in its own process that inherits `fds`."""
    answer = run_program(
        [sys.executable, "-m", f"benchmarks.implementations.{implementation}"],
        seconds=seconds,
        question=json.dumps({"name": question, "arguments": values}),
        pass_fds=fds,
        environment={"PYTHONPATH": os.pathsep.join((str(SCRIPTS), str(ROOT))), "PYTHONSAFEPATH": "1"},
    )
    return float(answer.splitlines()[-1])
