"""Consoles of rich that escape control characters in everything they show (`emunode.terminal`), and progress on them."""

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from coordinator.api.progress import progress_line
from emunode.terminal import say, visible

if TYPE_CHECKING:  # importing it takes longer than all of `coordinator list topologies`
    from coordinator.networks.base import Progress

STYLED_BY = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables of users who ask for styles outside of a terminal."""
SPARSE_SECONDS = 2.0
"""Shortest time between two progress lines if standard error is not a terminal."""


def say_wrapped(text: object, *, err: bool = False, lines: bool = True) -> None:
    """Print a text as `say` does; on a terminal, lines break between words."""
    if (sys.stderr if err else sys.stdout).isatty():
        PlainConsole(stderr=err).print(visible(str(text), lines=lines), markup=False)
    else:
        say(text, err=err, lines=lines)


class PlainConsole(Console):
    """A console that prints no escape sequence except for its own styles."""

    def __init__(self, **options: Any) -> None:
        # Without emoji: a fault such as silent-ports:LABEL:RATE has the form of one.
        super().__init__(highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape text before it is measured, so that tables stay aligned."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape the contents of other renderables."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(visible(text), style)


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
    if sys.stderr.isatty() or any(map(os.environ.get, STYLED_BY)):
        errors = PlainConsole(stderr=True)
        if errors.is_terminal:
            with errors.status(title) as status:
                yield lambda phase, done, total: status.update(progress_line(title, phase, done, total))
            return
    last = time.monotonic()

    def sparse(phase: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SPARSE_SECONDS:
            last = time.monotonic()
            say(progress_line(title, phase, done, total), err=True, flush=True)

    yield sparse
