"""Votes on altered payloads in a report match the metrics of the run."""

import re

import pytest

from tests.helpers.report_runs import Runs

ALTERED = {
    "outvoting": "star:4 broadcast edt redundancy=3 fault=byzantine:2134 fault=byzantine:3214",
    "split": "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "two altered copies": "star:4 broadcast edt redundancy=3 fault=corrupt:1234>2134:1 fault=corrupt:1234>3214:1",
    "one copy": "star:4 broadcast greedy-tree fault=byzantine:2134",
}


@pytest.mark.parametrize("name", ALTERED)
def test_report_counts_intact_messages(name: str, runs: Runs) -> None:
    run = runs(ALTERED[name])
    intact, expected = run.summary["intact_deliveries"], run.summary["expected_deliveries"]
    assert f"{intact} of {expected}" in run.page.text
    counts = re.compile(r"of (\d+) nodes (\d+) ha(?:s|ve) the right value, (\d+) a wrong one, (\d+) no majority")
    for text in (run.script["whole"], run.script["texts"][-1]):
        found = counts.search(text)
        assert found
        due, right, wrong, split = map(int, found.groups())
        assert (due, right, wrong + split) == (expected, intact, expected - intact)
        assert bool(split) == (name in ("split", "two altered copies"))
    assert not any("done" in text for text in run.script["texts"])
    assert f"intact messages {intact / expected:.1%}" in run.page.text
    assert "nothing was delivered at all" not in run.page.text
    assert ("byzantine" in run.page.text) == (name != "two altered copies")
