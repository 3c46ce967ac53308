"""Parking a trio task until it is rescheduled, at the least cost trio allows.

A rank is one trio task that runs once per step. `trio.lowlevel.wait_task_rescheduled` builds a new coroutine, message and
abort function at every wait; here one task yields the same message again and again.
"""

from collections.abc import Callable, Generator
from types import coroutine
from typing import Any

import trio


def parked_message() -> Any:
    """Return the message that parks a task until it is rescheduled, once yielded to trio; all ranks share it."""
    # The abort function is shared: it always lets trio cancel the task.
    first = trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)  # noqa: ASYNC105
    # The first value that the coroutine yields is the message itself; the coroutine is not needed for more.
    message = first.send(None)
    first.close()
    return message


@coroutine
def at_every_wake(message: Any, call: Callable[[], None]) -> Generator[Any, Any, None]:
    """Park the current task and call `call` each time the task is rescheduled; end only by cancellation."""
    # Hot path, once per active rank and step; in plain form a loop of `await wait_task_rescheduled(abort)` and `call()`.
    while True:
        # Yielding to trio directly: the same object every time, so a wait allocates nothing.
        outcome = yield message
        outcome.unwrap()  # raises trio.Cancelled when the task was cancelled
        call()
