"""The brief result of a run: the main metrics beside their predictions and lower bounds, and claims that do not hold."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from coordinator.cli import render
from coordinator.cli.markup import escape
from coordinator.reports.numbers import show
from coordinator.results.claims import Judgement, Verdict, overall
from emunode.algorithms.claims import best_bound

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
    out = render.console()
    cells = [_cells(name, claims, _measured(name, claims, summary)) for name, claims in rows.items()]
    cells += [_cells(each.claim.name.replace("_", " "), [each], show(each.measured)) for each in failed]
    out.table(("", "measured", "predicted", "bound", "verdict"), cells)
    for claim in (each.claim for each in judgements if each.claim.condition and each.claim.name in MAIN):
        out.print(escape(claim.sentence), soft_wrap=True)
    for each in judgements:
        if each.verdict is Verdict.VIOLATED:
            name = each.claim.name.replace("_", " ")
            out.print(f"violated: {escape(f'{name} {_prediction(each)}, {each.claim.source}')}", soft_wrap=True)
    if judgements:
        held = sum(each.verdict is Verdict.HOLDS for each in judgements)
        number = "all" if held == len(judgements) else f"{held} of"
        out.print(f"{number} {len(judgements)} claims hold; --claims lists them with their sources", soft_wrap=True)


def _measured(name: str, claims: Sequence[Judgement], summary: Mapping[str, Any]) -> str:
    if name == DELIVERIES:
        return f"{summary['intact_deliveries']:,} of {summary['expected_deliveries']:,}"
    return show(summary[name] if name in ALWAYS else claims[0].measured)


def _cells(name: str, claims: Sequence[Judgement], measured: str) -> tuple[str, ...]:
    """Return the cells of a row: the sharpest prediction, the largest lower bound, and the verdict on all claims."""
    predictions = [each for each in claims if not each.claim.proof]
    # A prediction that is exact says more than an upper limit, and a number more than a ratio.
    order = ("==", "<=", ">=")
    best = min(
        predictions,
        key=lambda each: (order.index(each.claim.relation), each.claim.name == "delivery_ratio"),
        default=None,
    )
    bound = best_bound([each.claim for each in claims], claims[0].claim.name) if claims else None
    return (
        name,
        escape(measured),
        "" if best is None else escape(_share(best)),
        "" if bound is None else f">= {show(bound.bound)}",
        render.verdict_text(overall(claims)) if claims else "",
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
