"""The space-time diagram of a run: intended times above achieved ones, and faults where and when they come."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
from markupsafe import Markup

from coordinator.annexes.exports.space_time.chart import (
    CIRCLE,
    STYLES,
    WITHHELD,
    FaultMark,
    Line,
    MindChange,
    space_time,
    symbol,
)
from coordinator.annexes.exports.space_time.packet_times import packet_times, suspicion_words
from coordinator.reports.chart import DrawChart, responsive
from coordinator.reports.pages import markup, template
from coordinator.reports.panels.base import Report
from coordinator.reports.scene.nodes import has_root

TEMPLATE: Final = Path(__file__).parent / "templates" / "space_time.html.jinja"
MOST_NODES: Final = 48
"""Larger networks show a choice of nodes: a node needs a row."""
CHOSEN_NODES: Final = 24
MOST_PACKETS: Final = 2000
MOST_CHOSEN_PACKETS: Final = 600
SYMBOL: Final = ("M-10 0H10", f"M-3 0{CIRCLE}")
"""Packets in the legend: a line, or the circle of a withheld packet."""


def space_time_panel(report: Report) -> Markup | None:
    """Render the diagram of the nodes of a small network, or of some nodes of a larger one, with their first packets."""
    diagram = space_time_diagram(report)
    if diagram is None:
        return None
    kinds = [kind for kind in STYLES if kind in diagram.kinds]
    return Markup(
        template(TEMPLATE).render(
            figures=[markup(responsive(draw)) for draw in diagram.charts],
            kinds=[(markup(symbol(kind, SYMBOL[kind == WITHHELD])), STYLES[kind].words) for kind in kinds],
            faults=diagram.faults,
            left_out=diagram.left_out,
            choice=diagram.choice,
            suspicions=diagram.suspicions,
        )
    )


class Diagram(NamedTuple):
    """The space-time diagrams of a run, by intended and perhaps by achieved times, and their content."""

    charts: Sequence[DrawChart]
    kinds: AbstractSet[str]
    """Kinds of packets that occur."""
    faults: bool
    suspicions: bool
    left_out: int
    """Packets that are not drawn."""
    choice: str | None
    """The nodes that are drawn, in words; None for all nodes."""


def space_time_diagram(report: Report) -> Diagram | None:
    """Return the diagrams of a run; None if the journal is not available or too long, and without packets."""
    data = report.data
    # The journal of a long run is left out of a quick report.
    if report.hops is None or data.topology is None or not len(report.hops):
        return None
    ranks, choice = (list(data.topology.ranks()), None) if data.order <= MOST_NODES else _chosen(report)
    packets = packet_times(data, None if choice is None else ranks)
    if packets is None or not len(packets):
        return None
    row = {rank: at for at, rank in enumerate(ranks)}
    every = len(packets)
    packets = _until_settled(packets, data.suspicions)
    shown = packets.head(MOST_PACKETS if choice is None else MOST_CHOSEN_PACKETS).with_columns(
        pl.col("sender", "receiver").replace_strict(row)
    )
    left_out = every - len(shown)
    marks = _marks(data.faults, packets, row)
    labels = [data.topology.label(rank) for rank in ranks]
    # Achieved times are drawn where they can differ from the intended ones.
    achieved = data.get("driver") != "memory" and shown["started"].null_count() < len(shown)
    minds = [
        MindChange(row[each["rank"]], each["seconds"], bool(each.get("suspected")), suspicion_words(each))
        for each in data.suspicions
        if each.get("rank") in row and isinstance(each.get("seconds"), int | float)
    ]
    charts = [_chart("Packets by time", labels, _lines(shown, "start", "end"), marks, minds)]
    if achieved:
        charts = [
            _chart("Packets by intended times", labels, _lines(shown, "start", "end"), marks, minds),
            _chart("Packets by achieved times", labels, _lines(shown, "started", "ended"), marks, minds),
        ]
    return Diagram(charts, set(shown["kind"]), bool(marks), bool(minds), left_out, choice)


def _until_settled(packets: pl.DataFrame, suspicions: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return the packets up to the last one with data and the last change of mind: signs of life may go on for long
    after them.
    """
    moments = [each["seconds"] for each in suspicions if isinstance(each.get("seconds"), int | float)]
    data = packets.filter(pl.col("kind").is_in(["packet", "again", "altered", "repair"]))
    if not moments or not len(data):
        return packets
    return packets.filter(pl.col("start") <= max(float(data["end"].max()), *moments))  # type: ignore[arg-type]


def _chosen(report: Report) -> tuple[list[int], str]:
    """Return the nodes of a large network whose packets explain the run, and the reason in words.

    These are the nodes on the paths to the node that was done last; without trees from a source, the busiest nodes.
    """
    data, trees = report.data, report.nodes.trees if report.nodes else None
    topology, hops = data.topology, report.hops
    assert topology is not None
    assert hops is not None
    if trees is not None and len(trees.roots) == 1 and has_root(data) and data.nodes is not None:
        steps = data.nodes["last_step"].fill_null(-1).to_numpy().copy()
        steps[trees.roots[0]] = -1
        last = int(steps.argmax())
        ranks = list(dict.fromkeys(rank for tree in range(trees.count) for rank in trees.path(topology, tree, last)))
        if 1 < len(ranks) <= MOST_NODES:
            return ranks, f"the nodes on the paths to {topology.label(last)}, which was done last"
    ends = pl.concat([hops["sender"], hops["receiver"]]).alias("rank").value_counts()
    busiest = ends.sort("count", "rank", descending=[True, False]).head(CHOSEN_NODES)["rank"].sort().to_list()
    return busiest, f"the {len(busiest)} nodes with the most packets"


def _chart(
    title: str, labels: Sequence[str], lines: Sequence[Line], marks: Sequence[FaultMark], minds: Sequence[MindChange]
) -> DrawChart:
    return lambda narrow: space_time(title, labels, lines, marks, minds, narrow=narrow)


def _lines(packets: pl.DataFrame, began: str, ended: str) -> list[Line]:
    """Return the packets as lines; a lost packet is never achieved, and keeps the end that it should have had."""
    there = packets.filter(pl.col(began).is_not_null()).with_columns(
        last=pl.coalesce(ended, pl.max_horizontal("end", began))
    )
    return [Line(*row) for row in there.select("sender", "receiver", began, "last", "kind").iter_rows()]


def _marks(faults: Sequence[dict[str, Any]], packets: pl.DataFrame, row: Mapping[int, int]) -> list[FaultMark]:
    """Return the faults with their times: under the timed clock their own, in lock-step the times of their steps."""
    begins = dict(packets.group_by("step").agg(pl.col("start").min()).iter_rows())
    over = float(packets["end"].max())  # type: ignore[arg-type]

    def begin(step: int) -> float:
        return min((time for each, time in begins.items() if each >= step), default=over)

    marks = []
    for fault in faults:
        rank = fault.get("rank", fault.get("sender"))
        # Jitter leaves its mark on every packet, and would cover the diagram with bars.
        if not isinstance(rank, int) or rank not in row or fault.get("kind") == "jitter":
            continue
        start, end, last = fault.get("seconds"), fault.get("until_seconds"), fault.get("last")
        step = fault.get("step")
        if not isinstance(start, int | float):
            if not isinstance(step, int):
                continue
            start, end = begin(step), begin(last + 1) if isinstance(last, int) else None
        marks.append(FaultMark(row[rank], start, end, f"{fault.get('kind')} {fault.get('label')}"))
    return marks
