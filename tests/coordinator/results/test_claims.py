"""Claims and audit accept correct histories and reject altered ones."""

from functools import cache
from itertools import product

import pytest

from coordinator.features.base import Metric
from coordinator.history.journal import table
from coordinator.planning.plan import Plan
from coordinator.results.claims import EXIT_STATUS, MODEL_CONFORMANCE, Judgement, Verdict, claims_of, judge, overall
from coordinator.results.metrics import measure
from emunode.algorithms.claims import Claim, Relation, Value
from emunode.model import HopOutcome
from tests.helpers.mutation_support import MUTATIONS, Records, history_of, verdict_on, with_values
from tests.helpers.scenarios import Case

NEW = (HopOutcome.FIRST, HopOutcome.RELAY)
"""The outcomes of hops without which something is missing."""

# --- correct journals -----------------------------------------------------------------------


TIGHT = {
    "star tree": Case("star:4 broadcast greedy-tree", source="2134"),
    "ej tree": Case("ej:2+3 broadcast improved", source="-1,0"),
    "star allgather": Case("star:3 allgather rotated-trees"),
    "star exchange": Case("star:3 alltoall list-schedule"),
}
"""Scenarios with tight claims: any change violates a claim."""

LOOSE = {
    "ej flood": Case("ej:1+2 broadcast flood"),
    "one port": Case("star:4 broadcast greedy-tree", port_model="one-port"),
    "pieces": Case("star:4 broadcast greedy-tree", messages=3, segments=2),
    "cube tree": Case("hypercube:4 broadcast sbt", port_model="one-port"),
    "cube tree with a crash": Case("hypercube:4 broadcast sbt", fault=["crash:0110@3"]),
    "scatter": Case("star:4 scatter balanced-tree"),
    "gather": Case("star:4 gather balanced-tree"),
}
"""Scenarios whose claims allow another order or route, but no additional, missing or impossible hop."""


@cache
def history(name: str) -> tuple[Plan, Records]:
    """A plan and its correct history."""
    plan = {**TIGHT, **LOOSE}[name].plan
    return plan, history_of(plan)


# --- mutations -------------------------------------------------------------------------------------------------------


def much_later(_plan: Plan, records: Records, place: int) -> Records:
    """Delay the hop by a thousand steps."""
    return with_values(records, place, step=int(records["step"][place]) + 1000)


CHANGES = {"much later": much_later, **MUTATIONS}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        *product(TIGHT, ("later", "earlier", "redirected", "now corrupt")),
        *product((*TIGHT, *LOOSE), ("much later", "dropped")),
    ],
    ids=str,
)
def test_changed_row_is_rejected(name: str, change: str) -> None:
    """Changes that only tight claims reject, and late or missing hops. The contract of algorithms has impossible ones."""
    plan, records = history(name)
    news = range(0, len(records), -(-len(records) // 5))
    changed = [CHANGES[change](plan, records, place) for place in news if records["outcome"][place] in NEW]
    assert {verdict_on(plan, rows) for rows in changed if rows is not None} == {Verdict.VIOLATED}


# --- relations -------------------------------------------------------------------------------------------------------


def judged(predicted: Value, relation: Relation, measured: Metric) -> Verdict:
    """One claim about one metric."""
    (judgement,) = judge([Claim("steps", predicted, relation, "a paper")], {"steps": measured}, None)
    assert judgement.measured == measured
    return judgement.verdict


@pytest.mark.parametrize(
    ("predicted", "relation", "measured", "holds"),
    [
        (4, "==", 4, True),
        (4, "==", 5, False),
        (4, "<=", 4, True),
        (4, "<=", 3, True),
        (4, "<=", 5, False),
        (4, ">=", 4, True),
        (4, ">=", 5, True),
        (4, ">=", 3, False),
        (0.3, "==", 0.1 + 0.2, True),
        (0.3, "<=", 0.1 + 0.2, True),
        (0.3, ">=", 0.7 - 0.4, True),
        (1.0, "==", 1, True),
        (1, "==", 0.999, False),
        (0.0, "==", 0.0, True),
        ((3, 6, 9), "==", (3, 6, 9), True),
        ((3, 6, 9), "==", (3, 6), False),
        ((3, 6, 9), "==", (3, 6, 9, 0), False),
    ],
)
def test_relations(predicted: Value, relation: Relation, measured: Metric, holds: bool) -> None:
    assert judged(predicted, relation, measured) == (Verdict.HOLDS if holds else Verdict.VIOLATED)


def test_invalid_relation_is_an_internal_error() -> None:
    with pytest.raises(ValueError, match="<"):
        judged(4, "<", 3)  # type: ignore[arg-type]


# --- three values ----------------------------------------------------------------------------------------------------


def some(*verdicts: Verdict) -> list[Judgement]:
    """Judgements with these verdicts."""
    return [Judgement(Claim("steps", 1, "==", "a paper"), 1, verdict) for verdict in verdicts]


HOLDS, VIOLATED, UNDECIDED = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        ((HOLDS,), HOLDS),
        ((HOLDS, HOLDS), HOLDS),
        ((HOLDS, VIOLATED), VIOLATED),
        ((VIOLATED, UNDECIDED), VIOLATED),
        ((HOLDS, UNDECIDED), UNDECIDED),
        ((HOLDS, UNDECIDED, VIOLATED), VIOLATED),
        ((), UNDECIDED),
    ],
)
def test_overall_verdict(verdicts: tuple[Verdict, ...], together: Verdict) -> None:
    assert overall(some(*verdicts)) == together
    assert overall(some(*reversed(verdicts))) == together


