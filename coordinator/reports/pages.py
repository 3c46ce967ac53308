"""The common parts of all pages: templates, marks of verdicts, and the typesetting of network names."""

import json
import re
import secrets
import sys
from contextlib import suppress
from functools import cache
from html import escape
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.bccache import Bucket
from markupsafe import Markup

from coordinator.reports import network_svg, theme

FOLDER = Path(__file__).parent / "templates"
ANNEXES = Path(__file__).parents[1] / "annexes"
_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)
MARKS = {"holds": "✓", "violated": "✗", "undecided": "?"}


class CompiledTemplates(BytecodeCache):
    """Compiled templates beside their sources, like the compiled modules of Python; compiling takes longer than
    drawing.

    Nothing is kept where Python keeps nothing: in a folder without write access, or with PYTHONDONTWRITEBYTECODE.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, bucket: Bucket) -> Path:
        return Path(cache_from_source(str(self._folder / f"{bucket.key}.py")))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a template if there is one of this source, version of Python and version of Jinja."""
        with suppress(OSError), self._path(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template for the next process."""
        if sys.dont_write_bytecode:
            return
        path = self._path(bucket)
        unfinished = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(bucket.bytecode_to_string())
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


@cache
def template(path: Path) -> Template:
    """Return the template in a file; it escapes the values it is given unless they are Markup."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        bytecode_cache=CompiledTemplates(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def compile_templates() -> None:
    """Compile every template, of the core and of annexes, even where Python writes no bytecode."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        for path in (*FOLDER.rglob("*.jinja"), *ANNEXES.rglob("*.jinja")):
            template(path)
    finally:
        sys.dont_write_bytecode = before


def fragment(panel: str, **values: object) -> Markup:
    """Render the part of a report that the template of a panel makes of `values`."""
    return Markup(template(FOLDER / "panels" / f"{panel}.html.jinja").render(values))


def markup(text: str | None) -> Markup | None:
    """Mark text as markup: this program made it, and its parts from files are already escaped."""
    return None if text is None else Markup(text)


def script_json(value: object) -> Markup:
    """Return JSON that cannot end the <script> element that holds it."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def style(*more: str) -> Markup:
    """Return the CSS of a page: charts, maps, the common layout, and `more`."""
    return Markup("".join((theme.CHART_CSS, network_svg.CSS, _page_css(), *more)))


@cache
def _page_css() -> str:
    return (FOLDER / "page.css").read_text(encoding="utf-8")


@cache
def script(folder: str) -> Markup:
    """Return the modules of a folder of templates and the shared ones as a single script, in the order of their
    imports.

    The page loads nothing, so its modules cannot import each other: their imports and exports are left out, and all share
    one scope.
    """
    parts: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in parts:
            return
        text = path.read_text(encoding="utf-8")
        for name in _IMPORT.findall(text):
            add((path.parent / name).resolve())
        parts[path] = _EXPORT.sub("", _IMPORT.sub("", text)).strip()

    add((FOLDER / folder / "main.js").resolve())
    return Markup('"use strict";\n(() => {\n' + "\n\n".join(parts.values()) + "\n})();\n")


def typeset(title: str) -> Markup:
    """Return the name of a network as HTML, with subscripts and superscripts."""
    text = re.sub(r"_\{([^}]*)\}|_(\d+)", lambda found: f"<sub>{found[1] or found[2]}</sub>", escape(title))
    text = re.sub(r"\^\((\d+)\)", r"<sup>(\1)</sup>", text).replace("rho", "\N{GREEK SMALL LETTER RHO}")
    return Markup(text[:1].upper() + text[1:])
