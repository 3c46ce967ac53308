"""Waiting times of flags, and the message about a switch."""

import pytest

from coordinator.cli.given import seconds_from
from emunode.errors import ScenarioError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("90 min", 5400), ("1.5h", 5400), ("24h", 86400), ("2s", 2), ("500ms", 0.5)],
)
def test_waiting_times_have_units_of_any_size(text: str, seconds: float) -> None:
    assert seconds_from("watch_timeout", text) == seconds


@pytest.mark.parametrize("text", ["30", "0m", "25h", "-1s", "nan", "h", "1h30m", "1 hour", ""])
def test_other_waiting_times_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"expected a time such as 90s, 30m or 2h; more than 0s, at most 24h$"):
        seconds_from("watch_timeout", text)
