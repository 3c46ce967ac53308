"""One judge: runs and trials get the same verdict, and an invalid measurement decides nothing."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
import pytest
import trio

from coordinator.history.journal import sorted_records, table
from coordinator.history.lateness import TIME_RECORD
from coordinator.history.timetable import Timetable
from coordinator.networks.base import predict
from coordinator.planning.plan import Plan
from coordinator.results.claims import Verdict
from coordinator.results.conclude import Conclusion, History, conclude, rule_counted
from coordinator.results.metrics import count_trial
from emunode.algorithms.base import ALGORITHMS, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.hypercube.broadcast import BinomialBroadcast
from emunode.model import PortPacket, ScheduledSend
from emunode.registry import register
from tests.helpers.mutation_support import history_of
from tests.helpers.scenarios import Case
from tests.helpers.support import played

TREE = Case("star:4 broadcast greedy-tree")
TIMED = Case("hypercube:3 broadcast sbt segments=40 clock=timed startup=1ms per_byte=0s")


@pytest.mark.parametrize(
    "case",
    [
        TREE,
        *(TREE.but(fault) for fault in ("crash:2134@1", "crash:1234@1", "loss:1234~2134:0.5", "byzantine:2134")),
        Case("star:4 broadcast edt x=3", "byzantine:2134", "byzantine:3214"),
        Case("star:4 scatter balanced-tree", "crash:2134@1", "crash:3214@1"),
        Case("star:4 allgather edt-dfs-ack x=3", "crash:3412@2"),
        Case("star:4 gather edt", "down:1234~2134@1"),
    ],
)
@pytest.mark.parametrize("ended", [None, "interrupted"])
def test_trial_and_run_get_the_same_verdict(case: Case, ended: str | None) -> None:
    plan = case.plan
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
    plan = TIMED.but(**values).plan
    timetable = timetable_of(plan)
    times = np.frombuffer(timetable.times(), dtype=TIME_RECORD).copy()
    times["achieved"][len(times) // 2] += round(seconds * 1e9)
    records = history_of(plan)
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


def test_run_lists_cut_off_nodes_with_the_responsible_faults() -> None:
    faults = ["crash:2134@1", "crash:3214@1"]
    case = Case("star:4 scatter balanced-tree")
    summary = case.but(*faults).summary
    assert summary["cut_off_count"] == 14
    named = {entry["label"]: entry["because"] for entry in summary["cut_off"]}
    assert len(named) == 14
    assert set(named.values()) == set(faults)
    for fault in faults:
        mine = {entry["label"] for entry in case.but(fault).summary["cut_off"]}
        assert {label for label, because in named.items() if because == fault} <= mine


def test_the_list_of_nodes_is_bounded() -> None:
    summary = Case("star:6 broadcast greedy-tree", "crash:213456@1").summary
    assert len(summary["cut_off"]) == 100
    assert summary["cut_off_count"] == summary["expected_deliveries"] - summary["intact_deliveries"] > 100


def test_fault_after_the_last_step_is_reported_as_without_effect() -> None:
    whole = TREE.summary
    for fault in ("crash:2134@5", "crash:1234@9", "hang:2134@5-7", "down:1234~2134@5", "byzantine:2134@5"):
        late = TREE.but(fault)
        assert (late.run.verdict, late.summary["without_effect"]) == ("holds", [fault])
        assert late.summary["journal_hash"] == whole["journal_hash"]
        assert late.summary["intact_deliveries"] == 23
        assert [claim["verdict"] for claim in late.summary["claims"]] == ["holds"] * len(whole["claims"])
    assert TREE.but("crash:2134@4").summary["without_effect"] == []


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
    case = Case("hypercube:3 broadcast idle")
    plain = case.run
    assert (plain.verdict, plain.summary["intact_deliveries"]) == ("violated", 0)
    (missed,) = [each for each in plain.judgements if each.claim.name == "delivery_ratio"]
    assert missed.verdict == "violated"
    assert missed.claim.source == "definition of broadcast: without faults every message arrives"
    assert case.but("crash:001@1").run.verdict == "undecided"


@pytest.mark.parametrize(
    ("line", "due"),
    [
        ("star:4 broadcast greedy-tree", (12, 22)),
        ("star:4 broadcast edt x=3", (22, 22)),
        ("star:4 broadcast congestion2-trees", None),
        ("star:4 alltoall edt", (467, 506)),
    ],
)
def test_a_crash_after_the_last_step_takes_no_delivery_away(line: str, due: tuple[int, int] | None) -> None:
    """Beside a byzantine node: it changes no step."""
    without = Case(line, "byzantine:2134@2")
    late, kept = (
        (each.summary["intact_deliveries"], each.summary["expected_deliveries"])
        for each in (without.but("crash:4321@99"), without)
    )
    assert late == kept
    assert due in (None, late)


def test_votes_on_messages_of_faulty_origins_are_not_counted() -> None:
    """In a gather nothing is due from a faulty node, although its own copies arrive unaltered."""
    summary = Case("star:3 gather edt x=2", "byzantine:132@1").summary
    votes = sum(summary[f"elected_{value}"] for value in ("right", "wrong", "none"))
    assert votes == summary["expected_deliveries"] == 4


@pytest.mark.parametrize("lost", [{0, 1, 2, 3}, {1, 2, 3}, {1}])
def test_rows_that_a_dead_host_took_along_make_no_hop_impossible(lost: set[int]) -> None:
    """Under the timed clock hosts hand over their rows at the end: what others sent to dead ranks is not known then."""
    plan = TIMED.plan
    timetable = timetable_of(plan)
    whole = table(history_of(plan))
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
