"""Ctrl-C and SIGTERM as a request to stop, not as an exception."""

import contextlib
import signal
from collections.abc import Callable
from typing import Self

import trio


class InterruptGuard:
    """Notes Ctrl-C and SIGTERM instead of raising: an exception could strike at any line, even within trio."""

    def __init__(self) -> None:
        self.requested = False
        """Whether a signal to stop has come."""
        self._cancel: Callable[[], None] = lambda: None
        self._previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> Self:
        # The handlers of the caller are restored on leaving, so that guards can be nested.
        self._previous = {number: signal.signal(number, self._on_signal) for number in self._previous}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        # Noted for code that only looks now and then, such as between two steps.
        self.requested = True
        self._cancel()

    def cancels(self, scope: trio.CancelScope) -> None:
        """From now on, cancel this scope on a signal; at once if a signal has come before."""
        token = trio.lowlevel.current_trio_token()

        def cancel() -> None:
            # The signal may come when the event loop has already ended.
            with contextlib.suppress(trio.RunFinishedError):
                # The only call of trio that is safe in a signal handler.
                token.run_sync_soon(scope.cancel)

        self._cancel = cancel
        # A signal between entering the guard and starting the event loop must not be lost.
        if self.requested:
            scope.cancel()
