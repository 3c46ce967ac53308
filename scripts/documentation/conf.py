"""Sphinx settings of the documentation site; `scripts/docs` builds it from the Markdown pages and the docstrings.

The source folder is the project, so the pages keep their places and their links. Nothing is fetched: neither by the build
nor by the finished pages.
"""

import gc
import re
import shutil
import sys
from functools import cache
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

import emunode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation import gallery

# A build keeps nearly all that it makes: collections take time and free nothing.
gc.disable()

ROOT: Final = Path(__file__).resolve().parents[2]

project = "Collective test bench"
version = release = emunode.__version__
author = project_copyright = ""
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["docs/**", "examples/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]
exclude_patterns = [".*", "site"]

myst_heading_anchors = 4
myst_links_external_new_tab = False

# Docstrings are plain text with `names` in single backticks, which link to what is described here and are code otherwise.
default_role = "py:obj"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"{project} {release}"
html_theme_options: dict[str, list[str]] = {"footer_icons": []}
html_static_path = ["static"]
html_css_files = ["gallery.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

html_search_scorer = str(Path(__file__).with_name("scorer.js"))

INDENT: Final = " " * 4
SECTION: Final = re.compile(r"^\*\*([^*]+)\*\*", re.MULTILINE)
TARGET: Final = re.compile(r"\]\((?P<page>[^)#\s:]+)\.(?:md|rst)[^)]*\)")
INDEX: Final = ROOT / "docs" / "index.md"


def navigation() -> str:
    """Return one hidden table of contents per section of the index page, with the pages that the section links to."""
    introduction, *parts = SECTION.split(INDEX.read_text(encoding="utf-8"))
    trees = ["```{toctree}\n:hidden:\n\ndocs/index\n```"]
    for caption, links in [("", introduction), *zip(parts[::2], parts[1::2], strict=True)]:
        targets = dict.fromkeys(match["page"] for match in TARGET.finditer(links))
        pages = [normpath(f"docs/{target}") for target in targets if target != f"../{root_doc}"]
        options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
        trees.append("\n".join(["```{toctree}", *options, "", *pages, "```"]))
    return "\n\n".join(trees)


def chosen_groups(app: Sphinx) -> list[gallery.Group]:
    """Return the gallery, or its entries that the setting `gallery_entries` names."""
    names = app.config.gallery_entries.split()
    return gallery.only(gallery.read_gallery(), names) if names else gallery.read_gallery()


def build_gallery(app: Sphinx) -> None:
    """Run the commands of the gallery into the site."""
    gallery.build(Path(app.outdir), chosen_groups(app))


def show_gallery(app: Sphinx, page: str, source: list[str]) -> None:
    """Put pictures and links to reports in place of the list of commands."""
    if page == "docs/gallery":
        source[0] = gallery.wall(chosen_groups(app))


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:  # the arguments of the event
    """Sphinx takes the navigation from tables of contents; the index page has plain links, as every viewer shows these."""
    if page == root_doc:
        lessons = [entry for entry in gallery.entries(chosen_groups(app)) if entry.lesson]
        source[0] = source[0].replace("![", "".join(map(gallery.invitation, lessons)) + "![", 1) + "\n\n" + navigation()


def begin_with_readme(app: Sphinx, error: Exception | None) -> None:
    """Show the README at the address of the site."""
    if not error:
        shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def mark_code(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    """An indented block after an empty line is code, and lines `name: meaning` after `Options:` are a list."""
    if "Options:" in lines:
        first = lines.index("Options:") + 1
        lines[first:] = ["", *(re.sub(r"^    (\w+): ", r"* ``\1``: ", line) for line in lines[first:])]
    inside = False
    for at in range(len(lines) - 1, 0, -1):
        inside = lines[at].startswith(INDENT) or (inside and not lines[at])
        if inside and not lines[at] and lines[at - 1] and not lines[at - 1].startswith((" ", "*", "-")):
            lines[at:at] = ["", "::"]


def shorten_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:  # noqa: ARG001
    """Give the theme only the titles of pages, all that it shows: copying all headings of all pages for each page took a
    fifth of the time of a build.
    """

    def contents(**options: object) -> object:
        assert toctree is not None
        headings, app.env.tocs = app.env.tocs, titles(app)
        try:
            return toctree(**options)
        finally:
            app.env.tocs = headings

    if toctree := context.get("toctree"):
        context["toctree"] = contents


@cache
def titles(app: Sphinx) -> dict[str, Any]:
    """Return the contents of each page without what is below its title."""
    found = {page: toc.deepcopy() for page, toc in app.env.tocs.items()}
    for toc in found.values():
        del toc[0][1:]
    return found


class CachedEnglish(SearchEnglish):
    """Stems each word of the index of the search once."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.stem = cache(super().stem)  # type: ignore[method-assign]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_search_language(CachedEnglish)
    app.connect("html-page-context", shorten_navigation, priority=400)  # before the theme
    app.add_config_value("gallery_entries", "", "env")
    app.connect("builder-inited", build_gallery)
    app.connect("source-read", show_gallery)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", begin_with_readme)
    app.connect("autodoc-process-docstring", mark_code)
