"""What `coordinator reproduce --out` writes: one page with every table and figure, and each table as CSV.

The page opens on a list of its tables and figures; each opens where it stands, has a permalink, and filters reduce the list
to errata, to what was not measured, or to what is violated. It needs nothing but itself: figures are SVG in it, colours
follow the reader's light or dark setting, and it prints, with everything open.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from coordinator.papers.base import Figure, Reproduction, Section
from coordinator.papers.tables import (
    ERRATUM,
    EVALUATED,
    NO_CLAIM,
    NOT_MEASURED,
    VERDICT,
    Table,
    counts_of,
    verdict_of,
)
from coordinator.reports import network_svg as netmap
from coordinator.reports import paper_figures as drawings
from coordinator.reports import plots
from coordinator.reports import run_report as html
from coordinator.reports.tables import Row, show, to_csv
from coordinator.results.claims import Verdict
from emunode.errors import ScenarioError

TEMPLATE = Path(__file__).parent / "templates" / "document.html.jinja"
PAGE = "reproduction.html"
MARKS = {**html.MARKS, EVALUATED: "=", NOT_MEASURED: "-", NO_CLAIM: "·"}
FILTERS: Mapping[str, Collection[str]] = {
    "errata": (),
    "not-measured": (EVALUATED, NOT_MEASURED),
    "violated": (Verdict.VIOLATED,),
    "undecided": (Verdict.UNDECIDED,),
}
"""What the page can be reduced to, with the statuses of the rows that it then shows; errata are found by their mark."""


@dataclass(frozen=True)
class Reproduced:
    """A reproduction that was carried out: what it yielded, in order."""

    reproduction: Reproduction
    sections: Sequence[Section]
    finished: bool = True
    """Whether nothing was cut short: then what is missing is undecided."""

    @property
    def tables(self) -> list[Table]:
        """The tables among the sections."""
        return [section for section in self.sections if isinstance(section, Table)]

    @property
    def verdicts(self) -> list[Verdict]:
        """Of all rows that are judged."""
        return [verdict for table in self.tables for verdict in table.verdicts]

    @property
    def verdict(self) -> Verdict:
        """Of all rows together; undecided where there are rows and none of them was measured."""
        nothing_judged = any(self.counts.values()) and not self.verdicts
        return verdict_of([*self.verdicts, *([Verdict.UNDECIDED] if nothing_judged or not self.finished else [])])

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each status."""
        return counts_of(self.tables)

    @property
    def counted(self) -> str:
        """The counts in words."""
        count = counts_in_words(self.counts)
        return count if self.finished else f"{count}; it was cut short"

    def record(self) -> dict[str, object]:
        """For `--json`."""
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
    """Rows that hold, are violated, are only evaluated and are not measured; other kinds where there are any."""
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
    """Write the page and the tables into `folder`, made if need be; the files, the page first.

    Raises ScenarioError (field `out`) where that cannot be done.
    """
    require_folder(folder)
    try:
        page = folder / PAGE
        page.write_text(render(done), encoding="utf-8")
        files = [page]
        for name, table in _named(done):
            files.append(folder / f"{name}.csv")
            files[-1].write_text(to_csv(table.shown), encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from None
    return files


def require_folder(folder: Path) -> None:
    """Make the folder if it is not there; ScenarioError (field `out`) where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> ScenarioError:
    return ScenarioError("out", str(folder), f"it cannot be written: {error.strerror}")


def _named(done: Sequence[Reproduced]) -> Iterator[tuple[str, Table]]:
    """Every table with the name of its file: the reproduction, a number, the title."""
    for reproduced in done:
        for number, table in enumerate(reproduced.tables, 1):
            yield f"{reproduced.reproduction.name}-{number:02}-{_slug(table.title)}"[:100].rstrip("-"), table


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def render(done: Sequence[Reproduced]) -> str:
    """The page: a list of all tables and figures, each of which opens where it stands."""
    parts = [_part(reproduced) for reproduced in done]
    counts = counts_of(table for reproduced in done for table in reproduced.tables)
    return html.template(TEMPLATE).render(
        parts=parts,
        verdict=str(verdict_of(reproduced.verdict for reproduced in done)),
        counted=counts_in_words(counts),
        filters=_filters(done),
        marks=MARKS,
        css=Markup(
            plots.CSS + netmap.CSS + (html.FOLDER / "page.css").read_text() + drawings.CSS + _beside("document.css")
        ),
        js=Markup(_beside("document.js")),
        colours=Markup(plots.colour_variables()),
    )


def _beside(name: str) -> str:
    return TEMPLATE.with_name(name).read_text(encoding="utf-8")


def _filters(done: Sequence[Reproduced]) -> list[tuple[str, int]]:
    """Each filter with the number of rows that it shows; of errata, also those that only a note tells of."""
    tables = [table for reproduced in done for table in reproduced.tables]
    found = Counter(kind for table in tables for row in table.rows for kind in _kinds(row))
    found["errata"] += sum("errata" not in _kinds_of_rows(table) for table in tables if "errata" in _table_kinds(table))
    optional = ("undecided",)
    return [(kind.replace("-", " "), found[kind]) for kind in FILTERS if found[kind] or kind not in optional]


def _kinds(row: Row) -> list[str]:
    """By which filters a row is shown."""
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
    """An identifier that stays the same when sections are added elsewhere: reproduction and title."""
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
    """Whether a cell is a number, nothing, or a bound of one such as `<= 12`."""
    return isinstance(value, int | float | None) or str(value).startswith(("<= ", ">= "))
