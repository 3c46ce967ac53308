"""What `coordinator reproduce --out` writes: one page with every table and figure, and each table as CSV.

The page needs nothing but itself: figures are SVG in it, colours follow the reader's light or dark setting, and it prints.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from coordinator.claims import Verdict
from coordinator.papers.base import (
    EVALUATED,
    NO_CLAIM,
    NOT_MEASURED,
    VERDICT,
    Figure,
    Reproduction,
    Section,
    Table,
    counts_of,
    verdict_of,
)
from coordinator.report import drawings, html, netmap, plots
from coordinator.report.tables import show, to_csv
from emunode.errors import ScenarioError

TEMPLATE = Path(__file__).with_name("document.html.jinja")
PAGE = "reproduction.html"


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
            words = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
            yield f"{reproduced.reproduction.name}-{number:02}-{words}"[:100].rstrip("-"), table


def render(done: Sequence[Reproduced]) -> str:
    """The page."""
    return html.template(TEMPLATE).render(
        parts=[_part(reproduced) for reproduced in done],
        verdict=str(verdict_of(reproduced.verdict for reproduced in done)),
        marks=html.MARKS,
        css=Markup(plots.CSS + netmap.CSS + (html.FOLDER / "page.css").read_text() + drawings.CSS),
        colours=Markup(plots.colour_variables()),
    )


def _part(reproduced: Reproduced) -> dict[str, object]:
    about = reproduced.reproduction
    return {
        "name": about.name,
        "title": about.title,
        "paper": about.paper,
        "description": about.description,
        "verdict": str(reproduced.verdict),
        "counted": reproduced.counted,
        "sections": [_section(section) for section in reproduced.sections],
    }


def _section(section: Section) -> dict[str, object]:
    if isinstance(section, Figure):
        return {"title": section.title, "svg": Markup(section.svg), "caption": section.caption}
    rows = section.shown
    columns = list(rows[0]) if rows else []
    numeric = {column for column in columns if all(_is_number(row[column]) for row in rows)}
    return {
        "title": section.title,
        "svg": None,
        "columns": [(column, column in numeric) for column in columns],
        "rows": [
            [(show(value), column in numeric, value if column == VERDICT else None) for column, value in row.items()]
            for row in rows
        ],
        "notes": section.notes,
    }


def _is_number(value: object) -> bool:
    """Whether a cell is a number, nothing, or a bound of one such as `<= 12`."""
    return isinstance(value, int | float | None) or str(value).startswith(("<= ", ">= "))
