"""The output of `coordinator reproduce --out`: one page with every table and figure, and each table as CSV.

The page starts as a list of its tables and figures. Each entry expands in place and has a permalink, and filters restrict
the list to errata, to rows that were not measured, or to violated rows. The page is self-contained: figures are inline SVG,
colours follow the reader's light or dark setting, and the printed page shows every section expanded.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from coordinator.annexes.exports import paper_figures
from coordinator.annexes.papers.base import Figure, Reproduction, Section
from coordinator.annexes.papers.tables import (
    ERRATUM,
    EVALUATED,
    NO_CLAIM,
    NOT_MEASURED,
    VERDICT,
    Table,
    counts_of,
    verdict_of,
)
from coordinator.history.stored.writing import replace_file
from coordinator.reports import pages, theme
from coordinator.reports.numbers import show
from coordinator.reports.tables import Row, to_csv
from coordinator.results.claims import Verdict
from emunode.errors import ScenarioError

TEMPLATE = Path(__file__).parent / "templates" / "document.html.jinja"
PAGE = "reproduction.html"
MARKS = {**pages.MARKS, EVALUATED: "=", NOT_MEASURED: "-", NO_CLAIM: "·"}
FILTERS: Mapping[str, Collection[str]] = {
    "errata": (),
    "not-measured": (EVALUATED, NOT_MEASURED),
    "violated": (Verdict.VIOLATED,),
    "undecided": (Verdict.UNDECIDED,),
}
"""The filters of the page, with the statuses of the rows each one shows; errata are found by their mark."""


@dataclass(frozen=True)
class Reproduced:
    """A completed reproduction, with the sections it yielded, in order."""

    reproduction: Reproduction
    sections: Sequence[Section]
    finished: bool = True
    """False if the reproduction was interrupted; the missing rows then count as undecided."""

    @property
    def tables(self) -> list[Table]:
        """The tables among the sections."""
        return [section for section in self.sections if isinstance(section, Table)]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of all judged rows."""
        return [verdict for table in self.tables for verdict in table.verdicts]

    @property
    def verdict(self) -> Verdict:
        """The verdict of all rows together; undecided if there are rows, but none was measured."""
        nothing_judged = any(self.counts.values()) and not self.verdicts
        return verdict_of([*self.verdicts, *([Verdict.UNDECIDED] if nothing_judged or not self.finished else [])])

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows per status."""
        return counts_of(self.tables)

    @property
    def counted(self) -> str:
        """The counts in words."""
        count = counts_in_words(self.counts)
        return count if self.finished else f"{count}; incomplete"

    def record(self) -> dict[str, object]:
        """Return the document for `--json`."""
        about = self.reproduction
        return {
            "name": about.name,
            "title": about.title,
            "paper": about.paper,
            "verdict": str(self.verdict),
            "counts": self.counts,
            "tables": [
                {"title": table.title, "counts": counts_of([table]), "rows": table.rows, "notes": table.notes}
                for table in self.tables
            ],
            "figures": [
                {"title": section.title, "caption": section.caption}
                for section in self.sections
                if isinstance(section, Figure)
            ],
        }


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return the numbers of rows that hold, are violated, only evaluated or not measured, and of other statuses that
    occur.
    """
    words = {
        Verdict.HOLDS: "hold",
        Verdict.VIOLATED: "violated",
        Verdict.UNDECIDED: "undecided",
        EVALUATED: "only evaluated",
        NOT_MEASURED: "not measured",
        NO_CLAIM: "measured without a claim",
    }
    optional = (Verdict.UNDECIDED, NO_CLAIM)
    shown = [f"{counts[status]:,} {word}" for status, word in words.items() if counts[status] or status not in optional]
    return f"rows: {', '.join(shown)}"


def write(done: Sequence[Reproduced], folder: Path) -> list[Path]:
    """Write the page and the tables into `folder`, created if necessary; returns the files, the page first.

    Raises ScenarioError (field `out`) if a file cannot be written.
    """
    require_folder(folder)
    try:
        page = folder / PAGE
        replace_file(page, render(done))
        files = [page]
        for name, table in _named(done):
            files.append(folder / f"{name}.csv")
            replace_file(files[-1], to_csv(table.shown))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return files


