"""The curves of a campaign as rows, one per point, which its folder keeps as CSV.

Rows have `figure`, `x_label`, `unit`, `series`, `x`, `value`, the ends `low` and `high` of its interval, and `theory` (empty
without a prediction).
"""

import csv
from collections.abc import Sequence
from io import StringIO
from itertools import groupby
from math import isfinite
from pathlib import Path

from coordinator.history.stored.reading import read_text
from coordinator.reports.charts import Estimates
from coordinator.reports.tables import Row
from emunode.errors import ScenarioError

CURVES = "curves.csv"
"""The rows, in a campaign folder."""
LOSSES = "losses.csv"
COLUMNS = ("figure", "x_label", "unit", "series", "x", "value", "low", "high", "theory")
NUMBERS = COLUMNS[4:]


def read_curves(folder: Path) -> list[Row]:
    """Return the rows of a campaign folder; ScenarioError (field `campaign`) if they cannot be read."""
    path = folder / CURVES
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
            f"its {CURVES} cannot be read: {reason}; `coordinator campaign --resume` writes it again",
        ) from None


def read_losses(folder: Path) -> list[Row]:
    """Return the rows of losses.csv in a campaign folder; ScenarioError (field `campaign`) if they cannot be read."""
    try:
        rows = list(csv.DictReader(StringIO(read_text(folder / LOSSES, follow=False), newline="")))
        return [{**row, **{key: int(row[key]) for key in ("nodes_lost", "trials")}} for row in rows]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise ScenarioError("campaign", str(folder), f"its {LOSSES} cannot be read: {error}") from None


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


def curves_of(rows: Sequence[Row]) -> dict[str, tuple[str, dict[str, Estimates], str]]:
    """Return the label of the x axis, the lines and their unit of each figure, by its title."""
    found = {}
    for (figure, x_label, unit), points in groupby(rows, _figure_of):
        lines = {
            name: _estimates(list(of_series)) for name, of_series in groupby(points, lambda row: str(row["series"]))
        }
        found[figure] = x_label, lines, unit
    return found


def _figure_of(row: Row) -> tuple[str, str, str]:
    return str(row["figure"]), str(row["x_label"]), str(row["unit"])


def _estimates(rows: Sequence[Row]) -> Estimates:
    points = [tuple(_number(row[key]) for key in ("x", "value", "low", "high")) for row in rows]
    theory = [(_number(row["x"]), _number(row["theory"])) for row in rows if row["theory"] is not None]
    return Estimates(points, theory)  # type: ignore[arg-type]


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
