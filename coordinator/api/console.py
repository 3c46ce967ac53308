"""Consoles of rich that escape control characters in everything they show (`emunode.terminal`)."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from emunode.terminal import say, visible


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
