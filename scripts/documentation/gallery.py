"""The gallery of the site: runs of `docs/gallery.toml`, each with a picture, its command, its report and one sentence.

`scripts/docs` executes the commands and writes for each entry the folder that its command writes, with `light.svg` and
`dark.svg` beside the report. `tests/annexes/papers/test_gallery.py` holds the numbers of each sentence against the output.

An entry has the keys of `Entry`. `numbers` names, in order, where the output with `--json` has the numbers that its sentence
states: `deliveries`, or `rows / edt x=2 + nodes=2 / guaranteed`, where the second part chooses the element of a list
that has both values, or the element of that number.
"""

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.exports import paper_figures
from coordinator.annexes.lesson.page import write_lesson
from coordinator.reports import network_svg, theme
from coordinator.reports.data import read_run
from coordinator.reports.layout import WIDTH
from coordinator.reports.panels.base import Report
from reference_pages.markdown import execute

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docs" / "gallery.toml"
FOLDER: Final = "gallery"
"""The folder of the site with the folders of the entries."""
NUMBER: Final = re.compile(r"(?<![\w^.,])(\d[\d,]*(?:\.\d+)?)(?!\w)( %)?")
"""A number of a sentence, and whether it is a percentage; digits of names such as S_4 or Q_7 are part of a word."""
REPORTS: Final = {
    "run": "report.html",
    "campaign": "campaign.html",
    "sweep": "sweep.html",
    "reproduce": "reproduction.html",
}
"""The page that each command writes."""

Execute = Callable[[Sequence[str]], tuple[int, str, str]]
"""Runs a command line and returns its exit status, output and errors."""


@dataclass(frozen=True)
class Entry:
    """One card of the gallery."""

    name: str
    """Of its folder, and of its place on the page."""
    title: str
    command: str
    """As a reader types it; the builder adds `--json` and the folder."""
    see: str
    """One sentence about the picture or the report."""
    numbers: Sequence[str]
    """The place of each number of the sentence in the output."""
    picture: str | int
    """The step that the map of a run shows, the title of a figure, or the name of a chart."""
    status: int = 0
    """Exit status of the command."""
    lesson: bool = False
    """Whether the card leads to the lesson of the run, in place of its report."""

    @property
    def kind(self) -> str:
        """The command: run, campaign, sweep or reproduce."""
        return shlex.split(self.command)[1]

    @property
    def report(self) -> str:
        """File name of the page that the card opens."""
        return "lesson.html" if self.lesson else REPORTS[self.kind]

    @property
    def shown(self) -> str:
        """The commands that a reader types."""
        export = f"\ncoordinator export lesson runs/{self.name} lesson.html"
        return self.command.strip() + (f" --out runs/{self.name}{export}" if self.lesson else "")

    def arguments(self, folder: Path) -> list[str]:
        """Return the words after `coordinator` of the command that writes into a folder."""
        program, *words = shlex.split(self.command.replace("\\\n", " "))
        if program != "coordinator" or words[0] not in REPORTS:
            raise ValueError(f"{self.name}: no command of the gallery: {self.command}")
        return [*words, "--json", "--out", str(folder)]

    def stated(self) -> list[float]:
        """Return the numbers of the sentence."""
        return [
            float(number.rstrip(",").replace(",", "") + ("e-2" if percent else ""))
            for number, percent in NUMBER.findall(self.see)
        ]

    def found(self, output: object) -> list[float]:
        """Return the numbers of the output at the places that the entry names."""
        return [float(_at(output, place)) for place in self.numbers]


@dataclass(frozen=True)
class Group:
    """A heading of the gallery and its entries."""

    title: str
    entries: Sequence[Entry]


def read_gallery(file: Path = FILE) -> list[Group]:
    """Return the groups in order; TypeError for an unknown key."""
    groups = tomllib.loads(file.read_text(encoding="utf-8"))["group"]
    return [Group(group["title"], [Entry(**entry) for entry in group["entry"]]) for group in groups]


def _at(output: Any, place: str) -> Any:
    """Return the part of an output at a place; of a text such as `segments=4`, its number.

    Raises LookupError if the output has no such part.
    """
    for key in place.split(" / "):
        if isinstance(output, dict):
            output = output[key]
        elif key.isdigit():
            output = output[int(key)]
        else:
            output = next((each for each in output if {*key.split(" + ")} <= {*map(str, each.values())}), None)
            if output is None:
                raise LookupError(f"no element has {key} in {place}")
    return output.partition("=")[2] if isinstance(output, str) else output


# --- running ---------------------------------------------------------------------------------------------------------


def make(entry: Entry, folder: Path, run: Execute = execute) -> object:
    """Run the command of an entry into a folder, draw its pictures there, and return its output.

    Raises ValueError if the command ends with another status, or the picture does not exist.
    """
    status, out, err = run(entry.arguments(folder))
    if status != entry.status:
        raise ValueError(f"{entry.name}: exit status {status} of {entry.command}\n{out}{err}")
    if entry.lesson:
        write_lesson(read_run(folder), folder / entry.report)
    light = _picture(entry, folder)
    (folder / "light.svg").write_text(light, encoding="utf-8")
    (folder / "dark.svg").write_text(in_dark_colours(light), encoding="utf-8")
    return json.loads(out)


