"""The load of links."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import polars as pl
from markupsafe import Markup

from coordinator.reports.chart import LETTER, NARROW, Chart, DrawChart, Frame, responsive, shortened
from coordinator.reports.charts import Bins, histogram
from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.plot import Mode, Plot, PlotAxis, Series
from coordinator.reports.theme import viridis
from coordinator.results.tables import LISTED_LINKS
from emunode.terminal import plural

WIDTH: Final = 1040
MOST_COLUMNS: Final = 120
NARROW_COLUMNS: Final = 48
TIPPED_CELLS: Final = 500
"""Cells have tooltips up to this number; beyond it, the cells of one shade are one path, without gaps."""
SHADES: Final = 16


def heat_map(
    title: str, rows: Sequence[str], counts: Sequence[Sequence[float]], steps: int, *, narrow: bool = False
) -> Chart:
    """Draw one row per name and one column per step (or a few steps), brighter where more is carried."""
    bins = Bins(steps, NARROW_COLUMNS if narrow else MOST_COLUMNS)
    table = [bins.of(row) for row in counts]
    height = max(6.0, min(22.0, 260 / max(1, len(rows)))) if len(rows) <= 12 else 15.0
    names = [shortened(name, narrow=narrow) for name in rows]
    left = round(max(48, 8 + LETTER * max(map(len, names), default=0)))
    frame = Frame(left, 26, (NARROW if narrow else WIDTH) - 4, 26 + height * len(rows), 1)
    width = (frame.right - frame.left) / max(1, bins.count)
    most = max((value for row in table for value in row), default=0)
    chart = Chart(title, frame, frame.right + 4)
    chart.heading(14)
    # On a phone, the maximum does not fit beside the title.
    if not narrow or LETTER * (len(title) + 16) <= NARROW:
        chart.end(frame.right, 14, f"at most {show(most, 4)}")
    chart.row_names(names, height, every=1 if height >= 12 else 2)
    cells = [
        (frame.left + bar * width, frame.top + at * height, value, f"{rows[at]}, {bins.span(bar)}: {show(value, 4)}")
        for at, row in enumerate(table)
        for bar, value in enumerate(row)
        if value
    ]
    if len(cells) <= TIPPED_CELLS:
        for x, y, value, tip in cells:
            chart.box(x, y, max(0.6, width - (width > 4)), height - 1, viridis(value / most), tip)
    else:
        chart.add(*_shades(table, frame, width, height, most))
    chart.step_axis(steps)
    chart.cursor(steps)
    drawn = [(bar, at, value) for at, row in enumerate(table) for bar, value in enumerate(row) if value]
    spans = {float(bar): f"{bar * bins.width + 1}" for bar in range(0, bins.count, max(1, bins.count // 8))}
    down = PlotAxis("", -0.5, len(rows) - 0.5, names=dict(enumerate(rows)), downwards=True)
    plot = Plot(
        PlotAxis("step", -0.5, max(1, bins.count) - 0.5, names=spans), down, [Series("", Mode.CELLS, drawn, "viridis")]
    )
    return chart.finish(frame.bottom + 20, plot)


def _shades(table: Sequence[Sequence[float]], frame: Frame, width: float, height: float, most: float) -> list[str]:
    """Draw the cells of each shade as one path."""
    shades: dict[int, list[str]] = {}
    for at, row in enumerate(table):
        x, y = frame.left, frame.top + at * height
        for shade, run in groupby(round(SHADES * value / most) if value else -1 for value in row):
            across = width * len(list(run))
            if shade >= 0:
                shades.setdefault(shade, []).append(f"M{x:.1f} {y:.1f}h{across:.1f}v{height - 1:.1f}h-{across:.1f}z")
            x += across
    return [f'<path fill="{viridis(at / SHADES)}" d="{"".join(paths)}"/>' for at, paths in sorted(shades.items())]


BUSIEST = 10
BUSIEST_COLUMNS = ("port", "packets", "segments", "bytes", "busiest_step_segments")
TIMELINES = 24
"""Links with a timeline."""
MOST_PORTS = 30
MOST_BINS = 20


def links_panel(report: Report) -> Markup | None:
    """Render the packets by port and step, links by load, and the busiest links."""
    heat, timelines, equal = ports_chart(report), timelines_chart(report), _equal_loads(report)
    # Bars and a ranking of links that carry the same say less than a sentence.
    loads, busiest = (None, []) if equal else (loads_chart(report), _busiest(report))
    if not (heat or loads or busiest or equal):
        return None
    return fragment(
        "links",
        heat=None if heat is None else markup(responsive(heat)),
        timelines=None if timelines is None else markup(responsive(timelines)),
        histogram=None if loads is None else markup(loads.svg),
        busiest=busiest,
        equal=equal,
        idle_left_out=_idle_left_out(report.directed_links),
    )


def _equal_loads(report: Report) -> str | None:
    """Return the load of busy links in words if they all carry the same; None otherwise."""
    links = report.data.links
    used = None if links is None else links.filter(pl.col("packets") > 0)
    # A foreign history has no segments: what was a segment of a message was not measured.
    if used is None or not len(used) or "segments" not in used.columns or used["segments"].n_unique() > 1:
        return None
    of_all = f"{len(used):,} of the {report.directed_links:,} directed" if report.directed_links else "The busy"
    return f"{of_all} links carry {plural(int(used['segments'][0]), 'segment')} each."


def loads_chart(report: Report) -> Chart | None:
    """Count the directed links by the segments that they carried."""
    links = report.data.links
    if links is None or "segments" not in links.columns:
        return None
    counts = dict(links["segments"].value_counts().iter_rows())
    idle = report.directed_links - len(links)
    if idle > 0:
        counts[0] = counts.get(0, 0) + idle
    most = max(counts, default=0)
    width = max(1, -(-most // MOST_BINS))
    bars = [("0", counts.pop(0, 0))]
    # By the loads that occur: a forged one may be in the thousands of millions.
    binned: dict[int, int] = {}
    for load, number in counts.items():
        binned[(load - 1) // width] = binned.get((load - 1) // width, 0) + number
    for low in range(1, most + 1, width):
        high = min(most, low + width - 1)
        name = f"{low:,}" if low == high else f"{low:,}-{high:,}"
        bars.append((name, binned.get((low - 1) // width, 0)))
    return histogram("Directed links by load", bars, "blue", "segments carried in the whole run")


def _idle_left_out(links: int) -> str | None:
    """Return why links.parquet lists no idle links, if it does not."""
    if links <= LISTED_LINKS:
        return None
    return f"links.parquet lists no idle links: the network has {links:,} directed links, more than {LISTED_LINKS:,}."


def _busiest(report: Report) -> list[tuple[str, ...]]:
    """Return the busiest links; with labels if the network is known, else with ranks."""
    data = report.data
    if data.links is None or not len(data.links) or "segments" not in data.links.columns:
        return []
    topology = data.topology
    used = data.links.filter(pl.col("packets") > 0)
    top = used.sort("segments", "sender", "port", descending=[True, False, False]).head(BUSIEST)
    rows = []
    for row in top.iter_rows(named=True):
        sender, receiver = row["sender"], row["receiver"]
        if topology:
            sender, receiver = topology.label(sender), topology.label(receiver)
        rows.append((f"{sender} → {receiver}", *(show(row[key]) for key in BUSIEST_COLUMNS)))
    return rows


def ports_chart(report: Report) -> DrawChart | None:
    """Draw the packets by port and step: the picture shows when each kind of link is used."""
    hops, topology = report.hops, report.data.topology
    if hops is None or topology is None or not len(hops) or topology.degree > MOST_PORTS:
        return None
    steps = int(hops["step"].max())  # type: ignore[arg-type]
    table = [[0] * steps for _ in range(topology.degree)]
    for step, port, packets in hops.group_by("step", "port").agg(pl.len()).iter_rows():
        table[port][step - 1] = packets
    names = [f"port {port}" for port in range(topology.degree)]
    return lambda narrow: heat_map("Packets by port and step", names, table, steps, narrow=narrow)


def timelines_chart(report: Report) -> DrawChart | None:
    """Draw the segments on every directed link by step; in larger networks on the busiest links."""
    hops, topology = report.hops, report.data.topology
    if hops is None or topology is None or not len(hops):
        return None
    steps = int(hops["step"].max())  # type: ignore[arg-type]
    totals = hops.group_by("sender", "port", "receiver").agg(pl.col("segments").sum())
    listed = totals.sort("segments", "sender", "port", descending=[True, False, False]).head(TIMELINES)
    listed = listed.sort("sender", "port")
    rows = {(sender, port): at for at, (sender, port) in enumerate(listed.select("sender", "port").iter_rows())}
    table = [[0] * steps for _ in rows]
    of_rows = hops.join(listed, on=["sender", "port"], how="semi")
    for step, sender, port, segments in of_rows.select("step", "sender", "port", "segments").iter_rows():
        table[rows[sender, port]][step - 1] += segments
    if max(map(max, table)) <= 1:
        return None  # boxes of one colour: the map shows as much
    names = [
        f"{topology.label(sender)} → {topology.label(receiver)}"
        for sender, receiver in listed.select("sender", "receiver").iter_rows()
    ]
    every = len(totals) <= TIMELINES
    title = "Segments by link and step" if every else f"Segments by step on the {TIMELINES} busiest links"
    return lambda narrow: heat_map(title, names, table, steps, narrow=narrow)