def require_folder(folder: Path) -> None:
    """Create the folder if it is missing; raises ScenarioError (field `out`) if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> ScenarioError:
    return ScenarioError("out", str(folder), f"cannot write: {error.strerror}")


def _named(done: Sequence[Reproduced]) -> Iterator[tuple[str, Table]]:
    """Yield every table with its file name, made of the reproduction, a number and the title."""
    for reproduced in done:
        for number, table in enumerate(reproduced.tables, 1):
            yield f"{reproduced.reproduction.name}-{number:02}-{_slug(table.title)}"[:100].rstrip("-"), table


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def render(done: Sequence[Reproduced]) -> str:
    """Return the page: a list of all tables and figures that expand in place."""
    parts = [_part(reproduced) for reproduced in done]
    counts = counts_of(table for reproduced in done for table in reproduced.tables)
    return pages.template(TEMPLATE).render(
        parts=parts,
        verdict=str(verdict_of(reproduced.verdict for reproduced in done)),
        counted=counts_in_words(counts),
        filters=_filters(done),
        marks=MARKS,
        css=pages.style(paper_figures.CSS, _template_text("document.css")),
        js=Markup(_template_text("document.js")),
        colours=Markup(theme.colour_variables()),
    )


def _template_text(name: str) -> str:
    return TEMPLATE.with_name(name).read_text(encoding="utf-8")


def _filters(done: Sequence[Reproduced]) -> list[tuple[str, int]]:
    """Return each filter with the number of rows it shows; errata include errata that appear only in a note."""
    tables = [table for reproduced in done for table in reproduced.tables]
    found = Counter(kind for table in tables for row in table.rows for kind in _kinds(row))
    found["errata"] += sum("errata" not in _kinds_of_rows(table) for table in tables if "errata" in _table_kinds(table))
    optional = ("undecided",)
    return [(kind.replace("-", " "), found[kind]) for kind in FILTERS if found[kind] or kind not in optional]


def _kinds(row: Row) -> list[str]:
    """Return the filters that show a row."""
    status = row.get(VERDICT)
    errata = any(ERRATUM in str(value) for value in row.values())
    return [kind for kind, of in FILTERS.items() if status in of] + (["errata"] if errata else [])


def _kinds_of_rows(table: Table) -> set[str]:
    return {kind for row in table.rows for kind in _kinds(row)}


def _table_kinds(table: Table) -> set[str]:
    noted = any(note.startswith(ERRATUM) for note in table.notes)
    return _kinds_of_rows(table) | ({"errata"} if noted else set())


def _part(reproduced: Reproduced) -> dict[str, object]:
    about = reproduced.reproduction
    taken: Counter[str] = Counter()
    return {
        "name": about.name,
        "title": about.title,
        "paper": about.paper,
        "description": about.description,
        "verdict": str(reproduced.verdict),
        "counted": reproduced.counted,
        "sections": [{"id": _permalink(about, section, taken), **_section(section)} for section in reproduced.sections],
    }


def _permalink(about: Reproduction, section: Section, taken: Counter[str]) -> str:
    """Return an identifier from reproduction and title; it does not change when other sections are added."""
    name = f"{about.name}--{_slug(section.title)}"
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}-{taken[name]}"


def _section(section: Section) -> dict[str, object]:
    if isinstance(section, Figure):
        about = {"svg": Markup(section.svg), "caption": section.caption, "kinds": "figure", "counts": []}
        return {"title": section.title, **about}
    rows = section.shown
    columns = list(rows[0]) if rows else []
    numeric = {column for column in columns if all(_is_number(row[column]) for row in rows)}
    return {
        "title": section.title,
        "svg": None,
        "kinds": " ".join(sorted(_table_kinds(section))),
        "counts": [(status, count) for status, count in counts_of([section]).items() if count],
        "columns": [(column, column in numeric) for column in columns],
        "rows": [
            {
                "kinds": " ".join(_kinds(row)),
                "cells": [
                    (show(value), column in numeric, value if column == VERDICT else None)
                    for column, value in row.items()
                ],
            }
            for row in rows
        ],
        "notes": section.notes,
    }


def _is_number(value: object) -> bool:
    """Return whether a cell is a number, empty, or a bound such as `<= 12`."""
    return isinstance(value, int | float | None) or str(value).startswith(("<= ", ">= "))
