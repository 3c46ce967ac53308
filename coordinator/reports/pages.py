"""The common parts of all pages: templates, marks of verdicts, and the typesetting of network names."""

import json
import re
from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from coordinator.reports import network_svg, theme

FOLDER = Path(__file__).parent / "templates"
MARKS = {"holds": "✓", "violated": "✗", "undecided": "?"}


@cache
def template(path: Path) -> Template:
    """The template in a file; it escapes the values it is given unless they are Markup."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def fragment(panel: str, **values: object) -> Markup:
    """The part of a report that the template of a panel makes of `values`."""
    return Markup(template(FOLDER / "panels" / f"{panel}.html.jinja").render(values))


def markup(text: str | None) -> Markup | None:
    """Text made by this program, whose parts from files are already escaped."""
    return None if text is None else Markup(text)


def script_json(value: object) -> Markup:
    """JSON that cannot end the <script> element that holds it."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def style(*more: str) -> Markup:
    """The CSS of a page: charts, maps, the common layout, and `more`."""
    return Markup("".join((theme.CHART_CSS, network_svg.CSS, (FOLDER / "page.css").read_text(encoding="utf-8"), *more)))


def typeset(title: str) -> Markup:
    """The name of a network as HTML, with subscripts and superscripts."""
    text = re.sub(r"_\{([^}]*)\}|_(\d+)", lambda found: f"<sub>{found[1] or found[2]}</sub>", escape(title))
    text = re.sub(r"\^\((\d+)\)", r"<sup>(\1)</sup>", text).replace("rho", "\N{GREEK SMALL LETTER RHO}")
    return Markup(text[:1].upper() + text[1:])
