"""The load of links."""

import polars as pl
from markupsafe import Markup

from coordinator.reports.chart import Chart, DrawChart, responsive
from coordinator.reports.charts import histogram
from coordinator.reports.heat_chart import heat_map
from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.results.tables import LISTED_LINKS
from emunode.terminal import plural

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
