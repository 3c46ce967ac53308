"""The documentation site: it builds without a warning, every link within it leads somewhere, and nothing is fetched."""

import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from os.path import normpath
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pytest

import coordinator
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.browser import Browser
from tests.helpers.command_line import ROOT, run_process

pytestmark = [
    needs_every_annex,
    pytest.mark.skipif(
        not all(map(find_spec, ("sphinx", "myst_parser", "furo"))), reason="the extra `docs` is not installed"
    ),
]

ASSETS = {
    "img": "src",
    "script": "src",
    "link": "href",
    "source": "src",
    "iframe": "src",
    "object": "data",
    "embed": "src",
}
"""The resources that a browser fetches with a page, by element."""
NAVIGATION_ONLY = {"next", "prev", "index", "search", "canonical"}
"""Relations of `<link>` that a browser does not fetch."""
SHOWN = ("lesson", "hypercube-edge-disjoint-trees", "two-crashes", "survival", "trees-against-one")
"""Entries of the gallery that are built here, of several kinds; `test_gallery.py` runs all."""
ADDRESS = re.compile(r"""(?:url\(|@import\s+)\s*['"]?([^'")\s;]+)""")


SUBJECTS = {
    "install": "how-to/install",
    "write own algorithm": "extend/algorithm",
    "grade": "how-to/assignment",
    "watch a run": "how-to/watch",
    "crash a node": "how-to/faults",
    "kubernetes": "how-to/kubernetes",
    "topology": "extend/topology",
    "reduce": "how-to/collectives",
    "campaign": "how-to/campaigns",
    "repair": "how-to/repair",
    "exit status": "how-to/install",
    "timed clock": "how-to/timed-clock",
    "compare runs": "how-to/runs",
    "python": "how-to/python",
    "docker": "how-to/containers",
    "glossary": "reference/glossary",
    "simgrid": "explanation/why-not",
    "Network.broadcast": "api/python",
}
"""The page that a query has to put first."""
SPHINX = "import sys\nfrom sphinx.cmd.build import main\nsys.exit(main(sys.argv[1:]))"
"""Is `-m sphinx`, in a process that has imported this project already."""
SEEN = """
[...document.querySelectorAll(".gallery .card")].map((card) => {
  const box = card.getBoundingClientRect();
  const pictures = [...card.querySelectorAll("img")].filter((img) => img.getBoundingClientRect().width);
  return {
    name: card.id, left: Math.round(box.left), top: Math.round(box.top),
    pictures: pictures.map((img) => [img.getAttribute("src").split("/").pop(), img.complete && img.naturalWidth > 0]),
    inside: [...card.querySelectorAll("img, pre, h3, p")].filter((part) => part.getBoundingClientRect().width)
      .every((part) => part.getBoundingClientRect().right <= box.right && part.scrollWidth <= part.clientWidth + 1),
  };
})
"""
"""Of each card: its place, the visible pictures and whether they are loaded, and whether all parts fit into it."""


class Page(HTMLParser):
    """The anchors, links and assets of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors = set[str]()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(path.read_text())

    def updatepos(self, i: int, j: int) -> int:
        """Count no lines: nothing asks for them."""
        return j

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ASSETS and ASSETS[tag] in values and values.get("rel") not in NAVIGATION_ONLY:
            self.assets.append(values[ASSETS[tag]])
        self.assets += ADDRESS.findall(values.get("style", ""))


class Target(NamedTuple):
    """Where a link leads."""

    outside: bool
    path: Path
    anchor: str


@cache
def target(page: Path, link: str) -> Target:
    parts = urlsplit(link)
    path = Path(normpath(page.parent / unquote(parts.path))) if parts.path else page  # the site has no symbolic links
    return Target(bool(parts.scheme or parts.netloc), path, unquote(parts.fragment))


parsed = cache(Page)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of the site, built by the command that `scripts/docs` runs."""
    folder = tmp_path_factory.mktemp("site").resolve()
    (line,) = re.findall(r"^python (-m sphinx .*)$", (ROOT / "scripts" / "docs").read_text(), re.MULTILINE)
    words = Template(line).substitute(doctrees=folder / "doctrees", target=folder / "html")
    few = ["-D", f"gallery_entries={' '.join(SHOWN)}", "-D", "smartquotes=0"]
    done = run_process(ROOT, [sys.executable, "-c", SPHINX, *shlex.split(words)[2:], *few])
    assert (done.status, done.err) == (0, "")
    return folder / "html"


def pages(site: Path) -> Iterator[Path]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 30
    yield from found


