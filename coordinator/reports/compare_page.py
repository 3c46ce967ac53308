"""Runs on one page: differences come first, and one slider moves all maps.

Each map is the one of the run's own report, in a frame of its own, so that everything the report can do works here as well.
The script of the page moves the sliders in the frames.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from coordinator.history.journal import COLUMNS, Difference
from coordinator.reports import theme
from coordinator.reports.compare import as_rows, claims_of, compared_rows, journals_part, shown
from coordinator.reports.data import RunData
from coordinator.reports.numbers import show, verdict_sentence
from coordinator.reports.pages import FOLDER, MARKS, template, typeset
from coordinator.reports.panels.network import network_panel
from coordinator.reports.run_report import headline, render
from emunode.model import ALL_RANKS

FRAMED: Final = (
    "<style>body{padding:0!important}section{margin:0}.map{max-height:none!important}"
    "header,h2,.controls{display:none!important}</style></head>"
)
"""Ends the head of a report in a frame: the page around it has a heading and a slider, and sets the height of the frame."""
NODES: Final = ("sender", "receiver", "origin", "target")
LETTERS: Final = "ABCDEF"
COUNTS: Final = ("No run", "One run", "Two runs", "Three runs", "Four runs", "Five runs", "Six runs")
RELATIONS: Final = {"==": "", "<=": "≤ ", ">=": "≥ "}


class ComparedClaim(NamedTuple):
    """A claim beside its judgement in each run; a run without the claim has none."""

    name: str
    source: str
    judged: Sequence[Mapping[str, str] | None]

    @property
    def rank(self) -> int:
        """Its place on the page: different verdicts, then claims of some runs, then equal verdicts."""
        if None in self.judged:
            return 1
        return 2 if len({each["verdict"] for each in self.judged if each}) == 1 else 0


def compare_page(runs: Mapping[str, RunData], comparison: Mapping[str, Any]) -> str:
    """Render the page of runs by name; `comparison` is the result of `compare_data`."""
    rows = compared_rows(comparison)
    changed = {row["name"] for row in rows if row["about"] == "metric"}
    metrics = [row for row in as_rows(comparison) if row["about"] == "metric"]
    return template(FOLDER / "compare.html.jinja").render(
        title=" and ".join(runs),
        count=COUNTS[len(runs)],
        letters=LETTERS[: len(runs)],
        runs=[_head(letter, name, data) for letter, (name, data) in zip(LETTERS, runs.items(), strict=False)],
        claims=sorted(_claims(runs.values()), key=lambda claim: claim.rank),
        histories=list(_histories(list(runs.values()))),
        scenario=[_cells(row) for row in rows if row["about"] == "scenario"],
        metrics=[_cells(row) for row in rows if row["about"] == "metric"],
        equal_metrics=[_cells(row) for row in metrics if row["name"] not in changed],
        css=Markup("".join((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "compare.css"))),
        colours=Markup(theme.colour_variables()),
        js=Markup((FOLDER / "compare.js").read_text(encoding="utf-8")),
    )


def _head(letter: str, name: str, data: RunData) -> dict[str, object]:
    verdict = str(data.get("verdict") or "unfinished")
    return {
        "letter": letter,
        "name": name,
        "network": typeset(data.topology.title if data.topology else str(data.get("topology") or "unknown network")),
        "headline": headline(data),
        "verdict": verdict,
        "mark": MARKS.get(verdict, "…"),
        "because": verdict_sentence(data.summary),
        "report": render(data, panels=[network_panel]).replace("</head>", FRAMED, 1),
    }


# --- claims and metrics ----------------------------------------------------------------------------------------------


def _claims(runs: Iterable[RunData]) -> list[ComparedClaim]:
    each = [claims_of(run) for run in runs]
    found = []
    for key in dict.fromkeys(key for claims in each for key in claims):
        known = [claims.get(key) for claims in each]
        some = next(claim for claim in known if claim)
        name = str(some.get("name")).replace("_", " ")
        found.append(ComparedClaim(name, str(some.get("source") or ""), list(map(_judged, known))))
    return found


def _judged(claim: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    if claim is None:
        return None
    verdict = str(claim.get("verdict"))
    relation = RELATIONS.get(str(claim.get("relation")), f"{claim.get('relation')} ")
    return {
        "predicted": f"{relation}{show(claim.get('predicted'), 4)}",
        "measured": show(claim.get("measured"), 4),
        "verdict": verdict,
        "mark": MARKS.get(verdict, "?"),
    }


def _cells(row: Mapping[str, object]) -> list[str]:
    """Return the name and the values of a row; a ratio that there is not is an empty cell."""
    values = {key: shown(value) for key, value in row.items() if key != "about"}
    if "ratio" in row and row["ratio"] is None:
        values["ratio"] = ""
    return [str(row["name"]).replace("_", " "), *list(values.values())[1:]]


# --- the journals ----------------------------------------------------------------------------------------------------


def _histories(runs: Sequence[RunData]) -> Iterator[dict[str, object]]:
    """Yield how the journal of each further run differs from the first journal."""
    for letter, other in zip(LETTERS[1:], runs[1:], strict=False):
        hashes = [run.measured.get("journal_hash") for run in (runs[0], other)]
        same = None not in hashes and hashes[0] == hashes[1]
        difference, problem = (None, None) if same else journals_part(runs[0], other)
        rows = difference and _difference(difference, runs[0], other)
        yield {"letters": f"A{letter}", "same": same, "problem": problem, "difference": rows}


def _difference(difference: Difference, one: RunData, other: RunData) -> dict[str, object]:
    """Return the row for the page: a list of cells per run, each with whether it differs; None for a journal that
    ended.
    """
    both = difference.one, difference.other
    rows = [
        None if row is None else [(_cell(name, row[name], data), _differs(name, both)) for name in COLUMNS]
        for row, data in zip(both, (one, other), strict=True)
    ]
    step = min(int(str(row["step"])) for row in both if row is not None)
    return {"number": f"{difference.number:,}", "step": step, "columns": COLUMNS, "rows": rows}


def _differs(name: str, rows: Sequence[Mapping[str, object] | None]) -> bool:
    return all(row is not None for row in rows) and len({row[name] for row in rows if row is not None}) > 1


def _cell(name: str, value: object, data: RunData) -> str:
    if name not in NODES or not isinstance(value, int) or data.topology is None:
        return show(value)
    if value == ALL_RANKS:
        return "all"
    return data.topology.label(value) if 0 <= value < data.order else show(value)
