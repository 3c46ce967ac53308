"""Progress of long calls: in a notebook, on a terminal, or as lines in a pipe."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from coordinator.api.console import PlainConsole, say_wrapped
from emunode.terminal import say

if TYPE_CHECKING:  # importing it takes longer than all of `coordinator list topologies`
    from coordinator.networks.base import Progress

STYLED_BY = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables of users who ask for styles outside of a terminal."""
NOTEBOOK_SECONDS = 0.2
"""Shortest time between two updates in a notebook."""
SPARSE_SECONDS = 2.0
"""Shortest time between two progress lines if standard error is not a terminal."""

ProgressOption: TypeAlias = "bool | Progress | None"
"""True: show progress, False: show none, None: show it in a notebook only. A function is called with a phase, the amount
done, and the total (0: unknown)."""


def may_have_styles(stream: TextIO) -> bool:
    """Report whether rich may show styles on a stream; elsewhere it is not imported, as that takes time."""
    return stream.isatty() or any(map(os.environ.get, STYLED_BY))


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
        with on_stderr(title) as progress:
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
        shown = {"text/plain": _line(title, phase, done, total)}
        if handle is None:
            handle = display(shown, raw=True, display_id=True)
        else:
            handle.update(shown, raw=True)

    try:
        yield show
    finally:
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)


@contextlib.contextmanager
def on_stderr(title: str, kept: str = "") -> "Iterator[Progress]":
    """Show progress on standard error: one changing line on a terminal, otherwise a line every two seconds at most.

    An interrupt is followed by what is `kept` of the work.
    """
    try:
        with _changing_line(title) as progress:
            yield progress
    except KeyboardInterrupt:
        if kept:
            say_wrapped(f"{title}: interrupted; {kept}", err=True)
        raise


@contextlib.contextmanager
def _changing_line(title: str) -> "Iterator[Progress]":
    if may_have_styles(sys.stderr):
        errors = PlainConsole(stderr=True)
        if errors.is_terminal:
            with errors.status(title) as status:
                yield lambda phase, done, total: status.update(_line(title, phase, done, total))
            return
    last = time.monotonic()

    def sparse(phase: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SPARSE_SECONDS:
            last = time.monotonic()
            say(_line(title, phase, done, total), err=True, flush=True)

    yield sparse


def _line(title: str, phase: str, done: int, total: int) -> str:
    amount = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
    return f"{title}: {phase}{amount}"
