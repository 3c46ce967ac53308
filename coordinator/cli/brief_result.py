"""The brief result of a run: the main metrics beside their predictions and lower bounds, and claims that do not hold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.markup import escape

from coordinator.cli import render
from coordinator.reports.numbers import show
from coordinator.results.claims import Judgement, Verdict, overall
from coordinator.results.reasons import Reason, is_early, unjudged_word
from emunode.algorithms.claims import best_bound
from emunode.terminal import plural, say

DELIVERIES: Final = "deliveries"
MAIN: Final[Mapping[str, str]] = {
    "intact_deliveries": DELIVERIES,
    "delivery_ratio": DELIVERIES,
    "steps": "steps",
    "segments": "segments",
    "intended_seconds": "intended seconds",
}
"""The metrics of the table, each with its row. Metrics of one row measure the same."""
ALWAYS: Final = (DELIVERIES, "steps", "segments")
"""Rows that a run has without a claim about them."""


def show_brief(judgements: Sequence[Judgement], summary: Mapping[str, Any]) -> None:
    """Print deliveries, steps and segments beside their claims, every claim that does not hold, and how many hold."""
    rows, failed = {name: list[Judgement]() for name in ALWAYS}, list[Judgement]()
    for judgement in judgements:
        row = MAIN.get(judgement.claim.name)
        if row is not None:
            rows.setdefault(row, []).append(judgement)
        elif judgement.verdict is Verdict.VIOLATED:
            failed.append(judgement)
    out, unjudged = render.console(), unjudged_word(summary)
    cells = [_cells(name, claims, _measured(name, claims, summary), unjudged) for name, claims in rows.items()]
    cells += [_cells(each.claim.name.replace("_", " "), [each], show(each.measured), unjudged) for each in failed]
    # After a failure the collective may be repeated, and the lines below tell of the repetition.
    which = "" if summary.get("repetition_steps") is None else "first run, abandoned"
    out.table((which, "measured", "predicted", "bound", "verdict"), cells)
    for claim in (each.claim for each in judgements if each.claim.condition and each.claim.name in MAIN):
        say(claim.sentence)
    for each in judgements:
        if each.verdict is Verdict.VIOLATED:
            name = each.claim.name.replace("_", " ")
            say(f"violated: {name} {_prediction(each)}, {each.claim.source}")
    if judgements:
        say(f"{_count(judgements, summary)}; --claims lists them with their sources")


def _count(judgements: Sequence[Judgement], summary: Mapping[str, Any]) -> str:
    """Return how many claims hold, are violated or undecided; of a run that ended early, that none was judged."""
    found, total = Counter(each.verdict for each in judgements), len(judgements)
    if is_early(summary) and not found[Verdict.HOLDS]:
        ended = "the run was interrupted" if summary["reason"] == Reason.INTERRUPTED else summary["undecided_because"]
        return f"{plural(total, 'claim')} not judged: {ended}"
    if found[Verdict.HOLDS] == total:
        return "the only claim holds" if total == 1 else f"all {total} claims hold"
    others = [f"{found[verdict]} {verdict}" for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED) if found[verdict]]
    return (
        f"{found[Verdict.HOLDS]} of {plural(total, 'claim')} {'holds' if total == 1 else 'hold'}, {', '.join(others)}"
    )


def _measured(name: str, claims: Sequence[Judgement], summary: Mapping[str, Any]) -> str:
    if name == DELIVERIES:
        return f"{summary['intact_deliveries']:,} of {summary['expected_deliveries']:,}"
    return show(summary[name] if name in ALWAYS else claims[0].measured)


def _cells(name: str, claims: Sequence[Judgement], measured: str, unjudged: str) -> tuple[str, ...]:
    """Return the cells of a row: the sharpest prediction, the largest lower bound, and the verdict on all claims."""
    predictions = [each for each in claims if not each.claim.proof]
    # A prediction that is exact says more than an upper limit, and a number more than a ratio.
    order = ("==", "<=", ">=")
    best = min(
        predictions,
        key=lambda each: (order.index(each.claim.relation), each.claim.name == "delivery_ratio"),
        default=None,
    )
    ruled = overall(claims) if claims else ""
    ruled = unjudged if ruled == Verdict.UNDECIDED else ruled
    bound = best_bound([each.claim for each in claims], claims[0].claim.name) if claims else None
    return (
        name,
        escape(measured),
        "" if best is None else escape(_share(best)),
        "" if bound is None else f">= {show(bound.bound)}",
        render.verdict_text(ruled) if claims else "",
    )


def _share(judgement: Judgement) -> str:
    """Return a prediction; a share of the deliveries as `all` or `0.5 of them`, because its row counts them."""
    claim = judgement.claim
    if claim.name == "delivery_ratio" and isinstance(claim.predicted, int | float):
        return "all" if claim.predicted == 1 else f"{_relation(judgement)}{claim.predicted:.4g} of them"
    return _prediction(judgement)


def _prediction(judgement: Judgement) -> str:
    return f"{_relation(judgement)}{show(judgement.claim.predicted)}"


def _relation(judgement: Judgement) -> str:
    return "" if judgement.claim.relation == "==" else f"{judgement.claim.relation} "
