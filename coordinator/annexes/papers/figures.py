"""Figures whose titles and captions are data."""

from collections.abc import Sequence
from string import Template

from coordinator.annexes.exports.paper_figures import DrawingPart, drawing
from coordinator.annexes.papers.base import Figure
from coordinator.annexes.papers.tables import printed


def drawn(paper: str, figure: object, panels: Sequence[DrawingPart], **names: object) -> Figure:
    """Return the figure of this number or name in `data/PAPER_figures.csv`, with its panels; `$x` in a text stands for
    the name x.

    A drawing without a title of its own has the title of the figure.
    """
    (row,) = [row for row in printed(f"{paper}_figures") if row["figure"] == str(figure)]
    title, own, caption = (Template(row[column]).substitute(names) for column in ("title", "drawing", "caption"))
    return Figure(title, drawing(own or title, panels, int(row["columns"] or 2)), caption)
