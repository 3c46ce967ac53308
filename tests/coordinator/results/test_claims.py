"""The judges are judged: they accept what happened, and none of what might be made of it."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from coordinator.execution.run import run
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import EXIT_STATUS, MODEL_CONFORMANCE, Judgement, Verdict, claims_of, judge, overall
from coordinator.results.metrics import Metric, measure
from coordinator.scenario.model import make_scenario
from emunode.algorithms.claims import Claim, Relation, Value
from tests.support import run_scenario

Row = dict[str, Any]
"""One row of a journal, by column."""

# --- journals, as they are and as they are not -----------------------------------------------------------------------

TIGHT: dict[str, dict[str, object]] = {
    "star tree": {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "source": "2134"},
    "ej tree": {"topology": "ej:2+3", "collective": "broadcast", "algorithm": "improved", "source": "-1,0"},
    "star allgather": {"topology": "star:3", "collective": "allgather", "algorithm": "rotated-trees"},
    "star exchange": {"topology": "star:3", "collective": "alltoall", "algorithm": "list-schedule"},
}
"""What they claim leaves no room: whatever is changed, a claim is violated."""

LOOSE: dict[str, dict[str, object]] = {
    "ej flood": {"topology": "ej:1+2", "collective": "broadcast", "algorithm": "flood"},
    "one port": {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "port_model": "one-port"},
    "pieces": {
        "topology": "star:4",
        "collective": "broadcast",
        "algorithm": "greedy-tree",
        "messages": 3,
        "segments": 2,
    },
    "cube tree": {"topology": "hypercube:4", "collective": "broadcast", "algorithm": "sbt", "port_model": "one-port"},
    "cube tree with a crash": {
        "topology": "hypercube:4",
        "collective": "broadcast",
        "algorithm": "sbt",
        "fault": ["crash:0110@3"],
    },
    "scatter": {"topology": "star:4", "collective": "scatter", "algorithm": "balanced-tree"},
    "gather": {"topology": "star:4", "collective": "gather", "algorithm": "balanced-tree"},
}
"""They leave room for another order or another way, but not for a hop more or less, or one that cannot be."""


@cache
def history(name: str) -> tuple[Plan, tuple[Row, ...], dict[str, Any]]:
    """A plan, what really happened, and the types of its columns."""
    plan = make_plan(make_scenario({**TIGHT, **LOOSE}[name] | {"driver": "memory"}))
    with TemporaryDirectory() as folder:
        result = run(plan, Path(folder) / "run", lambda *_: None)
        journal = pl.read_parquet(result.path / "journal.parquet")
    return plan, tuple(journal.rows(named=True)), dict(journal.schema)


def verdict_on(name: str, rows: list[Row]) -> Verdict:
    """What the judges say of these rows in the place of what happened."""
    plan, _, schema = history(name)
    metrics = measure(plan, pl.DataFrame(rows, schema=schema).lazy()).metrics
    return overall(judge(claims_of(plan), metrics, None))


def places(rows: tuple[Row, ...], count: int = 5) -> range:
    """Some rows of a journal, evenly spread."""
    return range(0, len(rows), -(-len(rows) // count))


@pytest.mark.parametrize("name", [*TIGHT, *LOOSE])
def test_what_happened_holds(name: str) -> None:
    _, rows, _ = history(name)
    assert verdict_on(name, list(rows)) == Verdict.HOLDS


# --- mutations -------------------------------------------------------------------------------------------------------

Mutation = Callable[[Plan, Row], Row | None]
"""What becomes of one row; None where this cannot be done to it."""


def later(_plan: Plan, row: Row) -> Row:
    """It took a step longer."""
    return row | {"step": row["step"] + 1}


def earlier(_plan: Plan, row: Row) -> Row | None:
    """It took a step less."""
    return row | {"step": row["step"] - 1} if row["step"] > 1 else None


def much_later(_plan: Plan, row: Row) -> Row:
    """It came when all was over."""
    return row | {"step": row["step"] + 1000}


def other_port(plan: Plan, row: Row) -> Row:
    """It went to another neighbour."""
    port = (row["port"] + 1) % plan.topology.degree
    return row | {"port": port, "receiver": plan.topology.neighbour(row["sender"], port)}


def no_link(plan: Plan, row: Row) -> Row:
    """It went somewhere to which there is no link."""
    strangers = set(plan.topology.ranks()) - {row["sender"], row["receiver"], *plan.topology.neighbours(row["sender"])}
    return row | {"receiver": min(strangers, default=row["sender"])}


def outcome(name: str) -> Mutation:
    """It came to something else."""
    return lambda _plan, row: row | {"outcome": name} if row["outcome"] != name else None


REPLACEMENTS: dict[str, Mutation] = {
    "later": later,
    "earlier": earlier,
    "much later": much_later,
    "other port": other_port,
    "no link": no_link,
    **{f"now {name}": outcome(name) for name in ("lost", "corrupt", "duplicate", "relay")},
}
CERTAIN = ("much later", "no link", "now lost", "now duplicate", "now relay")
"""What no judge may accept of any journal."""


def replaced(name: str, mutation: Mutation) -> Iterator[list[Row]]:
    """Journals with one row changed."""
    plan, rows, _ = history(name)
    for place in places(rows):
        changed = mutation(plan, rows[place])
        if changed is not None:
            yield [*rows[:place], changed, *rows[place + 1 :]]


@pytest.mark.parametrize("mutation", REPLACEMENTS)
@pytest.mark.parametrize("name", TIGHT)
def test_where_claims_are_tight_nothing_can_be_changed(name: str, mutation: str) -> None:
    verdicts = [verdict_on(name, rows) for rows in replaced(name, REPLACEMENTS[mutation])]
    assert verdicts
    assert set(verdicts) == {Verdict.VIOLATED}


@pytest.mark.parametrize("mutation", CERTAIN)
@pytest.mark.parametrize("name", LOOSE)
def test_nothing_impossible_is_accepted(name: str, mutation: str) -> None:
    verdicts = [verdict_on(name, rows) for rows in replaced(name, REPLACEMENTS[mutation])]
    assert verdicts
    assert set(verdicts) == {Verdict.VIOLATED}


@pytest.mark.parametrize("name", [*TIGHT, *LOOSE])
def test_a_row_less_is_missed(name: str) -> None:
    _, rows, _ = history(name)
    news = [place for place in places(rows) if rows[place]["outcome"] in ("first", "relay")]
    verdicts = [verdict_on(name, [*rows[:place], *rows[place + 1 :]]) for place in news]
    assert set(verdicts) == {Verdict.VIOLATED}


@pytest.mark.parametrize("name", [*TIGHT, *LOOSE])
def test_a_row_that_stands_twice_is_noticed(name: str) -> None:
    _, rows, _ = history(name)
    first = [place for place in places(rows) if rows[place]["outcome"] in ("first", "relay")]
    verdicts = [verdict_on(name, [*rows, rows[place]]) for place in first]
    assert set(verdicts) == {Verdict.VIOLATED}


@pytest.mark.parametrize("name", [*TIGHT, *(name for name in LOOSE if "crash" not in name and "flood" not in name)])
def test_a_row_more_is_noticed(name: str) -> None:
    """Whoever just got a piece tells a neighbour once more, over a free link if there is one: legal, but too much."""
    plan, rows, _ = history(name)
    row = rows[len(rows) // 2]
    sender, step = row["receiver"], row["step"] + 1
    used = {other["port"] for other in rows if (other["sender"], other["step"]) == (sender, step)}
    port = min(set(range(plan.topology.degree)) - used, default=0)
    hop = {"step": step, "sender": sender, "port": port, "receiver": plan.topology.neighbour(sender, port)}
    outcome = "duplicate" if row["target"] < 0 else "relay"
    assert verdict_on(name, [*rows, row | hop | {"outcome": outcome}]) == Verdict.VIOLATED


@pytest.mark.parametrize("name", [*TIGHT, *LOOSE])
def test_swapping_two_ranks_is_noticed(name: str) -> None:
    """The same shape elsewhere: as many hops, steps and deliveries, over links that are not there."""
    plan, rows, _ = history(name)
    one, other = plan.topology.order // 2, plan.topology.order - 1
    swap = {one: other, other: one}
    moved = [row | {end: swap.get(row[end], row[end]) for end in ("sender", "receiver")} for row in rows]
    assert verdict_on(name, moved) == Verdict.VIOLATED


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


def test_a_relation_that_is_none_is_our_fault() -> None:
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
def test_verdicts_together(verdicts: tuple[Verdict, ...], together: Verdict) -> None:
    assert overall(some(*verdicts)) == together
    assert overall(some(*reversed(verdicts))) == together


def test_exit_statuses() -> None:
    assert {verdict: EXIT_STATUS[verdict] for verdict in Verdict} == {HOLDS: 0, VIOLATED: 1, UNDECIDED: 3}


def test_a_metric_that_was_not_measured_decides_nothing() -> None:
    (judgement,) = judge([Claim("early_hops", 1, "==", "a paper")], {}, None)
    assert (judgement.measured, judgement.verdict) == (None, UNDECIDED)


def test_a_run_that_proves_nothing_decides_nothing_either_way() -> None:
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
def test_a_measurement_is_a_multiple_of_its_lower_bound(
    bound: Value, relation: Relation, measured: Metric | None, ratio: float | None
) -> None:
    assert Judgement(Claim("steps", bound, relation, "a paper"), measured, Verdict.HOLDS).ratio == ratio


def test_a_judgement_as_it_stands_in_the_summary() -> None:
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
    """What is claimed of a broadcast down the greedy tree of S_4."""
    return claims_of(make_plan(make_scenario(TIGHT["star tree"] | {"driver": "memory"} | values)))


def test_every_claimed_metric_is_measured_and_has_a_source() -> None:
    for name in (*TIGHT, *LOOSE):
        plan, rows, schema = history(name)
        metrics = measure(plan, pl.DataFrame(rows, schema=schema).lazy()).metrics
        for claim in claims_of(plan):
            assert claim.name in metrics
            assert claim.relation in ("==", "<=", ">=")
            assert claim.source


def test_a_crash_changes_what_is_claimed() -> None:
    whole = {(claim.name, claim.predicted, claim.relation) for claim in claims()}
    broken = {(claim.name, claim.predicted, claim.relation) for claim in claims(fault=["crash:1234@2"])}
    assert ("intact_deliveries", 23, "==") in whole
    assert ("intact_deliveries", 23, "==") not in broken
    assert any(name == "intact_deliveries" for name, _, _ in broken)


def test_when_the_source_crashes_only_the_model_is_claimed() -> None:
    assert claims(fault=["crash:2134@2"]) == [MODEL_CONFORMANCE]


# --- who knows what is broken ----------------------------------------------------------------------------------------

AROUND: dict[str, object] = {"topology": "star:4", "collective": "broadcast", "algorithm": "bfs-tree"}
BROKEN = ["crash:2134@1", "down:1234>3214@1", "hang:4231@1"]
"""All that joins 1234 to others."""


@pytest.mark.parametrize("knowledge", ["none", "neighbours", "all"])
@pytest.mark.parametrize("port_model", ["all-port", "one-port"])
def test_who_knows_all_goes_around_what_is_broken(knowledge: str, port_model: str) -> None:
    values = AROUND | {"fault": BROKEN[:2], "fault_knowledge": knowledge, "port_model": port_model, "messages": 2}
    result = run_scenario(None, **values)
    served = result.summary["intact_deliveries"] == result.summary["expected_deliveries"] == 2 * 22
    assert served == (knowledge == "all")
    assert (result.summary["lost"] == 0) == (knowledge != "none")
    assert result.verdict == "holds"


def test_who_knows_all_reaches_whom_it_can() -> None:
    """Nobody, when all is broken around the source; and nobody through what comes up later."""
    result = run_scenario(None, **AROUND, fault=BROKEN, fault_knowledge="all")
    assert result.verdict == "undecided"
    assert result.summary["packets"] == 0
    later = run_scenario(None, **AROUND, fault=[*BROKEN[:1], "crash:3214@2"], fault_knowledge="all")
    assert later.summary["illegal_hops"] == 0
    assert later.verdict == "holds"
    assert later.summary["delivery_ratio"] < 1  # type: ignore[operator]


def test_flooding_does_not_send_where_it_knows_that_nobody_is() -> None:
    values: dict[str, object] = {"topology": "star:4", "collective": "broadcast", "algorithm": "flood", "messages": 3}
    faults = ["crash:2134@2", "down:1234~3214@3-4"]
    blind, seeing = (
        run_scenario(None, **values, fault=faults, fault_knowledge=name) for name in ("none", "neighbours")
    )
    assert (blind.summary["lost"], seeing.summary["lost"]) != (0, 0)
    assert seeing.summary["lost"] == 0
    assert seeing.summary["packets"] == blind.summary["packets"] - blind.summary["lost"]  # type: ignore[operator]
    assert blind.verdict == seeing.verdict == "holds"
