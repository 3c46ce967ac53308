"""The import order as a drawing: the table of tests/test_layers.py, lower layers at the bottom."""

import runpy
from collections import defaultdict
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).resolve().parents[2] / "tests" / "test_layers.py"
BOX: Final = (118, 34)
GAP: Final = (16, 46)
COLOURS: Final = {"emunode": "#dbeafe", "coordinator": "#dcfce7"}
STYLE: Final = "text{font:13px sans-serif;text-anchor:middle;dominant-baseline:central}path{stroke:#9ca3af;fill:none}"


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
