"""The figures of a document as one drawing: what the ways carry beside the floor, and how set-up and broadcast scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import Row
from benchmarks.results import rows_of
from coordinator.report.compare import write_figure
from coordinator.report.plots import grouped_bars, log_lines, stacked, standalone

FAMILIES = {"star": ("star graph", "blue"), "hypercube": ("hypercube", "orange"), "ej": ("Eisenstein-Jacobi", "green")}
READY, COMMAND = "ready", "the whole command"


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Write what there is to draw as .svg or .png. ValueError when there is nothing, ScenarioError as `write_figure`."""
    figures = [*_shares(document), *_scaling(document)]
    if not figures:
        raise ValueError("there is nothing to draw: measure core or sizes")
    write_figure(standalone(stacked(figures)), path)


def _shares(document: Mapping[str, Any]) -> list[str]:
    rows = rows_of(document, "core")
    names = list(dict.fromkeys(row.figure for row in rows))
    subjects = dict.fromkeys(row.subject for row in rows)
    groups = {subject: [_value(rows, subject, name) for name in names] for subject in subjects}
    return [grouped_bars("Packets per CPU second on the same sockets", groups, names)] if groups else []


def _value(rows: Sequence[Row], subject: str, figure: str) -> float | None:
    return next((round(row.value) for row in rows if (row.subject, row.figure) == (subject, figure)), None)


def _scaling(document: Mapping[str, Any]) -> list[str]:
    rows = rows_of(document, "sizes")
    figures = []
    for figure, title in ((READY, "Seconds until every node and link is ready"), (COMMAND, "Seconds of the whole run")):
        lines = {}
        for family, (name, colour) in FAMILIES.items():
            subjects = dict.fromkeys(row.subject for row in rows if row.subject.startswith(f"{family}:"))
            points = [(_value(rows, subject, "links"), _seconds(rows, subject, figure)) for subject in subjects]
            if points:
                lines[name] = colour, [(x, y) for x, y in points if x and y]
        if lines:
            figures.append(log_lines(title, "links (TCP connections)", lines))
    return figures


def _seconds(rows: Sequence[Row], subject: str, figure: str) -> float | None:
    return next((row.value for row in rows if (row.subject, row.figure) == (subject, figure)), None)
