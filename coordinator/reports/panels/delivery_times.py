"""When nodes had everything due to them, under the timed clock."""

from collections.abc import Sequence
from itertools import groupby, islice
from typing import Any, Final

from markupsafe import Markup

from coordinator.reports.chart import DrawChart, responsive
from coordinator.reports.charts import delivery_times_chart
from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report

LISTED: Final = 64
"""Nodes that are listed."""
ROWS: Final = 16
"""Times that are listed, each with its nodes."""


def delivery_times_panel(report: Report) -> Markup | None:
    """Render the nodes served against time, and the time of each."""
    nodes, draw = _served(report), served_chart(report)
    if draw is None:
        return None
    listed = sorted((node for node in nodes if _is_time(node.get("seconds"))), key=lambda node: float(node["seconds"]))
    rows = []
    for seconds, same in islice(groupby(listed, lambda node: float(node["seconds"])), ROWS):
        labels = [str(node["label"]) for node in same]
        rows.append((show(1000 * seconds, 4), len(labels), ", ".join(labels[: LISTED // ROWS])))
    return fragment(
        "delivery_times",
        chart=markup(responsive(draw)),
        rows=rows,
        left_out=len(listed) - sum(count for _, count, _ in rows),
        missing=[node["label"] for node in nodes if not _is_time(node.get("seconds"))][:LISTED],
        missing_count=len(nodes) - len(listed),
    )


def served_chart(report: Report) -> DrawChart | None:
    """Return the chart of the nodes served against time; None for runs without such times."""
    nodes = _served(report)
    times = _times(nodes, "seconds")
    if not times:
        return None
    lines = {"intended": times}
    # On the memory driver both are the same.
    achieved = _times(nodes, "achieved_seconds")
    if achieved and report.data.get("driver") != "memory":
        lines["achieved"] = achieved
    return lambda narrow: delivery_times_chart(lines, len(nodes), narrow=narrow)


def _served(report: Report) -> list[dict[str, Any]]:
    return [node for node in report.data.served if isinstance(node.get("label"), str)]


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _times(nodes: Sequence[dict[str, Any]], key: str) -> list[float]:
    return sorted(float(node[key]) for node in nodes if _is_time(node.get(key)))
