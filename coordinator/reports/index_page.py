"""The page that lists the runs of a folder. It works without its script, which only filters the list."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from coordinator.history.run_index import GENERATOR, REPORT, THUMBNAIL, RunEntry, index_data
from coordinator.reports import theme
from coordinator.reports.numbers import plural
from coordinator.reports.pages import FOLDER, MARKS, template

MOST_SHOWN: Final = 1_000
"""Runs on the page, the newest ones."""
MOST_KEPT: Final = 5_000
"""Runs whose data the page holds; the next update reads the summaries of the others again."""


def index_page(entries: Sequence[RunEntry]) -> str:
    """Render the page of these runs, newest first."""
    shown = entries[:MOST_SHOWN]
    return template(FOLDER / "index.html.jinja").render(
        generator=Markup(GENERATOR),
        count=plural(len(entries), "run"),
        older=len(entries) - len(shown),
        runs=[_record(entry) for entry in shown],
        data=Markup(index_data(entries[:MOST_KEPT])),
        css=Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        colours=Markup(theme.colour_variables()),
    )


def _record(entry: RunEntry) -> dict[str, object]:
    folder = quote(entry.path)
    return {
        "time": f"{entry.time[:10]} {entry.time[11:19]}",
        "iso": entry.time,
        "title": f"{entry.topology} {entry.collective} by {entry.algorithm}",
        "details": ", ".join(
            filter(
                None,
                (
                    entry.driver,
                    "timed clock" if entry.clock == "timed" else "",
                    f"seed {entry.seed}" if entry.seed else "",
                    "" if entry.steps is None else plural(entry.steps, "step"),
                    f"faults: {entry.faults}" if entry.faults else "",
                ),
            )
        ),
        "because": entry.undecided_because,
        "verdict": entry.outcome,
        "mark": MARKS.get(entry.outcome, "?"),
        "folder": f"{folder}/",
        "report": f"{folder}/{REPORT}",
        "picture": f"{folder}/{THUMBNAIL}" if entry.has_picture else None,
    }
