"""Runs one command line: interrupts and errors become an exit status, and output survives a reader that goes away."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import TextIO

from coordinator.annexes import require_installed
from coordinator.api.console import say_wrapped
from coordinator.cli.app import app, short_help
from coordinator.cli.failures import report_error
from coordinator.scenario.plugins import load_plugins
from emunode.stop_signals import STOP_SIGNALS

RETRY_SECONDS = 0.01
"""An interrupt that arrived at an unsuitable moment is raised again after this time."""


class Interrupts:
    """Signal handlers for the duration of one command; `received` lists the signals so far.

    SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt when it is not lost, and breaks neither an import nor polars.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._handlers = {**dict.fromkeys(STOP_SIGNALS, self._interrupt), signal.SIGALRM: self._retry}
        self._previous = {number: signal.getsignal(number) for number in self._handlers}
        self._previous_hook = sys.unraisablehook

    def install(self) -> None:
        """Replace the handlers of the process."""
        sys.unraisablehook = self._unraisable
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def restore(self) -> None:
        """Put back the handlers that were in place when this object was made."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        sys.unraisablehook = self._previous_hook

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if is_unsuitable(frame):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        else:
            signal.default_int_handler(number, frame)

    def _retry(self, _number: int, _frame: FrameType | None) -> None:
        # Not `_interrupt`: an event loop may have installed a handler of its own since.
        signal.raise_signal(self.received[-1])

    def _unraisable(self, lost: "sys.UnraisableHookArgs") -> None:
        # Python prints and drops an exception in a finalizer or a callback from C; the interrupt must not be dropped.
        if self.received and isinstance(lost.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        else:
            self._previous_hook(lost)


def is_unsuitable(frame: FrameType | None) -> bool:
    """Report whether an exception in `frame` could leave a module half imported, or make polars panic.

    Polars calls Python from Rust, and its Rust code does not expect an exception there.
    """
    polars = sys.modules.get("polars")
    folder = f"{Path(polars.__file__ or '').parent}/" if polars is not None else "<frozen importlib"
    while frame is not None:
        if frame.f_code.co_filename.startswith(("<frozen importlib", folder)):
            return True
        frame = frame.f_back
    return False


WITH_OPTIONS = ("run", "plan", "serve", "campaign", "sweep", "certify")
"""The commands that take the options of a scenario."""
NETNS = ("auto", "always", "never", "true", "false")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status. SIGTERM and SIGHUP are handled like Ctrl-C."""
    arguments = with_netns_value(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in arguments
    interrupts = Interrupts()
    try:
        interrupts.install()  # within `try`: the handlers are active one after the other
        return _invoke(arguments, as_json, interrupts)
    except BaseException:
        if interrupts.received:  # a second interrupt, while the first was being reported
            return _fail(KeyboardInterrupt(), as_json)
        raise
    finally:
        interrupts.restore()


def _invoke(arguments: list[str], as_json: bool, interrupts: Interrupts) -> int:
    try:
        if arguments:
            for asked in (
                " ".join(["coordinator", *arguments[:2]]),
                f"coordinator {arguments[0]}",
                *(word.partition("=")[0] for word in arguments),
            ):
                require_installed(asked)
            if short := short_help(arguments):
                say_wrapped(short)
                return 0
            if arguments[0] in WITH_OPTIONS:
                load_named_plugins(arguments[1:])
        command = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        # A record of flags is a command that is still to be called.
        status = command() if callable(command) else command
        sys.stdout.flush()
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        _discard_unwritable(sys.stdout)
        # A library may have turned the interrupt into an exception of its own.
        return _fail(KeyboardInterrupt() if interrupts.received else error, as_json)
    return status if isinstance(status, int) else 0


def load_named_plugins(words: Sequence[str]) -> None:
    """Execute the plug-ins that a command line names, before it is parsed: they may add flags. Raises ScenarioError."""
    flag = "--plugin"
    named = [after for word, after in pairwise([*words, ""]) if word == flag and not after.startswith("-")]
    named += [word.removeprefix(f"{flag}=") for word in words if word.startswith(f"{flag}=")]
    if named := [name for name in named if name]:
        load_plugins(named)


def _fail(error: BaseException, as_json: bool) -> int:
    status = report_error(error, as_json)
    _discard_unwritable(sys.stderr)
    _discard_unwritable(sys.stdout)
    return status


def _discard_unwritable(stream: TextIO) -> None:
    """Discard buffered output that cannot be written; otherwise the interpreter retries at exit and changes the status."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def with_netns_value(arguments: Sequence[str]) -> list[str]:
    """Replace a bare `--netns` (a switch in older versions) by `--netns=always`."""
    return [
        "--netns=always" if argument == "--netns" and after.lower() not in NETNS else argument
        for argument, after in pairwise([*arguments, ""])
    ]
