"""Pages and pictures as objects that notebooks show and that can be written to a file."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from coordinator.reports.compare import write_figure
from coordinator.reports.export import write_lines


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
    """A drawing as an SVG document."""

    svg: str
    """The document."""
    title: str

    def save(self, path: Path | str) -> Path:
        """Write the picture to a file, `.svg` or `.png`, and return its path.

        ScenarioError (field `plot`) for other file types, if PNG is not available, and if the file cannot be written.
        """
        write_figure(self.svg, Path(path))
        return Path(path)

    def __repr__(self) -> str:
        return f"<picture {self.title!r}, {len(self.svg):,} characters>"

    def _repr_svg_(self) -> str:
        return self.svg


def frame(html: str, title: str, height: int) -> str:
    """Embed a page in another one, such as a notebook: styles, scripts and ids of the two pages stay apart.

    The frame takes the height of its content as soon as the height is known.
    """
    fit = "this.style.height=(this.contentDocument.documentElement.scrollHeight+8)+'px'"
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(html)}" onload="{fit}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )
