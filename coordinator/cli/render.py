"""Text output: tables that fit 80 columns."""

import os
import sys
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from coordinator.api.console import PlainConsole
from coordinator.reports.numbers import show
from emunode.terminal import print_json, say

NAMES = {"topology", "collective", "algorithm", "family", "name", "kind", "subject", "claim", "verdict", "example"}
LONGEST_NAME = 28


def styled_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, width: int) -> Table:
    """Return a table of marked-up cells for an output of some width. Long cells wrap; none is truncated."""
    heading = escape(title) if title else None
    table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, show_edge=False, collapse_padding=True)
    headings = [column.replace("_", " ") for column in columns]
    texts = [(name, *cells) for name, cells in zip(headings, zip(*rows, strict=True), strict=True)]
    # A space follows each column, the box has one between columns, and one precedes the first column.
    room = width - 2 * len(texts)
    # Names stay in one piece if they are short enough to leave room for the other columns.
    whole = [
        column in NAMES and max(map(len, cells[1:])) <= LONGEST_NAME
        for column, cells in zip(columns, texts, strict=True)
    ]
    widths = _whole_word_widths(texts, whole, room)
    for number, (cells, is_whole, column_width) in enumerate(zip(texts, whole, widths, strict=True)):
        table.add_column(escape(cells[0]), overflow="fold", no_wrap=is_whole and column_width is None)
        # rich forgets the space before the first column when it computes widths
        table.columns[-1].width = None if column_width is None else column_width + (number == 0)
    for row in rows:
        table.add_row(*row)
    return table


def words_fit(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Report whether a table of marked-up cells has room for its longest words, so that none breaks."""
    words = [
        max(
            map(cell_len, " ".join([name.replace("_", " "), *(Text.from_markup(cell).plain for cell in cells)]).split())
        )
        for name, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    return sum(words) <= width - 2 * len(words)


def _whole_word_widths(columns: Sequence[Sequence[str]], whole: Sequence[bool], room: int) -> Sequence[int | None]:
    """Return widths that break no word of these columns of marked-up cells, and no cell of the `whole` ones.

    None leaves a width to the library: for tables that need no breaks, and for those whose longest words do not fit.
    """
    lines = [[line for cell in cells for line in Text.from_markup(cell).plain.split("\n")] for cells in columns]
    widths = [max(map(cell_len, column), default=0) for column in lines]
    words = [
        natural if is_whole else max((cell_len(word) for line in column for word in line.split()), default=0)
        for column, natural, is_whole in zip(lines, widths, whole, strict=True)
    ]
    if sum(widths) <= room or sum(words) > room:
        return [None] * len(columns)
    while sum(widths) > room:
        # The widest column gives way, as in the library, unless its longest word is as wide.
        widest = max((k for k in range(len(widths)) if widths[k] > words[k]), key=lambda k: widths[k])
        widths[widest] -= 1
    return widths


UNLIMITED = 10_000
"""Columns of an output that is neither a terminal nor has a width in COLUMNS."""
STYLES = {"holds": "green", "violated": "bold red", "undecided": "yellow", "not judged": "yellow"}


class TextOutput:
    """Standard output, as wide as its terminal, or as COLUMNS says; otherwise lines are as long as they are.

    A file or another program is better served by whole lines than by lines that were cut for a reader.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._console = PlainConsole(width=None if self.is_terminal else _columns())

    @property
    def columns(self) -> int:
        """The width of the output."""
        return self._console.width

    def print(self, text: str = "", *, wrap: bool = False) -> None:
        """Print a text with markup; with `wrap`, long lines are broken between words."""
        self._console.print(text, soft_wrap=not wrap)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
        """Print a table of marked-up cells. Long cells wrap; none is truncated."""
        self._console.print(styled_table(columns, rows, title, self.columns))

    def words_fit(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Report whether a table of marked-up cells can be printed without a break within a word."""
        return words_fit(columns, rows, self.columns)


def _columns() -> int:
    """Return the columns of an output that is not a terminal."""
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isascii() and wanted.isdigit() and 20 <= int(wanted) <= UNLIMITED else UNLIMITED


def console() -> TextOutput:
    """Return the standard output of now."""
    return TextOutput()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table of marked-up cells, with a blank line after it. Long cells wrap; none is truncated."""
    out = console()
    out.table(columns, rows, title)
    out.print()


def print_rows(title: str, rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print records of one kind as a table or as JSON."""
    if as_json:
        print_json(rows)
    else:
        show_rows(title, rows)


def show_rows(title: str, rows: Sequence[Mapping[str, object]], optional: Sequence[str] = ()) -> None:
    """Print records of one kind as a table, with a blank line after it.

    On a narrow output the `optional` columns are left out, one after the other, until no word breaks.
    """
    if not rows:
        return
    shown = [
        [verdict_text(value) if key == "verdict" else value_text(value) for key, value in row.items()] for row in rows
    ]
    columns = list(rows[0])
    for name in optional:
        if name in columns and not console().words_fit(columns, shown):
            at = columns.index(name)
            columns, shown = columns[:at] + columns[at + 1 :], [row[:at] + row[at + 1 :] for row in shown]
    show_table(columns, shown, title)


def show_claims(claims: Sequence[Mapping[str, object]]) -> None:
    """Print claims as a table, and their sources below it: a column of sources would not fit 80 columns.

    Each claim has `name`, `relation`, `predicted` and `source`; claims that were judged also have `measured`, `ratio` and
    `verdict`. A claim that is `derived` is marked with an asterisk.
    """
    if not claims:
        return
    judged = "verdict" in claims[0]
    groups = _publications(claims)
    numbers = {source: number for number, source in enumerate((s for group in groups.values() for s in group), 1)}
    first: dict[tuple[object, ...], Mapping[str, object]] = {}
    cited: dict[tuple[object, ...], list[int]] = {}
    for claim in claims:
        # Two sources may state one claim.
        key = (claim["name"], claim["relation"], str(claim["predicted"]))
        first.setdefault(key, claim)
        if (number := numbers[str(claim["source"])]) not in cited.setdefault(key, []):
            cited[key].append(number)
    rows = [
        (
            escape(str(claim["name"]).replace("_", " ")) + (" *" if claim.get("derived") else ""),
            ("" if claim["relation"] == "==" else f"{claim['relation']} ") + value_text(claim["predicted"]),
            *(_judgement(claim) if judged else ()),
            ", ".join(map(str, cited[key])),
        )
        for key, claim in first.items()
    ]
    show_table(("claim", "predicted", *(JUDGED if judged else ()), "source"), rows)
    for publication, sources in groups.items():
        if len(sources) > 1:
            say(f"     {publication}:")
        for source in sources:
            shown = source if len(sources) == 1 else f"  {source.partition(': ')[2] or source}"
            say(f"{numbers[source]:>3}  {shown}")
    if any(claim.get("derived") for claim in claims):
        say("  *  derived from the schedule that was run: see docs/explanation/claims.md")


def _publications(claims: Sequence[Mapping[str, object]]) -> Mapping[str, Sequence[str]]:
    """Return the sources of claims, each once, by the publication that they name before their first colon."""
    groups: dict[str, list[str]] = {}
    for source in dict.fromkeys(str(claim["source"]) for claim in claims):
        groups.setdefault(source.partition(": ")[0], []).append(source)
    return groups


JUDGED = ("measured", "times the bound", "verdict")


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
