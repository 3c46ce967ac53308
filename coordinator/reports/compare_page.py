"""Two runs on one page: differences come first, and one slider moves the maps of both.

Each map is the one of the run's own report, in a frame of its own, so that everything the report can do works here as well.
The script of the page moves the sliders in the frames.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from coordinator.history.journal import COLUMNS, Difference
from coordinator.reports import theme
from coordinator.reports.compare import as_rows, claims_of, journals_part
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
RELATIONS: Final = {"==": "", "<=": "≤ ", ">=": "≥ "}


class ComparedClaim(NamedTuple):
    """A claim beside its judgements in both runs; a run without the claim has none."""

    name: str
    source: str
    one: Mapping[str, str] | None
    other: Mapping[str, str] | None

    @property
    def rank(self) -> int:
        """Its place on the page: different verdicts, then claims of one run, then equal verdicts."""
        if self.one is None or self.other is None:
            return 1
        return 2 if self.one["verdict"] == self.other["verdict"] else 0


def compare_page(runs: Mapping[str, RunData], comparison: Mapping[str, Any]) -> str:
    """Render the page of two runs by name; `comparison` is the result of `compare_data`."""
    one, other = runs.values()
    claims = sorted(_claims(one, other), key=lambda claim: claim.rank)
    metrics = [row for row in as_rows(comparison) if row["about"] == "metric"]
    differing = [row for row in metrics if _value(row, runs, 0) != _value(row, runs, 1)]
    same = comparison["same_history"]
    difference, problem = (None, None) if same else journals_part(one, other)
    return template(FOLDER / "compare.html.jinja").render(
        title=" and ".join(runs),
        runs=[_head(letter, name, data) for letter, (name, data) in zip("AB", runs.items(), strict=True)],
        same=same,
        claims=[claim for claim in claims if claim.rank < 2],
        equal_claims=[claim for claim in claims if claim.rank == 2],
        difference=difference and _difference(difference, one, other),
        problem=problem,
        scenario=[(key.replace("_", " "), *map(show, values)) for key, values in comparison["differs"].items()],
        metrics=[_metric(row, runs) for row in differing],
        equal_metrics=[_metric(row, runs) for row in metrics if row not in differing],
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


def _claims(one: RunData, other: RunData) -> list[ComparedClaim]:
    both = claims_of(one), claims_of(other)
    found = []
    for key in dict.fromkeys([*both[0], *both[1]]):
        known = [claims.get(key) for claims in both]
        some = known[0] or known[1] or {}
        found.append(
            ComparedClaim(str(some.get("name")).replace("_", " "), str(some.get("source") or ""), *map(_judged, known))
        )
    return found


def _judged(claim: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    if claim is None:
        return None
    verdict = str(claim.get("verdict"))
    relation = RELATIONS.get(str(claim.get("relation")), f"{claim.get('relation')} ")
    return {
        "predicted": f"{relation}{show(claim.get('predicted'))}",
        "measured": show(claim.get("measured")),
        "verdict": verdict,
        "mark": MARKS.get(verdict, "?"),
    }


def _value(row: Mapping[str, object], runs: Mapping[str, RunData], at: int) -> object:
    return row[list(runs)[at]]


def _metric(row: Mapping[str, object], runs: Mapping[str, RunData]) -> tuple[str, str, str, str]:
    ratio = row["ratio"]
    one, other = (_value_text(_value(row, runs, at)) for at in range(2))
    return str(row["name"]).replace("_", " "), one, other, "" if ratio is None else show(ratio, 4)


def _value_text(value: object) -> str:
    """Write a value. Of a list of records, such as unreachable nodes, the number is enough: the reports have the list."""
    return str(len(value)) if isinstance(value, list) and any(isinstance(item, dict) for item in value) else show(value)


# --- the journals ----------------------------------------------------------------------------------------------------


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
