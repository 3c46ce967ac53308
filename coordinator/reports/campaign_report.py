"""The page of a campaign: delivery over the number of faults, losses, the worst trials, and a table of all results.

A script draws the curves again so that a reader can look closer; without it, and on paper, the page shows fixed pictures.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from markupsafe import Markup

from coordinator.reports import theme
from coordinator.reports.chart import Chart, responsive
from coordinator.reports.charts import SHARE, Estimates, Points, curves, ratio_curves
from coordinator.reports.curves import curves_of
from coordinator.reports.numbers import show, show_seconds
from coordinator.reports.pages import FOLDER, MARKS, script_json, template, typeset
from coordinator.reports.pictures import Picture, picture_of
from coordinator.reports.tables import Row

MEASURES = {
    "delivery_ratio": ("Delivery ratio", "ratio", "theory"),
    "guaranteed": ("Guaranteed delivery", "guaranteed", "guaranteed_theory"),
}
"""Column -> its title, the prefix of its interval, and the column with the theoretical value."""
LATENCIES = {
    "max_latency": ("Longest latency", "steps"),
    "stretch": ("Stretch", "times the longest latency without faults"),
}
"""Column -> title and unit of its curves, for papers."""
REACHED = "reached by the network itself"
"""The line of the healthy nodes that links and nodes still connect to the source."""
NOTES = {
    "delivery_ratio": "Mean share of the messages due to healthy nodes that arrived; crosses: expected. With one copy "
    "of each message longer paths deliver less, as every place on a path may fail. The line of the network itself: mean "
    "share of healthy nodes that working links connect to the source.",
    "guaranteed": "Share of the trials where every healthy node received everything; crosses: expected.",
}

LOSS_LABEL = "healthy nodes or more miss a message"
MOST_LOSSES = 8
"""Most points whose losses are drawn: the last ones, with the most faults."""

CurvePoints = Sequence[tuple[str, float]]
"""The points of one curve: their names and numbers of faults."""


def figures(rows: Sequence[Row], families: Mapping[str, CurvePoints]) -> dict[str, Picture]:
    """Return the curves of each measure over each family of points, by their names."""
    drawn = _curves(rows, families)
    return {name: picture_of(ratio_curves(*arguments), name) for name, arguments in drawn.items()}


def curve_rows(rows: Sequence[Row], families: Mapping[str, CurvePoints]) -> list[Row]:
    """Return the numbers of all curves as rows, one per point; see `pgfplots`."""
    found: list[Row] = []
    for title, xlabel, lines, unit in (*_curves(rows, families).values(), *_more_curves(rows, families)):
        for name, line in lines.items():
            expected = dict(line.theory)
            found += (
                {"figure": title, "x_label": xlabel, "unit": unit, "series": name, "x": x, "value": value, "low": low,
                 "high": high, "theory": expected.get(x)}
                for x, value, low, high in line.points
            )  # fmt: skip
    return found


class PageChart(NamedTuple):
    """A figure of the page: a fixed picture, the numbers in it, and a note."""

    svg: str
    data: Mapping[str, object]
    note: str


def charts_of(rows: Sequence[Row], families: Mapping[str, CurvePoints]) -> dict[str, PageChart]:
    """Return the same curves for the page, in a wide and a narrow form, with their numbers."""
    found = {}
    for name, arguments in _curves(rows, families).items():
        title, xlabel, lines, _ = arguments
        svg = responsive(lambda narrow, given=arguments: ratio_curves(*given, narrow=narrow))  # type: ignore[misc]
        note = next(NOTES[key] for key in MEASURES if name.startswith(MEASURES[key][0]))
        series = [{"name": line, "points": given.points, "theory": given.theory} for line, given in lines.items()]
        found[name] = PageChart(svg, {"title": title, "xlabel": xlabel, "loss": True, "series": series}, note)
    return found


def loss_charts(losses: Sequence[Row]) -> dict[str, PageChart]:
    """Draw for each point with a loss the share of the trials where at least k nodes miss a message."""
    found = {}
    for title, lines in _losses_by_point(losses):
        # Curves have no narrow form: on small screens the script draws them, and without it they scroll.
        svg = loss_chart(title, lines).svg
        series = [{"name": name, "points": points} for name, points in lines.items()]
        note = "Share of the trials where that many healthy nodes, or more, miss a message."
        found[title] = PageChart(svg, {"title": title, "xlabel": LOSS_LABEL, "loss": False, "series": series}, note)
    return dict(list(found.items())[-MOST_LOSSES:])


def pictures_of(curve_points: Sequence[Row], losses: Sequence[Row], command: str | None) -> dict[str, Picture]:
    """Return every figure of a campaign for papers, by its name: its curves, and the losses of its points.

    `curve_points` are rows of `curve_rows`; `command` is the command that draws them, which their files name.
    """
    charts = [ratio_curves(title, *figure) for title, figure in curves_of(curve_points).items()]
    charts += (loss_chart(title, lines) for title, lines in _losses_by_point(losses))
    made = [f"Made by: {command}"] if command else []
    return {slug(chart.title): picture_of(chart, about=[chart.title, *made]) for chart in charts}


def slug(title: str) -> str:
    """Return a title as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def loss_chart(title: str, lines: Mapping[str, Points]) -> Chart:
    """Draw the share of the trials in which at least k nodes miss a message."""
    return curves(title, lines, LOSS_LABEL, "trials", log_y=True)