def test_exit_statuses() -> None:
    assert {verdict: EXIT_STATUS[verdict] for verdict in Verdict} == {HOLDS: 0, VIOLATED: 1, UNDECIDED: 3}


def test_claim_about_an_unmeasured_metric_is_undecided() -> None:
    (judgement,) = judge([Claim("early_hops", 1, "==", "a paper")], {}, None)
    assert (judgement.measured, judgement.verdict) == (None, UNDECIDED)


def test_claims_about_an_undecided_run_are_undecided() -> None:
    claims = [Claim("steps", 4, "==", "a paper"), Claim("steps", 5, "==", "another")]
    judgements = judge(claims, {"steps": 4}, "interrupted")
    assert [judgement.verdict for judgement in judgements] == [UNDECIDED, UNDECIDED]
    assert [judgement.measured for judgement in judgements] == [4, 4]
    assert overall(judgements) == UNDECIDED


@pytest.mark.parametrize(
    ("bound", "relation", "measured", "ratio"),
    [
        (4, ">=", 5, 1.25),
        (3.0, ">=", 1, 0.3333),
        (4, "==", 4, None),
        (4, "<=", 2, None),
        (0, ">=", 2, None),
        ((1, 2), ">=", (1, 2), None),
        (4, ">=", None, None),
    ],
)
def test_ratio_to_a_lower_bound(bound: Value, relation: Relation, measured: Metric | None, ratio: float | None) -> None:
    assert (
        Judgement(Claim("steps", bound, relation, "a paper", proof="the paper"), measured, Verdict.HOLDS).ratio == ratio
    )


def test_judgement_record_in_the_summary() -> None:
    (judgement,) = judge([Claim("steps", 4, "<=", "a paper, table 1")], {"steps": 5}, None)
    assert judgement.record() == {
        "name": "steps",
        "predicted": 4,
        "measured": 5,
        "relation": "<=",
        "verdict": "violated",
        "ratio": None,
        "source": "a paper, table 1",
        "derived": False,
    }


# --- what is claimed -------------------------------------------------------------------------------------------------


def claims(**values: object) -> list[Claim]:
    """The claims about a broadcast over the greedy tree of S_4."""
    return claims_of(TIGHT["star tree"].but(**values).plan).kept


def test_every_claimed_metric_is_measured_and_has_a_source() -> None:
    for name in (*TIGHT, *LOOSE):
        plan, records = history(name)
        metrics = measure(plan, table(records).lazy(), rows=len(records)).metrics
        for claim in claims_of(plan).kept:
            assert claim.name in metrics
            assert claim.relation in ("==", "<=", ">=")
            assert claim.source


def test_crash_changes_the_claims() -> None:
    whole = {(claim.name, claim.predicted, claim.relation) for claim in claims()}
    broken = {(claim.name, claim.predicted, claim.relation) for claim in claims(fault=["crash:1234@2"])}
    assert ("intact_deliveries", 23, "==") in whole
    assert ("intact_deliveries", 23, "==") not in broken
    assert any(name == "intact_deliveries" for name, _, _ in broken)


def test_crashed_source_leaves_only_the_model_claim() -> None:
    assert claims(fault=["crash:2134@2"]) == [MODEL_CONFORMANCE]


# --- knowledge of faults ----------------------------------------------------------------------------------------

AROUND = Case("star:4 broadcast bfs-tree")
BROKEN = ["crash:2134@1", "down:1234>3214@1", "hang:4231@1"]
"""All links of 1234."""


@pytest.mark.parametrize("knowledge", ["none", "neighbours", "all"])
@pytest.mark.parametrize("port_model", ["all-port", "one-port"])
def test_full_knowledge_routes_around_faults(knowledge: str, port_model: str) -> None:
    result = AROUND.but(*BROKEN[:2], fault_knowledge=knowledge, port_model=port_model, messages=2).run
    served = result.summary["intact_deliveries"] == result.summary["expected_deliveries"] == 2 * 22
    assert served == (knowledge == "all")
    assert (result.summary["lost"] == 0) == (knowledge != "none")
    assert result.verdict == "holds"


def test_full_knowledge_reaches_every_reachable_rank() -> None:
    """No rank if all links of the source are down, and none through links that come up later."""
    result = AROUND.but(*BROKEN, fault_knowledge="all").run
    assert result.verdict == "undecided"
    assert result.summary["packets"] == 0
    later = AROUND.but(BROKEN[0], "crash:3214@2", fault_knowledge="all").run
    assert later.summary["illegal_hops"] == 0
    assert later.verdict == "holds"
    assert later.summary["delivery_ratio"] < 1  # type: ignore[operator]


def test_flooding_does_not_send_to_known_dead_ranks() -> None:
    case = Case("star:4 broadcast flood", messages=3)
    faults = ["crash:2134@2", "down:1234~3214@3-4"]
    blind, seeing = (case.but(*faults, fault_knowledge=name).run for name in ("none", "neighbours"))
    assert (blind.summary["lost"], seeing.summary["lost"]) != (0, 0)
    assert seeing.summary["lost"] == 0
    assert seeing.summary["packets"] == blind.summary["packets"] - blind.summary["lost"]  # type: ignore[operator]
    assert blind.verdict == seeing.verdict == "holds"
