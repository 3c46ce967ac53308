"""The judge of agreement: decisions that differ, come twice or have no ground, in runs and in changed journals."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from coordinator.execution.run import run
from coordinator.execution.sinks import MemorySink
from coordinator.results.claims import Verdict, claims_of
from coordinator.results.conclude import judge_run
from emunode.annexes.agreement.layer import REOPENS, AgreementLayer, Decision, News
from emunode.annexes.agreement.survivors import RunEnd
from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome, Step
from emunode.protocols.base import ControlKind
from tests.helpers.feature_support import AGREE, CUBE, SHRINK
from tests.helpers.mutation_support import history_of, verdict_on, with_values
from tests.helpers.scenarios import Case

# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["000>010:1@3", "000>010:2@1", "010>011:1@2", "010>011:2@2"])
def test_a_dropped_packet_is_counted_among_packets_of_news(place: str) -> None:
    for how in (AGREE, SHRINK):
        assert Case(CUBE | how, fault=["crash:001@2", f"drop:{place}"]).summary["illegal_hops"] == 0


def test_disagreement_is_no_success_without_a_claim() -> None:
    plan = Case(CUBE | AGREE, fault=["hang:001@2-3"]).plan
    result = run(plan, MemorySink())
    metrics = result.conclusion.metrics
    assert judge_run(plan, claims_of(plan).kept, metrics, None).verdict is Verdict.HOLDS
    ruling = judge_run(plan, claims_of(plan).kept, {**metrics, "agreement_errors": 2}, None)
    assert ruling.verdict is Verdict.UNDECIDED
    assert ruling.undecided == "2 errors of agreement, about which nothing is claimed under these faults"


def test_a_node_that_crashes_on_suspicion_tells_no_other_node() -> None:
    faults = ["crash:011@4", "recover:011@8", "crash:010@5", "recover:010@8"]
    assert Case(CUBE | AGREE, algorithm="bfs-tree", fault=faults).summary["agreement_errors"] == 0


def test_a_last_node_that_fails_early_need_not_decide() -> None:
    values = CUBE | AGREE | {"topology": "hypercube:2", "agreement_steps": 9, "fault_knowledge": "detect:3"}
    faults = ["crash:11@2", "crash:10@3", "crash:00@6", "crash:01@8"]
    assert Case(values, fault=faults).summary["agreement_errors"] == 0


# --- wrong implementations --------------------------------------------------------------------------------------------


def early(self: AgreementLayer, cut: Step) -> Step:
    """Every rank decides one step after a suspicion."""
    return due(self, cut) if any(news.port == REOPENS for news in self.known) else cut + 1


def forgetful(self: AgreementLayer, now: Step, news: News, source: int | None = None) -> None:
    """Rank 6 keeps what it hears to itself, and rank 5 takes no notice."""
    del now
    if self._rank != 5:
        self.known.add(news)
    if self._rank != 6:
        for port in self._ports:
            if news not in self.__dict__.setdefault("passed", set()) and port != source:
                self._leave(port, self.segment_of(news))
        self.__dict__["passed"].add(news)


def inventive(self: AgreementLayer, now: Step) -> None:
    """Rank 7 decides on a link that nobody suspects."""
    decide(self, now)
    if self._rank == 7 and len(self.decisions) == 1 and self.reports:
        self.reports.append(self.segment_of(News(self.decisions[0].cut, 2, 0)))


def repeating(self: AgreementLayer, now: Step) -> None:
    """Rank 4 decides twice."""
    decide(self, now)
    if self._rank == 4 and self.decisions and not self.__dict__.setdefault("again", False):
        self.__dict__["again"] = True
        self.decisions.clear()


def partial(self: AgreementLayer, now: Step) -> None:
    """Rank 3 leaves out a link."""
    before = len(self.decisions)
    decide(self, now)
    if self._rank == 3 and len(self.decisions) > before:
        least = min(self.decisions[-1].news)
        self.decisions[-1] = Decision(*self.decisions[-1][:2], self.decisions[-1].news - {least})
        self.reports.remove(self.segment_of(least))


def silent(self: AgreementLayer, now: Step) -> None:
    """Rank 2 forgets what it should decide."""
    decide(self, now)
    if self._rank == 2:
        self.reports.clear()


decide, due = AgreementLayer.wake, AgreementLayer._due


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("_due", early),
        ("_learn", forgetful),
        ("wake", inventive),
        ("wake", partial),
        ("wake", repeating),
        ("wake", silent),
    ],
)
def test_a_wrong_protocol_is_caught(name: str, mutant: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    for values in (AGREE, SHRINK):
        assert Case(CUBE | values, fault=["crash:001@2"]).run.verdict is Verdict.HOLDS
        with monkeypatch.context() as patch:
            patch.setattr(AgreementLayer, name, mutant)
            summary = Case(CUBE | values, fault=["crash:001@2"], step_limit=100).summary
        wrong = {claim["name"] for claim in summary["claims"] if claim["verdict"] == "violated"}
        assert wrong & {"agreement_errors", "revised_decisions"}, summary
        assert summary["verdict"] == "violated"


def changes(records: np.ndarray[Any, np.dtype[Any]]) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[Any]]]]:
    """The records with one report or one control segment changed."""
    reports = np.flatnonzero(
        (records["outcome"] == HopOutcome.REPORT) & (records["tree"] != CONTROL_TREE + ControlKind.END)
    )
    ends = np.flatnonzero(records["tree"] == CONTROL_TREE + ControlKind.END)
    told = np.flatnonzero(
        (records["tree"] == CONTROL_TREE + ControlKind.SUSPICION) & (records["outcome"] == HopOutcome.CONTROL)
    )
    repeated = np.flatnonzero((records["tree"] >= AGAIN_TREE) & (records["tree"] < CONTROL_TREE))
    for at, field, value in (
        (reports[0], "target", 7),
        (reports[1], "segment", 2),
        (reports[2], "sender", 1),
        (ends[0], "segment", RunEnd.EXCLUDED),
        (told[0], "outcome", HopOutcome.LOST),
        (told[-1], "step", 1),
        (repeated[0], "outcome", HopOutcome.DUPLICATE),
        (repeated[-1], "sender", 1),
    ):
        yield f"{field} of row {at}", with_values(records, int(at), **{field: value})
    for at in (*reports[:2], ends[-1], repeated[0]):
        yield f"without row {at}", np.delete(records, at)
    yield "nobody notices anything", records[records["tree"] < AGAIN_TREE]
    # A decision that is reported again in a later step.
    again = records[(records["outcome"] == HopOutcome.REPORT) & (records["sender"] == 4)].copy()
    again["step"] += 2
    yield "a decision twice", np.sort(np.concatenate([records, again]), order="step", kind="stable")


def test_changed_histories_do_not_hold() -> None:
    plan = Case(CUBE | SHRINK, fault=["crash:001@2"]).plan
    records = history_of(plan)
    assert verdict_on(plan, records) is Verdict.HOLDS
    for what, changed in changes(records):
        assert verdict_on(plan, changed) is Verdict.VIOLATED, what
