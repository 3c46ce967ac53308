"""`coordinator serve`: what it refuses before it listens, and scenarios from the environment."""

import pytest

from tests.helpers.command_line import Call

FLOOD = "--topology star:3 --collective broadcast --algorithm flood"


def test_variables_give_a_scenario_and_flags_replace_them(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TOPOLOGY", "star:99"), ("COLLECTIVE", "broadcast"), ("ALGORITHM", "flood")):
        monkeypatch.setenv(f"TESTBENCH_{name}", value)
    assert "invalid topology 'star:99'" in call("serve").err
    # The network of the flag is planned: it has six nodes.
    assert "invalid hosts 7: from 1 to 6" in call("serve --topology star:3 --hosts 7").err
