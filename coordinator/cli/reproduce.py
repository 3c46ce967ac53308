"""A reproduction on the terminal: tables as they come, and at the end what became of them."""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from coordinator.cli.render import console, show_rows, verdict_text
from coordinator.papers.base import Figure, Section
from coordinator.papers.costs import duration
from coordinator.papers.document import Reproduced
from coordinator.papers.run_cache import RunCache


def show_section(section: Section) -> None:
    """A table with its notes; a figure is named, since only a page can show it."""
    out = console()
    if isinstance(section, Figure):
        out.print(f"{escape(section.title)} [dim](a figure: --out DIR draws it)[/]\n", soft_wrap=True)
        return
    show_rows(section.title, section.shown)
    for note in section.notes:
        out.print(f"  {escape(note)}", soft_wrap=True)
    out.print()


def show_summary(done: Sequence[Reproduced], files: Sequence[Path], cache: RunCache, seconds: float) -> None:
    """One line for each reproduction, what it took, and where the page and the tables are."""
    out = console()
    for reproduced in done:
        out.print(
            f"{reproduced.reproduction.name}: {verdict_text(reproduced.verdict)}, {reproduced.counted}", soft_wrap=True
        )
    shared = len(cache.requests) - cache.runs
    out.print(f"{cache.runs:,} runs, used again {shared:,} times; took {duration(seconds)}")
    if files:
        out.print(f"{escape(str(files[0]))}, and {len(files) - 1:,} tables as CSV beside it", soft_wrap=True)
