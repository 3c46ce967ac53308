"""Helpers for the tests of reproductions: golden files, sections and tables of a reproduction, errata."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from coordinator.annexes.papers.base import Figure, Reproduction, Section
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import ERRATUM, Table
from coordinator.results.claims import Verdict
from tests.helpers.support import golden_rows

Sections = Callable[[Reproduction, int], list[Section]]
"""The type of the fixture `sections`."""


def golden(family: str, name: str) -> list[dict[str, str]]:
    """Return the rows of one golden file."""
    return golden_rows(family, name)


def carry_out(cache: RunCache, about: Reproduction, n: int) -> list[Section]:
    """Return the sections of a reproduction at one size."""
    return list(about.build(replace(cache, sizes=about.over(n))))


def table_at(cache: RunCache, about: Reproduction, n: int, title: str) -> Table:
    """Return the table of a reproduction at one size whose title contains these words."""
    return table_in(carry_out(cache, about, n), title)


def table_in(sections: Iterable[Section], title: str) -> Table:
    """Return the table whose title contains these words."""
    (found,) = [table for name, table in tables_of(sections).items() if title in name]
    return found


def figures_of(sections: Iterable[Section]) -> list[Figure]:
    """Return the figures among the sections."""
    return [section for section in sections if isinstance(section, Figure)]


def tables_of(sections: Iterable[Section]) -> dict[str, Table]:
    """Return the tables among the sections, by title."""
    return {section.title: section for section in sections if isinstance(section, Table)}


def require_explained_errata(table: Table) -> None:
    """A table with a marked entry has a note that explains it."""
    marked = any(ERRATUM in str(value) for row in table.rows for value in row.values())
    assert not marked or any(note.startswith(ERRATUM) for note in table.notes), table.title


def require_sound(table: Table) -> None:
    """Rows have the same columns and a status, every judged row holds, and errata are explained."""
    assert all({*row} == {*table.columns} for row in table.rows)
    assert set(table.verdicts) <= {Verdict.HOLDS}, [row for row in table.rows if row["verdict"] == "violated"]
    assert len(table.statuses) == len(table.rows)
    assert all(row["measured"] is not None for row in table.rows if row.get("verdict") == "holds" and "measured" in row)
    require_explained_errata(table)
