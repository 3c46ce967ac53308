"""Ctrl-C, SIGTERM and SIGHUP as a request to stop, not as an exception."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Self

import trio

from emunode.stop_signals import STOP_SIGNALS


class StopRequest:
    """A request to stop that comes from another thread, for work in a thread that receives no signals."""

    def __init__(self) -> None:
        self.requested = False
        self._guards: list[InterruptGuard] = []

    def stop(self) -> None:
        """Stop the work that runs within `stopped_by` this request, as Ctrl-C does in the main thread."""
        self.requested = True
        for guard in tuple(self._guards):
            guard.stop()

    def add(self, guard: "InterruptGuard") -> None:
        """Pass the request on to `guard`, also if it was made before."""
        self._guards.append(guard)
        if self.requested:
            guard.stop()

    def remove(self, guard: "InterruptGuard") -> None:
        """Undo `add`."""
        self._guards.remove(guard)


_request: ContextVar[StopRequest | None] = ContextVar("stop request", default=None)


@contextlib.contextmanager
def stopped_by(request: StopRequest) -> Iterator[None]:
    """Let this request stop also the guards that are entered within the context."""
    before = _request.set(request)
    try:
        yield
    finally:
        _request.reset(before)


class InterruptGuard:
    """Notes Ctrl-C, SIGTERM and SIGHUP instead of raising: an exception could strike at any line, even within trio.

    Only the main thread receives signals. In other threads a guard notes the `StopRequest` of its context.
    """

    def __init__(self) -> None:
        self.requested = False
        """Whether a signal or a request to stop has come."""
        self._cancel: Callable[[], None] = lambda: None
        self._previous = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        self._signals = False
        self._request: StopRequest | None = None

    def __enter__(self) -> Self:
        self._signals = threading.current_thread() is threading.main_thread()
        if self._signals:
            # The handlers of the caller are restored on leaving, so that guards can be nested.
            self._previous = {number: signal.signal(number, self._on_signal) for number in self._previous}
        self._request = _request.get()
        if self._request is not None:
            self._request.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._request is not None:
            self._request.remove(self)
        if self._signals:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Request a stop."""
        # Noted for code that only looks now and then, such as between two steps.
        self.requested = True
        self._cancel()

    def calls(self, function: Callable[[], None]) -> None:
        """Call `function` on a request to stop, from now on; at once if a request has come before."""
        self._cancel = function
        if self.requested:
            function()

    def cancels(self, scope: trio.CancelScope, before: Callable[[], None] = lambda: None) -> None:
        """Call `before` and cancel this scope on a signal, from now on; at once if a signal has come before.

        `before` is called in the signal handler, also while the event loop is blocked.
        """
        token = trio.lowlevel.current_trio_token()

        def cancel() -> None:
            before()
            # The signal may come when the event loop has already ended.
            with contextlib.suppress(trio.RunFinishedError):
                # The only call of trio that is safe in a signal handler, and from another thread.
                token.run_sync_soon(scope.cancel)

        # A signal between entering the guard and starting the event loop must not be lost.
        self.calls(cancel)
