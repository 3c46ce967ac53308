"""Tables on terminals, and tables with cells that wrap, by rich: `render` imports this module when there is one."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

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
