"""One judge: runs and trials get the same verdict, and an invalid measurement decides nothing."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import trio

from coordinator.history.journal import sorted_records, table
from coordinator.history.lateness import TIME_RECORD
from coordinator.history.timetable import Timetable
from coordinator.networks.timed import predict
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import Conclusion, History, conclude, rule_counted
from coordinator.results.metrics import count_trial
from emunode.algorithms.base import ALGORITHMS, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.broadcast import BinomialBroadcast
from emunode.model import PortPacket, ScheduledSend
from emunode.registry import register
from tests.helpers.scenarios import Case
from tests.helpers.support import played, run_scenario

TREE: dict[str, object] = {
    "topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "driver": "memory",
}  # fmt: skip
TIMED: dict[str, object] = {
    "topology": "hypercube:3", "collective": "broadcast", "algorithm": "sbt", "segments": 40, "clock": "timed",
    "startup": "1ms", "per_byte": "0s", "driver": "memory",
}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"fault": ["crash:2134@1"]},
        {"fault": ["crash:1234@1"]},
        {"fault": ["loss:1234~2134:0.5"]},
        {"fault": ["byzantine:2134"]},
        {"algorithm": "edt", "redundancy": 3, "fault": ["byzantine:2134", "byzantine:3214"]},
        {"collective": "scatter", "algorithm": "balanced-tree", "fault": ["crash:2134@1", "crash:3214@1"]},
        {"collective": "allgather", "algorithm": "edt-dfs-ack", "redundancy": 3, "fault": ["crash:3412@2"]},
        {"collective": "gather", "algorithm": "edt", "fault": ["down:1234~2134@1"]},
    ],
)
@pytest.mark.parametrize("ended", [None, "interrupted"])
def test_trial_and_run_get_the_same_verdict(values: dict[str, object], ended: str | None) -> None:
    plan = Case(TREE, **values).plan
    rows, altered = played(plan)
    records = sorted_records([rows])
    whole = conclude(plan, History(table(records).lazy(), len(records), ended, altered)).ruling
    counted = count_trial(plan, records, altered)
    quick = rule_counted(plan, counted.metrics, ended)
    assert (quick.verdict, quick.invalid, quick.undecided) == (whole.verdict, whole.invalid, whole.undecided)
    judged = {(each.claim, each.verdict) for each in whole.judgements if each.claim.name in counted.metrics}
    assert {(each.claim, each.verdict) for each in quick.judgements} == judged
    assert (ended is None) or whole.verdict is Verdict.UNDECIDED


# --- lateness --------------------------------------------------------------------------------------------------------


def timetable_of(plan: Plan) -> Timetable:
    async def work_out() -> Timetable:
        return await predict(plan, lambda *_: None)

    return trio.run(work_out)


def late_by(seconds: float, **values: object) -> Conclusion:
    """Return the conclusion of a timed run with one late packet, in the middle."""
    plan = Case(TIMED, **values).plan
    timetable = timetable_of(plan)
    times = np.frombuffer(timetable.times(), dtype=TIME_RECORD).copy()
    times["achieved"][len(times) // 2] += round(seconds * 1e9)
    records = sorted_records([played(plan)[0]])
    return conclude(plan, History(table(records).lazy(), len(records), None, (), timetable, [times.tobytes()]))


def test_one_very_late_packet_makes_a_run_undecided() -> None:
    conclusion = late_by(0.027)
    assert conclusion.metrics["lateness_ratio"] == 0
    assert conclusion.metrics["worst_lateness_packets"] == pytest.approx(27)
    assert conclusion.ruling.verdict is Verdict.UNDECIDED
    assert "late by 27.0 times" in str(conclusion.ruling.undecided)
    assert {each.verdict for each in conclusion.ruling.judgements} == {Verdict.UNDECIDED}


@pytest.mark.parametrize(
    ("seconds", "limit", "expected"), [(0.004, 5, "holds"), (0.006, 5, "undecided"), (0.027, 30, "holds")]
)
def test_the_worst_lateness_has_a_limit_of_its_own(seconds: float, limit: float, expected: str) -> None:
    assert late_by(seconds, worst_lateness_limit=limit).ruling.verdict == expected


# --- nodes that are cut off -------------------------------------------------------------------------------------------


def test_run_lists_cut_off_nodes_with_the_responsible_faults(tmp_path: Path) -> None:
    faults = ["crash:2134@1", "crash:3214@1"]
    values = TREE | {"collective": "scatter", "algorithm": "balanced-tree", "fault": faults}
    summary = run_scenario(tmp_path / "run", **values).summary
    assert summary["cut_off_count"] == 14
    named = {entry["label"]: entry["because"] for entry in summary["cut_off"]}  # type: ignore[attr-defined]
    assert len(named) == 14
    assert set(named.values()) == set(faults)
    for fault in faults:
        alone = run_scenario(tmp_path / fault, **values | {"fault": [fault]}).summary
        mine = {entry["label"] for entry in alone["cut_off"]}  # type: ignore[attr-defined]
        assert {label for label, because in named.items() if because == fault} <= mine


def test_the_list_of_nodes_is_bounded(tmp_path: Path) -> None:
    summary = run_scenario(tmp_path / "run", **TREE | {"topology": "star:6", "fault": ["crash:213456@1"]}).summary
    assert len(summary["cut_off"]) == 100  # type: ignore[arg-type]
    assert summary["cut_off_count"] == summary["expected_deliveries"] - summary["intact_deliveries"] > 100  # type: ignore[operator]


def test_fault_after_the_last_step_is_reported_as_without_effect(tmp_path: Path) -> None:
    whole = run_scenario(tmp_path / "whole", **TREE).summary
    for fault in ("crash:2134@5", "crash:1234@9", "hang:2134@5-7", "down:1234~2134@5", "byzantine:2134@5"):
        late = run_scenario(tmp_path / fault, **TREE, fault=[fault])
        assert (late.verdict, late.summary["without_effect"]) == ("holds", [fault])
        assert late.summary["journal_hash"] == whole["journal_hash"]
        assert late.summary["intact_deliveries"] == 23
        assert [claim["verdict"] for claim in late.summary["claims"]] == ["holds"] * len(whole["claims"])  # type: ignore[arg-type,attr-defined]
    early = run_scenario(tmp_path / "early", **TREE, fault=["crash:2134@4"]).summary
    assert early["without_effect"] == []


# --- what arrives without faults, and what is due ---------------------------------------------------------------------


class Idle(BinomialBroadcast):
    """A broadcast that sends nothing, and claims nothing about it."""

    name = "idle"
    citation = "this test"

    def claims(self) -> list[Claim]:
        return []

    def rule(self, view: LocalView) -> Rule:
        return IdleRule()


class IdleRule(Rule):
    """A rule that never sends."""

    __slots__ = ()

    def receive(self, step: int, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        return ()


@pytest.fixture
def idle() -> Iterator[None]:
    register(Idle)
    yield
    ALGORITHMS.remove(Idle)


@pytest.mark.usefixtures("idle")
def test_delivering_nothing_is_wrong_unless_faults_explain_it() -> None:
    values = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "idle", "driver": "memory"}
    plain = Case(values).run
    assert (plain.verdict, plain.summary["intact_deliveries"]) == ("violated", 0)
    (missed,) = [each for each in plain.judgements if each.claim.name == "delivery_ratio"]
    assert missed.verdict == "violated"
    assert missed.claim.source == "definition of broadcast: without faults every message arrives"
    assert Case(values, fault=["crash:001@1"]).run.verdict == "undecided"


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ({"collective": "broadcast", "algorithm": "greedy-tree"}, (12, 22)),
        ({"collective": "broadcast", "algorithm": "edt", "redundancy": 3}, (22, 22)),
        ({"collective": "broadcast", "algorithm": "congestion2-trees"}, None),
        ({"collective": "alltoall", "algorithm": "edt"}, (467, 506)),
    ],
)
def test_a_crash_after_the_last_step_takes_no_delivery_away(
    values: dict[str, object], due: tuple[int, int] | None
) -> None:
    """Beside a byzantine node: it changes no step."""
    faults = ["crash:4321@99", "byzantine:2134@2"]
    late = Case(values, topology="star:4", fault=faults).run.summary
    without = Case(values, topology="star:4", fault=faults[1:]).run.summary
    assert (late["intact_deliveries"], late["expected_deliveries"]) == (
        without["intact_deliveries"], without["expected_deliveries"],
    )  # fmt: skip
    if due is not None:
        assert (late["intact_deliveries"], late["expected_deliveries"]) == due


def test_votes_on_messages_of_faulty_origins_are_not_counted() -> None:
    """In a gather nothing is due from a faulty node, although its own copies arrive unaltered."""
    summary = run_scenario(
        topology="star:3",
        collective="gather",
        algorithm="edt",
        redundancy=2,
        driver="memory",
        fault=["byzantine:132@1"],
    ).summary
    votes = sum(summary[f"elected_{value}"] for value in ("right", "wrong", "none"))  # type: ignore[misc]
    assert votes == summary["expected_deliveries"] == 4


@pytest.mark.parametrize("lost", [{0, 1, 2, 3}, {1, 2, 3}, {1}])
def test_rows_that_a_dead_host_took_along_make_no_hop_impossible(lost: set[int]) -> None:
    """Under the timed clock hosts hand over their rows at the end: what others sent to dead ranks is not known then."""
    plan = Case(TIMED).plan
    timetable = timetable_of(plan)
    whole = table(sorted_records([played(plan)[0]]))
    left = whole.filter(~pl.col("receiver").is_in(sorted(lost)))
    assert any(rank in lost for rank in left["sender"])

    def impossible(ended: str | None, rows: pl.DataFrame) -> object:
        history = History(rows.lazy(), rows.height, ended, timetable=timetable)
        return conclude(plan, history, replay=False).metrics["illegal_hops"]

    assert impossible("host 1 disconnected", left) == 0
    assert impossible(None, left) == left.filter(pl.col("sender").is_in(sorted(lost)), pl.col("sender") != 0).height
    # What a rank that reported sent without having received it stays impossible.
    reported = whole.filter(~((pl.col("receiver") == 1) & (pl.col("segment") == 3)))
    assert impossible("host 1 disconnected", reported) == whole.filter(sender=1, segment=3).height > 0
