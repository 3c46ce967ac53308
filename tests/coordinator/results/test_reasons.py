"""Reasons of undecided runs, and the words for nodes that were not served: the same everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coordinator as tb
from coordinator.reports.numbers import verdict_note
from coordinator.results.reasons import Reason, reason_of_end, unserved_words, why_undecided
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case
from tests.helpers.spoilt_files import changed, claim, lacking, summary

EDT = "star:4 broadcast edt"
REDUCE = "star:4 reduce edt"
GREEDY = "star:4 broadcast greedy-tree"


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ("interrupted", Reason.INTERRUPTED),
        ("it was ended from its page before its last step", Reason.INTERRUPTED),
        ("it was paused before step 3 for more than 1800 s without a request", Reason.INTERRUPTED),
        ("the step limit of 5 was reached", Reason.NOT_SERVED),
        ("host 1 died", Reason.NOT_JUDGED),
        ("the machine was late by 7.0% of the intended time, allowed are 5.0%", Reason.NOT_JUDGED),
    ],
)
def test_every_early_end_has_a_reason(ended: str, reason: Reason) -> None:
    assert reason_of_end(ended) is reason


def test_earlier_runs_have_no_reason() -> None:
    assert why_undecided(None, "the step limit of 5 was reached") == "the step limit of 5 was reached"
    assert why_undecided("interrupted", "interrupted") == "interrupted"
    assert why_undecided(None, None) == ""


@pytest.mark.parametrize(
    ("case", "verdict", "reason", "words", "causes"),
    [
        # 21 right copies and 21 forged ones: no value has more than half of the votes.
        (Case(EDT, "crash:4231@2", "byzantine:2134", x=3), "holds", None, "no value won: votes tied", {None}),
        (Case(EDT, "byzantine:2134", x=2), "holds", None, "no value won: votes tied", {"byzantine:2134"}),
        (Case(GREEDY, "crash:2134@1"), "holds", None, "cut off", {"crash:2134@1"}),
        (Case(GREEDY, "byzantine:2134"), "holds", None, "without the right value", {"byzantine:2134"}),
        # A crash alters nothing, however many partial sums lack its contribution.
        (Case(REDUCE, "crash:2134@1"), "holds", None, "without all contributions", {"crash:2134@1"}),
        (
            Case(REDUCE, "crash:2134@1", "crash:3214@1"),
            "holds", None, "without all contributions", {"crash:2134@1, crash:3214@1"},
        ),
        (Case(REDUCE, "byzantine:2134"), "holds", None, "without the right value", {"byzantine:2134"}),
        # The fault begins after the run has ended.
        (
            Case("hypercube:3 broadcast sbt", "crash:001@15", messages=20, step_limit=5),
            "undecided", Reason.NOT_SERVED, "not yet served", {None},
        ),
        # The printed algorithm misses 0,-2 without faults too.
        (
            Case("ej:2+3 broadcast improved-printed", "crash:2,-1@1"),
            "undecided", Reason.THEORY, "cut off", {None},
        ),
        (
            Case("hypercube:3 broadcast sbt", "loss:*:0.3", repair="next-port", seed=1),
            "undecided", Reason.THEORY, "cut off", {"loss:*:0.3"},
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)  # fmt: skip
def test_words_follow_from_the_schedule(
    case: Case, verdict: str, reason: Reason | None, words: str, causes: set[str | None]
) -> None:
    summary = case.summary
    assert (summary["verdict"], summary["reason"], unserved_words(summary)) == (verdict, reason, words)
    assert {node["because"] for node in summary["cut_off"]} == causes
    if verdict == "holds" and not summary["intact_deliveries"]:
        assert verdict_note(summary).endswith("delivered, as predicted, which proves nothing about delivery")


def test_without_its_causes_a_node_is_served() -> None:
    """Without any one of three crashes, exactly the nodes that name it are served: checked by runs."""
    faults = ["crash:2134@1", "crash:3412@2", "down:1234~3214@2"]
    missed = {node["label"]: node["because"] for node in Case(GREEDY, *faults).summary["cut_off"]}
    assert missed
    for label, because in missed.items():
        rest = [fault for fault in faults if fault not in because.split(", ")]
        assert label not in {node["label"] for node in Case(GREEDY, *rest).summary["cut_off"]}


def test_a_run_that_ends_early_says_so_everywhere(call: Call) -> None:
    run = (
        "run --topology hypercube:3 --collective broadcast --algorithm sbt --messages 20 --driver memory --step-limit 5"
    )
    shown = call(f"{run} --out early")
    assert "4 claims not judged" not in shown.out
    assert "claims not judged: the step limit of 5 was reached; --claims lists them" in shown.out
    assert "not yet served, 7 nodes: " in shown.out
    assert "verdict: undecided (not yet served: the step limit of 5 was reached)" in shown.out
    assert "cut off" not in shown.out
    listed = call(f"{run} --claims")
    assert "undecided" not in listed.out.partition("verdict: ")[0]
    assert "not judged" in listed.out
    opened = tb.Run.read("early")
    assert (opened.verdict, opened.reason) == ("undecided", "not yet served")
    page = opened.report().html
    assert "Undecided: not yet served: the step limit of 5 was reached" in page
    assert "Not yet served" in page
    assert "Cut off" not in page.partition("<script")[0]
    assert call("verify early").status in (0, 3)
    call(f"{run} --json")
    assert "undecided, not yet served" in " ".join(call("list runs").out.split())
    (entry,) = [each for each in call("list runs --json").data if each["seed"] == 0][:1]
    assert (entry["verdict"], entry["reason"]) == ("undecided", "not yet served")


def test_counts_of_claims_are_plain_english(call: Call) -> None:
    none = call(
        "run --topology ej:2+3 --collective broadcast --algorithm improved-printed --driver memory --fault crash:2,-1@1"
    )
    assert "the only claim holds; --claims lists them" in none.out


@pytest.mark.parametrize("finite", [0, 1], ids=["all sums overflow", "one sum is finite"])
def test_an_overflow_is_undecided_with_a_reason(finite: int, tmp_path: Path) -> None:
    """Eight times 2e38 is beyond the largest float32, 3.4e38; one finite sum does not hide the others."""
    data = np.full((8, 4), 2e38, np.float32)
    data[:, :finite] = 1.0
    np.save(tmp_path / "large.npy", data)
    case = Case("hypercube:3 reduce sbt", values="float32", data=str(tmp_path / "large.npy"))
    summary = case.summary
    assert (summary["verdict"], summary["reason"]) == ("undecided", Reason.THEORY)
    assert summary["undecided_because"] == "no number for worst error units: a sum is beyond the largest float32"
    open_claims = [each["name"] for each in summary["claims"] if each["verdict"] == "undecided"]
    assert open_claims == ["worst_error_units"]


def test_an_abandoned_run_is_called_so_above_its_numbers(call: Call) -> None:
    shrink = "--fault crash:213@1 --fault-knowledge detect:1 --on-failure shrink"
    shown = call(f"run --topology star:3 --collective broadcast --algorithm flood --driver memory {shrink}").out
    heading = next(line for line in shown.splitlines() if "measured" in line)
    assert heading.split("measured")[0].strip() == "first run, abandoned"


def test_a_timed_repetition_blames_the_detector() -> None:
    """K h is too small for a perfect detector; the crashes are after the end."""
    case = Case(
        "complete:5 broadcast bfs-tree", "crash:3@1s", "crash:4@1s",
        clock="timed", startup="1ms", fault_knowledge="detect:1", keep_alive="5ms", on_failure="shrink",
    )  # fmt: skip
    assert case.summary["without_effect"] == ["crash:3@1s", "crash:4@1s"]
    because = case.summary["undecided_because"]
    assert because is None or "bfs-tree" not in because, because


@pytest.mark.parametrize("faults", [["crash:2134@1", "crash:3214@1", "crash:4231@1"], ["crash:4321@1"]])
def test_runs_of_earlier_versions_are_verified(faults: list[str], tmp_path: Path, call: Call) -> None:
    """They have no reason, and leave open what delivers nothing."""
    stored = Case(EDT, *faults).stored(tmp_path / "run")
    lacking("reason")(stored.path)
    if not stored.summary["intact_deliveries"]:
        every: Any = stored.summary["claims"]
        claims = [
            each | {"verdict": each["verdict"] if each["name"] == "illegal_hops" else "undecided"} for each in every
        ]
        summary(verdict="undecided", undecided_because="nothing was delivered at all", claims=claims)(stored.path)
    assert call("verify", stored.path).status == 0
    assert stored.summary["intact_deliveries"] in (0, 21)
    claim(measured=99)(stored.path)
    assert call("verify", stored.path).status == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [({}, 0), ({"measured": 5}, 1), ({"verdict": "violated"}, 1), ({"relation": "<="}, 1), ({"name": "luck"}, 1)],
)
def test_other_claims_of_earlier_versions_are_not_checked(
    change: dict[str, object], status: int, tmp_path: Path, call: Call
) -> None:
    """A claim that is not made any more has to agree with the run, and new claims are not missed."""
    stored = Case(GREEDY).stored(tmp_path / "run")
    every: Any = stored.summary["claims"]
    claims = [each for each in every if (each["name"], each["relation"]) != ("virtual_seconds", ">=")]
    assert len(claims) == len(every) - 1
    old = {"name": "deliveries", "relation": ">=", "predicted": 0, "measured": 23, "verdict": "holds"}
    summary(claims=[*claims, old | change])(stored.path)
    assert call("verify", stored.path).status == 1
    lacking("reason")(stored.path)
    ended = call("verify", stored.path)
    assert ended.status == status
    assert "not checked: summary.json: its version does not claim virtual_seconds >= 0.004025" in ended.out
    assert ("not checked: summary.json: its version also claims deliveries >= 0" in ended.out) == (status == 0)


def test_what_runs_of_earlier_versions_lack_is_no_forgery(tmp_path: Path, call: Call) -> None:
    """They drop other claims, and do not measure how long a run takes to settle."""
    run = Case(EDT, "loss:1234~2134:0.5", reliable=True).stored(tmp_path / "run").path
    changed("summary.json", lambda value: value["dropped_claims"][0].update(source="an earlier wording"))(run)
    lacking("waiting_nodes")(run)
    forged = call("verify", run)
    assert forged.status == 1
    assert "summary.json: waiting_nodes is missing" in forged.out
    assert "summary.json: dropped_claims is " in forged.out
    lacking("reason")(run)
    ended = call("verify", run)
    assert ended.status == 0
    assert "not checked: summary.json: its version drops other claims" in ended.out
    assert "not checked: summary.json: its version does not measure waiting_nodes" in ended.out
    lacking("packets")(run)
    assert call("verify", run).status == 1


def test_a_comparison_names_the_reason(tmp_path: Path, call: Call) -> None:
    Case(GREEDY, step_limit=2).stored(tmp_path / "short")
    Case(GREEDY).stored(tmp_path / "whole")
    first, *rest = call("compare", tmp_path / "short", tmp_path / "whole").out.splitlines()
    assert first.endswith("short is undecided: not yet served: the step limit of 2 was reached")
    assert not any("is undecided" in line for line in rest)
