"""The bits of a sum of real numbers: what fold trees certify, what the values show, and the tree of the first element."""

from pathlib import Path
from typing import Final

from markupsafe import Markup

from coordinator.annexes.numbers.feature import trees_of
from coordinator.annexes.numbers.tree_picture import tree_picture
from coordinator.reports.pages import template
from coordinator.reports.panels.base import Report
from emunode.errors import EmulatorError
from emunode.terminal import plural

TEMPLATE: Final = Path(__file__).parent / "templates" / "additions.html.jinja"


def additions_panel(report: Report) -> Markup | None:
    """Render the claims on bits, and the tree of the first element; nothing for runs without real numbers."""
    claims = report.data.get("bits")
    if not isinstance(claims, list) or not claims:
        return None
    trees = report.data.get("distinct_trees")
    drawn = tree_drawing(report)
    return Markup(
        template(TEMPLATE).render(
            claims=[{**claim, "claim": str(claim.get("claim")).replace("_", " ")} for claim in claims],
            values=report.data.get("values"),
            rounding=report.data.get("rounding"),
            hash=report.data.get("results_hash"),
            trees=plural(trees, "distinct tree") if isinstance(trees, int) else None,
            depth=report.data.get("tree_depth"),
            # The picture consists of numbers, and of a title that is escaped there.
            picture=None if drawn is None else Markup(drawn),
        )
    )


def tree_drawing(report: Report) -> str | None:
    """Draw the fold tree of the first element of a sum of real numbers; None for other runs, and for large trees."""
    if not isinstance(report.data.get("distinct_trees"), int):
        return None
    try:
        found = None if report.data.plan is None else trees_of(report.data.plan.algorithm)
    except EmulatorError:
        return None
    if found is None:
        return None
    (rank, owner, _), tree = next(iter(found.trees.items()))
    title = f"Order of the additions of the first element of block {owner} at rank {rank}"
    return tree_picture(tree, title)
