"""Draw a document: packets per CPU second of each implementation, and how set-up and broadcast scale with size."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import Row
from benchmarks.results import rows_of
from coordinator.reports.charts import curves, grouped_bars
from coordinator.reports.pictures import Picture
from coordinator.reports.theme import standalone

FAMILIES = {"star": "star graph", "hypercube": "hypercube", "ej": "Eisenstein-Jacobi"}
READY, COMMAND = "ready", "the whole command"


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Write the drawing as .svg or .png; raises ValueError without data, ScenarioError as `Picture.save`."""
    figures = [*_shares(document), *_scaling(document)]
    if not figures:
        raise ValueError("there is nothing to draw: measure core or sizes")
    Picture(standalone(_stacked(figures)), "Benchmarks").save(path)


def _stacked(figures: Sequence[str]) -> str:
    """Return figures one above the other in one SVG element."""
    boxes = [re.search(r'viewBox="0 0 (\d+) (\d+)"', figure) for figure in figures]
    sizes = [(int(box[1]), int(box[2])) for box in boxes if box]
    body, y = [], 0
    for figure, (width, height) in zip(figures, sizes, strict=True):
        body.append(figure.replace("<svg", f'<svg y="{y}" width="{width}" height="{height}"', 1))
        y += height + 12
    width = max(width for width, _ in sizes)
    return f'<svg class="chart" viewBox="0 0 {width} {y}" role="img" aria-label="figures">{"".join(body)}</svg>'


def _shares(document: Mapping[str, Any]) -> list[str]:
    rows = rows_of(document, "core")
    names = list(dict.fromkeys(row.figure for row in rows))
    subjects = dict.fromkeys(row.subject for row in rows)
    groups = {subject: [_rounded(_value(rows, subject, name)) for name in names] for subject in subjects}
    return [grouped_bars("Packets per CPU second on the same sockets", groups, names).svg] if groups else []


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)


def _scaling(document: Mapping[str, Any]) -> list[str]:
    rows = rows_of(document, "sizes")
    figures = []
    for figure, title in ((READY, "Until every node and link is ready"), (COMMAND, "The whole run")):
        lines = {name: line for family, name in FAMILIES.items() if (line := _line(rows, family, figure))}
        if lines:
            figures.append(curves(title, lines, "links (TCP connections)", "seconds", log_x=True, log_y=True).svg)
    return figures


def _line(rows: Sequence[Row], family: str, figure: str) -> list[tuple[float, float]]:
    subjects = dict.fromkeys(row.subject for row in rows if row.subject.startswith(f"{family}:"))
    pairs = ((_value(rows, subject, "links"), _value(rows, subject, figure)) for subject in subjects)
    return sorted((x, y) for x, y in pairs if x and y)


def _value(rows: Sequence[Row], subject: str, figure: str) -> float | None:
    return next((row.value for row in rows if (row.subject, row.figure) == (subject, figure)), None)
