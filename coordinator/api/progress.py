"""Progress of long calls: in a notebook, on a terminal, or as lines in a pipe."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from emunode.annexes import load

if TYPE_CHECKING:  # importing it takes longer than all of `coordinator list topologies`
    from coordinator.networks.base import Progress

NOTEBOOK_SECONDS = 0.2
"""Shortest time between two updates in a notebook."""
ON_STDERR: Final = "coordinator.api.console:on_stderr"
"""The display on standard error; its module imports rich."""

ProgressOption: TypeAlias = "bool | Progress | None"
"""True: show progress, False: show none, None: show it in a notebook only. A function is called with a phase, the amount
done, and the total (0: unknown)."""


@contextlib.contextmanager
def progress_display(option: ProgressOption, title: str) -> "Iterator[Progress]":
    """Yield the function that a call reports its progress to; the display disappears when the context ends."""
    shell = _notebook() if option in (True, None) else None
    if callable(option):
        yield option
    elif shell is not None:
        with _in_notebook(title) as progress:
            yield progress
    elif option:
        with load(ON_STDERR)(title) as progress:
            yield progress
    else:
        yield lambda _phase, _done, _total: None


def _notebook() -> Any:
    """Return the IPython shell if this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


@contextlib.contextmanager
def _in_notebook(title: str) -> "Iterator[Progress]":
    """Show one line of output that changes with the progress and is empty in the end."""
    display: Any = sys.modules["IPython"].display.display
    handle: Any = None
    last = time.monotonic()

    def show(phase: str, done: int, total: int) -> None:
        nonlocal handle, last
        if time.monotonic() - last < NOTEBOOK_SECONDS:
            return
        last = time.monotonic()
        shown = {"text/plain": progress_line(title, phase, done, total)}
        if handle is None:
            handle = display(shown, raw=True, display_id=True)
        else:
            handle.update(shown, raw=True)

    try:
        yield show
    finally:
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)


def progress_line(title: str, phase: str, done: int, total: int) -> str:
    """Return the progress of a call as one line."""
    amount = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
    return f"{title}: {phase}{amount}"
