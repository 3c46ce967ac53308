"""Tables as text: CSV for programs, Markdown for documents; and values as people read them."""

import csv
import io
from collections.abc import Mapping, Sequence

MOST_ITEMS = 12

Row = Mapping[str, object]


def to_csv(rows: Sequence[Row]) -> str:
    """Rows of the same keys as CSV with a header line; sequences as numbers separated by spaces; empty for no rows."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _plain(value) for key, value in row.items()})
    return out.getvalue()


def to_markdown(rows: Sequence[Row]) -> str:
    """Rows of the same keys as a Markdown table; empty for no rows."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def show(value: object) -> str:
    """A value for people: thousands separated, six digits of a fraction, the beginning of what is long."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
        case tuple() | list():
            shown = ", ".join(map(show, value[:MOST_ITEMS]))
            return f"{shown}, .. ({len(value)})" if len(value) > MOST_ITEMS else shown
    return str(value)


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return "" if value is None else value


def _cell(value: object) -> str:
    return show(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
