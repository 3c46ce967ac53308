"""The import order as a drawing and as lists: the table of tests/test_layers.py, lower layers at the bottom."""

import ast
import re
import runpy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from reference_pages.markdown import table

ROOT: Final = Path(__file__).resolve().parents[2]
TABLE: Final = ROOT / "tests" / "test_layers.py"
PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
LISTS: Final = re.compile(r"(<!-- folders: [^\n]*-->\n).*(<!-- end of folders -->)", re.DOTALL)
BOX: Final = (118, 34)
GAP: Final = (16, 46)
COLOURS: Final = {"emunode": "#dbeafe", "coordinator": "#dcfce7"}
STYLE: Final = "text{font:13px sans-serif;text-anchor:middle;dominant-baseline:central}path{stroke:#9ca3af;fill:none}"


def architecture_page() -> str:
    """Return the page with its lists as the code is now; the text between them is written by hand."""
    below: Mapping[str, set[str]] = runpy.run_path(str(TABLE))["BELOW"]
    units = [unit for unit in below if "." in unit and not unit.endswith("__main__")]
    annexes = [unit for unit in units if ".annexes." in unit]
    lists = [
        _listed(
            f"part of `{package}`", [unit for unit in units if unit.startswith(f"{package}.") and unit not in annexes]
        )
        for package in ("emunode", "coordinator")
    ]
    lists.append(_listed("annex", annexes))
    return LISTS.sub(
        lambda found: found[1] + "\n" + "\n".join(lists) + "\n" + found[2], PAGE.read_text(encoding="utf-8")
    )


def _listed(heading: str, units: Sequence[str]) -> str:
    """Return a table of folders and modules with the first sentence of each."""
    rows = ((f"`{_file(unit).relative_to(ROOT)}`", _first_sentence(unit)) for unit in sorted(units))
    return table((heading, "content"), rows)


def _first_sentence(unit: str) -> str:
    file = _file(unit) / "__init__.py" if _file(unit).is_dir() else _file(unit)
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]


def _file(unit: str) -> Path:
    """Return the folder or the file of a row of the table."""
    path = ROOT.joinpath(*unit.split("."))
    return path if path.is_dir() else path.with_suffix(".py")


def draw_architecture() -> str:
    """Return an SVG: one box per folder, one line per row entry of the table, and a row of boxes per level."""
    below: Mapping[str, set[str]] = runpy.run_path(str(TABLE))["BELOW"]
    rows = _rows(below)
    width = max(map(len, rows)) * (BOX[0] + GAP[0]) + GAP[0]
    height = len(rows) * (BOX[1] + GAP[1]) + GAP[1]
    places = {
        name: (
            width / 2 + (at - (len(row) - 1) / 2) * (BOX[0] + GAP[0]),
            height - (level + 0.5) * (BOX[1] + GAP[1]) - GAP[1] / 2,
        )
        for level, row in enumerate(rows)
        for at, name in enumerate(row)
    }
    lines = [_line(places[upper], places[lower]) for upper in sorted(below) for lower in sorted(below[upper])]
    boxes = [_box(name, *place) for name, place in sorted(places.items())]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>Import order of the packages emunode and coordinator</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(lines + boxes) + "\n</svg>\n"
    )


def _rows(below: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the folders by level; the level of a folder is one more than the highest level that it imports."""
    level: dict[str, int] = {}
    rows: defaultdict[int, list[str]] = defaultdict(list)
    for name in TopologicalSorter(below).static_order():
        level[name] = 1 + max((level[lower] for lower in below[name]), default=-1)
    for name in sorted(level):
        rows[level[name]].append(name)
    return [rows[number] for number in sorted(rows)]


def _line(upper: tuple[float, float], lower: tuple[float, float]) -> str:
    top, bottom = upper[1] + BOX[1] / 2, lower[1] - BOX[1] / 2
    bend = (top + bottom) / 2
    from_x, to_x = f"{upper[0]:.0f}", f"{lower[0]:.0f}"
    return f'<path d="M{from_x} {top:.0f}C{from_x} {bend:.0f} {to_x} {bend:.0f} {to_x} {bottom:.0f}"/>'


def _box(name: str, x: float, y: float) -> str:
    package, _, folder = name.partition(".")
    corner = f'x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="5"'
    return (
        f'<rect {corner} fill="{COLOURS[package]}" stroke="#6b7280"/>'
        f'<text x="{x:.0f}" y="{y:.0f}">{folder or package}</text>'
    )