def _picture(entry: Entry, folder: Path) -> str:
    if entry.kind == "run":
        return _map(entry, folder)
    if entry.kind == "reproduce":
        return _figure(entry, folder)
    return (folder / f"{entry.picture}.svg").read_text(encoding="utf-8")


def _map(entry: Entry, folder: Path) -> str:
    """Draw the map of a run at the end of a step."""
    picture = Report(read_run(folder)).picture
    names = picture.script["names"] if picture else []
    assert isinstance(names, list)
    if picture is None or str(entry.picture) not in names:
        raise ValueError(f"{entry.name}: the run has no step {entry.picture}: {names}")
    body = picture.body(names.index(str(entry.picture)))
    return _document(f'<svg class="map" viewBox="0 0 {WIDTH:.0f} {picture.layout.height:.0f}">{"".join(body)}</svg>')


def _figure(entry: Entry, folder: Path) -> str:
    """Take the figure with this title out of a page of a paper."""
    page = (folder / entry.report).read_text(encoding="utf-8")
    _, title, rest = page.partition(f'<span class="name">{escape(str(entry.picture))}</span>')
    figure = re.search(r"<figure>(<svg.*?</svg>)", rest, re.DOTALL)
    if not title or figure is None:
        raise ValueError(f"{entry.name}: the page has no figure {entry.picture}")
    return _document(figure[1])


def _document(svg: str) -> str:
    """Return a drawing of a page as an SVG document with the styles of maps and figures, in light colours."""
    css = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", network_svg.CSS) + paper_figures.CSS
    head, _, rest = theme.in_light_colours(svg).partition(">")
    return (
        f'{head} xmlns="http://www.w3.org/2000/svg"><style>{theme.in_light_colours(css)}text{{font-family:sans-serif}}'
        f"</style>{rest}\n"
    )


def in_dark_colours(svg: str) -> str:
    """Replace the colours of light screens in a drawing by the colours of dark ones."""
    dark = {theme.LIGHT[name]: theme.DARK[name] for name in theme.LIGHT}
    return re.sub("|".join(dark), lambda found: dark[found[0]], svg)


# --- the page --------------------------------------------------------------------------------------------------------


HEAD: Final = """\
# Gallery

Each card is a command. Its picture leads to the page that the command writes: open it, move the slider, click a node."""
STORED: Final = """\
# Gallery

These commands show the test bench at work; each writes a page with its picture. `scripts/docs` executes them and builds
the gallery of the site, where every picture leads to its page:

![The gallery on the site: a wall of pictures, each with its command](pictures/gallery.png)"""


def listing(groups: Sequence[Group]) -> str:
    """Return the page of the repository, without reports: headings, sentences and commands as Markdown."""
    parts = [STORED]
    for group in groups:
        parts.append(f"## {group.title}")
        for entry in group.entries:
            parts += [f"**{entry.title}.** {entry.see}", f"```sh\n{entry.shown}\n```"]
    return "\n\n".join(parts) + "\n"


def wall(groups: Sequence[Group]) -> str:
    """Return the page of the site: headings and cards as Markdown with HTML."""
    parts = ["---\nhide-toc: true\n---", HEAD]
    for group in groups:
        cards = "\n".join(_card(entry) for entry in group.entries)
        parts.append(f'## {group.title}\n\n```{{raw}} html\n<div class="gallery">\n{cards}\n</div>\n```')
    return "\n\n".join(parts) + "\n"


def _card(entry: Entry) -> str:
    place = f"../{FOLDER}/{entry.name}"
    lines = entry.shown.replace("\\\n", " ").splitlines()
    title, see, command = map(escape, (entry.title, entry.see, "\n".join(" ".join(line.split()) for line in lines)))
    pictures = "".join(
        f'<img class="only-{shade}" src="{place}/{shade}.svg" alt="{title}" loading="lazy">'
        for shade in ("light", "dark")
    )
    return (
        f'<article class="card" id="{entry.name}"><a class="picture" href="{place}/{entry.report}">{pictures}</a>'
        f"<h3>{title}</h3><p>{see}</p><pre>{command}</pre>"
        f'<p class="open"><a href="{place}/{entry.report}">Open the {"lesson" if entry.lesson else "report"}</a></p>'
        "</article>"
    )


def invitation(entry: Entry) -> str:
    """Return the link to a lesson for the first page of the site."""
    link = f'<a href="{FOLDER}/{entry.name}/{entry.report}">Step through a broadcast here, and break it</a>'
    return f"```{{raw}} html\n<p><strong>{link}</strong>: one page, nothing to install.</p>\n```\n\n"


def entries(groups: Sequence[Group]) -> Iterator[Entry]:
    """Yield every entry in order."""
    for group in groups:
        yield from group.entries


def only(groups: Sequence[Group], names: Sequence[str]) -> list[Group]:
    """Return the groups with the entries of these names."""
    kept = [Group(group.title, [entry for entry in group.entries if entry.name in names]) for group in groups]
    return [group for group in kept if group.entries]


def build(site: Path, groups: Sequence[Group]) -> Mapping[str, object]:
    """Run every entry into the folder of the site; return the outputs by the names of the entries."""
    shutil.rmtree(site / FOLDER, ignore_errors=True)  # of an earlier build; runs need an empty folder
    (site / FOLDER).mkdir(parents=True)
    return {entry.name: make(entry, site / FOLDER / entry.name) for entry in entries(groups)}