def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    wrong = []
    for page in pages(site):
        for link in dict.fromkeys(parsed(page).links):
            found = target(page, link)
            if found.outside:
                continue
            missing = not found.path.is_file() or not found.path.is_relative_to(site)
            if missing or (
                found.anchor and found.path.suffix == ".html" and found.anchor not in parsed(found.path).anchors
            ):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_pages_fetch_nothing_from_outside(site: Path) -> None:
    wrong = []
    for page in pages(site):
        for asset in parsed(page).assets:
            found = target(page, asset)
            if not asset.startswith("data:") and (found.outside or not found.path.is_file()):
                wrong.append(f"{page.relative_to(site)}: {asset}")
    for sheet in site.rglob("*.css"):
        addresses = (link for link in ADDRESS.findall(sheet.read_text()) if not link.startswith(("data:", "#")))
        wrong += [f"{sheet.name}: {link}" for link in addresses if target(sheet, link).outside]
    assert wrong == []


def test_docstrings_of_api_and_extension_points_are_there(site: Path) -> None:
    described = parsed(site / "docs/api/python.html").anchors
    assert {f"coordinator.{name}" for name in coordinator.__all__ if not name.endswith("Error")} <= described
    assert {f"coordinator.Network.{name}" for name in ("broadcast", "run", "order")} <= described
    anchors = parsed(site / "docs/api/extensions.html").anchors
    assert {"emunode.registry.register", "emunode.testing.check_topology", "emunode.algorithms.base.Rule"} <= anchors


def test_every_page_of_the_documentation_is_in_the_navigation(site: Path) -> None:
    """Sphinx warns of a page that is in no table of contents; here the pages themselves are compared."""
    index = site / "index.html"
    listed = {target(index, link).path for link in parsed(index).links}
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.rst")]
    assert {(site / page.relative_to(ROOT)).with_suffix(".html") for page in sources} <= listed


def test_the_site_begins_with_the_readme_and_its_picture(site: Path) -> None:
    start = parsed(site / "index.html")
    assert next(Path(asset).name for asset in start.assets if "_images" in asset) == "watch.gif"
    assert start.links == parsed(site / "README.html").links
    assert "gallery/lesson/lesson.html" in start.links


def test_the_gallery_leads_to_its_reports(site: Path) -> None:
    page = site / "docs/gallery.html"
    reports = {target(page, link).path for link in parsed(page).links if "/gallery/" in link}
    assert {report.parent.name for report in reports} == set(SHOWN)
    assert {report.name for report in reports} == {
        "lesson.html",
        "reproduction.html",
        "report.html",
        "campaign.html",
        "sweep.html",
    }


# --- as a reader sees it ---------------------------------------------------------------------------------------------


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """Provide the browser, and reset it afterwards."""
    browser.events.clear()
    yield browser
    browser.prefer()
    browser.resize(1400)


@pytest.mark.browser
@pytest.mark.parametrize("shade", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_gallery_is_a_wall_of_pictures(site: Path, page: Browser, width: int, shade: str) -> None:
    """One loaded picture a card, in the colours of the page; cards side by side on a wide page, stacked on a narrow one;
    nothing leaves its card, and nothing has to be scrolled sideways.
    """
    page.resize(width, 1200)
    page.prefer(prefers_color_scheme=shade)
    page.open(site / "docs/gallery.html")
    page.evaluate("document.querySelectorAll('img').forEach((img) => img.loading = 'eager')")
    page.wait_until("[...document.querySelectorAll('.gallery img')].every((img) => img.complete)")
    cards = page.evaluate(SEEN)
    assert [card["name"] for card in cards] == list(SHOWN)
    assert [card["pictures"] for card in cards] == [[[f"{shade}.svg", True]]] * len(SHOWN)
    assert [card["name"] for card in cards if not card["inside"]] == []
    places = {card["name"]: (card["left"], card["top"]) for card in cards}
    (left, top), (other_left, other_top) = places["two-crashes"], places["survival"]  # of one group
    assert (top == other_top, left == other_left) == ((True, False) if width == 1280 else (False, True))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints() == []


@pytest.mark.browser
def test_the_search_puts_the_page_of_a_subject_first(site: Path, page: Browser) -> None:
    first = "document.querySelector('ul.search li a')?.getAttribute('href').split(/[?#]/)[0]"
    found = {}
    for query in SUBJECTS:
        page.call("Page.navigate", url=f"{(site / 'search.html').as_uri()}?q={quote(query)}")
        page.wait_until(f"new URLSearchParams(location.search).get('q') === {query!r} && {first}")
        found[query] = page.evaluate(first)
    assert found == {query: f"docs/{name}.html" for query, name in SUBJECTS.items()}


@pytest.mark.browser
def test_answers_for_lecturers_are_folded(site: Path, page: Browser) -> None:
    page.resize(390, 1200)
    page.open(site / "docs/lecturers.html")
    heights = "[...document.querySelectorAll('article details')].map((each) => each.getBoundingClientRect().height)"
    folded = page.evaluate(heights)
    assert len(folded) == 8
    page.evaluate("document.querySelectorAll('article details').forEach((each) => each.open = true)")
    assert all(before < 100 < after for before, after in zip(folded, page.evaluate(heights), strict=True))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
