"""The traffic of a foreign history: who sent how much to whom, beside the traffic that the rule states."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from coordinator.reports.matrix_chart import matrix_chart
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.theme import responsive
from emunode.terminal import plural

MOST_DRAWN = 256
"""Most ranks of a drawn matrix."""


def traffic_panel(report: Report) -> Markup | None:
    """Render the matrix of bytes of each pair of ranks, measured and by the rule, and the origin of the numbers."""
    data, links = report.data, report.data.links
    if not data.origin or links is None:
        return None
    ranks = data.summary.get("order")
    measured = links.select("sender", "receiver", "packets", "bytes").rows()
    drawn = []
    if isinstance(ranks, int) and 0 < ranks <= MOST_DRAWN:
        drawn.append(_matrix("Measured", measured, ranks))
        rule = data.origin.get("rule")
        if rule is not None:
            drawn.append(_matrix("By the rule", rule, ranks))
    absent = ", ".join(str(each) for each in data.origin.get("not_measured") or ())
    return fragment(
        "traffic",
        matrices=[markup(each) for each in drawn],
        origin=str(data.origin.get("origin") or "unknown"),
        absent=absent,
        pairs=plural(len(measured), "pair"),
    )


def _matrix(title: str, rows: Iterable[Sequence[int]], ranks: int) -> str:
    """Draw bytes, or messages if all are empty, of each pair."""
    known = [row for row in rows if max(row[:2]) < ranks]
    by_bytes = any(row[3] for row in known)
    cells = {(row[0], row[1]): (row[3] if by_bytes else row[2], row[2], row[3]) for row in known}
    unit = "bytes" if by_bytes else "messages"
    return responsive(lambda narrow: matrix_chart(f"{title}: {unit}", ranks, cells, narrow=narrow))
