"""Blocking calls that run trio inside, also where an event loop is running in this thread, as in a notebook."""

import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar, TypeVarTuple

import trio

from coordinator.api.forks import require_usable
from coordinator.execution.stop_signal import InterruptGuard, StopRequest, stopped_by
from coordinator.planning.namespace import enter_own_network
from emunode.errors import RunError

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class StoppableCall(Generic[Result]):
    """A call for another thread: `request` stops it there, and `result` passes its result or its error on."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self.request = StopRequest()
        self._function = function
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function, in the thread of the caller of `run`; raises nothing."""
        try:
            with stopped_by(self.request):
                self._results.append(self._function())
        except BaseException as error:  # raised again by `result`, in the thread that waits for it
            self._error = error

    def result(self) -> Result:
        """Return the result of the finished call, or raise the exception of the function."""
        if self._error is not None:
            raise self._error
        return self._results[0]


def call(function: Callable[[*Arguments], Result], *arguments: *Arguments, own_network: bool = False) -> Result:
    """Call a function that runs trio: in this thread, or in a new one if an event loop is running in this one.

    `own_network` moves the new thread to a network namespace of its own that ends with it; RunError if that is not
    allowed. Ctrl-C and SIGTERM stop the function as its `InterruptGuard` provides. RunError in a forked process where
    tables would hang.
    """
    require_usable()
    if own_network:
        return _in_new_thread(_in_own_network, function, *arguments)
    if is_loop_running():
        return _in_new_thread(function, *arguments)
    return function(*arguments)


def _in_own_network(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    try:
        enter_own_network()
    except RunError as error:  # a process with several threads needs more rights for it than one with a single thread
        raise RunError(f"{error}; or use `coordinator run`, which needs fewer rights for it") from None
    return function(*arguments)


def is_loop_running() -> bool:
    """Return whether trio or asyncio is running in this thread."""
    with contextlib.suppress(RuntimeError):
        trio.lowlevel.current_trio_token()
        return True
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:  # not imported, so not running
        return False
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def _in_new_thread(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call a function in a thread of its own; the thread has ended when this returns.

    The host processes that a thread starts die with it, so it must not end before them; a thread of a notebook could.
    """
    work = StoppableCall(partial(function, *arguments))
    # The context has the log and the stop request of this thread, if any.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work.run,), name="coordinator")
    # Only the main thread receives signals: it passes them on while it waits.
    with InterruptGuard() as guard:
        guard.calls(work.request.stop)
        thread.start()
        try:
            # A signal that the kernel gives to another thread does not wake this one, but this one has to run the
            # handler.
            while thread.is_alive():
                thread.join(0.1)
        except BaseException:  # a signal handler of somebody else raised it
            work.request.stop()
            thread.join()
            raise
    if guard.requested:  # also if the work was done when the signal came: it must not be lost
        raise KeyboardInterrupt
    return work.result()