def _losses_by_point(losses: Sequence[Row]) -> Iterator[tuple[str, dict[str, Points]]]:
    """Yield the title and the lines of each point with a loss."""
    for point in dict.fromkeys(str(row["point"]) for row in losses if row["nodes_lost"]):
        yield f"Losses under {point}", _distributions([row for row in losses if row["point"] == point])


def _distributions(losses: Sequence[Row]) -> dict[str, Points]:
    """Return for each variant (k, share of the trials where at least k nodes miss a message) from k = 1."""
    label = next(key for key in losses[0] if key not in ("point", "nodes_lost", "trials"))
    lines: dict[str, Points] = {}
    for name in dict.fromkeys(str(row[label]) for row in losses):
        trials = {_int(row["nodes_lost"]): _int(row["trials"]) for row in losses if str(row[label]) == name}
        total, most = sum(trials.values()), max(trials)
        # From the most to the fewest: a running sum from behind.
        sums = list(accumulate(trials.get(lost, 0) for lost in range(most, 0, -1)))[::-1]
        if sums:
            lines[name] = [(lost, share / total) for lost, share in enumerate(sums, 1)]
    return lines


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


class Curves(NamedTuple):
    """A figure of curves: its title, the label of its x axis, its lines and their unit."""

    title: str
    xlabel: str
    lines: Mapping[str, Estimates]
    unit: str = SHARE


def _curves(rows: Sequence[Row], families: Mapping[str, CurvePoints]) -> dict[str, Curves]:
    """Return the curves of the page by their names: delivery, beside the reachability of the network itself."""
    found = {}
    for family, points in families.items():
        for column, (title, prefix, theory) in MEASURES.items():
            lines = _lines(rows, dict(points), column, prefix, theory)
            if lines:
                reached = _network(rows, dict(points)) if column == "delivery_ratio" else {}
                found[f"{title}, {family}"] = Curves(f"{title} over {family}", family, lines | reached)
    return found


def _more_curves(rows: Sequence[Row], families: Mapping[str, CurvePoints]) -> Iterator[Curves]:
    """Yield the curves that papers need besides: over the share of places that fail, and of latency and stretch."""
    for family, points in families.items():
        here = [row for row in rows if row["faults"] in dict(points)]
        if len({row.get("fraction") for row in here} - {None}) > 1:
            shares = [{**row, "faults": str(row["fraction"])} for row in here if row.get("fraction") is not None]
            places = {str(row["faults"]): _float(row["fraction"]) for row in shares}
            for column, (title, prefix, theory) in MEASURES.items():
                lines = _lines(shares, places, column, prefix, theory)
                if lines:
                    reached = _network(shares, places) if column == "delivery_ratio" else {}
                    label = f"the share of {family}"
                    yield Curves(f"{title} over {label}", label.removeprefix("the "), lines | reached)
        for column, (title, unit) in LATENCIES.items():
            known = [{**row, **_ends(row, column)} for row in here if row.get(column) is not None]
            lines = _lines(known, dict(points), column, column) if known else {}
            if lines:
                yield Curves(f"{title} over {family}", family, lines, unit)


def _ends(row: Row, column: str) -> Row:
    """Return the interval of a latency; equal trials have no interval, and no bar."""
    value = row[column]
    low, high = (value if row[f"{column}_{end}"] is None else row[f"{column}_{end}"] for end in ("low", "high"))
    return {f"{column}_low": low, f"{column}_high": high}


