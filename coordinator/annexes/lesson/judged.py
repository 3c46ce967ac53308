"""The verdict, the claims and the receivers of a run or a branch, as the page shows them."""

from typing import Final

from coordinator.execution.sinks import MemoryRun
from coordinator.reports.numbers import show, verdict_sentence
from coordinator.reports.scene.nodes import GIVING
from coordinator.reports.scene.votes import judged_ranks, segments_due
from coordinator.results.claims import Judgement
from coordinator.results.deliveries import silent_sources

RELATIONS: Final = {"==": "", "<=": "\N{LESS-THAN OR EQUAL TO} ", ">=": "\N{GREATER-THAN OR EQUAL TO} "}


def judged_record(finished: MemoryRun) -> dict[str, object]:
    """Return the verdict, the claims, and what is due to the nodes of a run."""
    plan, summary = finished.plan, finished.summary
    due = judged_ranks(plan).tolist()
    if plan.spec.collective in GIVING:  # the page counts the nodes that have sent
        others = {plan.spec.source, *plan.judged.excluded}
        due = [rank not in others for rank in plan.topology.ranks()]
    return {
        "verdict": str(finished.verdict),
        "why": verdict_sentence(summary),
        "claims": [_claim_record(judgement) for judgement in finished.judgements],
        "cutOff": list(finished.conclusion.measurement.cut_off),
        "due": [rank for rank, judged in enumerate(due) if judged],
        "goals": [1] * plan.topology.order if plan.spec.collective in GIVING else segments_due(plan),
        "silent": silent_sources(plan),
    }


def _claim_record(judgement: Judgement) -> list[str]:
    claim = judgement.claim
    predicted = f"{RELATIONS.get(claim.relation, claim.relation)}{show(claim.predicted)}"
    return [claim.name.replace("_", " "), predicted, show(judgement.measured), str(judgement.verdict), claim.source]
