"""A sweep as a chart and as a page: a metric over the sizes of networks, beside its lower bound."""

from collections.abc import Sequence

from markupsafe import Markup

from coordinator.reports import theme
from coordinator.reports.chart import Chart
from coordinator.reports.charts import Points, curves
from coordinator.reports.numbers import show
from coordinator.reports.pages import FOLDER, template, typeset
from coordinator.reports.pictures import Picture, picture_of
from coordinator.reports.tables import Row

LOGARITHMIC = 50
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""
COLUMNS = {
    "topology": "network", "nodes": "nodes", "algorithm": "algorithm", "measured": "measured", "predicted": "predicted",
    "bound": "lower bound", "ratio": "times the bound", "verdict": "verdict", "bottleneck": "bottleneck",
}  # fmt: skip
"""The columns that people see, with their headings."""
FURTHER_COLUMNS = {
    "varied": "setting", "result": "result", "changed_percent": "% changed", "difference": "first difference",
}  # fmt: skip
"""Columns that only sweeps with varied fields have, with their headings."""


def columns_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the columns that some row has, with their headings."""
    return COLUMNS | {name: heading for name, heading in FURTHER_COLUMNS.items() if any(name in row for row in rows)}


def chart(title: str, metric: str, rows: Sequence[Row]) -> Picture:
    """Draw the metric by size: a line for each algorithm and family, and the lower bounds."""
    return picture_of(_curves(title, metric, rows))


def _curves(title: str, metric: str, rows: Sequence[Row]) -> Chart:
    by_number = len({row["form"] for row in rows}) == 1 and all(row["n"] is not None for row in rows)
    axis_name = _varied_name(rows)
    if axis_name:
        return _by_setting(title, metric, rows, axis_name)
    lines = _lines(rows, "n" if by_number else "nodes")
    values = [[point[axis] for line in lines.values() for point in line if point[axis] > 0] for axis in (0, 1)]
    wide = [max(each, default=1) / min(each, default=1) >= LOGARITHMIC for each in values]
    return curves(
        title,
        lines,
        "n" if by_number else "nodes",
        metric.replace("_", " "),
        log_x=wide[0],
        log_y=wide[1],
        only_x=sorted({x for line in lines.values() for x, _ in line}) if by_number else (),
    )


def _varied_name(rows: Sequence[Row]) -> str:
    """Return the field that alone distinguishes the runs of each network, if its values are numbers; else empty."""
    found = {tuple(str(row["varied"]).partition("=")[::2]) for row in rows if "varied" in row}
    names = {name for name, _ in found}
    numbers = all(value.isdecimal() for _, value in found)
    return names.pop().replace("_", " ") if len(names) == 1 and numbers else ""


def _by_setting(title: str, metric: str, rows: Sequence[Row], name: str) -> Chart:
    """Draw the metric over the values of the varied field: a line for each network and algorithm."""
    lines: dict[str, Points] = {}
    several = len({row["topology"] for row in rows}) > 1
    for row in rows:
        line = f"{row['topology']} {row['algorithm']}" if several else str(row["algorithm"])
        value = float(str(row["varied"]).partition("=")[2])
        lines[line] = sorted([*lines.get(line, []), (value, _number(row["measured"]))])
    return curves(
        title, lines, name, metric.replace("_", " "), only_x=sorted({x for line in lines.values() for x, _ in line})
    )


def _lines(rows: Sequence[Row], x: str) -> dict[str, Points]:
    """Return the series by name. Algorithms of a family with the same values, or the same bounds, share a line."""
    forms = list(dict.fromkeys(str(row["form"]) for row in rows))
    lines: dict[str, Points] = {}
    bounds: dict[str, Points] = {}
    for form in forms:
        prefix = f"{form} " if len(forms) > 1 else ""
        here = [row for row in rows if row["form"] == form]
        found: dict[tuple[tuple[float, float], ...], list[str]] = {}
        measured: dict[tuple[tuple[float, float], ...], list[str]] = {}
        for algorithm in dict.fromkeys(str(row["algorithm"]) for row in here):
            own = sorted((row for row in here if row["algorithm"] == algorithm), key=lambda row: _number(row[x]))
            measured.setdefault(tuple((_number(row[x]), _number(row["measured"])) for row in own), []).append(algorithm)
            known = tuple((_number(row[x]), _number(row["bound"])) for row in own if row["bound"] is not None)
            found.setdefault(known, []).append(algorithm)
        lines |= {prefix + ", ".join(algorithms): points for points, algorithms in measured.items()}
        for points, algorithms in found.items():
            whose = "" if len(found) == 1 else f" of {', '.join(algorithms)}"
            if points:
                bounds[f"{prefix}lower bound{whose}"] = points
    return lines | bounds


def _number(value: object) -> float:
    assert isinstance(value, int | float), value
    return float(value)


def page(title: str, metric: str, facts: str, rows: Sequence[Row], left_out: Sequence[str]) -> str:
    """Render the sweep as one self-contained page."""
    shown, bottlenecks = columns_of(rows), {row["bottleneck"] for row in rows}
    if len(bottlenecks) == 1:
        del shown["bottleneck"]  # said once, below the table
    numeric = [all(isinstance(row.get(column), int | float | None) for row in rows) for column in shown]
    return template(FOLDER / "sweep.html.jinja").render(
        title=title,
        heading=typeset(title),
        facts=facts,
        chart=Markup(_curves("Measured, by size, beside the lower bound", metric, rows).svg) if rows else None,
        columns=list(zip(shown.values(), numeric, strict=True)),
        rows=[[_cell(row.get(column), number) for column, number in zip(shown, numeric, strict=True)] for row in rows],
        bottleneck=bottlenecks.pop() if len(bottlenecks) == 1 else None,
        left_out=left_out,
        css=Markup(theme.CHART_CSS + (FOLDER / "page.css").read_text()),
        colours=Markup(theme.colour_variables()),
    )


def _cell(value: object, numeric: bool) -> tuple[str, bool]:
    return "" if value is None else show(value), numeric
