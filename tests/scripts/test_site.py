"""The documentation site: it builds without a warning, every link within it leads somewhere, and nothing is fetched."""

import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

import coordinator
from tests.command_line import ROOT, run_process

pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
pytest.importorskip("myst_parser", reason="the extra `docs` is not installed")
pytest.importorskip("furo", reason="the extra `docs` is not installed")

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
SHOWN = ("hypercube-edge-disjoint-trees", "two-crashes", "trees-against-one")
"""Entries of the gallery that are built here, of several kinds; `test_gallery.py` runs all."""
ADDRESS = re.compile(r"""(?:url\(|@import\s+)\s*['"]?([^'")\s;]+)""")


class Page(HTMLParser):
    """The anchors, links and assets of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors = set[str]()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(path.read_text())

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
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return Target(bool(parts.scheme or parts.netloc), path, unquote(parts.fragment))


parsed = cache(Page)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of the site, built by the command that `scripts/docs` runs."""
    folder = tmp_path_factory.mktemp("site").resolve()
    (line,) = re.findall(r"^python (-m sphinx .*)$", (ROOT / "scripts" / "docs").read_text(), re.MULTILINE)
    words = Template(line).substitute(doctrees=folder / "doctrees", target=folder / "html")
    few = ["-D", f"gallery_entries={' '.join(SHOWN)}"]
    done = run_process(ROOT, [sys.executable, *shlex.split(words), *few])
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
    index = site / "docs/index.html"
    listed = {target(index, link).path for link in parsed(index).links}
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.rst")]
    assert {(site / page.relative_to(ROOT)).with_suffix(".html") for page in sources} <= listed


def test_the_gallery_leads_to_its_reports(site: Path) -> None:
    page = site / "docs/gallery.html"
    reports = {target(page, link).path for link in parsed(page).links if "/gallery/" in link}
    assert {report.parent.name for report in reports} == set(SHOWN)
    assert {report.name for report in reports} == {"reproduction.html", "report.html", "sweep.html"}
