"""The space-time diagram of a run: intended times above achieved ones, and faults where and when they come."""

from collections.abc import Sequence
from typing import Any, Final

import polars as pl
from markupsafe import Markup

from coordinator.reports.packet_times import packet_times
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.space_time_chart import STYLES, WORDS, Line, Mark, space_time
from coordinator.reports.theme import responsive

MOST_NODES: Final = 48
"""Larger networks have no diagram: a node needs a row, and so few of their packets would be between those shown."""
MOST_PACKETS: Final = 2000


def space_time_panel(report: Report) -> Markup | None:
    """The diagram of a network of up to MOST_NODES nodes, with its first packets."""
    data = report.data
    # The journal of a long run is left out of a quick report.
    if report.hops is None or data.topology is None or data.order > MOST_NODES:
        return None
    packets = packet_times(data)
    if packets is None or not len(packets):
        return None
    rows = data.order
    shown = packets.head(MOST_PACKETS)
    left_out = len(packets) - len(shown)
    marks = _marks(data.faults, packets, rows)
    labels = [data.topology.label(rank) for rank in range(rows)]
    # Achieved times are drawn where they can differ from the intended ones.
    achieved = data.get("driver") != "memory" and shown["started"].null_count() < len(shown)
    figures = [_figure("packets by time", labels, _lines(shown, "start", "end"), marks)]
    if achieved:
        figures = [
            _figure("intended times", labels, _lines(shown, "start", "end"), marks),
            _figure("achieved times", labels, _lines(shown, "started", "ended"), marks),
        ]
    kinds = [WORDS[kind] for kind in STYLES if kind in set(shown["kind"])]
    return fragment(
        "space_time", figures=[markup(figure) for figure in figures], kinds=", ".join(kinds), left_out=left_out
    )


def _figure(title: str, labels: Sequence[str], lines: Sequence[Line], marks: Sequence[Mark]) -> str:
    return responsive(lambda narrow: space_time(title, labels, lines, marks, narrow=narrow))


def _lines(packets: pl.DataFrame, began: str, ended: str) -> list[Line]:
    """The packets as lines; a lost packet is never achieved, and keeps the end that it should have had."""
    there = packets.filter(pl.col(began).is_not_null()).with_columns(
        last=pl.coalesce(ended, pl.max_horizontal("end", began))
    )
    return [Line(*row) for row in there.select("sender", "receiver", began, "last", "kind").iter_rows()]


def _marks(faults: Sequence[dict[str, Any]], packets: pl.DataFrame, rows: int) -> list[Mark]:
    """The faults with their times: under the timed clock their own, in lock-step those of their steps."""
    begins = dict(packets.group_by("step").agg(pl.col("start").min()).iter_rows())
    over = float(packets["end"].max())  # type: ignore[arg-type]

    def begin(step: int) -> float:
        return min((time for each, time in begins.items() if each >= step), default=over)

    marks = []
    for fault in faults:
        rank = fault.get("rank", fault.get("sender"))
        # Jitter leaves its mark on every packet, and would cover the diagram with bars.
        if not isinstance(rank, int) or rank >= rows or fault.get("kind") == "jitter":
            continue
        start, end, last = fault.get("seconds"), fault.get("until_seconds"), fault.get("last")
        step = fault.get("step")
        if not isinstance(start, int | float):
            if not isinstance(step, int):
                continue
            start, end = begin(step), begin(last + 1) if isinstance(last, int) else None
        marks.append(Mark(rank, start, end, f"{fault.get('kind')} {fault.get('label')}"))
    return marks
