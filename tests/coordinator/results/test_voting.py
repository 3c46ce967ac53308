"""Voting: the number of byzantine nodes that redundancy tolerates, and delivery without redundancy."""

from pathlib import Path

import polars as pl

from coordinator.history.journal import table
from coordinator.results.metrics import measure
from tests.helpers.mutation_support import history_of
from tests.helpers.scenarios import Case
from tests.helpers.support import failures

EDT = Case("star:4 broadcast edt redundancy=3 source=1234")


def test_three_copies_tolerate_one_byzantine_node() -> None:
    """Whichever it is: the engine goes through all of them in theory/test_votes.py."""
    result = EDT.but("byzantine:2134", messages=2).run
    assert result.verdict == "holds", failures(result)
    summary = result.summary
    assert summary["intact_deliveries"] == summary["elected_right"] == summary["expected_deliveries"] == 2 * 22
    assert summary["elected_wrong"] == summary["elected_none"] == 0
    (source,) = (judgement.claim.source for judgement in result.judgements if judgement.claim.name == "delivery_ratio")
    assert source.endswith("by majority 3 copies tolerate 1 byzantine nodes")


def test_three_copies_do_not_tolerate_two_byzantine_nodes(tmp_path: Path) -> None:
    result = EDT.but("byzantine:2134", "byzantine:4312").stored(tmp_path / "run")
    assert result.verdict == "holds", failures(result)
    assert 0 < result.summary["intact_deliveries"] < result.summary["expected_deliveries"]  # type: ignore[operator]
    assert result.summary["elected_wrong"]
    elections = pl.read_parquet(result.path / "elections.parquet")
    assert elections.columns == ["receiver", "origin", "segment", "copies", "right", "wrong", "elected"]
    assert (elections["right"] < elections["copies"]).all()
    for copies, right, wrong, elected in elections.select("copies", "right", "wrong", "elected").iter_rows():
        assert elected == ("right" if 2 * right > copies else "wrong" if 2 * wrong > copies else "none")


def test_majority_with_a_byzantine_node_and_a_crash() -> None:
    both = EDT.but("byzantine:2134", "crash:3214@1").run
    assert both.summary["elected_none"] == 21
    assert (both.verdict, both.summary["intact_deliveries"]) == ("holds", 0)
    # Theory needs faults that last from the first step on; of others the schedule tells the outcome.
    later = EDT.but("byzantine:2134@3", "crash:3214@1").run
    assert later.verdict == "holds"
    assert [claim.claim.name for claim in later.judgements if claim.claim.derived] == ["intact_deliveries", "segments"]
    # Packets that are late are not followed.
    late = EDT.but("byzantine:2134@3", "delay:1234>3214:2@1").run
    assert late.verdict == "undecided"
    assert late.summary["undecided_because"] == "no claim about delivery applies under these faults"
    one = EDT.but("byzantine:2134@9", "crash:3214@1").run
    assert one.summary["delivery_ratio"] == 1.0


def test_audit_knows_which_copies_a_silent_node_withholds() -> None:
    plan = EDT.but("silent-segments:2134:0.5", messages=8).plan
    journal = table(history_of(plan))
    assert measure(plan, journal.lazy()).metrics["illegal_hops"] == 0
    silent = pl.col("sender") == plan.topology.rank("2134")
    lost = pl.col("outcome").cast(pl.String) == "lost"
    for outcome, broken in (("lost", silent & ~lost), ("relay", silent & lost), ("lost", ~silent & ~lost)):
        changed = journal.with_columns(outcome=pl.when(broken).then(pl.lit(outcome)).otherwise("outcome"))
        illegal = measure(plan, changed.lazy()).metrics["illegal_hops"]
        assert illegal >= journal.filter(broken).height > 0  # type: ignore[operator]
