"""Pictures as lines of LaTeX: a chart as an axis of pgfplots, a drawing as a picture of TikZ."""

from collections.abc import Sequence

from coordinator.annexes.exports import latex, pgfplots, tikz
from coordinator.reports.pictures import Picture


def latex_lines(picture: Picture) -> Sequence[str]:
    """Return the lines of a picture for a LaTeX document; its head says what the document needs."""
    needs = ["Its document needs in the preamble:", *latex.PREAMBLE]
    body = tikz.picture(picture.svg) if picture.plot is None else pgfplots.axis(picture.title, picture.plot)
    return [*latex.comments([*(picture.about or (picture.title,)), *needs]), *body]
