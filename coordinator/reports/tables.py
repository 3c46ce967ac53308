"""Tables as text: CSV for programs, Markdown for documents."""

import csv
import io
from collections.abc import Mapping, Sequence

from coordinator.reports.numbers import show

Row = Mapping[str, object]


def to_csv(rows: Sequence[Row]) -> str:
    """Write rows with the same keys as CSV with a header line; a sequence becomes values separated by spaces.

    The text is empty if there are no rows.
    """
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _csv_value(value) for key, value in row.items()})
    return out.getvalue()


def to_markdown(rows: Sequence[Row]) -> str:
    """Write rows with the same keys as a Markdown table; empty if there are no rows."""
    if not rows:
        return ""
    lines = [
        list(rows[0]),
        ["---"] * len(rows[0]),
        *([_markdown_cell(value) for value in row.values()] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _csv_value(value: object) -> object:
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return "" if value is None else value


def _markdown_cell(value: object) -> str:
    return show(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