def _network(rows: Sequence[Row], points: Mapping[str, float]) -> dict[str, Estimates]:
    """Return the reachability of the network itself as lines; variants with the same values share one."""
    known = [row for row in rows if row.get("reachable") is not None]
    lines = _lines(known, points, "reachable", "reachable")
    found: dict[tuple[tuple[float, ...], ...], list[str]] = {}
    for name, line in lines.items():
        found.setdefault(tuple(map(tuple, line.points)), []).append(name)
    return {
        REACHED if len(found) == 1 else f"{REACHED} ({', '.join(names)})": Estimates(points)  # type: ignore[arg-type]
        for points, names in found.items()
    }


def _lines(
    rows: Sequence[Row], points: Mapping[str, float], column: str, prefix: str, theory: str | None = None
) -> dict[str, Estimates]:
    """Return the lines of a column by variant, with the intervals named by `prefix`, and the column of its theory."""
    label = next(iter(rows[0]), "") if rows else ""
    names = dict.fromkeys(str(row[label]) for row in rows)
    lines = {}
    for name in names:
        here = [row for row in rows if str(row[label]) == name and row["faults"] in points and row[column] is not None]
        here.sort(key=lambda row: points[str(row["faults"])])
        known = [] if theory is None else [(row["faults"], row[theory]) for row in here if row[theory] is not None]
        expected = [(points[str(faults)], _float(value)) for faults, value in known]
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


def page(
    title: str,
    facts: Mapping[str, object],
    rows: Sequence[Row],
    families: Mapping[str, CurvePoints],
    losses: Sequence[Row] = (),
    worst: Sequence[Row] = (),
    processes: Sequence[Row] = (),
    searches: Sequence[str] = (),
) -> str:
    """Render the campaign as one self-contained page.

    `losses` has point, variant, `nodes_lost` and `trials`; `worst` the worst trials, with `repeat` as the last column;
    `processes` availability and completion times; `searches` how each set of the strategy `worst` was found, in words.
    """
    charts, below = charts_of(rows, families), loss_charts(losses)
    drawn = [*charts.values(), *below.values()]
    columns = _columns(rows)
    numeric = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]
    names = [NAMES.get(column, column.replace("_", " ")) for column in columns]
    shown = [[_cell(row, *cell) for cell in zip(columns, names, numeric, strict=True)] for row in rows]
    return template(FOLDER / "campaign.html.jinja").render(
        title=title,
        heading=typeset(title),
        facts=_facts(facts, set(facts) - FOLDED),
        folded=_facts(facts, FOLDED),
        charts=[(at, Markup(figure.svg), figure.note) for at, figure in enumerate(charts.values())],
        losses=[(at, Markup(figure.svg), figure.note) for at, figure in enumerate(below.values(), len(charts))],
        data=script_json([_rounded(figure.data) for figure in drawn]),
        worst=[{**row, "text": [show(value) for value in row.values()]} for row in worst],
        worst_columns=[column.replace("_", " ") for column in (worst[0] if worst else ())],
        processes=[process_cells(row) for row in processes],
        searches=list(searches),
        js=Markup((FOLDER / "campaign.js").read_text()),
        columns=list(zip([*names, "verdict"], [*numeric, False], strict=True)) if rows else [],
        meanings=[(NAMES.get(name, name.replace("_", " ")), MEANINGS[name]) for name in MEANINGS if name in columns],
        rows=[[*cells, _verdict(row)] for cells, row in zip(shown, rows, strict=True)],
        css=Markup(theme.CHART_CSS + theme.RESPONSIVE_CSS + (FOLDER / "page.css").read_text()),
        colours=Markup(theme.colour_variables()),
    )


def _rounded(value: object) -> object:
    """Round numbers to at most nine digits, to keep the page small."""
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


FOLDED = {"clock", "driver", "seed", "fault knowledge", "engine", "grid"}
"""Facts that the head of the page folds."""


def _facts(facts: Mapping[str, object], names: Collection[str]) -> str:
    return "; ".join(f"{key}: {show(value)}" for key, value in facts.items() if key in names)


LONG = {column for measure, (_, _, theory) in MEASURES.items() for column in (measure, theory)}
"""Columns that take a full line on small screens."""
COUNTED = ("undecided", "violated", "finding")
"""Columns that the verdict summarises."""
TABLE_ONLY = (
    "tfr_one_to_one", "tfr_one_to_all", "mean_latency", "mean_latency_low", "mean_latency_high", "max_latency",
    "max_latency_low", "max_latency_high", "stretch", "stretch_low", "stretch_high", "redundancy_cost",
    "informed_nodes_per_step", "ratio_betting_low", "ratio_betting_high", "fraction", "reachable", "reachable_low",
    "reachable_high",
)  # fmt: skip
"""Columns that are in `table.csv` only: with them the page would be wider than a screen."""


