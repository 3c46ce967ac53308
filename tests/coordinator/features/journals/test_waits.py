"""Waits at the end of a run: the first hop of each message that did not arrive, and its fate."""

from typing import Any

import pytest

from coordinator.features.journals import waits as module
from tests.helpers.feature_support import RELIABLE, REPAIR
from tests.helpers.scenarios import Case


def waiting(case: Case) -> list[dict[str, Any]]:
    """Return the waits in the summary of a run."""
    found: list[dict[str, Any]] = case.summary.get("waiting", [])
    return found


def test_a_run_that_serves_everybody_has_no_waits() -> None:
    assert waiting(Case(RELIABLE, "down:000>001@1-2")) == []


def test_nodes_behind_one_hop_wait_together() -> None:
    (wait,) = waiting(Case(RELIABLE, "down:000>001@1-4", attempts=2))
    assert wait == {
        "nodes": ["001", "011", "101", "111"],
        "rule": "sbt",
        "for": "segment 0 of 000",
        "because": "000 gave it up after 2 attempts, the last in step 3, to 001",
    }


def test_two_hops_are_two_waits() -> None:
    found = waiting(Case(RELIABLE, "down:000>100@1-9", "down:001>011@1-9", attempts=2))
    assert [wait["nodes"] for wait in found] == [["100"], ["011", "111"]]
    assert [wait["because"].split()[0] for wait in found] == ["000", "001"]


def test_requests_of_a_node_are_counted() -> None:
    """All neighbours of a node are cut off from it, and its requests are lost."""
    links = [f"down:{peer}~111@1-99" for peer in ("011", "101", "110")]
    (wait,) = waiting(Case(REPAIR, *links, step_limit=40))
    assert wait["nodes"] == ["111"]
    assert "request" in wait["because"]


def test_a_schedule_that_is_too_long_leaves_the_reason_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HOPS", 3)
    (wait,) = waiting(Case(RELIABLE, "down:000>001@1-4", attempts=2))
    assert wait["nodes"] == ["001", "011", "101", "111"]
    assert wait["because"].startswith("its way is not known: ")
