"""Runs in trio's event loop."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import trio

from coordinator.execution.stop_signal import InterruptGuard

Outcome = TypeVar("Outcome")


class TrioLoop:
    """Executes a run in trio's event loop; a request to stop cancels it."""

    def __init__(self, stop: InterruptGuard) -> None:
        self.stop = stop

    async def checkpoint(self) -> None:
        """Execute a checkpoint of trio."""
        await trio.lowlevel.checkpoint()

    def execute(self, run: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """Execute a coroutine in a new event loop."""
        return trio.run(run)

    async def until_stopped(self, work: Callable[[], Awaitable[None]], on_stop: Callable[[], None]) -> None:
        """Await `work` and cancel it on a request to stop."""
        with trio.CancelScope() as scope:
            self.stop.cancels(scope, on_stop)
            await work()

    async def shielded(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Await `work` for at most `seconds`, shielded from cancellation."""
        with trio.move_on_after(seconds, shield=True):
            await work()