NAMES = {"again": "rerun"}
"""Headings on the page for columns whose name in the file is too short."""
MEANINGS = {
    "again": "trials that were computed exactly, and run with messages as a check.",
    "promised": "1 where the algorithm claims to tolerate that many faults.",
    "guaranteed_theory": "the predicted share of trials where every healthy node receives everything.",
}
"""Meanings of columns whose names do not say them."""


def _columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of the page: each measure beside its theoretical value, without the ends of its interval."""
    if not rows:
        return []
    first = [column for column in takewhile(lambda column: column not in MEASURES, rows[0]) if column not in COUNTED]
    beside = [column for measure, (_, _, theory) in MEASURES.items() for column in (measure, theory)]
    ends = {f"{prefix}_{end}" for _, prefix, _ in MEASURES.values() for end in ("low", "high")}
    rest = [column for column in rows[0] if column not in (*first, *beside, *ends, *COUNTED, *TABLE_ONLY)]
    return [*first, *(column for column in beside if column in rows[0]), *rest]


def _cell(row: Row, column: str, name: str, numeric: bool) -> dict[str, str]:
    value, interval, betting = row[column], "", ""
    if column in MEASURES and value is not None:
        low, high = (row[f"{MEASURES[column][1]}_{end}"] for end in ("low", "high"))
        interval = f"({_short(low)} to {_short(high)})" if low != high else ""
        bets = [row.get(f"{MEASURES[column][1]}_betting_{end}") for end in ("low", "high")]
        betting = f"[{_short(bets[0])} to {_short(bets[1])}]" if interval and None not in bets else ""
    return {
        "name": name,
        "text": _short(value),
        "interval": interval,
        "betting": betting,
        "css": f"{'n' if numeric else ''}{' long' * (column in LONG)}",
    }


def process_cells(row: Row) -> list[dict[str, str]]:
    """Return a row of availability or completion times as cells: name, text, interval."""
    label, *_ = row
    unit = row["unit"]

    def shown(value: object) -> str:
        return show_seconds(_float(value)) if unit == "seconds" else _short(value)

    def cell(name: str, column: str, missing: str = "-") -> dict[str, str]:
        value, low, high = (row.get(f"{column}{end}") for end in ("", "_low", "_high"))
        words = ""
        bounded = f"{column}_low" in row and (value, low, high) != (None, None, None)
        # Most values of a discrete distribution are equal, and then so are the ends.
        if bounded and not value == low == high:
            both = f"{shown(low)} to {shown(high)}" if low is not None and high is not None else ""
            words = both or (f"at least {shown(low)}" if low is not None else "")
            words = words or (f"at most {shown(high)}" if high is not None else "not bounded")
        return {"name": name, "text": missing if value is None else shown(value), "interval": words, "css": "n"}

    figure = f"{row['figure']} in steps" if unit == "steps" else str(row["figure"])
    named = [
        {"name": name.replace("_", " "), "text": text, "interval": "", "css": ""}
        for name, text in ((label, str(row[label])), ("faults", str(row["faults"])), ("figure", figure))
    ]
    served = {"name": "trials", "text": show(row["trials"]), "interval": "", "css": "n"}
    if row["served"] is not None:
        served["interval"] = f"{_short(row['served'])} completed"
    never = "never" if row["figure"] == "completion" else "-"
    quantiles = [
        cell("median" if name == "q50" else f"{name[1:].removeprefix('0')} %", name, never) for name in _quantiles(row)
    ]
    return [*named, served, cell("mean", "mean"), cell("expected", "expected"), *quantiles]


def _quantiles(row: Row) -> list[str]:
    return [name for name in row if name.startswith("q") and name[1:].isdigit()]


def _short(value: object) -> str:
    """Return a value with at most four digits after the decimal point."""
    return show(value, 4, decimals=4)


def _verdict(row: Row) -> dict[str, str]:
    """Return the verdict of a row with its mark."""
    counts = {key: int(_float(row.get(key) or 0)) for key in ("violated", "undecided")}
    words = [f"{count:,} {key}" for key, count in counts.items() if count]
    verdict = next((key for key, count in counts.items() if count), "holds")
    if row.get("finding"):
        verdict, words = "violated", [*words, "theory excluded"]
    text = f"{MARKS[verdict]} {', '.join(words) or verdict}"
    return {
        "name": "verdict",
        "text": text,
        "interval": str(row.get("finding") or ""),
        "betting": "",
        "css": f"v {verdict}",
    }
