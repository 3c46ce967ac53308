"""Figures as text for a terminal, and as Markdown between two marks of a document.

<!-- bench core -->  ..  <!-- /bench -->              every row of a section
<!-- bench core across -->  ..  <!-- /bench -->       a row for each subject, and a column for each figure
<!-- bench wanted -->  ..  <!-- /bench -->            every row with a target
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import Any

from benchmarks.record import Row, show_number
from benchmarks.results import rows_of
from coordinator.reports.tables import to_markdown

HEADER = f"{'what':34} {'figure':42} {'value':>10} {'unit':14} {'share':>7}  of"
MARKS = re.compile(r"<!-- bench (?P<section>\w+)(?P<across> across)? -->\n.*?<!-- /bench -->", re.DOTALL)
WANTED = "wanted"


def line(row: Row) -> str:
    """Return a row for a terminal."""
    share = "" if row.share is None else show_share(row.share)
    text = f"{row.subject:34} {row.figure:42} {show_number(row.value):>10} {row.unit:14} {share:>7}  {row.beside}"
    verdict = "" if row.met else "  SHORT"
    return f"{text:<124} {row.bound}{verdict}".rstrip()


def show_share(share: float) -> str:
    """Return a share with at most three digits, or a multiple; truncated, so that it never looks better than it is."""
    if share >= 10:
        return f"{floor(share):,} x"
    return f"{floor(1000 * share) / 1000:.3g}" if share >= 0.1 else f"{share:.2g}"


def cells(row: Row) -> dict[str, object]:
    """Return the cells of a row in a Markdown table."""
    return {
        "what": row.subject,
        "figure": row.figure.strip(),
        "value": f"{show_number(row.value)} {row.unit}".strip(),
        "share": "" if row.share is None else f"{show_share(row.share)} of {row.beside}",
        "wanted": row.bound + ("" if row.met else " (short)"),
    }


def across(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return one row per subject and one column per figure; missing figures are empty cells."""
    figures = dict.fromkeys(row.figure.strip() for row in rows)
    table: dict[str, dict[str, object]] = {}
    for row in rows:
        of_subject = table.setdefault(row.subject, {"what": row.subject, **dict.fromkeys(figures, "")})
        short = "" if row.met else " (short)"
        of_subject[row.figure.strip()] = f"{show_number(row.value)} {row.unit}".strip() + short
    return list(table.values())


def render(text: str, document: Mapping[str, Any]) -> str:
    """Return `text` with the tables between its marks replaced; raises ValueError for a mark without data."""
    return MARKS.sub(lambda found: _between(found, document), text)


def _between(found: "re.Match[str]", document: Mapping[str, Any]) -> str:
    section = found["section"]
    rows = wanted_rows(document) if section == WANTED else rows_of(document, section)
    first = found[0].split("\n", 1)[0]
    if not rows:
        raise ValueError(f"nothing was measured for {first}")
    table = across(rows) if found["across"] else _without_empty([cells(row) for row in rows])
    parts = [first, "", to_markdown(table), *_said(document, section)]
    return "\n".join(parts) + "\n<!-- /bench -->"


def wanted_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return all rows with a target."""
    return [row for section in document["sections"] for row in rows_of(document, section) if row.bound]


def _without_empty(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the rows without the columns that are empty everywhere."""
    return [{key: value for key, value in row.items() if any(other[key] for other in rows)} for row in rows]


def _said(document: Mapping[str, Any], section: str) -> Iterator[str]:
    """Yield date, machine and load of the measurement, and its notes."""
    measured = list(document["sections"].values()) if section == WANTED else [document["sections"][section]]
    places = dict.fromkeys(part["machine"] for part in measured)
    dates = sorted(part["measured"] for part in measured)
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    load = max(part["load"][0] for part in measured)
    yield f"Measured {span} on {'; '.join(places)}; load average of other work at most {load:.1f}."
    if section != WANTED:
        yield from (f"\n{note}." for note in measured[0]["notes"])
