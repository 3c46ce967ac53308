"""Runs under the timed clock with faults: one history on every driver, verdicts, evidence, and stored runs that verify."""

from pathlib import Path

import polars as pl
import pytest

from coordinator.execution.verify import verify
from tests.helpers.scenarios import Case
from tests.helpers.support import failures

TIMED = "clock=timed startup=20ms per_byte=0s"
CUBE = Case(f"hypercube:3 broadcast sbt {TIMED}")


@pytest.mark.parametrize(
    ("fault", "missed", "seen"),
    [
        ("crash:001@30ms", 3, 2),
        ("crash:001@40ms", 0, None),
        ("down:001>011@30ms-32ms", 2, 2),
        ("crash:001@0s", 3, 1),
        ("crash:001@60ms", 0, None),
    ],
)
def test_claims_follow_from_the_times_of_outages(fault: str, missed: int, seen: int | None) -> None:
    """What the schedule loses to outages is exact; a crashed node is owed nothing, unless all was over before."""
    result = CUBE.but(fault).run
    assert (result.exit_status, failures(result)) == (0, [])
    summary = result.summary
    crashed = fault.startswith("crash") and fault != "crash:001@60ms"
    assert summary["expected_deliveries"] == 7 - crashed
    assert summary["intact_deliveries"] == 7 - crashed - missed
    assert result.conclusion.measurement.faults[0]["seen"] == seen


def test_stragglers_lose_nothing_and_slow_down_within_claims() -> None:
    plain, slow = CUBE.run, CUBE.but("slow:001:3").run
    assert (slow.exit_status, failures(slow)) == (0, [])
    assert slow.summary["journal_hash"] == plain.summary["journal_hash"]
    assert slow.summary["fault_free_seconds"] == plain.summary["intended_seconds"] == pytest.approx(0.06)
    assert slow.summary["slow_down"] == pytest.approx(5 / 3)
    bounds = [each.claim.predicted for each in slow.judgements if each.claim.name == "intended_seconds"]
    assert bounds == [pytest.approx(0.06), pytest.approx(0.18)]


@pytest.mark.parametrize(
    ("what", "names"),
    [
        # The order on a port is kept: the bound by the factor.
        ("hypercube:3 broadcast sbt segments=4", {"steps", "segments", "intact_deliveries", "intended_seconds <="}),
        ("hypercube:3 broadcast nesbt segments=4", {"steps", "segments", "intact_deliveries", "intended_seconds >="}),
        # What shares a packet without faults may cross in several.
        ("star:4 allgather mbst-levels", {"segments", "intact_deliveries", "intended_seconds >="}),
        # Packets go other ways.
        ("hypercube:3 broadcast flood", {"deliveries"}),
    ],
)
def test_claims_of_stragglers_where_nodes_follow_arrivals(what: str, names: set[str]) -> None:
    result = Case(f"{what} {TIMED}", "slow:" + ("2134" if what.startswith("star") else "001") + ":3").run
    assert (result.exit_status, failures(result)) == (0, [])
    claimed = {each.claim.name for each in result.judgements}
    claimed |= {f"{each.claim.name} {each.claim.relation}" for each in result.judgements}
    every = {"steps", "segments", "deliveries", "intact_deliveries", "intended_seconds <=", "intended_seconds >="}
    assert claimed & every == names | ({"intended_seconds >="} if "intended_seconds <=" in names else set())


def test_times_and_steps_are_two_ways_to_say_the_same() -> None:
    numbered = CUBE.but("hang:001@3-4", "down:000~100@2-2", segments=3)
    steps, by_step = numbered.but(clock="steps").run, numbered.run
    by_time = CUBE.but("hang:001@40ms-80ms", "down:000~100@20ms-40ms", segments=3).run
    assert steps.summary["journal_hash"] == by_step.summary["journal_hash"] == by_time.summary["journal_hash"]
    assert by_step.summary["intact_deliveries"] == by_time.summary["intact_deliveries"]
    assert [fault["step"] for fault in by_time.conclusion.measurement.faults] == [2, 2, 3]
    named = {"seconds": 0.02, "until_seconds": 0.04}
    assert named.items() <= by_time.conclusion.measurement.faults[0].items()


@pytest.mark.parametrize("spec", ["loss:000~001:0.5", "slow-link:000~001:3", "down:000>001", "delay:000>010:2"])
def test_a_link_that_is_healed_is_one_whose_faults_end(spec: str) -> None:
    link = spec.split(":")[1]
    ended = CUBE.but(f"{spec}@0s-45ms", segments=4).run
    healed = CUBE.but(f"{spec}@0s", f"heal:{link}@45ms", segments=4).run
    assert healed.summary["journal_hash"] == ended.summary["journal_hash"]
    assert healed.summary["intended_seconds"] == ended.summary["intended_seconds"]


def test_a_hop_that_the_times_of_the_faults_rule_out_is_counted(tmp_path: Path) -> None:
    """The judge is given a history with lost packets that arrive."""
    result = CUBE.but("crash:001@30ms").stored(tmp_path / "run")
    path = result.path / "journal.parquet"
    journal = pl.read_parquet(path)
    other = pl.when(pl.col("outcome") == "lost").then(pl.lit("first")).otherwise(pl.col("outcome").cast(pl.String))
    journal.with_columns(outcome=other.cast(journal.schema["outcome"])).write_parquet(path)
    assert any(
        "hops that the model, the network or the faults rule out" in each for each in verify(result.path).findings
    )


LISTENING = CUBE.but(fault_knowledge="detect:2", keep_alive="60ms")
RELIABLE = CUBE.but(reliable=True)


@pytest.mark.parametrize(
    ("case", "claimed"),
    [
        (RELIABLE.but(segments=4), {"completion_seconds": 0.18, "acknowledgements": 28, "retransmissions": 0}),
        (RELIABLE.but(segments=4, window=2), {"completion_seconds": 0.12, "discarded_copies": 0}),
        (RELIABLE.but("crash:001@10ms"), {"intact_deliveries": 3}),
        (RELIABLE.but("loss:*:0.3", attempts=30), {"delivery_ratio": 1.0}),
        (LISTENING, {"false_suspicions": 0, "intact_deliveries": 7}),
        (LISTENING.but("crash:001@10ms", segments=4), {"intact_deliveries": 3, "slowest_detection_seconds": 0.12}),
        (LISTENING.but("slow:001:2"), {"slowest_detection_seconds": 0.12}),
        (RELIABLE.but("slow:001:3", retransmit_after="50ms"), {"intact_deliveries": 7}),
    ],
)
def test_protocols_under_the_timed_clock_are_claimed(case: Case, claimed: dict[str, float]) -> None:
    result = case.run
    assert failures(result) == []
    predicted = {each.claim.name: each.claim.predicted for each in result.judgements if each.claim.relation != ">="}
    assert {name: predicted.get(name) for name in claimed} == pytest.approx(claimed)
    summary = result.summary
    assert summary["illegal_hops"] == 0
    assert summary["completion_seconds"] <= summary["intended_seconds"]  # type: ignore[operator]


def test_signs_of_life_are_counted_apart() -> None:
    """Twelve links both ways, at 0 and 60 ms; the data is that of a run without them."""
    one, other = CUBE.run, LISTENING.run
    assert other.summary["keep_alives"] == 24 * 2
    for name in ("packets", "segments", "bytes", "intact_deliveries", "links_used"):
        assert one.summary[name] == other.summary[name]
    rows = other.journal.filter(pl.col("tree") == 2**15 - 256 + 1).collect()
    assert set(rows["outcome"].cast(pl.String)) == {"control"}
    assert len(rows) == 24 * 2
