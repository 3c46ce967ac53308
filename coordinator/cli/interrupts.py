"""SIGINT, SIGTERM and SIGHUP as KeyboardInterrupt, when an exception is not lost and breaks neither an import nor polars."""

import signal
import sys
from pathlib import Path
from types import FrameType

from emunode.stop_signals import STOP_SIGNALS

RETRY_SECONDS = 0.01
"""An interrupt that arrived at an unsuitable moment is raised again after this time."""


class Interrupts:
    """Signal handlers for the duration of one command; `received` lists the signals so far."""

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
