"""`coordinator serve`: what it refuses before it listens, and scenarios from the environment."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Call

FLOOD = "--topology star:3 --collective broadcast --algorithm flood"


@pytest.mark.parametrize("listen", ["7000", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:0", "127.0.0.1:65536"])
def test_an_address_without_a_usable_port_is_refused(call: Call, tmp_path: Path, listen: str) -> None:
    ended = call(f"serve {FLOOD} --listen {listen}")
    assert ended.status == 2
    assert f"invalid listen '{listen}': expected ADDRESS:PORT" in ended.err
    assert list(tmp_path.iterdir()) == [], "no token"


def test_variables_give_a_scenario_and_flags_replace_them(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TOPOLOGY", "star:99"), ("COLLECTIVE", "broadcast"), ("ALGORITHM", "flood")):
        monkeypatch.setenv(f"TESTBENCH_{name}", value)
    assert "invalid topology 'star:99'" in call("serve").err
    # The network of the flag is planned: it has six nodes.
    assert "invalid hosts 7: from 1 to 6" in call("serve --topology star:3 --hosts 7").err


def test_metrics_are_refused_before_hosts_are_awaited(call: Call, tmp_path: Path) -> None:
    ended = call(f"serve {FLOOD} --metrics {tmp_path}")
    assert (ended.status, "invalid metrics" in ended.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
