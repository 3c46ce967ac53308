"""Pages and pictures as objects that notebooks show and that can be written to a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from coordinator.annexes import annex_function
from coordinator.history.stored.writing import replace_file
from coordinator.reports.chart import Chart
from coordinator.reports.plot import Plot
from coordinator.reports.theme import standalone
from emunode.errors import ScenarioError

DRAWING_FORMATS: Final = (".svg", ".png", ".pdf")
CHART_FORMATS: Final = (*DRAWING_FORMATS, ".tex")


@dataclass(frozen=True, repr=False)
class Page:
    """A self-contained HTML page."""

    html: str
    """The document."""
    title: str
    height: int = 720
    """Height in a notebook, in pixels, until the page has been laid out."""

    def save(self, path: Path | str) -> Path:
        """Write the page to a file and return its path. ScenarioError (field `report`) if that is not possible."""
        return write_lines(Path(path), [self.html], "report")

    def __repr__(self) -> str:
        return f"<page {self.title!r}, {len(self.html):,} characters>"

    def _repr_html_(self) -> str:
        return frame(self.html, self.title, self.height)


@dataclass(frozen=True, repr=False)
class Picture:
    """A chart or a drawing as an SVG document, which can be written as SVG, PNG and PDF, a chart as LaTeX too."""

    svg: str
    """The document."""
    title: str
    plot: Plot | None = None
    """The numbers of a chart; None for drawings."""
    about: Sequence[str] = ()
    """Lines that files carry as a comment: what is shown, and the command that made it."""

    @property
    def formats(self) -> Sequence[str]:
        """The endings of the files that `save` writes."""
        return DRAWING_FORMATS if self.plot is None else CHART_FORMATS

    def save(self, path: Path | str, *, field: str = "plot") -> Path:
        """Write the picture to a file, `.svg`, `.png`, `.pdf` or for a chart `.tex`, and return its path.

        A `.tex` file is for `\\input`: the chart as an axis of pgfplots. Raises ScenarioError (for `field`) for other
        file types, if PNG or PDF is not available, and if the file cannot be written.
        """
        path = Path(path)
        match path.suffix:
            case ".svg":
                content: bytes = described(self.svg, self.about).encode()
            case ".png" | ".pdf":
                content = annex_function("a picture as PNG or PDF")(self, path, field)
            case ".tex" if self.plot is not None:
                content = "".join(self.latex()).encode()
            case suffix:
                remedy = "; for LaTeX write a .pdf, and \\includegraphics it" if suffix == ".tex" else ""
                endings = f"{', '.join(self.formats[:-1])} or {self.formats[-1]}"
                raise ScenarioError(field, str(path), f"expected a file name that ends in {endings}{remedy}")
        try:
            replace_file(path, content)
        except OSError as error:
            raise ScenarioError(field, str(path), f"it cannot be written: {error.strerror}") from None
        return path

    def latex(self) -> Sequence[str]:
        """Return the lines of a chart for a LaTeX document; its head says what the document needs."""
        lines: Sequence[str] = annex_function("a chart in LaTeX")(self)
        return lines

    def __repr__(self) -> str:
        return f"<picture {self.title!r}, {len(self.svg):,} characters>"

    def _repr_svg_(self) -> str:
        return self.svg


def picture_of(chart: Chart, title: str | None = None, about: Sequence[str] = ()) -> Picture:
    """Return a chart as a picture in light colours."""
    return Picture(standalone(chart.svg), chart.title if title is None else title, chart.plot, about)


def described(svg: str, about: Sequence[str]) -> str:
    """Return a document with the lines `about` as its metadata."""
    if not about:
        return svg
    head, _, rest = svg.partition(">")
    words = escape("\n".join(about), quote=False)
    return f"{head}><metadata>{words}</metadata>{rest}"


def frame(html: str, title: str, height: int) -> str:
    """Embed a page in another one, such as a notebook: styles, scripts and ids of the two pages stay apart.

    The frame takes the height of its content as soon as the height is known.
    """
    fit = "this.style.height=(this.contentDocument.documentElement.scrollHeight+8)+'px'"
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(html)}" onload="{fit}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


def write_lines(path: Path, lines: Iterable[str], field: str) -> Path:
    """Write a document and return its path. Raises ScenarioError (for `field`) if the file cannot be written."""
    try:
        replace_file(path, lines, named=True)
        return path
    except OSError as error:
        raise ScenarioError(field, str(path), f"cannot be written: {error.strerror}") from None
