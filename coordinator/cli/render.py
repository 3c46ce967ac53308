"""Text output: tables that fit 80 columns."""

import sys
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from coordinator.api.console import PlainConsole
from coordinator.cli.output import print_json
from coordinator.reports.numbers import show

NAMES = {"topology", "collective", "algorithm", "family", "name", "kind", "subject", "claim", "verdict", "example"}
LONGEST_NAME = 28
COLUMNS = 80
STYLES = {"holds": "green", "violated": "bold red", "undecided": "yellow"}


def console() -> PlainConsole:
    """Return a console for standard output, as wide as its terminal; 80 columns if it is not a terminal."""
    return PlainConsole(width=None if sys.stdout.isatty() else COLUMNS)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table of marked-up cells, with a blank line after it. Long cells wrap; none is truncated."""
    heading = escape(title) if title else None
    out = console()
    table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, show_edge=False, collapse_padding=True)
    headings = [column.replace("_", " ") for column in columns]
    texts = [(name, *cells) for name, cells in zip(headings, zip(*rows, strict=True), strict=True)]
    # A space follows each column, the box has one between columns, and one precedes the first column.
    widths = _whole_word_widths(texts, out.width - 2 * len(texts))
    for number, (column, cells, width) in enumerate(zip(columns, texts, widths, strict=True)):
        # Names stay in one piece if they are short enough to leave room for the other columns.
        whole = column in NAMES and max(map(len, cells[1:])) <= LONGEST_NAME
        table.add_column(escape(cells[0]), overflow="fold", no_wrap=whole and width is None)
        # rich forgets the space before the first column when it computes widths
        table.columns[-1].width = None if width is None else width + (number == 0)
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print()


def _whole_word_widths(columns: Sequence[Sequence[str]], room: int) -> Sequence[int | None]:
    """Return the widths at which no word of these columns of marked-up cells breaks.

    None leaves a width to the library: for tables that need no breaks, and for those whose longest words do not fit.
    """
    lines = [[line for cell in cells for line in Text.from_markup(cell).plain.split("\n")] for cells in columns]
    widths = [max(map(cell_len, column), default=0) for column in lines]
    words = [max((cell_len(word) for line in column for word in line.split()), default=0) for column in lines]
    if sum(widths) <= room or sum(words) > room:
        return [None] * len(columns)
    while sum(widths) > room:
        # The widest column gives way, as in the library, unless its longest word is as wide.
        widest = max((k for k in range(len(widths)) if widths[k] > words[k]), key=lambda k: widths[k])
        widths[widest] -= 1
    return widths


def print_rows(title: str, rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print records of one kind as a table or as JSON."""
    if as_json:
        print_json(rows)
    else:
        show_rows(title, rows)


def show_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print records of one kind as a table, with a blank line after it."""
    if not rows:
        return
    shown = [
        [verdict_text(value) if key == "verdict" else value_text(value) for key, value in row.items()] for row in rows
    ]
    show_table(list(rows[0]), shown, title)


def show_claims(claims: Sequence[Mapping[str, object]]) -> None:
    """Print claims as a table, and their sources below it: a column of sources would not fit 80 columns.

    Each claim has `name`, `relation`, `predicted` and `source`; claims that were judged also have `measured`, `ratio` and
    `verdict`. A claim that is `derived` is marked with an asterisk.
    """
    if not claims:
        return
    judged = "verdict" in claims[0]
    numbers: dict[object, int] = {}
    rows = [
        (
            escape(str(claim["name"]).replace("_", " ")) + (" *" if claim.get("derived") else ""),
            ("" if claim["relation"] == "==" else f"{claim['relation']} ") + value_text(claim["predicted"]),
            *(_judgement(claim) if judged else ()),
            str(numbers.setdefault(claim["source"], len(numbers) + 1)),
        )
        for claim in claims
    ]
    show_table(("claim", "predicted", *(JUDGED if judged else ()), "source"), rows)
    out = console()
    for source, number in numbers.items():
        out.print(f"{number:>3}  {escape(str(source))}", soft_wrap=True)
    if any(claim.get("derived") for claim in claims):
        out.print("  *  derived from the schedule that was run: see docs/explanation/claims.md", soft_wrap=True)


JUDGED = ("measured", "to bound", "verdict")


def _judgement(claim: Mapping[str, object]) -> tuple[str, str, str]:
    ratio = "" if claim["ratio"] is None else show(claim["ratio"], 4)
    return value_text(claim["measured"]), ratio, verdict_text(claim["verdict"])


def verdict_text(verdict: object) -> str:
    """Return a verdict with markup for its colour."""
    style = STYLES.get(str(verdict))
    return f"[{style}]{verdict}[/]" if style else value_text(verdict)


def value_text(value: object) -> str:
    """Return a value as a table cell shows it, with markup escaped."""
    return escape(show(value))
