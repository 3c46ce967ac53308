"""The decisions on failures that stand at the end of a run, and the repetition of the collective."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment
from coordinator.reports.panels.base import Report

LISTED = 12
"""Labels of a decision that the page shows."""
NUMBERS = (
    ("decisions", "decisions, all nodes together"),
    ("slowest_agreement_steps", "steps from a suspicion to the decision on it"),
    ("slowest_agreement_seconds", "seconds from a suspicion to the decision on it"),
    ("agreement_packets", "packets of the agreement"),
    ("revised_decisions", "decisions that were revised"),
    ("repetitions", "repetitions of the collective"),
    ("repetition_order", "nodes of the last one"),
    ("repetition_steps", "its steps"),
    ("repetition_packets", "its packets"),
    ("final_delivery_ratio", "its delivery ratio"),
)
"""Metrics that the page shows, with their titles."""


def agreement_panel(report: Report) -> Markup | None:
    """Render each decision with the nodes that stand by it, and the cost of the agreement; nothing without a decision."""
    decisions = report.data.get("agreement")
    if not isinstance(decisions, list) or not decisions:
        return None
    numbers = [(title, show(report.data.get(key))) for key, title in NUMBERS if report.data.get(key) is not None]
    return fragment(
        "agreement", decisions=[_row(each) for each in decisions if isinstance(each, dict)], numbers=numbers
    )


def _row(decision: Mapping[str, Any]) -> dict[str, object]:
    ends = decision.get("ends") or {}
    return {
        "nodes": show(decision.get("nodes")),
        "step": show(decision.get("step")),
        "links": _listed(decision.get("links") or ()),
        "lost": _listed(decision.get("lost_nodes") or ()) or "none",
        "ends": "; ".join(_end(name, end) for name, end in ends.items()) or "the collective is not repeated",
    }


def _end(name: str, end: Mapping[str, Any]) -> str:
    labels = f" ({_listed(end['labels'])})" if end.get("labels") else ""
    return f"{show(end.get('nodes'))} {name}{labels}"


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    return f"{', '.join(map(str, labels[:LISTED]))}{more}"
