"""A campaign to look at: curves of delivery over the number of faults, and a page with all of its figures."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from coordinator.report import plots
from coordinator.report.tables import Row, show

FOLDER = Path(__file__).parent
MEASURES = {
    "delivery_ratio": ("Delivery ratio", "ratio", "theory"),
    "guaranteed": ("Guaranteed delivery", "guaranteed", "guaranteed_theory"),
}
"""Column -> its name for people, the prefix of its interval, and the column of what theory says of it."""
NOTES = {
    "delivery_ratio": "Mean share of the messages due to healthy nodes that arrived; crosses: expected from the trees.",
    "guaranteed": "Share of the trials in which every healthy node got everything; crosses: expected from the trees.",
}

Family = Sequence[tuple[str, float]]
"""The points of one curve: name of the point, number of faults."""


def figures(rows: Sequence[Row], families: Mapping[str, Family]) -> dict[str, str]:
    """Curves of each measure over each family of points: name -> SVG."""
    found = {}
    for family, points in families.items():
        for column, (title, prefix, theory) in MEASURES.items():
            lines = _lines(rows, dict(points), column, prefix, theory)
            if lines:
                found[f"{title}, {family}"] = plots.curves(f"{title} over {family}", family, lines)
    return found


def _lines(
    rows: Sequence[Row], points: Mapping[str, float], column: str, prefix: str, theory: str
) -> dict[str, plots.Curve]:
    names = dict.fromkeys(str(row["algorithm"]) for row in rows)
    lines = {}
    for name in names:
        here = [row for row in rows if row["algorithm"] == name and row["faults"] in points and row[column] is not None]
        here.sort(key=lambda row: points[str(row["faults"])])
        expected = [(points[str(row["faults"])], _float(row[theory])) for row in here if row[theory] is not None]
        measured = [
            (points[str(row["faults"])], *(_float(row[key]) for key in (column, f"{prefix}_low", f"{prefix}_high")))
            for row in here
        ]
        if measured:
            lines[name] = plots.Curve(measured, expected)  # type: ignore[arg-type]
    return lines


def _float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def page(title: str, facts: Mapping[str, object], rows: Sequence[Row], charts: Mapping[str, str]) -> str:
    """The campaign as one page that needs nothing but itself."""
    css = plots.CSS + (FOLDER / "page.css").read_text()
    shown = "".join(
        f"<figure>{svg}<figcaption>{escape(next(note for key, note in NOTES.items() if name.startswith(MEASURES[key][0])))}"
        f"</figcaption></figure>"
        for name, svg in charts.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{plots.colour_variables()}{css}"
        "figure{margin:1.4rem 0}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        "td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--grid)}td:first-child,th:first-child,"
        "td:nth-child(2),th:nth-child(2){text-align:left}.wide{overflow-x:auto}</style></head><body>"
        f"<h1>{escape(title)}</h1>{_facts(facts)}<section>{shown}</section>"
        f'<section class="wide"><h2>Figures</h2>{_table(rows)}</section></body></html>\n'
    )


def _facts(facts: Mapping[str, object]) -> str:
    words = "; ".join(f"{key}: {show(value)}" for key, value in facts.items())
    return f'<p class="lead">{escape(words)}</p>'


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>no trials</p>"
    head = "".join(f"<th>{escape(key.replace('_', ' '))}</th>" for key in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(show(value))}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
