"""The page of a campaign: delivery over the number of faults as curves, and a table of all results."""

from collections.abc import Mapping, Sequence
from itertools import takewhile

from markupsafe import Markup

from coordinator.reports import theme
from coordinator.reports.charts import Estimates, ratio_curves
from coordinator.reports.numbers import show
from coordinator.reports.pages import FOLDER, MARKS, template, typeset
from coordinator.reports.tables import Row

MEASURES = {
    "delivery_ratio": ("Delivery ratio", "ratio", "theory"),
    "guaranteed": ("Guaranteed delivery", "guaranteed", "guaranteed_theory"),
}
"""Column -> its title, the prefix of its interval, and the column with the theoretical value."""
NOTES = {
    "delivery_ratio": "Mean share of the messages due to healthy nodes that arrived; crosses: expected.",
    "guaranteed": "Share of the trials in which every healthy node received everything; crosses: expected.",
}

Family = Sequence[tuple[str, float]]
"""The points of one curve: their names and numbers of faults."""


def figures(rows: Sequence[Row], families: Mapping[str, Family]) -> dict[str, str]:
    """Curves of each measure over each family of points: name -> SVG document."""
    drawn = _curves(rows, families)
    return {name: theme.standalone(ratio_curves(*arguments)) for name, arguments in drawn.items()}


def charts_of(rows: Sequence[Row], families: Mapping[str, Family]) -> dict[str, str]:
    """The same curves for the page, in a wide and a narrow form."""
    return {
        name: theme.responsive(lambda narrow, given=arguments: ratio_curves(*given, narrow=narrow))  # type: ignore[misc]
        for name, arguments in _curves(rows, families).items()
    }


def _curves(rows: Sequence[Row], families: Mapping[str, Family]) -> dict[str, tuple[str, str, Mapping[str, Estimates]]]:
    """Name -> title, label of the x axis, lines."""
    found: dict[str, tuple[str, str, Mapping[str, Estimates]]] = {}
    for family, points in families.items():
        for column, (title, prefix, theory) in MEASURES.items():
            lines = _lines(rows, dict(points), column, prefix, theory)
            if lines:
                found[f"{title}, {family}"] = (f"{title} over {family}", family, lines)
    return found


def _lines(
    rows: Sequence[Row], points: Mapping[str, float], column: str, prefix: str, theory: str
) -> dict[str, Estimates]:
    label = next(iter(rows[0]), "") if rows else ""
    names = dict.fromkeys(str(row[label]) for row in rows)
    lines = {}
    for name in names:
        here = [row for row in rows if str(row[label]) == name and row["faults"] in points and row[column] is not None]
        here.sort(key=lambda row: points[str(row["faults"])])
        expected = [(points[str(row["faults"])], _float(row[theory])) for row in here if row[theory] is not None]
        measured = [
            (points[str(row["faults"])], *(_float(row[key]) for key in (column, f"{prefix}_low", f"{prefix}_high")))
            for row in here
        ]
        if measured:
            lines[name] = Estimates(measured, expected)  # type: ignore[arg-type]
    return lines


def _float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def page(title: str, facts: Mapping[str, object], rows: Sequence[Row], charts: Mapping[str, str]) -> str:
    """The campaign as one self-contained page; `charts` are those of `charts_of`."""
    notes = {name: next(NOTES[key] for key in MEASURES if name.startswith(MEASURES[key][0])) for name in charts}
    columns = _columns(rows)
    numeric = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]
    names = [column.replace("_", " ") for column in columns]
    shown = [[_cell(row, *cell) for cell in zip(columns, names, numeric, strict=True)] for row in rows]
    return template(FOLDER / "campaign.html.jinja").render(
        title=title,
        heading=typeset(title),
        facts="; ".join(f"{key}: {show(value)}" for key, value in facts.items()),
        charts=[(Markup(chart), notes[name]) for name, chart in charts.items()],
        columns=list(zip([*names, "verdict"], [*numeric, False], strict=True)) if rows else [],
        rows=[[*cells, _verdict(row)] for cells, row in zip(shown, rows, strict=True)],
        css=Markup(theme.CHART_CSS + theme.RESPONSIVE_CSS + (FOLDER / "page.css").read_text()),
        colours=Markup(theme.colour_variables()),
    )


LONG = {column for measure, (_, _, theory) in MEASURES.items() for column in (measure, theory)}
"""Columns that take a full line on small screens."""
COUNTED = ("undecided", "violated", "finding")
"""Columns that the verdict summarises."""


def _columns(rows: Sequence[Row]) -> list[str]:
    """The columns of the page: each measure beside its theoretical value, without the ends of its interval."""
    if not rows:
        return []
    first = [column for column in takewhile(lambda column: column not in MEASURES, rows[0]) if column not in COUNTED]
    beside = [column for measure, (_, _, theory) in MEASURES.items() for column in (measure, theory)]
    ends = {f"{prefix}_{end}" for _, prefix, _ in MEASURES.values() for end in ("low", "high")}
    rest = [column for column in rows[0] if column not in (*first, *beside, *ends, *COUNTED)]
    return [*first, *(column for column in beside if column in rows[0]), *rest]


def _cell(row: Row, column: str, name: str, numeric: bool) -> dict[str, str]:
    value, interval = row[column], ""
    if column in MEASURES and value is not None:
        low, high = (row[f"{MEASURES[column][1]}_{end}"] for end in ("low", "high"))
        interval = f"({_short(low)} to {_short(high)})" if low != high else ""
    return {
        "name": name,
        "text": _short(value),
        "interval": interval,
        "css": f"{'n' if numeric else ''}{' long' * (column in LONG)}",
    }


def _short(value: object) -> str:
    """A value with at most four digits after the decimal point."""
    return show(value, 4, decimals=4)


def _verdict(row: Row) -> dict[str, str]:
    """The verdict of a row with its mark."""
    counts = {key: int(_float(row.get(key) or 0)) for key in ("violated", "undecided")}
    words = [f"{count:,} {key}" for key, count in counts.items() if count]
    verdict = next((key for key, count in counts.items() if count), "holds")
    if row.get("finding"):
        verdict, words = "violated", [*words, "theory excluded"]
    text = f"{MARKS[verdict]} {', '.join(words) or verdict}"
    return {"name": "verdict", "text": text, "interval": str(row.get("finding") or ""), "css": f"v {verdict}"}
