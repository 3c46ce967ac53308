"""The curves of a campaign for other programs: as CSV rows, and as a LaTeX document for pgfplots.

Rows have `figure`, `x_label`, `series`, `x`, `value`, the ends `low` and `high` of its interval, and `theory` (empty
without a prediction). The document is made from such rows, so a stored campaign is exported without running anything.
"""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby
from math import isfinite
from pathlib import Path

from coordinator.reports.tables import Row
from coordinator.stored.reading import read_text
from emunode.errors import ScenarioError

FILE = "curves.csv"
"""The rows, in a campaign folder."""
COLUMNS = ("figure", "x_label", "series", "x", "value", "low", "high", "theory")
NUMBERS = COLUMNS[3:]
SPECIAL = str.maketrans(
    {**{char: f"\\{char}" for char in "&%$#_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
)
"""Characters that mean something to LaTeX."""
HEAD = r"""% Curves of a campaign of the coordinator; compile with pdflatex. Each figure may be copied by itself.
\documentclass{article}
\usepackage[a4paper, margin=2cm]{geometry}
\usepackage{pgfplots}
\pgfplotsset{compat=1.16}
\begin{document}
"""
AXIS = r"""\begin{axis}[
  width=11cm, height=7cm, ymin=0, ymax=1, ylabel={share}, legend pos=outer north east, legend cell align=left,
"""


def read_curves(folder: Path) -> list[Row]:
    """Return the rows of a campaign folder; ScenarioError (field `campaign`) if they cannot be read."""
    path = folder / FILE
    try:
        rows = list(csv.DictReader(StringIO(read_text(path, follow=False), newline="")))
        if rows and set(COLUMNS) - rows[0].keys():
            raise ValueError("columns are missing")
        return [_curve_row(row) for row in rows]
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError(
            "campaign",
            str(folder),
            f"its {FILE} cannot be read: {reason}; `coordinator campaign --resume` writes it again",
        ) from None


def _curve_row(row: dict[str, str]) -> Row:
    """Return the values of a row; ValueError for a number that is missing or not finite."""
    if any(value is None for value in row.values()) or None in row:
        raise ValueError("rows of different lengths")
    numbers = {key: float(row[key]) if row[key] else None for key in NUMBERS}
    if any(value is not None and not isfinite(value) for value in numbers.values()):
        raise ValueError("a number is not finite")
    if any(numbers[key] is None for key in ("x", "value", "low", "high")):
        raise ValueError("a number is missing")
    return {**row, **numbers}


def pgfplots(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a LaTeX document with a plot for each figure: lines with error bars, and crosses for theory."""
    yield HEAD
    for (figure, x_label), points in groupby(rows, lambda row: (str(row["figure"]), str(row["x_label"]))):
        yield f"% {figure}\n\\begin{{tikzpicture}}\n{AXIS}"
        yield f"  title={{{_text(figure)}}}, xlabel={{{_text(x_label)}}},\n]\n"
        for series, of_series in groupby(points, lambda row: str(row["series"])):
            yield from _series(series, list(of_series))
        yield "\\end{axis}\n\\end{tikzpicture}\n\n"
    yield "\\end{document}\n"


def _series(name: str, points: Sequence[Row]) -> Iterator[str]:
    yield "\\addplot+[error bars/.cd, y dir=both, y explicit] table[x=x, y=y, y error plus=plus, y error minus=minus] {\n"
    yield "x y plus minus\n"
    for row in points:
        x, value, low, high = (_number(row[key]) for key in ("x", "value", "low", "high"))
        yield f"{x:g} {value:.9g} {high - value:.9g} {value - low:.9g}\n"
    yield f"}};\n\\addlegendentry{{{_text(name)}}}\n"
    theory = [(_number(row["x"]), _number(row["theory"])) for row in points if row["theory"] is not None]
    if theory:
        yield "\\addplot[only marks, mark=x, black, forget plot] table {\n"
        yield "".join(f"{x:g} {value:.9g}\n" for x, value in theory)
        yield "};\n"


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _text(text: str) -> str:
    """Escape a text for LaTeX."""
    return text.translate(SPECIAL)
