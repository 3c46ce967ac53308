"""Campaigns that end all faults: every trial is held to its bound, and the others name what waits, and for what."""

import pytest

from tests.helpers.command_line import Call
from tests.helpers.feature_support import give_links_up

COMMAND = "campaign --topology hypercube:3 --algorithm sbt --reliable --faults all:links=1@1 --heal-at 8 --workers 1"


def test_enough_attempts_let_everything_finish(call: Call) -> None:
    done = call(f"{COMMAND} --json")
    (found,) = done.data["liveness"]
    assert (done.status, found["trials"], found["finished"], found["waits"]) == (0, 12, 12, [])


def test_trials_that_do_not_finish_are_explained_and_repeated(call: Call) -> None:
    (found,) = call(f"{COMMAND} --attempts 2 --json").data["liveness"]
    # Of the 12 links 7 are in the tree, and each of them gives its segment up before step 8.
    assert (found["trials"], found["finished"]) == (12, 5)
    assert len(found["waits"]) == 3
    for wait in found["waits"]:
        ended = call(str(wait["repeat"]).removeprefix("coordinator "))
        words = " ".join(ended.out.split())
        assert all(line in words for line in wait["waiting"])
    shown = call(f"{COMMAND} --attempts 2").out
    assert "sbt, faults end at step 8: everything due finished in 5 of 12 trials" in shown


def test_links_that_send_nothing_again_violate_claims(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    give_links_up(monkeypatch)
    done = call(f"{COMMAND} --json")
    assert done.status == 1
    assert any("waiting_nodes == 0" in claim for each in done.data["violations"] for claim in each["claims"])
