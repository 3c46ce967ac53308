"""An event loop in a thread of its own, beside the thread of a run: neither makes the other wait."""

import contextlib
import threading
from collections.abc import Awaitable, Callable

import trio


class LoopThread:
    """Runs `main` in a new event loop. `failed` is called in the thread with the error that ends it, if one does."""

    def __init__(
        self, name: str, main: Callable[[], Awaitable[None]], failed: Callable[[BaseException], object] | None = None
    ) -> None:
        self._main, self._failed = main, failed
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self) -> None:
        """Start the thread, and wait until its loop runs."""
        self._thread.start()
        self._started.wait()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Let the loop call a function soon; from any thread. Nothing happens if the loop has ended."""
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function, *arguments)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, for this time at most."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            trio.run(self._begin)
        except BaseException as error:  # in a thread, it would only be printed
            if self._failed is None:
                raise
            self._failed(error)
        finally:
            self._started.set()

    async def _begin(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._started.set()
        await self._main()
