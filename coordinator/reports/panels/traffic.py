"""The traffic of a foreign history: who sent how much to whom, beside the traffic that the rule states."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from coordinator.reports.chart import DrawChart, responsive
from coordinator.reports.matrix_chart import matrix_chart
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from emunode.terminal import plural

MOST_DRAWN = 256
"""Most ranks of a drawn matrix."""


def traffic_panel(report: Report) -> Markup | None:
    """Render the matrix of bytes of each pair of ranks, measured and by the rule, and the origin of the numbers."""
    data, links = report.data, report.data.links
    if not data.origin or links is None:
        return None
    absent = ", ".join(data.origin.not_measured)
    return fragment(
        "traffic",
        matrices=[markup(responsive(each)) for each in traffic_charts(report)],
        origin=data.origin.origin,
        absent=absent,
        pairs=plural(len(links), "pair"),
    )


def traffic_charts(report: Report) -> list[DrawChart]:
    """Return the matrices of a foreign history of at most `MOST_DRAWN` ranks: measured, and by the rule if it states one."""
    data, ranks = report.data, report.data.summary.get("order")
    if not data.origin or data.links is None or not isinstance(ranks, int) or not 0 < ranks <= MOST_DRAWN:
        return []
    rule = data.origin.rule
    drawn = [_matrix("Measured", data.links.select("sender", "receiver", "packets", "bytes").rows(), ranks)]
    return drawn if rule is None else [*drawn, _matrix("By the rule", rule, ranks)]


def _matrix(title: str, rows: Iterable[Sequence[int]], ranks: int) -> DrawChart:
    """Draw bytes, or messages if all are empty, of each pair."""
    known = [row for row in rows if max(row[:2]) < ranks]
    by_bytes = any(row[3] for row in known)
    cells = {(row[0], row[1]): (row[3] if by_bytes else row[2], row[2], row[3]) for row in known}
    unit = "bytes" if by_bytes else "messages"
    return lambda narrow: matrix_chart(f"{title}: {unit}", ranks, cells, narrow=narrow)
