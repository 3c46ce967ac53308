"""The page that lists the runs of a folder as a table. Its script sorts, filters, groups and compares them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from coordinator.history.run_index import GENERATOR, REPORT, THUMBNAIL, RunEntry, index_data
from coordinator.reports import theme
from coordinator.reports.pages import FOLDER, MARKS, template
from coordinator.results.reasons import why_undecided
from coordinator.scenario.command import describe
from emunode.terminal import plural

MOST_SHOWN: Final = 1_000
"""Runs on the page, the newest ones."""
MOST_KEPT: Final = 5_000
"""Runs whose data the page holds; the next update reads the summaries of the others again."""


class SortableColumn(NamedTuple):
    """A column of the page, and the key that its heading sorts by."""

    title: str
    key: str
    number: bool = False


COLUMNS: Final = (
    SortableColumn("run", "title"),
    SortableColumn("delivered", "delivered", True),
    SortableColumn("steps", "steps", True),
    SortableColumn("packets", "packets", True),
    SortableColumn("faults", "faults"),
    SortableColumn("seed", "seed", True),
    SortableColumn("verdict", "outcome"),
    SortableColumn("time", "time"),
)


def index_page(entries: Sequence[RunEntry]) -> str:
    """Render the page of these runs, newest first."""
    shown = entries[:MOST_SHOWN]
    return template(FOLDER / "index.html.jinja").render(
        generator=Markup(GENERATOR),
        count=plural(len(entries), "run"),
        older=len(entries) - len(shown),
        runs=[_record(entry) for entry in shown],
        data=Markup(index_data(entries[:MOST_KEPT])),
        columns=COLUMNS,
        css=Markup("".join((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "index.css"))),
        colours=Markup(theme.colour_variables()),
        js=Markup((FOLDER / "index.js").read_text(encoding="utf-8")),
    )


def _record(entry: RunEntry) -> dict[str, object]:
    folder = quote(entry.path)
    return {
        "time": f"{entry.time[:10]} {entry.time[11:19]}",
        "iso": entry.time,
        "title": entry.title,
        "details": ", ".join(
            filter(
                None,
                (
                    entry.driver,
                    describe({**asdict(entry), **entry.options, "algorithm": " "}).lstrip(" ,"),
                ),
            )
        ),
        "deliveries": entry.deliveries,
        "steps": "" if entry.steps is None else f"{entry.steps:,}",
        "packets": "" if entry.packets is None else f"{entry.packets:,}",
        "faults": entry.faults,
        "seed": entry.seed,
        "because": why_undecided(entry.reason, entry.undecided_because),
        "verdict": entry.outcome,
        "mark": MARKS.get(entry.outcome, "?"),
        "folder": f"{folder}/",
        "report": f"{folder}/{REPORT}",
        "picture": f"{folder}/{THUMBNAIL}" if entry.has_picture else None,
    }
