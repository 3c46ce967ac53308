"""The loops that execute a run: trio's event loop, and a direct call for a run that never waits."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from coordinator.execution.stop_signal import InterruptGuard
from emunode.errors import RunError

Outcome = TypeVar("Outcome")


class RunLoop(Protocol):
    """Executes the coroutine of a run."""

    stop: InterruptGuard
    """The guard whose request to stop ends the run."""

    async def checkpoint(self) -> None:
        """Let other work proceed; within `until_stopped`, a requested stop ends the work here."""

    def execute(self, run: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """Execute a coroutine to its end and return its result."""

    async def until_stopped(self, work: Callable[[], Awaitable[None]], on_stop: Callable[[], None]) -> None:
        """Await `work` until it ends or a stop is requested; then call `on_stop` at once, in the signal handler."""

    async def shielded(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Await `work`, at most `seconds` of it where it waits, whether or not a stop is requested."""


class _StoppedError(Exception):
    """A requested stop, noticed at a checkpoint."""


class DirectLoop:
    """Executes a run that never waits, without an event loop: its import takes a seventh of a short run in memory."""

    def __init__(self, stop: InterruptGuard) -> None:
        self.stop = stop
        self._stoppable = False

    async def checkpoint(self) -> None:
        """End the work of `until_stopped` if a stop is requested."""
        if self._stoppable and self.stop.requested:
            raise _StoppedError

    def execute(self, run: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """Execute a coroutine; RunError if the coroutine waits for anything."""
        coroutine = run()
        try:
            coroutine.send(None)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        coroutine.close()
        raise RunError(
            "its driver waits for something, and a run in memory has no event loop that could wait: if the driver is a "
            "plug-in, let its network do all of its work at once, or start hosts; otherwise report an error of this program"
        )

    async def until_stopped(self, work: Callable[[], Awaitable[None]], on_stop: Callable[[], None]) -> None:
        """Await `work` until its end or its first checkpoint after a request to stop."""
        self.stop.calls(on_stop)
        self._stoppable = True
        try:
            await work()
        except _StoppedError:
            return
        finally:
            self._stoppable = False

    async def shielded(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Await `work`."""
        await work()
